//! Annotations of a workload: each turns off its own feature at most, and the reason names it.
#![no_main]

#[path = "../../crates/api/tests/annotations/law.rs"]
mod law;

use api::slimfaas::{Annotations, PREFIX, names};
use libfuzzer_sys::fuzz_target;

/// A byte names the annotation, or says that the text before the first `=` does.
fn named((which, text): (u8, String)) -> (String, String) {
    match (names().nth(usize::from(which % 32)), text.split_once('=')) {
        (Some(name), _) => (format!("{PREFIX}{name}"), text),
        (None, Some((name, value))) => (name.to_owned(), value.to_owned()),
        (None, None) => (PREFIX.to_owned(), text),
    }
}

fuzz_target!(|given: (Vec<(u8, String)>, Vec<(u8, String)>)| {
    let [template, object] =
        [given.0, given.1].map(|pairs| pairs.into_iter().map(named).collect::<Annotations>());
    law::each_harms_only_itself(&template, &object);
});
