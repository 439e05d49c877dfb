//! A kind, built in or custom, as an API server uses it.

use std::sync::Arc;

use serde_json::Value;

use crate::{FieldError, Schema, builtin, custom::Custom, meta::Scope};

/// What a request writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The object itself.
    Whole,
    /// Its `status` subresource.
    Status,
    /// A pod's `resize` subresource.
    Resize,
}

/// One version of a kind: everything that is done to an object of it between the wire and the store.
///
/// ```text
/// body ─ decode ─ set_defaults ─ validate_create │ validate_update ─ store
/// ```
pub struct Kind {
    schema: Arc<Schema>,
    origin: Origin,
}

enum Origin {
    Builtin(&'static builtin::Row),
    Custom(Box<Custom>),
}

// === impl Kind ===

impl Kind {
    /// A kind every API has; `None` if there is no such kind.
    pub fn builtin(group: &str, version: &str, kind: &str) -> Option<Self> {
        let row = builtin::find(group, version, kind)?;
        Some(Self { schema: row.schema()?, origin: Origin::Builtin(row) })
    }

    /// A version of a CRD that [`crate::crd::validate`] had nothing against; `None` if it has no such version.
    pub fn custom(crd: &Value, version: &str) -> Option<Self> {
        let custom = Custom::new(crd, version)?;
        Some(Self { schema: custom.schema.clone(), origin: Origin::Custom(Box::new(custom)) })
    }

    pub fn schema(&self) -> &Arc<Schema> {
        &self.schema
    }

    pub fn scope(&self) -> Scope {
        match &self.origin {
            Origin::Builtin(row) => row.scope,
            Origin::Custom(custom) => custom.scope,
        }
    }

    /// Makes an object of a request's body: unknown fields go, and the answer names them (`spec.foo`), sorted. What
    /// cannot be read as this kind is an error, the message of a 400 answer.
    pub fn decode(&self, object: &mut Value) -> Result<Vec<String>, String> {
        match &self.origin {
            Origin::Builtin(row) => row.decode(object),
            Origin::Custom(custom) => custom.decode(object),
        }
    }

    pub fn set_defaults(&self, object: &mut Value) {
        match &self.origin {
            Origin::Builtin(row) => row.set_defaults(object),
            Origin::Custom(custom) => custom.set_defaults(object),
        }
    }

    /// Sets what a new object has whatever the request says: no status but the one every fresh object has, and for
    /// pods what admission adds.
    pub fn prepare_create(&self, object: &mut Value) {
        match &self.origin {
            Origin::Builtin(row) => row.prepare_create(object),
            Origin::Custom(custom) => custom.prepare_create(object),
        }
    }

    /// Sets in the new object what a write of this part leaves as it was: a write of the object does not touch its
    /// status, a write of the status nothing else, and neither the server's times and counters.
    pub fn prepare_update(&self, object: &mut Value, old: &Value, part: Part) {
        let has_status = match &self.origin {
            Origin::Builtin(_) => self.schema.properties.contains_key("status"),
            Origin::Custom(custom) => custom.has_status,
        };
        builtin::prepare_update(object, old, part, has_status);
    }

    /// What is wrong with a new object, defaulted and named.
    pub fn validate_create(&self, object: &Value) -> Vec<FieldError> {
        match &self.origin {
            Origin::Builtin(row) => row.validate_create(object),
            Origin::Custom(custom) => custom.validate_create(object),
        }
    }

    /// What is wrong with replacing `old` by `object`.
    pub fn validate_update(&self, object: &Value, old: &Value, part: Part) -> Vec<FieldError> {
        match &self.origin {
            Origin::Builtin(row) => row.validate_update(object, old, part),
            Origin::Custom(custom) => custom.validate_update(object, old, part),
        }
    }
}
