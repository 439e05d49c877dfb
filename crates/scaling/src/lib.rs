//! The one place where replica counts and request sizes are decided and written.
//!
//! ```text
//! news, next_check ──▶ queue ──key──▶ Policy::look ──▶ Policy::decide ──▶ Decision
//!                                                         ▲    │             ├──▶ memory, kept in the store first
//!                                                         └────┘             ├──▶ scale write and Event
//!                                                         memory             └──▶ history: last decisions, for explain
//! ```
//!
//! A [`Policy`] says what there is to decide about one object and decides; [`Scaler`] runs it on the engine, which
//! keeps for it what it keeps for every controller: one object at a time, fenced writes, own writes awaited, a panic
//! that stops no other object. What people ask of any policy is here once: pause, dry run, fallback ([`Controls`]),
//! and what happens when somebody else writes the count too ([`Writers`], [`Claims`]).
//!
//! Nothing else writes a scale or a size, and nothing is written without a decision in hand: [`rescale`],
//! [`resize_template`], [`resize_fields`] and [`resize_pod`] take one.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod capacity;
mod claims;
mod controls;
mod fixed;
mod history;
mod memory;
mod policy;
mod rescale;
mod scaler;
mod writers;

pub use capacity::Capacity;
pub use claims::{Claim, Claims};
pub use controls::{Controls, Fallback};
pub use fixed::{Fixed, fixed};
pub use history::{History, Object, Outcome, Record, Steps};
pub use memory::{Memories, Remembered};
pub use policy::{Look, Policy, Subject};
pub use rescale::{acknowledge, rescale, resize_fields, resize_pod, resize_template};
pub use scaler::Scaler;
pub use writers::{Autoscaler, OnConflict, Verdict, Wish, Write, Writers, judge};
