//! Patches of all kinds to any object: applied or refused; what is refused changes nothing.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use merge::{json_patch, merge_patch, strategic};
use schema::Schema;
use serde_json::{Value, json};

static SCHEMA: LazyLock<Schema> = LazyLock::new(|| {
    let list = json!({"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
        "x-kubernetes-patch-strategy": "merge", "x-kubernetes-patch-merge-key": "name",
        "items": {"type": "object", "properties": {"name": {"type": "string"}, "a": {"type": "integer"}}}});
    let set = json!({"type": "array", "items": {"type": "string"}, "x-kubernetes-patch-strategy": "merge"});
    let map = json!({"type": "object", "additionalProperties": {"type": "string"}});
    let schema = json!({"type": "object", "properties": {"list": list, "set": set, "map": map}});
    serde_json::from_value(schema).expect("a schema")
});

fuzz_target!(|data: (String, String)| {
    let (Ok(target), Ok(patch)) =
        (serde_json::from_str::<Value>(&data.0), serde_json::from_str::<Value>(&data.1))
    else {
        return;
    };
    let mut patched = target.clone();
    if json_patch::apply(&mut patched, &patch).is_err() {
        assert_eq!(patched, target);
    }
    if merge_patch::check(&patch).is_ok() {
        merge_patch::apply(&mut patched, &patch);
    }
    let _ = strategic::apply(&target, &patch, &SCHEMA);
});
