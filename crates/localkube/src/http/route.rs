//! From a path to what answers it.

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, request::Parts};
use hyper::upgrade::OnUpgrade;
use jiff::Timestamp;

use super::{Query, Response, Target, User, Verb, impersonate, json, raw};
use crate::{
    ApiServer, access,
    call::{Call, Warnings},
    discovery,
    error::{ApiError, Result},
    metrics_api, openapi,
    rbac::{self, Attributes},
    registry::Origin,
    subresources, verbs,
};

pub async fn route(server: &ApiServer, parts: Parts, body: Bytes) -> Result<Response> {
    let path = parts.uri.path();
    let query = Query::parse(parts.uri.query().unwrap_or_default());
    let first = path.split('/').nth(1).unwrap_or_default();
    let user = parts.extensions.get::<User>().cloned().unwrap_or_else(User::admin);
    let user = impersonate::acting(server, user, &parts.headers)?;
    let target = Target::parse(path).filter(|_| matches!(first, "api" | "apis"));
    authorize(server, &user, target.as_ref(), &parts, &query)?;
    match first {
        "api" | "apis" => {
            if let Some(target) = target {
                return resource(server, target, query, user, parts, body).await;
            }
            only_get(&parts)?;
            discovery::answer(server, path, &parts.headers)
        }
        "openapi" => {
            only_get(&parts)?;
            openapi::answer(server, path, &parts.headers, &query)
        }
        "healthz" | "livez" | "readyz" => Ok(health(server, first)),
        "version" => Ok(json(200, &discovery::version())),
        "" => Ok(json(200, &discovery::paths(server))),
        _ => Ok(nothing_here()),
    }
}

/// Before anything is looked up: who may not ask does not learn what is there.
fn authorize(
    server: &ApiServer,
    user: &User,
    target: Option<&Target>,
    parts: &Parts,
    query: &Query,
) -> Result<()> {
    let method = parts.method.as_str().to_ascii_lowercase();
    let verb = target.and_then(|target| target.verb(&parts.method, query));
    let attributes = match target {
        Some(target) => Attributes::Resource {
            verb: verb.map_or(method.as_str(), |verb| verb.name()),
            // A namespace is in itself, so that a role in it may allow to read it.
            namespace: match (target.group.as_str(), target.resource.as_str()) {
                ("", "namespaces") => &target.name,
                _ => &target.namespace,
            },
            group: &target.group,
            resource: &target.resource,
            subresource: &target.subresource,
            name: &target.name,
        },
        None => {
            Attributes::Path { verb: if method == "head" { "get" } else { &method }, path: parts.uri.path() }
        }
    };
    rbac::check(server, user, &attributes)
}

/// A server that cannot write is alive: starting it anew would not help.
fn health(server: &ApiServer, check: &str) -> Response {
    let (code, text) = match server.ready() {
        Err(why) if check != "livez" => (500, format!("[-]storage failed: {why}\n{check} check failed\n")),
        _ => (200, "ok".to_owned()),
    };
    raw(code, "text/plain; charset=utf-8", Bytes::from(text))
}

/// What the real server says of paths outside its API.
fn nothing_here() -> Response {
    raw(404, "text/plain; charset=utf-8", Bytes::from_static(b"404 page not found\n"))
}

fn only_get(parts: &Parts) -> Result<()> {
    if matches!(parts.method, http::Method::GET | http::Method::HEAD) {
        return Ok(());
    }
    Err(ApiError::method_unknown())
}

async fn resource(
    server: &ApiServer,
    target: Target,
    query: Query,
    user: User,
    parts: Parts,
    body: Bytes,
) -> Result<Response> {
    let verb = target.verb(&parts.method, &query).ok_or_else(ApiError::method_unknown)?;
    if target.group == metrics_api::GROUP {
        return metrics_api::answer(server, &target, verb, &query).await;
    }
    let registry = server.registry();
    let Some((kind, version)) = registry.find(&target.group, &target.version, &target.resource) else {
        let served = registry.groups().iter().any(|(group, _)| *group == target.group);
        return if served { Err(ApiError::no_such_path()) } else { Ok(nothing_here()) };
    };
    if !kind.namespaced && !target.namespace.is_empty() {
        return if kind.origin == Origin::Custom {
            Ok(nothing_here())
        } else {
            Err(ApiError::no_such_path())
        };
    }
    let call = Call {
        server: server.clone(),
        manager: manager(&query, &parts.headers),
        warnings: Arc::new(Warnings::default()),
        now: Timestamp::now(),
        upgrade: parts.extensions.get::<OnUpgrade>().cloned(),
        headers: parts.headers,
        kind,
        version,
        target,
        query,
        user,
    };
    if let Some(warning) = &call.kind.versions[version].deprecation {
        call.warnings.add(warning.clone());
    }
    let warnings = call.warnings.clone();
    let mut result = dispatch(call, verb, body).await.or_else(|error| {
        // Warnings come with failures too.
        if warnings.is_empty() { Err(error) } else { Ok(super::status(&error)) }
    });
    if let Ok(response) = &mut result {
        for warning in warnings.take() {
            if let Ok(value) = HeaderValue::from_str(&format!("299 - {}", quoted(&warning))) {
                response.headers_mut().append(http::header::WARNING, value);
            }
        }
    }
    result
}

async fn dispatch(call: Call, verb: Verb, body: Bytes) -> Result<Response> {
    if call.kind.rules.review {
        return match verb {
            Verb::Create => access::review(&call, &body),
            _ => Err(ApiError::method_unknown()),
        };
    }
    if call.kind.namespaced && call.target.namespace.is_empty() && !matches!(verb, Verb::List | Verb::Watch) {
        // A kind in namespaces can be listed across all of them, nothing else.
        return Err(match verb {
            Verb::Create if call.target.name.is_empty() => ApiError::method_unknown(),
            _ if call.target.name.is_empty() => ApiError::method_unknown(),
            _ => ApiError::no_such_path(),
        });
    }
    if !call.target.subresource.is_empty() {
        return subresources::answer(call, verb, &body).await;
    }
    match verb {
        Verb::Get => verbs::get(&call),
        Verb::List => verbs::list(&call),
        Verb::Watch => verbs::watch(call),
        Verb::Create if call.target.name.is_empty() => verbs::create(&call, &body).await,
        Verb::Create => Err(ApiError::method_unknown()),
        Verb::Update if call.target.name.is_empty() => Err(ApiError::method_unknown()),
        Verb::Update => verbs::replace(&call, &body).await,
        Verb::Patch if call.target.name.is_empty() => Err(ApiError::method_unknown()),
        Verb::Patch => verbs::patch(&call, &body).await,
        Verb::Delete => verbs::delete(&call, &body).await,
        Verb::DeleteCollection => verbs::delete_collection(&call, &body).await,
    }
}

/// Who shall own what a write changes: the parameter, else the program's name from `User-Agent`.
fn manager(query: &Query, headers: &HeaderMap) -> String {
    let given = query.get("fieldManager");
    if !given.is_empty() {
        return given.to_owned();
    }
    let agent =
        headers.get(http::header::USER_AGENT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let program = agent.split('/').next().unwrap_or_default();
    if program.is_empty() { "unknown".to_owned() } else { program.chars().take(128).collect() }
}

/// As a quoted string of RFC 7230; other bytes than printable ASCII may not stand in a header.
fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => {
                out.push('\\');
                out.push(c);
            }
            ' '..='~' => out.push(c),
            _ => out.push('?'),
        }
    }
    out.push('"');
    out
}
