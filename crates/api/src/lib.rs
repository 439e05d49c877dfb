//! The kinds and annotations of the systems whose manifests Ballast reads: one file a kind, as they are written by
//! people, and what they mean in the terms of `decide`. No I/O.

#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod slimfaas;
