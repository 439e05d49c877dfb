//! Calls that were given up: listed, shown, tried again, deleted.

use http::{HeaderName, Method, Response, StatusCode, Uri};
use serde_json::{Value, json};
use store::{Dead, DeadPage, Page, Place};

use super::{record::Head, refused_by_store};
use crate::{
    body::Body,
    gateway::{Gateway, visibility},
    operators::Viewer,
    reply::{self, Refusal},
    upstream::Upstream,
};

/// What is asked of the dead letters of a function.
pub(crate) struct Asked<'a> {
    pub method: &'a Method,
    pub id: Option<&'a str>,
    pub replay: bool,
    pub query: Option<&'a str>,
}

/// Letters of a page, unless fewer are asked for.
const PAGE: usize = 100;
const LARGEST_PAGE: usize = 1000;
/// Names the next page, in an answer and as a parameter of the next request.
const CONTINUE: HeaderName = HeaderName::from_static("ballast-continue");

pub(crate) async fn dead(
    gateway: &Gateway,
    upstream: &Upstream,
    viewer: Viewer,
    asked: Asked<'_>,
) -> Response<Body> {
    let (name, state) = (&*upstream.name, upstream.state());
    let snapshot = gateway.catalog().current();
    let is_visible =
        |dead: &Dead| viewer.may_use(visibility(&state.function.settings, &path(&dead.head)), &snapshot);
    let Some(id) = asked.id else {
        let page = match page(asked.query) {
            Ok(page) => page,
            Err(why) => return Refusal::BadRequest.reply(why),
        };
        return match gateway.store().dead(name, page).await {
            Ok(page) => list(&page, is_visible),
            Err(error) => refused_by_store(&error),
        };
    };
    let dead = match by_id(gateway, name, id).await {
        Ok(dead) => dead.filter(is_visible),
        Err(error) => return refused_by_store(&error),
    };
    let Some(dead) = dead else { return no_such(name, id) };
    let changed = if asked.replay {
        gateway.store().replay(name, id).await
    } else if asked.method == Method::DELETE {
        gateway.store().bury(name, id).await
    } else {
        return reply::json(StatusCode::OK, &shown(&dead));
    };
    match changed {
        Err(error) => refused_by_store(&error),
        Ok(false) => no_such(name, id),
        Ok(true) if asked.replay => {
            gateway.activity().touch(&upstream.name);
            reply::empty(StatusCode::ACCEPTED)
        }
        Ok(true) => reply::empty(StatusCode::NO_CONTENT),
    }
}

async fn by_id(gateway: &Gateway, name: &str, id: &str) -> store::Result<Option<Dead>> {
    let place = gateway.store().find(name, id).await?;
    let Some(Place::Dead { attempts, reason, died_unix_ms }) = place else { return Ok(None) };
    let head = gateway.store().head(name, id).await?;
    Ok(head.map(|head| Dead { id: id.to_owned(), head, attempts, reason, died_unix_ms }))
}

/// `limit` and `continue`, both numbers.
fn page(query: Option<&str>) -> Result<Page, String> {
    let mut page = Page { limit: PAGE, after: None };
    let parameters = query.unwrap_or_default().split('&').filter(|parameter| !parameter.is_empty());
    for parameter in parameters {
        let number =
            parameter.split_once('=').and_then(|(name, text)| Some((name, text.parse::<u64>().ok()?)));
        match number {
            Some(("limit", limit @ 1..)) => {
                page.limit = usize::try_from(limit).unwrap_or(usize::MAX).min(LARGEST_PAGE);
            }
            Some(("continue", after)) => page.after = Some(after),
            _ => {
                return Err(format!(
                    "{parameter} cannot be read: use limit=N, and continue=N of the page before"
                ));
            }
        }
    }
    Ok(page)
}

fn list(page: &DeadPage, is_visible: impl Fn(&Dead) -> bool) -> Response<Body> {
    let letters: Vec<_> = page.letters.iter().filter(|dead| is_visible(dead)).map(shown).collect();
    let mut response = reply::json(StatusCode::OK, &letters);
    if let Some(next) = page.next {
        response.headers_mut().insert(CONTINUE, next.into());
    }
    response
}

/// That which the pod was asked for. What cannot be read is judged like the function as a whole.
pub(crate) fn path(head: &[u8]) -> String {
    let head = serde_json::from_slice::<Head>(head).ok();
    let uri = head.and_then(|head| head.uri().parse::<Uri>().ok());
    uri.map_or_else(|| "/".to_owned(), |uri| uri.path().to_owned())
}

fn shown(dead: &Dead) -> Value {
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
