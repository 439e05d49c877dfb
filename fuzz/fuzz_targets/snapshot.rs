//! A snapshot from another node: read or refused, and what was read can be written and read again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use metrics::{
    snapshot,
    store::{Options, Store},
};

/// "BMS" and the version: without them nothing of what follows is read.
const HEAD: usize = 4;

fuzz_target!(|data: &[u8]| {
    let options = Options { max_series: 1_000, max_points: 100_000, ..Options::default() };
    let mut bytes = snapshot::encode(&Store::new(options).view());
    bytes.truncate(HEAD);
    bytes.extend(data);
    let Ok(store) = snapshot::decode(&bytes, options) else { return };
    let again = snapshot::decode(&snapshot::encode(&store.view()), options).expect("our own snapshot is read");
    assert_eq!(again.view().figures(), store.view().figures());
});
