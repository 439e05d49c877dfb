//! Paths to fields and items of an object, sets of them, and their encoding in `fieldsV1`.

mod element;
mod encode;
mod set;
#[cfg(test)]
mod tests;

pub use element::{Path, PathElement};
pub use encode::{decode, encode};
pub(crate) use set::Node;
pub use set::Set;
