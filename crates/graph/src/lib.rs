//! Resource graphs as values: a definition in, generated kinds and a plan out.
//!
//! ```text
//!  ResourceGraphDefinition ─┐
//!  Kinds (OpenAPI, CRDs) ───┴─ compile ─▶ Graph ─┬─▶ crd(), set_crd() ─ ensure, compare
//!                                                │
//!  instance, observed objects ───────────────────┴─▶ plan ─▶ Plan { nodes, status, prune }
//! ```
//!
//! The crate knows no clock, no client and no store: a controller hands in what it sees and does what the plan says.
//! Everything in a definition comes from somebody else, so that depth, size and the cost of expressions are bounded,
//! and text of an instance is never taken for an expression.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::panic))]

mod cel;
mod check;
mod compile;
pub mod crd;
mod error;
mod kinds;
pub mod labels;
mod order;
pub mod plan;
mod selector;
mod simple;
mod template;

pub use compile::{Graph, Options, compile};
pub use error::Error;
pub use kinds::{Kind, Kinds};
