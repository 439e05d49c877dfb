//! Calls that were given up: listed, shown, tried again, deleted.

use http::{Method, Response, StatusCode};
use serde_json::{Value, json};

use super::{record::Head, refused_by_store};
use crate::{
    body::Body,
    gateway::Gateway,
    reply::{self, Refusal},
};

pub(crate) async fn dead(
    gateway: &Gateway,
    method: &Method,
    name: &str,
    id: Option<&str>,
    replay: bool,
) -> Response<Body> {
    let Some(upstream) = gateway.table().get(name) else { return gateway.no_function(name) };
    let changed = match (id, replay) {
        (Some(id), true) => gateway.store().replay(name, id).await,
        (Some(id), false) if method == Method::DELETE => gateway.store().bury(name, id).await,
        _ => return list(gateway, name, id).await,
    };
    match (changed, id) {
        (Err(error), _) => refused_by_store(&error),
        (Ok(false), id) => no_such(name, id.unwrap_or_default()),
        (Ok(true), _) if replay => {
            gateway.activity().touch(&upstream.name);
            reply::empty(StatusCode::ACCEPTED)
        }
        (Ok(true), _) => reply::empty(StatusCode::NO_CONTENT),
    }
}

/// All, or the one that is asked for.
async fn list(gateway: &Gateway, name: &str, id: Option<&str>) -> Response<Body> {
    let dead = match gateway.store().dead(name).await {
        Ok(dead) => dead,
        Err(error) => return refused_by_store(&error),
    };
    match id {
        None => reply::json(StatusCode::OK, &dead.iter().map(shown).collect::<Vec<_>>()),
        Some(id) => match dead.iter().find(|dead| dead.id == id) {
            Some(dead) => reply::json(StatusCode::OK, &shown(dead)),
            None => no_such(name, id),
        },
    }
}

fn shown(dead: &store::Dead) -> Value {
    let head = serde_json::from_slice::<Head>(&dead.head).ok();
    let died = jiff::Timestamp::from_millisecond(dead.died_unix_ms).ok();
    json!({
        "Id": dead.id,
        "Attempts": dead.attempts,
        "Reason": dead.reason,
        "DiedAt": died.map(|died| died.to_string()),
        "Method": head.as_ref().map(Head::method),
        "Path": head.as_ref().map(Head::uri),
    })
}

fn no_such(name: &str, id: &str) -> Response<Body> {
    Refusal::NotFound.reply(format_args!("{name} has no dead call {id}"))
}
