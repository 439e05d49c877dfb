//! Pipelines: what moves their messages, tied to Kubernetes. `vertex` knows nothing of Kubernetes, and controllers know
//! nothing of `vertex`; here is what one tells the other.
//!
//! ```text
//! controllers ──buffers made, asked──▶ services ──▶ vertex::buffer
//!      └──pod, its environment──▶ pod ──▶ vertex::run
//! ```
//!
//! - `services`: buffers, as controllers see them
//! - `pod`: what one pod is to do, from its environment

pub mod pod;
pub mod services;
