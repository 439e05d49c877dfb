//! Chance without a generator: a number is a function of the seed, what it is for, and its index. So a run can be
//! repeated, two policies meet the same bad luck, and looking at one number does not change the next.

/// What a number is for.
#[derive(Clone, Copy, Debug)]
pub enum Stream {
    /// The load shape with this index.
    Noise(usize),
    LostSample,
    FailedStart,
}

/// From 0 up to, but not including, 1.
pub fn unit(seed: u64, stream: Stream, index: u64) -> f64 {
    let stream = match stream {
        Stream::LostSample => 1,
        Stream::FailedStart => 2,
        Stream::Noise(shape) => 3 + shape as u64,
    };
    let bits = scramble(scramble(scramble(seed) ^ stream) ^ index);
    // 53 bits are what a double holds.
    (bits >> 11) as f64 / (1u64 << 53) as f64
}

/// The finalizer of SplitMix64.
fn scramble(value: u64) -> u64 {
    let mut z = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
