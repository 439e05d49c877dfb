//! Stored objects as the bytes and trees that go out.

use bytes::Bytes;
use serde_json::{Value, json};

use crate::{convert, convert::Conversion, registry::Kind, storage::Record};

/// The JSON of a record in that version; shared with the store if it is kept in that version.
pub fn bytes(record: &Record, kind: &Kind, version: usize) -> Bytes {
    if as_stored(record, kind, version) {
        return record.json().clone();
    }
    Bytes::from(convert::load(record, kind, version).to_string())
}

pub fn as_stored(record: &Record, kind: &Kind, version: usize) -> bool {
    let version = &kind.versions[version];
    version.conversion == Conversion::None && record.is_version(&kind.group, &version.name)
}

/// Only the metadata.
pub fn partial(object: &Value) -> Value {
    json!({
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": object["metadata"],
    })
}
