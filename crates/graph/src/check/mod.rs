//! The static check: what an expression makes, and whether it may stand where it stands.

mod assign;
mod infer;
mod status;
mod template;
mod types;

pub(crate) use infer::{Scope, condition, infer};
pub(crate) use status::schema_of;
pub(crate) use template::{Place, check as check_template};
pub(crate) use types::Type;
