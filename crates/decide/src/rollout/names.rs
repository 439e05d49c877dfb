/// Labels and generated names end here.
pub const MAX_NAME_LENGTH: usize = 63;

/// No vowels and nothing that looks like another character: no words, no misreading.
const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
const SUFFIX_LENGTH: usize = 5;

/// `<set>-` and five characters drawn from `seed`; a long set name is cut.
pub fn instance_name(set: &str, seed: u64) -> String {
    let room = MAX_NAME_LENGTH - SUFFIX_LENGTH - 1;
    let end = (0..=room.min(set.len())).rev().find(|&end| set.is_char_boundary(end)).unwrap_or(0);
    let mut name = String::with_capacity(end + 1 + SUFFIX_LENGTH);
    name.push_str(&set[..end]);
    name.push('-');
    let mut bits = scramble(seed);
    for _ in 0..SUFFIX_LENGTH {
        name.push(ALPHABET[(bits % ALPHABET.len() as u64) as usize] as char);
        bits /= ALPHABET.len() as u64;
    }
    name
}

/// The finalizer of SplitMix64: neighbouring seeds give unrelated bits.
fn scramble(seed: u64) -> u64 {
    let mut z = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
