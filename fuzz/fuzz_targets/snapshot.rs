//! A snapshot from another node: read or refused, and what was read can be written and read again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use metrics::{snapshot, store::Options};

fuzz_target!(|data: &[u8]| {
    let options = Options { max_series: 1_000, max_points: 100_000, ..Options::default() };
    let Ok(store) = snapshot::decode(data, options) else { return };
    let again = snapshot::decode(&snapshot::encode(&store), options).expect("our own snapshot is read");
    assert_eq!(again.figures(), store.figures());
});
