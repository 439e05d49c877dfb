//! Asynchronous calls: accepted now, made later.

use http::{Method, Response};

use crate::{body::Body, call::Call, gateway::Gateway, reply::Refusal};

pub(crate) async fn enqueue(_gateway: &Gateway, call: Call) -> Response<Body> {
    drop(call);
    not_here()
}

/// A function says how a call ended that it had answered with 202.
pub(crate) async fn callback(_gateway: &Gateway, _name: &str, _id: &str, _status: &str) -> Response<Body> {
    not_here()
}

pub(crate) async fn result(_gateway: &Gateway, _name: &str, _id: &str) -> Response<Body> {
    not_here()
}

/// Lists, shows, replays or deletes calls that were given up.
pub(crate) async fn dead(
    _gateway: &Gateway,
    _method: &Method,
    _name: &str,
    _id: Option<&str>,
    _replay: bool,
) -> Response<Body> {
    not_here()
}

fn not_here() -> Response<Body> {
    Refusal::Unavailable.reply("this build serves no asynchronous calls")
}
