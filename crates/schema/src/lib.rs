//! Schemas of Kubernetes kinds, and what an API server does with them: decoding, defaulting, pruning, validation.
//!
//! ```text
//!            built-in kinds                              custom kinds
//!   k8s-openapi's schemas + builtin/table.txt      crd::validate ─ Kind::custom
//!                      └───────────────┬──────────────────┘
//!                                    Kind
//!   body ─ decode ─ set_defaults ─ prepare_create │ prepare_update ─ validate_create │ validate_update ─ store
//! ```
//!
//! Findings are [`FieldError`]s worded as the real server words them, because people and programs know those words.
//!
//! The crate knows nothing of HTTP, storage, names in use, addresses or time: those are the server's. It never fails on
//! any input but by saying what is wrong with it.

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
pub mod openapi;
mod path;
mod prune;
pub mod quota;
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
pub use rules::{Rules, cel_text, cel_type_name};
pub use validate::validate;
