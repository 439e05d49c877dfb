//! What all controllers share:
//!
//! ```text
//! API ──list+watch──▶ informer ──▶ cache ──change──▶ queue ──key──▶ plan ──effects──▶ execute ──▶ API
//!                                    ▲                                                  │
//!                                    └────── the next plan waits for own writes ────────┘
//! ```
//!
//! A controller is a type that implements [`Reconcile`]: for a key it makes a [`effect::Plan`], from what the caches
//! hold and from nothing else, as far as it can. It is started with [`Engine`], which makes each cache once, however many controllers
//! read it, and keeps four promises for all of them:
//!
//! - one key is worked on once at a time;
//! - a plan is made only when the caches show what the previous one wrote;
//! - a write carries the version it was decided on, so a decision about one state is never applied to another;
//! - the first write to a key waits until a live read agrees with the cache: a process that starts on an old list
//!   does not undo what happened since.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod cache;
mod contact;
pub mod effect;
mod events;
pub mod execute;
pub mod informer;
mod insist;
pub mod kind;
pub mod object;
mod queue;
mod run;
mod start;
pub mod testing;

pub use cache::{Cache, Change, Key, Reflects, Write, WriteChange};
pub use contact::Contact;
pub use execute::{Executor, Failure, Verb};
pub use insist::insist;
pub use queue::Queue;
pub use run::{OtherKinds, PlanError, Reconcile};
pub use start::Engine;
