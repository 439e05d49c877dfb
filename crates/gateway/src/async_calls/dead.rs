//! Calls that were given up: listed, shown, tried again, deleted.

use http::{Method, Response, StatusCode, Uri};
use serde_json::{Value, json};

use super::{record::Head, refused_by_store};
use crate::{
    body::Body,
    gateway::Gateway,
    reply::{self, Refusal},
    upstream::Upstream,
};

pub(crate) async fn dead(
    gateway: &Gateway,
    method: &Method,
    name: &str,
    id: Option<&str>,
    replay: bool,
    may_call: impl Fn(&Upstream, &str) -> bool,
) -> Response<Body> {
    let Some(upstream) = gateway.table().get(name) else { return gateway.no_function(name) };
    let mut dead = match gateway.store().dead(name).await {
        Ok(dead) => dead,
        Err(error) => return refused_by_store(&error),
    };
    dead.retain(|dead| may_call(&upstream, &path(dead)));
    let Some(id) = id else {
        return reply::json(StatusCode::OK, &dead.iter().map(shown).collect::<Vec<_>>());
    };
    let Some(dead) = dead.iter().find(|dead| dead.id == id) else { return no_such(name, id) };
    let changed = if replay {
        gateway.store().replay(name, id).await
    } else if method == Method::DELETE {
        gateway.store().bury(name, id).await
    } else {
        return reply::json(StatusCode::OK, &shown(dead));
    };
    match changed {
        Err(error) => refused_by_store(&error),
        Ok(false) => no_such(name, id),
        Ok(true) if replay => {
            gateway.activity().touch(&upstream.name);
            reply::empty(StatusCode::ACCEPTED)
        }
        Ok(true) => reply::empty(StatusCode::NO_CONTENT),
    }
}

/// That which the pod was asked for. What cannot be read is judged like the function as a whole.
fn path(dead: &store::Dead) -> String {
    let head = serde_json::from_slice::<Head>(&dead.head).ok();
    let uri = head.and_then(|head| head.uri().parse::<Uri>().ok());
    uri.map_or_else(|| "/".to_owned(), |uri| uri.path().to_owned())
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
