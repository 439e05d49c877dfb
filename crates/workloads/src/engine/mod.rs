//! What all controllers share:
//!
//! ```text
//! API ──list+watch──▶ informer ──▶ cache ──change──▶ queue ──key──▶ plan ──effects──▶ execute ──▶ API
//!                                    ▲                                                  │
//!                                    └────── the next plan waits for own writes ────────┘
//! ```

pub(crate) mod cache;
pub(crate) mod events;
pub(crate) mod execute;
pub(crate) mod informer;
pub(crate) mod insist;
pub(crate) mod queue;
pub(crate) mod run;

pub(crate) use cache::{Cache, Change, Key, Reflects};
pub(crate) use execute::{Executor, Failure, Verb};
pub(crate) use insist::insist;
pub(crate) use queue::Queue;
pub(crate) use run::{PlanError, Reconcile, Runner};
