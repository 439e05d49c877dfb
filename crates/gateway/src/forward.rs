//! What of a message goes on to the other side.

use http::{HeaderMap, HeaderName, HeaderValue, Uri, Version, header, request};
use hyper::upgrade::OnUpgrade;

use crate::{caller::Peer, request_id::REQUEST_ID};

pub(crate) const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
pub(crate) const FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
pub(crate) const FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");

/// These concern one connection, not the message. (`Trailer` is about the message, and without it hyper would not send
/// trailers on.)
const HOP_BY_HOP: [HeaderName; 9] = [
    header::CONNECTION,
    header::TE,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
    header::PROXY_AUTHENTICATE,
    header::PROXY_AUTHORIZATION,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    HeaderName::from_static("http2-settings"),
];

/// Names by which servers believe where a call came from. Only the gateway and trusted proxies say so: from others it is
/// hearsay. Some servers take `_` for `-`.
fn tells_of_the_client(name: &HeaderName) -> bool {
    let name = name.as_str();
    is_named(name, "x-forwarded-", true)
        || is_named(name, "forwarded", false)
        || is_named(name, "x-real-ip", false)
}

/// Names by which servers are told of another path than the one that was judged, and those that the gateway alone gives
/// to asynchronous calls: nobody says them from outside.
fn is_never_passed_on(name: &HeaderName) -> bool {
    let name = name.as_str();
    is_named(name, "x-original-", true)
        || is_named(name, "x-rewrite-url", false)
        || is_named(name, "slimfaas-", true)
}

fn is_named(name: &str, wanted: &str, is_prefix: bool) -> bool {
    let fits = name.len() == wanted.len() || (is_prefix && name.len() > wanted.len());
    let same = |(byte, wanted): (u8, u8)| byte == wanted || (wanted == b'-' && byte == b'_');
    fits && name.bytes().zip(wanted.bytes()).all(same)
}

/// Whether a name is perhaps to be removed; quick, because it is asked for every header of every call.
fn is_hearsay(name: &HeaderName) -> bool {
    matches!(name.as_str().as_bytes().first(), Some(b'x' | b's' | b'f'))
        && (tells_of_the_client(name) || is_never_passed_on(name))
}

/// Removes what concerns one connection only, that which `Connection` names included.
pub(crate) fn remove_hop_by_hop(headers: &mut HeaderMap) {
    // Most messages have few headers and none of these: to go through them once is cheaper than to look up each name.
    if !headers.keys().any(|name| HOP_BY_HOP.contains(name)) {
        return;
    }
    if headers.contains_key(header::CONNECTION) {
        let named: Vec<HeaderName> = tokens(headers, &header::CONNECTION)
            .filter_map(|name| HeaderName::from_bytes(name.as_bytes()).ok())
            .collect();
        for name in named {
            headers.remove(name);
        }
    }
    for name in &HOP_BY_HOP {
        headers.remove(name);
    }
}

/// The protocol a client asks to change to. Not `h2c`: behind the gateway it would be a way past all rules.
fn upgrade(parts: &request::Parts) -> Option<HeaderValue> {
    let wanted = parts.headers.get(header::UPGRADE)?;
    let is_asked = parts.version == Version::HTTP_11
        && tokens(&parts.headers, &header::CONNECTION).any(|token| token.eq_ignore_ascii_case("upgrade"));
    let is_h2c = tokens(&parts.headers, &header::UPGRADE)
        .any(|protocol| protocol.to_ascii_lowercase().starts_with("h2"));
    (is_asked && !is_h2c).then(|| wanted.clone())
}

/// Turns the head of a client's request into that of the request to a pod; only `Host` is missing. A client that asks for
/// another protocol gets it through what is returned.
pub(crate) fn prepare(
    parts: &mut request::Parts,
    peer: &Peer,
    request_id: HeaderValue,
    uri: Uri,
) -> Option<OnUpgrade> {
    let authority = parts.uri.authority().and_then(|authority| authority.as_str().parse().ok());
    let host = authority.or_else(|| parts.headers.remove(header::HOST));
    let is_plain = !parts
        .headers
        .keys()
        .any(|name| *name == header::EXPECT || HOP_BY_HOP.contains(name) || is_hearsay(name));
    let on_upgrade = if is_plain { None } else { remove_what_is_not_for_the_pod(parts, peer) };
    let headers = &mut parts.headers;
    if parts.version == Version::HTTP_2 {
        join_cookies(headers);
    }
    headers.append(FORWARDED_FOR, peer.shown.clone());
    headers.entry(FORWARDED_PROTO).or_insert(HeaderValue::from_static("http"));
    if let Some(host) = host {
        headers.entry(FORWARDED_HOST).or_insert(host);
    }
    headers.insert(REQUEST_ID, request_id);
    parts.version = Version::HTTP_11;
    parts.uri = uri;
    // Among them is what hyper needs for an upgrade of the client's connection, which is not the pod's.
    parts.extensions.clear();
    on_upgrade
}

/// The same for a request whose body is here as a whole: it changes no protocol, and how long it is is known anew.
pub(crate) fn prepare_whole(parts: &mut request::Parts, peer: &Peer, request_id: HeaderValue, uri: Uri) {
    parts.headers.remove(header::UPGRADE);
    let _no_upgrade = prepare(parts, peer, request_id, uri);
    parts.headers.remove(header::CONTENT_LENGTH);
    parts.headers.remove(header::TRAILER);
}

fn remove_what_is_not_for_the_pod(parts: &mut request::Parts, peer: &Peer) -> Option<OnUpgrade> {
    let upgrade = upgrade(parts);
    let headers = &mut parts.headers;
    let wants_trailers = tokens(headers, &header::TE).any(|token| token == "trailers");
    remove_hop_by_hop(headers);
    // The body is asked for here already, so that the client has its answer to this.
    headers.remove(header::EXPECT);
    let hearsay: Vec<HeaderName> = headers
        .keys()
        .filter(|name| is_never_passed_on(name) || (!peer.is_proxy && tells_of_the_client(name)))
        .cloned()
        .collect();
    for name in hearsay {
        headers.remove(name);
    }
    if wants_trailers {
        headers.insert(header::TE, HeaderValue::from_static("trailers"));
    }
    let protocol = upgrade?;
    headers.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
    headers.insert(header::UPGRADE, protocol);
    parts.extensions.remove()
}

/// Gives each value a buffer of its own. As it was read, it is a part of all that was read from the client at once, which
/// stays as long as the value: too much for a call that waits.
pub(crate) fn detach(headers: &mut HeaderMap) {
    for value in headers.values_mut() {
        *value = detached(value);
    }
}

pub(crate) fn detached(value: &HeaderValue) -> HeaderValue {
    HeaderValue::from_bytes(value.as_bytes()).unwrap_or_else(|_| value.clone())
}

/// HTTP/2 may carry them in several headers, HTTP/1.1 knows one.
fn join_cookies(headers: &mut HeaderMap) {
    if headers.get_all(header::COOKIE).iter().nth(1).is_none() {
        return;
    }
    let joined = headers
        .get_all(header::COOKIE)
        .iter()
        .map(HeaderValue::as_bytes)
        .collect::<Vec<_>>()
        .join(&b"; "[..]);
    if let Ok(joined) = HeaderValue::from_bytes(&joined) {
        headers.insert(header::COOKIE, joined);
    }
}

fn tokens<'a>(headers: &'a HeaderMap, name: &HeaderName) -> impl Iterator<Item = &'a str> {
    let lines = headers.get_all(name).iter().filter_map(|line| line.to_str().ok());
    lines.flat_map(|line| line.split(',')).map(str::trim).filter(|token| !token.is_empty())
}
