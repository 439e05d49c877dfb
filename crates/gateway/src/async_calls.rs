//! Asynchronous calls: accepted now, made later.
//!
//! ```text
//! client ─▶ enqueue ─▶ store (durable) ─▶ 202
//!                        │ changes
//!     Dispatcher (master)◀┘─▶ attempt ─▶ pod
//!          ▲                     │ answer, timeout, or a callback to any node
//!          └──── free place ◀────┴─▶ judge: done, again later, or dead ─▶ store
//! ```
//!
//! A call is made at least once. How many are under way, and on which pods, is kept by the leases of the store, so the
//! limits hold over a change of master too.

mod attempt;
mod callback;
mod conclude;
mod dead;
mod dispatcher;
mod enqueue;
mod gauges;
mod judge;
mod memory;
mod places;
mod pump;
mod record;
mod results;

use http::{HeaderName, Response};

use crate::{body::Body, reply::Refusal};

pub(crate) use callback::{Callbacks, callback};
pub(crate) use dead::{Asked, dead};
pub use dispatcher::Dispatcher;
pub(crate) use enqueue::enqueue;
pub use gauges::QueueGauges;
pub(crate) use memory::Memory;
pub(crate) use results::result;

const ELEMENT_ID: HeaderName = HeaderName::from_static("slimfaas-element-id");
const TRY_NUMBER: HeaderName = HeaderName::from_static("slimfaas-try-number");
const LAST_TRY: HeaderName = HeaderName::from_static("slimfaas-last-try");

fn refused_by_store(error: &store::Error) -> Response<Body> {
    match error {
        store::Error::TooLarge(_) => Refusal::BodyTooLarge,
        store::Error::Full { .. } => Refusal::QueueFull,
        store::Error::Conflict { .. } | store::Error::Open(_) | store::Error::Unavailable(_) => {
            Refusal::Unavailable
        }
    }
    .reply(error)
}
