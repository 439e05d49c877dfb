//! Pure scaling decisions: values that carry their reasons.
//!
//! ```text
//! (now, spec, observed, memory) ──> policy ──> Decision { current, desired, reason, steps, next_check, memory }
//!                                                  │
//!                                        text · JSON · Event · status
//! ```
//!
//! This crate has no clock, no randomness, no async and no I/O: time and memory come in and go out as values,
//! so replaying a history is a fold, and a simulated day takes milliseconds. It knows nothing of clusters: whoever
//! calls it translates objects into the plain values each policy declares.

pub mod cron;
pub mod decision;
pub mod demand;
pub mod hpa;
pub mod hvpa;
pub mod input;
pub mod number;
pub mod policy;
#[cfg(test)]
mod properties;
pub mod quantity;
pub mod recommender;
pub mod rollout;
#[cfg(test)]
mod testing;
pub mod vertex;
pub mod window;
pub mod zone;

pub use decision::{Chain, Decision, Reason, Role, Rule, Step, Weight};
