//! The embedded Kubernetes API server: a tower service that `kube::Client` uses directly, and a TLS listener that
//! kubectl uses.
//!
//! ```text
//! request ─ http ─ route ─ verbs ──┬─ admit   (schema: prune, default, validate)
//!                     │            ├─ patch   (merge: patches, managedFields)
//!                     │            └─ storage (one writer, events, optional file)
//!                     └─ discovery, openapi, subresources, metrics_api
//! ```
//!
//! A kind is a row in [`registry`], built in or made from a CustomResourceDefinition at run time; the verbs know rows
//! only. This crate runs no workloads: the controllers and the node are clients of it like any other.

mod access;
mod admit;
mod bootstrap;
mod call;
mod convert;
mod crd;
mod decode;
mod discovery;
mod error;
mod expiry;
mod go_syntax;
mod http;
mod lifecycle;
mod limits;
mod metrics_api;
mod object;
mod openapi;
mod patch;
mod prepare;
mod protobuf;
mod rbac;
mod registry;
mod render;
mod selectors;
mod server;
mod service_ips;
mod storage;
mod subresources;
mod table;
mod verbs;

pub use http::{ListenError, ListenOptions, Listener};
pub use server::{ApiServer, OpenError, Options, new_token};
pub use storage::Storage;
