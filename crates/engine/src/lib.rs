//! What all controllers share:
//!
//! ```text
//! API ──list+watch──▶ informer ──▶ cache ──change──▶ queue ──key──▶ plan ──effects──▶ execute ──▶ API
//!                                    ▲                                                  │
//!                                    └────── the next plan waits for own writes ────────┘
//! ```
//!
//! A controller is a type that implements [`Reconcile`]: for a key it makes a [`effect::Plan`], from what the caches
//! hold and from nothing else, as far as it can. It runs in a [`Scope`] of the process's one [`Engine`], which makes each
//! cache once, however many controllers read it, and keeps these promises for all of them:
//!
//! - one key is worked on once at a time;
//! - a plan is made only when the caches show what the previous one wrote;
//! - a write carries the version it was decided on, so a decision about one state is never applied to another;
//! - the first write to a key waits until a live read agrees with the cache: a process that starts on an old list
//!   does not undo what happened since;
//! - a write is sent only by who holds the lease at that moment ([`Fence`]);
//! - a panic ends the work on one key, which comes again; a task that ends is started again ([`Supervisor`]).

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::panic))]

mod cache;
mod cached;
mod contact;
mod definition;
pub mod effect;
mod engine;
mod events;
pub mod execute;
mod fence;
mod index;
mod informer;
mod insist;
pub mod kind;
pub mod nodes;
pub mod object;
pub mod pods;
mod queue;
mod run;
mod selection;
mod supervise;
pub mod testing;
pub mod universe;

pub use cache::{Cache, Change, Key, Reflects, Write, WriteChange};
pub use cached::Cached;
pub use contact::Contact;
pub use engine::{Engine, Metadata, Scope, Watching, Within};
pub use execute::{Executor, Failure, Verb};
pub use fence::Fence;
pub use index::IndexId;
pub use insist::insist;
pub use queue::Queue;
pub use run::{OtherKinds, PlanError, Reconcile};
pub use selection::Selection;
pub use supervise::{Figures, Supervisor, Task, panic_message};
pub use universe::Universe;
