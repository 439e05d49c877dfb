//! Schemas of Kubernetes kinds: validation, defaulting, pruning.

pub mod builtin;
pub mod crd;
mod custom;
mod default;
mod field_error;
mod json;
mod kind;
mod meta;
mod model;
pub mod names;
mod path;
mod prune;
pub mod quantity;
mod rules;
mod validate;

pub use default::default;
pub use field_error::{FieldError, FieldErrorKind};
pub use kind::{Kind, Part};
pub use meta::Scope;
pub use model::{AdditionalProperties, ListType, MapType, Schema, Type};
pub use path::Path;
pub use prune::prune;
pub use quantity::Quantity;
pub use rules::Rules;
pub use validate::validate;
