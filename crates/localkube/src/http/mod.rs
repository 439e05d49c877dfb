//! HTTP in, HTTP out: reading requests, routing them to verbs, writing answers.

mod certs;
mod impersonate;
mod kubeconfig;
mod listener;
mod negotiate;
mod reply;
mod request;
mod route;
mod service;

pub use listener::{ListenError, ListenOptions, Listener};
pub use negotiate::{BodyFormat, IncludeObject, PatchFormat, Shape};
pub use reply::{Body, Response, chunked, empty, json, raw, status, stream};
pub use request::{Query, Target, Verb};
pub use service::{BoxError, User};

/// What the real server accepts.
pub const BODY_LIMIT: usize = 3 << 20;
