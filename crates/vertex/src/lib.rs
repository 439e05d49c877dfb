//! The data plane of a pipeline: what moves messages from vertex to vertex.
//!
//! ```text
//! buffer or source ──▶ forward: transformer ─▶ map (containers of the user, by sockets) ──▶ buffers of the next, or sink
//!                        └── metrics: what was read, what is pending ──▶ whoever scales
//! ```
//!
//! It knows nothing of Kubernetes: what a pod is to do comes in as a [`config::Config`], and how much is waiting is read by
//! whoever scales from [`buffer::Service::info`] and from the metrics of the pods.

pub mod buffer;
pub mod config;
mod forward;
mod message;
mod metrics;
pub mod route;
mod run;
mod serve;
pub mod source;
mod user;
mod writer;

pub use message::DROP;
pub use run::{Error, run};
