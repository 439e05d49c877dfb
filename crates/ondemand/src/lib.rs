//! What is known of functions on demand.
//!
//! ```text
//! watches of workloads and pods ──▶ Catalog ──▶ gateway (route, balance), dispatcher, demand controller
//! calls of this and other nodes ──▶ Activity ──▶ demand controller (who is awake)
//!                                   ▲      │
//!                      other nodes ─┴ store┘ sharing
//! ```
//!
//! Both are handles that share their state: whoever fills them knows Kubernetes and the store, whoever reads them does
//! not.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod activity;
mod catalog;
mod shared_map;
pub mod sharing;

pub use activity::{Activity, Call, Calls, FunctionActivity};
pub use catalog::{Catalog, Function, Pod, Snapshot, Target};
pub use shared_map::{Difference, SharedMap};
