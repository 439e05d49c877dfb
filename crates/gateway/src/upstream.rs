//! The side of the pods: which there are, which one is asked, and the connections to them.
//!
//! A connection has no task of its own: whoever waits for an answer drives it, and its body drives it on. So a call
//! stays on the thread of its client's connection, and nothing is woken across threads on its way.

mod connection;
mod function;
mod pod;
mod table;

pub(crate) use connection::{Answer, Connection, Exchange};
pub(crate) use function::{State, Upstream};
pub(crate) use pod::{Lasting, Pod, SendError, Taken};
pub(crate) use table::{Table, run};
