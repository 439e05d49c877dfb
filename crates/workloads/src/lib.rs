//! The workload controllers: Deployment, ReplicaSet, StatefulSet, DaemonSet, Job, CronJob, endpoints, garbage
//! collection, namespaces, ResourceQuota, PersistentVolumeClaim, PodDisruptionBudget and HPA.
//!
//! They know only [`kube::Client`]. On the embedded API they do what kube-controller-manager does on a real cluster,
//! with the same names, annotations, conditions and reasons.
//!
//! Each controller is a folder with a synchronous planner, `plan(observed, now) -> Plan`, that turns what is known of
//! one object into a list of [`engine::effect::Effect`]s. `engine` does the rest for all of them: one watch a kind, one queue
//! a controller, execution, and waiting for own writes. A planner has no clock, no I/O and no memory of its own.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod cronjob;
mod daemonset;
mod deployment;
mod disruption;
mod endpoints;
mod garbage;
mod hpa;
mod job;
mod namespace;
mod object;
mod options;
mod quota;
mod replicaset;
mod start;
mod statefulset;
mod universe;
mod volume;

pub use hpa::{
    advice::{Advice, Advisor, Question},
    metrics::{Usage, parse_selector},
};
pub use options::{Name, Options, UnknownName};
pub use start::Controllers;
