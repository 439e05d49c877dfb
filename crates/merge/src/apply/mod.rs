//! Server-side apply: who owns which field of an object, and what an applied configuration makes of it.
//!
//! ```text
//! Updater          what the API server calls: create/update/patch and apply, with managedFields in and out
//!  ├ managed_fields   the entries as they stand in an object; sorting, capping, stripping
//!  ├ last_applied     moving from kubectl's client-side apply to server-side apply
//!  └ ownership        the algorithm on sets of paths: conflicts, hand-over, pruning, versions
//!     ├ typed            values seen through a schema: to set, compare, merge, remove
//!     └ fieldpath        paths, sets of paths and their FieldsV1 encoding
//! ```

mod conflict;
pub mod fieldpath;
mod last_applied;
pub mod managed_fields;
pub mod ownership;
pub mod scale;
#[cfg(test)]
pub(crate) mod testing;
pub mod typed;
mod updater;
pub(crate) mod value;

pub use conflict::{ApplyError, Cause, Conflict};
pub use updater::{Applied, Updater};
