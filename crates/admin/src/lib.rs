//! What an operator may ask over HTTP.
//!
//! ```text
//! /debug/promql/eval, /debug/store      the value that an autoscaling query has, and what the store holds
//! /api/v1/…                             Prometheus's own paths: Grafana and promtool read the store through them
//! /api/v1/decisions                     the last decisions, by kind, namespace, name, policy and reason; as server-sent events too
//! /api/v1/objects                       pipelines, vertices, Sets, definitions and Hvpas as they are; as server-sent events too
//! /metrics                              what Ballast says of itself
//! ```
//!
//! Other parts of the program add [`More`]: status, wake-up, dead letters; [`Actions`]: what-if and pause; and [`Pages`]:
//! the dashboard.
//!
//! An [`Operator`] is a value that answers requests; [`listen`] gives it a port of its own, and whoever has a port
//! already hands it the paths that it [serves](Operator::serves). Queries run on threads for such work, a few at a time,
//! and are cut off by time and by the samples they read.

mod compress;
mod debug;
mod exposed;
mod form;
mod listen;
mod operator;
mod prometheus;
mod reply;
mod run;
#[cfg(test)]
mod tests;

pub use exposed::{Exposed, Family, Figure, Kind, render};
pub use listen::listen;
pub use operator::{Actions, Event, Feed, Filters, Guard, Limits, More, Operator, Options, Pages};
pub use reply::{Answer, Reply};
