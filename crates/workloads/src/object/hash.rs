//! Short stable names for pod templates, in the alphabet Kubernetes uses for generated names.

use serde::Serialize;

/// No vowels and none of 0, 1, 3: no words, nothing to confuse.
const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";

/// A hash of the value and of how many collisions there were before, e.g. `7c5ddbdf54`.
pub(crate) fn short(value: &impl Serialize, collisions: Option<i32>) -> String {
    // Serialization of API types cannot fail: their maps have string keys.
    let mut bytes = serde_json::to_vec(value).unwrap_or_default();
    if let Some(collisions) = collisions {
        bytes.extend_from_slice(collisions.to_string().as_bytes());
    }
    encode(fnv1a(&bytes))
}

/// FNV-1a, 32 bits.
fn fnv1a(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193))
}

/// The decimal digits' bytes picked from the alphabet: `0` is 48, and 48 mod 27 is 21, the `4`.
fn encode(hash: u32) -> String {
    hash.to_string().bytes().map(|byte| char::from(ALPHABET[usize::from(byte) % ALPHABET.len()])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_values() {
        // the published test vectors of FNV-1a
        assert_eq!(fnv1a(b""), 0x811c_9dc5);
        assert_eq!(fnv1a(b"a"), 0xe40c_292c);
        assert_eq!(fnv1a(b"foobar"), 0xbf9c_f968);
        assert_eq!(encode(1_234_567_890), "56789bcdf4");
    }

    #[test]
    fn collisions_change_the_name() {
        assert_ne!(short(&"x", None), short(&"x", Some(0)));
        assert_ne!(short(&"x", Some(0)), short(&"x", Some(1)));
        assert_eq!(short(&"x", Some(1)), short(&"x", Some(1)));
    }
}
