//! Controllers of what Ballast adds to Kubernetes: each a synchronous planner and a thin executor.
//!
//! - `catalog`: which functions on demand there are
//! - `demand`: how many replicas each of them gets
//! - `function`: Kyma's Functions
//! - `roles`: which node decides, and which one scrapes
//! - `scraping`: metrics of functions' pods, shared by all nodes

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod autoscaled;
pub mod catalog;
pub mod crds;
pub mod demand;
pub mod function;
pub mod roles;
pub mod scraping;
