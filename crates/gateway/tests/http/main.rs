//! The gateway from outside: real connections to it, and pods that are servers in this process.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]

mod balance;
mod drain;
mod events;
mod hold;
mod hostile;
mod operators;
mod proxy;
mod routes;
mod status;
mod support;
mod upgrade;
mod visibility;
