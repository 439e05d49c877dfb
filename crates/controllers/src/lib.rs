//! Controllers of what Ballast adds to Kubernetes: each a synchronous planner and a thin executor.
//!
//! - `catalog`: which functions on demand there are
//! - `demand`: how many replicas each of them gets
//! - `graphs`: resource graphs, their instances and Sets of them
//! - `hvpa`: replicas and request sizes of one workload together
//! - `kyma`: Kyma's Functions
//! - `pipelines`: Numaflow's Pipelines, Vertices and MonoVertices
//! - `roles`: which node decides, and which one scrapes
//! - `scraping`: metrics of functions' pods, shared by all nodes

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod autoscaled;
pub mod catalog;
mod component;
mod condition;
pub mod crds;
pub mod data_plane;
pub mod demand;
mod fingerprint;
pub mod graphs;
pub mod hvpa;
pub mod kyma;
pub mod pipelines;
mod repair;
pub mod roles;
pub mod scraping;

pub use component::{Component, Context, Gauges, Lead, OnDemand, Reach, Rule, Running, Runs, Settings};
