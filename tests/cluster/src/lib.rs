//! A Kubernetes to test on: embedded, or the real one built from pinned modules.

mod process;
pub mod real;
pub mod tools;

pub use process::{Running, free_ports, spawn};
