//! Names for requests that bring none.

use std::{
    hash::{BuildHasher, RandomState},
    sync::atomic::{AtomicU64, Ordering},
};

use http::{HeaderName, HeaderValue};

use crate::forward::detached;

pub(crate) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Longer ones are replaced: they go into logs.
const LONGEST: usize = 128;

/// Unique in this process by a counter, and among processes by what stands before it.
#[derive(Debug)]
pub(crate) struct RequestIds {
    process: [u8; 16],
    next: AtomicU64,
}

impl Default for RequestIds {
    fn default() -> Self {
        // The standard library seeds each of these from the system's randomness.
        let random = || RandomState::new().hash_one(0u8);
        RequestIds { process: hex(random()), next: AtomicU64::new(random()) }
    }
}

impl RequestIds {
    /// What the request is called: by its client if that makes sense, otherwise anew.
    pub(crate) fn of(&self, given: Option<&HeaderValue>) -> HeaderValue {
        let is_usable = |id: &HeaderValue| {
            !id.is_empty() && id.len() <= LONGEST && id.as_bytes().iter().all(u8::is_ascii_graphic)
        };
        match given {
            Some(id) if is_usable(id) => detached(id),
            _ => self.make(),
        }
    }

    fn make(&self) -> HeaderValue {
        let mut id = [0; 32];
        id[..16].copy_from_slice(&self.process);
        id[16..].copy_from_slice(&hex(self.next.fetch_add(1, Ordering::Relaxed)));
        HeaderValue::from_bytes(&id).unwrap_or(HeaderValue::from_static("unnamed"))
    }
}

fn hex(number: u64) -> [u8; 16] {
    let digit = |nibble: u8| b"0123456789abcdef"[usize::from(nibble)];
    let mut digits = [0; 16];
    for (pair, byte) in digits.as_chunks_mut::<2>().0.iter_mut().zip(number.to_be_bytes()) {
        *pair = [digit(byte >> 4), digit(byte & 0xf)];
    }
    digits
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_kept_if_usable_and_made_otherwise() {
        let ids = RequestIds::default();
        let kept = HeaderValue::from_static("a-1");
        assert_eq!(ids.of(Some(&kept)), kept);
        let long = "x".repeat(LONGEST + 1);
        for unusable in ["", "a b", long.as_str()] {
            assert_eq!(ids.of(HeaderValue::from_str(unusable).ok().as_ref()).len(), 32, "{unusable:?}");
        }
        assert_ne!(ids.of(None), ids.of(None));
        assert_eq!(&hex(0x0123_4567_89ab_cdef), b"0123456789abcdef");
    }
}
