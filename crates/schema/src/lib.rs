//! Schemas of Kubernetes kinds: validation, defaulting, pruning.

mod field_error;
mod model;

pub use field_error::{FieldError, FieldErrorKind};
pub use model::{AdditionalProperties, ListType, MapType, Schema, Type};
