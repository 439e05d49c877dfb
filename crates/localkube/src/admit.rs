//! The edge to `schema`: what an object must look like before it is stored.

use std::sync::Arc;

use schema::{Path, Schema};
use serde_json::Value;

use crate::{
    call::Call,
    error::{ApiError, Result},
    registry::{Kind, Origin},
};

/// The schema of a kind in a version, if it has one.
pub fn schema(kind: &Kind, version: usize) -> Option<&Schema> {
    kind.versions[version].schema.get_or_init(|| None).as_deref()
}

/// Drops fields that the schema does not know, and reports them as the request asks.
pub fn decode(call: &Call, object: &mut Value, options: &str) -> Result<()> {
    if let Some(schema) = schema(&call.kind, call.version) {
        let unknown = schema::prune(object, schema);
        call.report(&unknown, "unknown", options)?;
    }
    Ok(())
}

pub fn default(call: &Call, object: &mut Value) {
    if let Some(schema) = schema(&call.kind, call.version) {
        schema::default(object, schema);
    }
}

pub fn validate(call: &Call, object: &Value, old: Option<&Value>) -> Result<()> {
    let mut errors = Vec::new();
    if call.kind.origin == Origin::Builtin && call.kind.table_name == crate::crd::TABLE {
        errors = schema::crd::validate(object, old);
    } else if let Some(schema) = schema(&call.kind, call.version) {
        errors = schema::validate(object, old, schema, &Path::ROOT);
    }
    if old.is_none() && crate::object::name(object).is_empty() {
        errors.push(schema::FieldError::required("metadata.name", "name or generateName is required"));
    }
    if errors.is_empty() {
        return Ok(());
    }
    Err(ApiError::invalid(&call.subject(), crate::object::name(object), &errors))
}

pub fn custom_schema(crd: &Value, version: &str) -> Option<Arc<Schema>> {
    schema::crd::schema(crd, version)
}
