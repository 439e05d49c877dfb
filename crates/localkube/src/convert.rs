//! The same stored object in another version of its API.

mod autoscaler;

use serde_json::Value;

use crate::{admit, registry::Kind, storage::Record};

/// How a version differs from the one in which objects are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Conversion {
    /// Only `apiVersion` differs.
    None,
    /// `events.k8s.io/v1` names the fields of a core Event differently.
    EventRegarding,
    /// `autoscaling/v1` knows CPU utilization only and keeps the rest in annotations.
    AutoscalerV1,
}

/// Field names of core Events and of those in `events.k8s.io`.
const EVENT_FIELDS: &[(&str, &str)] = &[
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
    ("reportingComponent", "reportingController"),
];

/// The object of a record in version number `version` of `kind`.
pub fn load(record: &Record, kind: &Kind, version: usize) -> Value {
    let mut object = record.to_value();
    from_storage(&mut object, kind, version);
    object
}

pub fn from_storage(object: &mut Value, kind: &Kind, version: usize) {
    match kind.versions[version].conversion {
        Conversion::None => {}
        Conversion::EventRegarding => rename(object, EVENT_FIELDS.iter().copied()),
        Conversion::AutoscalerV1 => autoscaler::to_v1(object),
    }
    object["apiVersion"] = kind.api_version(version).into();
    if kind.versions[version].conversion != Conversion::None {
        admit::normalize(kind, version, object);
    }
}

pub fn to_storage(object: &mut Value, kind: &Kind, version: usize) {
    match kind.versions[version].conversion {
        Conversion::None => object["apiVersion"] = kind.storage_api_version().into(),
        Conversion::EventRegarding => {
            rename(object, EVENT_FIELDS.iter().map(|(core, events)| (*events, *core)));
            object["apiVersion"] = "v1".into();
        }
        Conversion::AutoscalerV1 => {
            autoscaler::from_v1(object);
            object["apiVersion"] = kind.storage_api_version().into();
            admit::normalize(kind, kind.storage_version, object);
        }
    }
}

fn rename<'a>(object: &mut Value, names: impl Iterator<Item = (&'a str, &'a str)>) {
    let Some(fields) = object.as_object_mut() else { return };
    for (from, to) in names {
        if let Some(value) = fields.remove(from) {
            fields.insert(to.to_owned(), value);
        }
    }
}
