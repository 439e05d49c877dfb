//! Objects whose kind is known at run time, as the values that `graph` takes.

use engine::{Key, effect::Target, kind::Kind};
use graph::plan::Identity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::DynamicObject;
use serde_json::{Value, json};

/// With its kind, which objects from a list or a watch may lack.
pub(super) fn value(kind: &Kind, object: &DynamicObject) -> Value {
    let mut value = json!(object);
    value["apiVersion"] = kind.api_version().into();
    value["kind"] = kind.kind.as_ref().into();
    value
}

pub(super) fn identity(kind: &Kind, meta: &ObjectMeta) -> Identity {
    Identity {
        api_version: kind.api_version(),
        kind: kind.kind.to_string(),
        namespace: meta.namespace.clone().unwrap_or_default(),
        name: meta.name.clone().unwrap_or_default(),
    }
}

pub(super) fn key(identity: &Identity) -> Key {
    Key::new(&identity.namespace, &identity.name)
}

/// What an effect on an object is aimed at. Without a live object, at one that does not exist yet.
pub(super) fn target(kind: &Kind, identity: &Identity, live: Option<&Value>) -> Target {
    let namespace = (!identity.namespace.is_empty()).then_some(identity.namespace.as_str());
    let mut target = Target::absent(kind, namespace, &identity.name);
    if let Some(live) = live {
        target.uid = text(live, "/metadata/uid").to_owned();
        let version = text(live, "/metadata/resourceVersion");
        target.resource_version = (!version.is_empty()).then(|| version.to_owned());
    }
    target
}

/// Empty if there is no such text.
pub(super) fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}
