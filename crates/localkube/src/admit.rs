//! The edge to `schema`: what an object must look like before it is stored.

use std::sync::Arc;

use schema::{Part, Schema};
use serde_json::Value;

use crate::{
    call::Call,
    error::{ApiError, Result},
    object,
    registry::Kind,
};

/// What `schema` knows of a kind in a version. Built-in kinds are looked up when first needed: their schemas are
/// large, and most servers never see most kinds.
fn rules(kind: &Kind, version: usize) -> Option<&Arc<schema::Kind>> {
    let version = &kind.versions[version];
    version
        .schema
        .get_or_init(|| schema::Kind::builtin(&kind.group, &version.name, &kind.kind).map(Arc::new))
        .as_ref()
}

pub fn schema(kind: &Kind, version: usize) -> Option<&Schema> {
    rules(kind, version).map(|rules| &**rules.schema())
}

/// Drops fields that the schema does not know, and reports them as the request asks.
pub fn decode(call: &Call, object: &mut Value, options: &str) -> Result<()> {
    let Some(rules) = rules(&call.kind, call.version) else { return Ok(()) };
    let unknown = rules.decode(object).map_err(ApiError::bad_request)?;
    call.report(&unknown, "unknown", options)
}

/// Brings an object that the server changed back into the form that its kind has on the wire.
pub fn normalize(kind: &Kind, version: usize, object: &mut Value) {
    if let Some(rules) = rules(kind, version) {
        let _ = rules.decode(object);
    }
}

/// An object of the kind before anything is set in it.
pub fn empty(kind: &Kind, version: usize) -> &Value {
    kind.versions[version].empty.get_or_init(|| {
        let mut object = Value::Object(serde_json::Map::new());
        if let Some(rules) = rules(kind, version) {
            let _ = rules.decode(&mut object);
        }
        object
    })
}

pub fn default(call: &Call, object: &mut Value) {
    if let Some(rules) = rules(&call.kind, call.version) {
        rules.set_defaults(object);
    }
    for complete in call.kind.rules.complete {
        complete(object);
    }
}

pub fn validate(call: &Call, object: &Value, old: Option<&Value>) -> Result<()> {
    let Some(rules) = rules(&call.kind, call.version) else { return Ok(()) };
    let errors = match (old, call.target.subresource.as_str()) {
        (Some(old), "" | "scale") => rules.validate_update(object, old, Part::Whole),
        (Some(old), "status") => rules.validate_update(object, old, Part::Status),
        (Some(old), "resize") => rules.validate_update(object, old, Part::Resize),
        (None, _) => rules.validate_create(object),
        // These change one thing, which they checked themselves.
        (Some(_), _) => Vec::new(),
    };
    if errors.is_empty() {
        return Ok(());
    }
    Err(ApiError::invalid(&call.subject(), object::name(object), &errors))
}

pub fn custom(crd: &Value, version: &str) -> Option<Arc<schema::Kind>> {
    schema::Kind::custom(crd, version).map(Arc::new)
}
