//! `pods/exec`, `pods/attach` and `pods/portforward`: a connection between the caller and the node.
//!
//! ```text
//! kubectl ── Upgrade: websocket, or SPDY/3.1 ──▶ server ── the same request ──▶ node
//!         ◀────────────── bytes, which only those two understand ─────────────▶
//! ```
//! Who may ask and which container is meant is decided here; the protocol inside is the node's.

use http::{
    HeaderMap, HeaderName, Method, StatusCode,
    header::{self, HeaderValue},
};
use http_body_util::BodyExt;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};

use super::{
    kubelet::{self, Kubelet},
    log::escape,
};
use crate::{
    call::Call,
    error::{ApiError, Result},
    http::{Response, Verb, empty},
    object,
    rbac::{self, Attributes},
};

/// What the two ends say to each other while they agree on a protocol. Nothing else of the caller's headers is the
/// node's business, least of all who the caller is.
const HANDSHAKE: &[&str] = &[
    "connection",
    "upgrade",
    "sec-websocket-accept",
    "sec-websocket-extensions",
    "sec-websocket-key",
    "sec-websocket-protocol",
    "sec-websocket-version",
    "x-stream-protocol-version",
];

pub async fn answer(call: &Call, verb: Verb) -> Result<Response> {
    let target = &call.target;
    // A WebSocket begins with a GET, which must not be a way around the right to create.
    let attributes = Attributes::Resource {
        verb: Verb::Create.name(),
        namespace: &target.namespace,
        group: &target.group,
        resource: &target.resource,
        subresource: &target.subresource,
        name: &target.name,
    };
    rbac::check(&call.server, &call.user, &attributes)?;

    let pod = call.find()?.to_value();
    let path = path(call, &pod)?;
    let node = object::text(&pod, &["spec", "nodeName"]);
    if node.is_empty() {
        return Err(ApiError::bad_request(format!("pod {} does not have a host assigned", target.name)));
    }
    let kubelet = Kubelet::find(&call.server, node)?;
    let (true, Some(caller)) = (wants_upgrade(&call.headers), &call.upgrade) else {
        return Err(ApiError::bad_request("Upgrade request required"));
    };
    let method = if verb == Verb::Get { Method::GET } else { Method::POST };
    let answered = kubelet::send(&call.server, &kubelet, method, &path, handshake(&call.headers)).await?;
    if answered.status() != StatusCode::SWITCHING_PROTOCOLS {
        return Ok(answered.map(|body| body.map_err(Into::into).boxed_unsync()));
    }
    let mut response = empty(StatusCode::SWITCHING_PROTOCOLS.as_u16());
    *response.headers_mut() = handshake(answered.headers());
    tokio::spawn(connect(caller.clone(), hyper::upgrade::on(answered)));
    Ok(response)
}

/// Where the node serves it, with the names that nodes have for the parameters.
fn path(call: &Call, pod: &Value) -> Result<String> {
    let (namespace, name, query) = (&call.target.namespace, &call.target.name, &call.query);
    let mut parameters = Vec::new();
    if call.target.subresource == "portforward" {
        parameters.extend(query.all("ports").map(|port| format!("port={}", escape(port))));
        return Ok(format!("/portForward/{namespace}/{name}?{}", parameters.join("&")));
    }
    let container = container(call, pod)?;
    for (asked, told) in [("stdin", "input"), ("stdout", "output"), ("stderr", "error"), ("tty", "tty")] {
        if query.flag(asked) {
            parameters.push(format!("{told}=1"));
        }
    }
    parameters.extend(query.all("command").map(|word| format!("command={}", escape(word))));
    Ok(format!(
        "/{}/{namespace}/{name}/{}?{}",
        call.target.subresource,
        escape(&container),
        parameters.join("&")
    ))
}

fn container(call: &Call, pod: &Value) -> Result<String> {
    let name = &call.target.name;
    let names = |list: &str| -> Vec<&str> {
        pod["spec"][list].as_array().into_iter().flatten().filter_map(|one| one["name"].as_str()).collect()
    };
    let containers = names("containers");
    let all = [names("initContainers"), containers.clone(), names("ephemeralContainers")].concat();
    let asked = call.query.get("container");
    match (asked, containers.as_slice()) {
        ("", [one]) => Ok((*one).to_owned()),
        ("", _) => Err(ApiError::bad_request(format!(
            "a container name must be specified for pod {name}, choose one of: [{}]",
            all.join(" ")
        ))),
        (asked, _) if all.contains(&asked) => Ok(asked.to_owned()),
        (asked, _) => Err(ApiError::bad_request(format!("container {asked} is not valid for pod {name}"))),
    }
}

fn wants_upgrade(headers: &HeaderMap) -> bool {
    let words = headers.get_all(header::CONNECTION).iter().filter_map(|value| value.to_str().ok());
    words.flat_map(|words| words.split(',')).any(|word| word.trim().eq_ignore_ascii_case("upgrade"))
}

fn handshake(headers: &HeaderMap) -> HeaderMap<HeaderValue> {
    let mut kept = HeaderMap::new();
    for name in HANDSHAKE.iter().copied().map(HeaderName::from_static) {
        for value in headers.get_all(&name) {
            kept.append(name.clone(), value.clone());
        }
    }
    kept
}

async fn connect(caller: OnUpgrade, node: OnUpgrade) {
    let (caller, node) = match futures::try_join!(caller, node) {
        Ok(both) => both,
        Err(error) => return tracing::debug!(%error, "a connection to a container was not made"),
    };
    splice(TokioIo::new(caller), TokioIo::new(node)).await;
}

/// Copies both ways. It is over when the node has said its last; the caller may stop talking before.
async fn splice(caller: impl AsyncRead + AsyncWrite, node: impl AsyncRead + AsyncWrite) {
    let (mut from_caller, mut to_caller) = tokio::io::split(caller);
    let (mut from_node, mut to_node) = tokio::io::split(node);
    let there = async {
        let copied = tokio::io::copy(&mut from_caller, &mut to_node).await;
        let _ = to_node.shutdown().await;
        match copied {
            Ok(_) => std::future::pending().await,
            Err(error) => tracing::debug!(%error, "a caller of a container is gone"),
        }
    };
    let back = async {
        let copied = tokio::io::copy(&mut from_node, &mut to_caller).await;
        if let Err(error) = copied {
            tracing::debug!(%error, "a connection to a container ended");
        }
        let _ = to_caller.shutdown().await;
    };
    tokio::select! {
        () = there => {}
        () = back => {}
    }
}
