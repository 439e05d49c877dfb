//! Values seen through a schema: which part of an object is one field, which is a container of fields.
//!
//! A container is *granular* (its items have owners of their own) or *atomic* (one owner for all of it). Lists are
//! atomic unless the schema names them a set or a map with keys; maps are granular unless the schema says atomic.

mod compare;
mod items;
mod merge;
mod meta;
mod named;
mod omit;
mod reconcile;
mod shape;
#[cfg(test)]
mod tests;
mod to_set;
mod validate;
mod zero;

pub use compare::{Comparison, compare};
pub use items::{extract, remove};
pub use merge::merge;
pub use named::with_named_parents;
pub use omit::omit_empty;
pub use reconcile::reconcile;
pub use shape::Type;
pub(crate) use shape::{ListShape, MapShape, Shape};
pub use to_set::to_set;
pub use validate::{Duplicates, Errors, validate};
pub use zero::zero_value;
