//! Paths for operators: what they answer, and who gets an answer on the gateway's port.
//!
//! They tell of all functions and wake them, so they belong on the operators' own port. Where the gateway serves them
//! too, the asker is a [`Viewer`] who sees as much as the [`OperatorPaths`] of this gateway say.

use std::net::IpAddr;

use api::slimfaas::Visibility;
use http::{HeaderMap, Method, Response, StatusCode, Uri, header};
use ondemand::{Function, Snapshot};

use crate::{
    async_calls,
    body::Body,
    caller::Peer,
    gateway::{Gateway, method_not_allowed, unknown_path},
    options::OperatorPaths,
    reply::{self, Refusal},
    route::Route,
    status,
};

/// Who asks, as far as it matters for what is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Viewer {
    Operator,
    /// Sees what is public, and what is private if this is the address of a trusted pod. None: nobody knows who it is.
    Caller(Option<IpAddr>),
}

impl Viewer {
    pub(crate) fn may_use(self, visibility: Visibility, snapshot: &Snapshot) -> bool {
        match (self, visibility) {
            (Viewer::Operator, _) | (_, Visibility::Public) => true,
            (Viewer::Caller(ip), Visibility::Private) => {
                ip.is_some_and(|ip| snapshot.trusted.contains_key(&ip))
            }
        }
    }

    pub(crate) fn sees(self, function: &Function, snapshot: &Snapshot) -> bool {
        self.may_use(function.settings.visibility, snapshot)
    }

    /// Metrics and queries tell of all functions at once, their private paths included.
    fn sees_all(self, snapshot: &Snapshot) -> bool {
        self.may_use(Visibility::Private, snapshot)
            || snapshot.functions.values().all(|function| {
                let rules = function.settings.path_visibility.iter().map(|(_, visibility)| *visibility);
                rules.chain([function.settings.visibility]).all(|one| one == Visibility::Public)
            })
    }
}

impl Gateway {
    /// The answer to an operator who has shown to be one, elsewhere than on the gateway's port. None if the path is not
    /// one of those that only the gateway can answer.
    pub fn for_operator(
        &self,
        method: &Method,
        uri: &Uri,
    ) -> Option<impl Future<Output = Response<Body>> + Send + use<>> {
        // What `/metrics` shows there is more than the gateway knows.
        let is_ours = |route: &Route<'_>| {
            matches!(route, Route::Health | Route::Ready)
                || route.is_for_operators() && !matches!(route, Route::Metrics | Route::Unknown)
        };
        is_ours(&Route::of(uri.path())).then(|| {
            let (gateway, method, uri) = (self.clone(), method.clone(), uri.clone());
            async move { gateway.operate(Viewer::Operator, &method, &uri).await }
        })
    }

    /// Whether a request on the gateway's port for a path of operators is answered, and to whom.
    pub(crate) fn viewer(
        &self,
        peer: &Peer,
        headers: &HeaderMap,
        uri: &Uri,
    ) -> Result<Viewer, Response<Body>> {
        match self.options().operator_paths {
            OperatorPaths::Off => Err(unknown_path(uri.path())),
            OperatorPaths::Loopback if !peer.ip.is_loopback() => Err(unknown_path(uri.path())),
            OperatorPaths::Loopback => match check_local(headers, uri) {
                Ok(()) => Ok(Viewer::Operator),
                Err(why) => Err(Refusal::Forbidden.reply(why)),
            },
            OperatorPaths::Visible => {
                Ok(Viewer::Caller(peer.client(headers, &self.options().trusted_proxies)))
            }
        }
    }

    /// Answers what a viewer asks for by one of the operators' paths.
    pub(crate) async fn operate(&self, viewer: Viewer, method: &Method, uri: &Uri) -> Response<Body> {
        let route = Route::of(uri.path());
        if !route.methods().contains(method) {
            return method_not_allowed(&route);
        }
        let snapshot = self.catalog().current();
        let visible = |name: &str| {
            self.table().get(name).filter(|upstream| viewer.sees(&upstream.state().function, &snapshot))
        };
        match route {
            Route::AsyncDead { name, id, replay } => match visible(name) {
                Some(upstream) => {
                    let asked = async_calls::Asked { method, id, replay, query: uri.query() };
                    async_calls::dead(self, &upstream, viewer, asked).await
                }
                None => self.no_function(name),
            },
            Route::Wake { name } => match visible(name) {
                Some(upstream) => {
                    self.activity().touch(&upstream.name);
                    reply::empty(StatusCode::NO_CONTENT)
                }
                None => self.no_function(name),
            },
            Route::WakeAll => {
                for upstream in self.table().all() {
                    if viewer.sees(&upstream.state().function, &snapshot) {
                        self.activity().touch(&upstream.name);
                    }
                }
                reply::empty(StatusCode::NO_CONTENT)
            }
            Route::Status { name } => status::one(self, viewer, name),
            Route::StatusAll => status::all(self, viewer),
            Route::StatusStream => status::stream(self, viewer),
            Route::Metrics if self.sees_all(viewer) => status::metrics(self),
            Route::Health => reply::text(StatusCode::OK, "OK"),
            Route::Ready => status::ready(self).await,
            _ => unknown_path(uri.path()),
        }
    }

    pub(crate) fn sees_all(&self, viewer: Viewer) -> bool {
        viewer.sees_all(&self.catalog().current())
    }
}

/// Whether a request comes from a program on this machine, or from a page that it served itself. A page from elsewhere
/// gives itself away by its `Origin` or `Sec-Fetch-Site`, one that reaches this port by a name of its own (DNS rebinding)
/// by the `Host`.
///
/// # Errors
/// Why not.
pub fn check_local(headers: &HeaderMap, uri: &Uri) -> Result<(), &'static str> {
    let Some(host) = host_of(headers, uri).filter(|host| is_loopback(host)) else {
        return Err("this path answers only requests to localhost or 127.0.0.1");
    };
    check_origin(headers, host)
}

/// Refuses what a page of another origin sends: with the browser's help, it would act as whoever has it open.
///
/// # Errors
/// As above.
pub fn check_same_origin(headers: &HeaderMap, uri: &Uri) -> Result<(), &'static str> {
    check_origin(headers, host_of(headers, uri).unwrap_or_default())
}

fn host_of<'a>(headers: &'a HeaderMap, uri: &'a Uri) -> Option<&'a str> {
    let host = uri.authority().map(|authority| authority.as_str());
    host.or_else(|| headers.get(header::HOST)?.to_str().ok())
}

fn check_origin(headers: &HeaderMap, host: &str) -> Result<(), &'static str> {
    let is_same_origin = |origin: &str| {
        let authority = origin.split_once("://").map(|(_, authority)| authority);
        authority.is_some_and(|authority| authority.eq_ignore_ascii_case(host))
    };
    let mut origins = headers.get_all(header::ORIGIN).iter();
    let mut sites = headers.get_all("sec-fetch-site").iter();
    let is_ours = origins.all(|origin| origin.to_str().is_ok_and(is_same_origin))
        && sites.all(|site| matches!(site.as_bytes(), b"same-origin" | b"none"));
    if is_ours { Ok(()) } else { Err("this path does not answer pages of other origins") }
}

/// Of a `Host`, with or without a port.
fn is_loopback(host: &str) -> bool {
    if let Some(rest) = host.strip_prefix('[') {
        let address = rest.split_once(']').and_then(|(ip, _)| ip.parse::<IpAddr>().ok());
        return address.is_some_and(|ip| ip.to_canonical().is_loopback());
    }
    let name = host.rsplit_once(':').map_or(host, |(name, _)| name).to_ascii_lowercase();
    let is_localhost = name == "localhost" || name.ends_with(".localhost");
    is_localhost || name.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn local_programs_and_pages_from_elsewhere() {
        for (lines, is_local) in [
            (&["host: localhost:5000"][..], true),
            (&["host: LOCALHOST"], true),
            (&["host: shop.localhost:5000"], true),
            (&["host: 127.0.0.1:5000"], true),
            (&["host: 127.9.8.7"], true),
            (&["host: [::1]:5000"], true),
            (&["host: [::ffff:127.0.0.1]:5000"], true),
            (&[], false),
            (&["host: evil.example:5000"], false),
            (&["host: localhost.evil.example"], false),
            (&["host: evillocalhost"], false),
            (&["host: 127.0.0.1.nip.io"], false),
            (&["host: 10.0.0.1"], false),
            (&["host: 0.0.0.0:5000"], false),
            (&["host: [::2]"], false),
            (&["host: ["], false),
            (&["host: localhost:5000", "origin: http://localhost:5000"], true),
            (&["host: localhost:5000", "origin: http://localhost:3000"], false),
            (&["host: localhost:5000", "origin: http://evil.example"], false),
            (&["host: localhost:5000", "origin: null"], false),
            (
                &["host: localhost:5000", "origin: http://localhost:5000", "origin: http://evil.example"],
                false,
            ),
            (&["host: localhost:5000", "sec-fetch-site: cross-site"], false),
            (&["host: localhost:5000", "sec-fetch-site: same-site"], false),
            (&["host: localhost:5000", "sec-fetch-site: none"], true),
            (&["host: localhost:5000", "sec-fetch-site: same-origin"], true),
        ] {
            let mut headers = HeaderMap::new();
            for line in lines {
                let (name, value) = line.split_once(": ").unwrap();
                headers.append(http::HeaderName::try_from(name).unwrap(), value.parse().unwrap());
            }
            assert_eq!(check_local(&headers, &Uri::from_static("/metrics")).is_ok(), is_local, "{lines:?}");
        }
        let whole = Uri::from_static("http://evil.example/metrics");
        let headers = HeaderMap::from_iter([(header::HOST, "localhost".parse().unwrap())]);
        assert!(check_local(&headers, &whole).is_err(), "what names a host in its first line means that one");
    }
}
