//! Calls from pages of other origins.

use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, header};

use crate::{body::Body, forward::detached, options::Cors, reply};

const ANY: HeaderValue = HeaderValue::from_static("*");

impl Cors {
    /// What the page of `origin` is told about itself.
    fn allowed(&self, origin: &HeaderValue) -> Option<HeaderValue> {
        match self {
            Cors::Any => Some(ANY),
            Cors::Only(origins) => origins.contains(origin).then(|| origin.clone()),
            Cors::Off => None,
        }
    }

    /// The origin of a request, if anything depends on it.
    pub(crate) fn origin(&self, headers: &HeaderMap) -> Option<HeaderValue> {
        if *self == Cors::Off { None } else { headers.get(header::ORIGIN).map(detached) }
    }

    /// The answer to a browser that asks before it calls. Only such a question is answered here: other `OPTIONS` are
    /// the function's.
    pub(crate) fn preflight<B>(&self, request: &Request<B>) -> Option<Response<Body>> {
        let asked = request.headers();
        if request.method() != Method::OPTIONS || *self == Cors::Off {
            return None;
        }
        asked.get(header::ORIGIN)?;
        let method = asked.get(header::ACCESS_CONTROL_REQUEST_METHOD)?;
        let mut response = reply::empty(StatusCode::NO_CONTENT);
        let headers = response.headers_mut();
        headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, method.clone());
        if let Some(names) = asked.get(header::ACCESS_CONTROL_REQUEST_HEADERS) {
            headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, names.clone());
        }
        Some(response)
    }

    /// Marks an answer, unless the function has spoken for itself.
    pub(crate) fn mark(&self, origin: &HeaderValue, headers: &mut HeaderMap) {
        if headers.contains_key(header::ACCESS_CONTROL_ALLOW_ORIGIN) {
            return;
        }
        if let Some(allowed) = self.allowed(origin) {
            headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, allowed);
        }
        if matches!(self, Cors::Only(_)) {
            headers.append(header::VARY, HeaderValue::from_static("origin"));
        }
    }
}
