//! The HTTP path of functions on demand.
//!
//! ```text
//! client ─▶ server ─▶ worker ─▶ route ─▶ call ──▶ hold until a pod is ready ──▶ upstream: least-loaded pod ─▶ pod
//!                                 │        └─ Activity: who is called, and so awake
//!                                 ├─▶ async_calls ─▶ store ─▶ dispatcher ─▶ upstream
//!                                 ├─▶ publish (to all pods of all subscribers), wake, status
//!                                 └─▶ what the program mounts: debug endpoints, more metrics
//! ```
//!
//! A connection is served by one worker, a thread with an event loop of its own, as are the connections to pods that it
//! uses. What a call costs, in time and in memory while it waits, is what `bench/gateway` measures.
//!
//! It knows neither Kubernetes nor where the store is: functions and their pods come from a [`ondemand::Catalog`], and
//! that a function is wanted goes out by [`ondemand::Activity`].

#![cfg_attr(test, allow(clippy::unwrap_used))]
#![allow(clippy::result_large_err, reason = "such an error is the answer itself, on its way to the client")]

mod admission;
mod async_calls;
mod body;
mod busy;
mod call;
mod caller;
mod client_stream;
mod cors;
mod ending;
mod forward;
mod gateway;
mod hold;
mod metrics;
mod operators;
mod options;
mod path;
mod publish;
mod reply;
mod request_id;
mod route;
mod server;
mod status;
mod timer;
mod upgrade;
mod upstream;
mod workers;

pub use async_calls::{Dispatcher, QueueGauges};
pub use body::{Body, BoxError};
pub use gateway::{Gateway, Parts};
pub use metrics::{Family, Kind, Metrics, Sample, render};
pub use operators::{check_local, check_same_origin};
pub use options::{Cors, Hooks, MoreMetrics, MoreReady, MoreStatus, Mount, OperatorPaths, Options, Serve};
