//! The verbs, each written once for every kind.

mod create;
mod delete;
mod get;
mod list;
mod patch;
mod update;
mod watch;

pub use create::{Created, create, create_object};
pub use delete::{DeleteOptions, delete, delete_collection, delete_object};
pub use get::get;
pub use list::list;
pub use patch::patch;
pub use update::{Proposal, replace, update_object};
pub use watch::watch;
