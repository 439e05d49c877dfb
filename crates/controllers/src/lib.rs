//! Controllers of what Ballast adds to Kubernetes: each a synchronous planner and a thin executor.

#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod crds;
pub mod function;
