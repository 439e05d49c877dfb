//! Which request is whose.

use http::Method;

/// What a path asks for. Names and ids are as they stand in the path: what needs decoding is no name of ours.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Route<'a> {
    /// `path` is what the pod is asked for: it begins with a slash.
    Call {
        name: &'a str,
        path: &'a str,
    },
    Async {
        name: &'a str,
        path: &'a str,
    },
    AsyncCallback {
        name: &'a str,
        id: &'a str,
        status: &'a str,
    },
    AsyncResult {
        name: &'a str,
        id: &'a str,
    },
    AsyncDead {
        name: &'a str,
        id: Option<&'a str>,
        replay: bool,
    },
    Publish {
        event: &'a str,
        path: &'a str,
    },
    Wake {
        name: &'a str,
    },
    WakeAll,
    Status {
        name: &'a str,
    },
    StatusAll,
    StatusStream,
    Health,
    Ready,
    Metrics,
    Unknown,
}

impl<'a> Route<'a> {
    pub(crate) fn of(path: &'a str) -> Self {
        let Some(rest) = path.strip_prefix('/') else { return Route::Unknown };
        let (first, rest) = rest.split_once('/').map_or((rest, None), |(first, rest)| (first, Some(rest)));
        let Some(rest) = rest else {
            return match first {
                "wake-functions" => Route::WakeAll,
                "status-functions" => Route::StatusAll,
                "status-functions-stream" => Route::StatusStream,
                "health" => Route::Health,
                "ready" => Route::Ready,
                "metrics" => Route::Metrics,
                _ => Route::Unknown,
            };
        };
        let at_slash = rest.find('/').unwrap_or(rest.len());
        let (name, path) = rest.split_at(at_slash);
        if name.is_empty() {
            return Route::Unknown;
        }
        // What comes behind the name, its slashes included, is the pod's.
        let for_pod = if path.is_empty() { "/" } else { path };
        // Nearly all are calls, so the rest is not looked at for them.
        if first == "function" {
            return Route::Call { name, path: for_pod };
        }
        let mut more = path.strip_prefix('/').unwrap_or_default().split('/');
        let more = (more.next().filter(|id| !id.is_empty()), more.next(), more.next());
        match (first, more) {
            ("async-function", _) => Route::Async { name, path: for_pod },
            ("publish-event", _) => Route::Publish { event: name, path: for_pod },
            ("async-function-callback", (Some(id), Some(status), None)) if !status.is_empty() => {
                Route::AsyncCallback { name, id, status }
            }
            ("async-function-result", (Some(id), None, None)) => Route::AsyncResult { name, id },
            ("async-function-dead", (id, None, None)) => Route::AsyncDead { name, id, replay: false },
            ("async-function-dead", (Some(id), Some("replay"), None)) => {
                Route::AsyncDead { name, id: Some(id), replay: true }
            }
            ("wake-function", (None, None, None)) => Route::Wake { name },
            ("status-function", (None, None, None)) => Route::Status { name },
            _ => Route::Unknown,
        }
    }

    /// What tells of all functions, changes what was given up, or wakes. What is not ours may be what the program mounts,
    /// and that is for operators too.
    pub(crate) fn is_for_operators(&self) -> bool {
        match self {
            Route::AsyncDead { .. }
            | Route::Wake { .. }
            | Route::WakeAll
            | Route::Status { .. }
            | Route::StatusAll
            | Route::StatusStream
            | Route::Metrics
            | Route::Unknown => true,
            Route::Call { .. }
            | Route::Async { .. }
            | Route::AsyncCallback { .. }
            | Route::AsyncResult { .. }
            | Route::Publish { .. }
            | Route::Health
            | Route::Ready => false,
        }
    }

    /// Methods that make sense here.
    pub(crate) fn methods(&self) -> &'static [Method] {
        const CALLS: &[Method] = &[
            Method::GET,
            Method::POST,
            Method::PUT,
            Method::DELETE,
            Method::PATCH,
            Method::HEAD,
            Method::OPTIONS,
        ];
        match self {
            Route::Call { .. } | Route::Async { .. } | Route::Publish { .. } => CALLS,
            Route::AsyncCallback { .. } | Route::AsyncDead { replay: true, .. } => &[Method::POST],
            Route::AsyncDead { id: Some(_), .. } => &[Method::GET, Method::DELETE],
            Route::Wake { .. } | Route::WakeAll => &[Method::POST, Method::GET],
            _ => &[Method::GET, Method::HEAD],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_and_routes() {
        let call = |name, path| Route::Call { name, path };
        for (path, route) in [
            ("/function/a", call("a", "/")),
            ("/function/a/", call("a", "/")),
            ("/function/a/b/c", call("a", "/b/c")),
            ("/function/a//b", call("a", "//b")),
            ("/function/a%2fb", call("a%2fb", "/")),
            ("/function/", Route::Unknown),
            ("/function", Route::Unknown),
            ("/function//a", Route::Unknown),
            ("//function/a", Route::Unknown),
            ("/Function/a", Route::Unknown),
            ("/function/../metrics", call("..", "/metrics")),
            ("/async-function/a/b", Route::Async { name: "a", path: "/b" }),
            (
                "/async-function-callback/a/7/success",
                Route::AsyncCallback { name: "a", id: "7", status: "success" },
            ),
            ("/async-function-callback/a/7", Route::Unknown),
            ("/async-function-callback/a/7/", Route::Unknown),
            ("/async-function-callback/a/7/success/x", Route::Unknown),
            ("/async-function-result/a/7", Route::AsyncResult { name: "a", id: "7" }),
            ("/async-function-dead/a", Route::AsyncDead { name: "a", id: None, replay: false }),
            ("/async-function-dead/a/7", Route::AsyncDead { name: "a", id: Some("7"), replay: false }),
            ("/async-function-dead/a/7/replay", Route::AsyncDead { name: "a", id: Some("7"), replay: true }),
            ("/async-function-dead/a/7/other", Route::Unknown),
            ("/publish-event/e", Route::Publish { event: "e", path: "/" }),
            ("/publish-event/e/p/q", Route::Publish { event: "e", path: "/p/q" }),
            ("/wake-function/a", Route::Wake { name: "a" }),
            ("/wake-function/a/", Route::Wake { name: "a" }),
            ("/wake-function/a/b", Route::Unknown),
            ("/wake-functions", Route::WakeAll),
            ("/status-function/a", Route::Status { name: "a" }),
            ("/status-functions", Route::StatusAll),
            ("/status-functions-stream", Route::StatusStream),
            ("/health", Route::Health),
            ("/ready", Route::Ready),
            ("/metrics", Route::Metrics),
            ("/metrics/", Route::Unknown),
            ("/", Route::Unknown),
            ("*", Route::Unknown),
            ("", Route::Unknown),
        ] {
            assert_eq!(Route::of(path), route, "{path}");
        }
    }
}
