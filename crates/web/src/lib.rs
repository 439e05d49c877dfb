//! The dashboard: files that `make web` built from `web/`, carried by the program.
//!
//! They are the same for everybody and tell nothing of a cluster, so they are answered without a token: a browser could
//! not present one for a page. What they show comes from the operators' paths, which ask for it.
//!
//! ```text
//! /        sends to /ui/
//! /ui/…    the files; or, if they were not built, a page that says how to
//! ```

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode, header, request};
use http_body_util::Full;

struct File {
    name: &'static str,
    content_type: &'static str,
    /// Changes with the contents.
    tag: &'static str,
    bytes: &'static [u8],
}

const FILES: &[File] = include!(concat!(env!("OUT_DIR"), "/files.rs"));

const NOT_BUILT: &str = include_str!("not-built.html");

/// Nothing from elsewhere, no inline script or style, no frame around it. Where browsers have trusted types, no text can
/// become HTML either, whichever way it is put into the page.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
    base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'";

/// Whether the dashboard is inside, and not only the page that says how to build it.
pub fn is_built() -> bool {
    !FILES.is_empty()
}

/// The answer to a request for the dashboard; none if the path is not one of its own.
pub fn answer(head: &request::Parts) -> Option<Response<Full<Bytes>>> {
    let path = head.uri.path();
    let name = match path {
        // The place is relative, so that it holds behind a proxy that adds a prefix.
        "/" => return Some(sent_to("ui/")),
        "/ui" => return Some(sent_to("ui/")),
        _ => path.strip_prefix("/ui/")?,
    };
    if !matches!(head.method, Method::GET | Method::HEAD) {
        let mut response = text(StatusCode::METHOD_NOT_ALLOWED, "use GET\n");
        response.headers_mut().insert(header::ALLOW, HeaderValue::from_static("GET, HEAD"));
        return Some(response);
    }
    let name = if name.is_empty() { "index.html" } else { name };
    let mut response = match FILES.iter().find(|file| file.name == name) {
        Some(file) => file_response(file, &head.headers),
        None if !is_built() && name == "index.html" => {
            with_type(StatusCode::OK, "text/html; charset=utf-8", Bytes::from_static(NOT_BUILT.as_bytes()))
        }
        None => text(StatusCode::NOT_FOUND, "the dashboard has no such file\n"),
    };
    if head.method == Method::HEAD {
        *response.body_mut() = Full::default();
    }
    Some(response)
}

fn file_response(file: &File, headers: &HeaderMap) -> Response<Full<Bytes>> {
    let is_known =
        headers.get(header::IF_NONE_MATCH).is_some_and(|tags| tags.as_bytes() == file.tag.as_bytes());
    let (status, bytes) = if is_known {
        (StatusCode::NOT_MODIFIED, Bytes::new())
    } else {
        (StatusCode::OK, Bytes::from_static(file.bytes))
    };
    let mut response = with_type(status, file.content_type, bytes);
    response.headers_mut().insert(header::ETAG, HeaderValue::from_static(file.tag));
    response
}

fn sent_to(place: &'static str) -> Response<Full<Bytes>> {
    let mut response = text(StatusCode::FOUND, "");
    response.headers_mut().insert(header::LOCATION, HeaderValue::from_static(place));
    response
}

fn text(status: StatusCode, words: &'static str) -> Response<Full<Bytes>> {
    with_type(status, "text/plain; charset=utf-8", Bytes::from_static(words.as_bytes()))
}

fn with_type(status: StatusCode, content_type: &'static str, bytes: Bytes) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(bytes));
    *response.status_mut() = status;
    for (name, value) in [
        (header::CONTENT_TYPE, content_type),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        // Another version of the program has other files by the same names.
        (header::CACHE_CONTROL, "no-cache"),
    ] {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

#[cfg(test)]
mod tests {
    use http::Request;
    use http_body_util::BodyExt as _;

    use super::*;

    fn ask(method: Method, path: &str, tag: &str) -> Option<Response<Full<Bytes>>> {
        let request = Request::builder().method(method).uri(path).header(header::IF_NONE_MATCH, tag);
        answer(&request.body(()).unwrap().into_parts().0)
    }

    #[test]
    fn only_its_own_paths_are_answered() {
        for (method, path, status) in [
            (Method::GET, "/", Some(302)),
            (Method::GET, "/ui", Some(302)),
            (Method::GET, "/ui/", Some(200)),
            (Method::HEAD, "/ui/", Some(200)),
            (Method::GET, "/ui/../metrics", Some(404)),
            (Method::GET, "/ui/nothing.js", Some(404)),
            (Method::POST, "/ui/", Some(405)),
            (Method::GET, "/uix", None),
            (Method::GET, "/metrics", None),
            (Method::GET, "/api/v1/decisions", None),
        ] {
            let answered = ask(method.clone(), path, "").map(|response| response.status().as_u16());
            assert_eq!(answered, status, "{method} {path}");
        }
    }

    #[test]
    fn every_answer_is_under_a_strict_policy() {
        for path in ["/", "/ui/", "/ui/nothing.js"] {
            let response = ask(Method::GET, path, "").unwrap();
            let policy = response.headers()[header::CONTENT_SECURITY_POLICY].to_str().unwrap();
            assert!(
                policy.starts_with("default-src 'none'; ") && !policy.contains("unsafe"),
                "{path}: {policy}"
            );
            assert_eq!(response.headers()[header::X_CONTENT_TYPE_OPTIONS], "nosniff");
        }
    }

    #[tokio::test]
    async fn there_is_a_page_whether_or_not_it_was_built() {
        let response = ask(Method::GET, "/ui/", "").unwrap();
        assert_eq!(response.headers()[header::CONTENT_TYPE], "text/html; charset=utf-8");
        let page = response.into_body().collect().await.unwrap().to_bytes();
        let page = String::from_utf8_lossy(&page);
        let wanted = if is_built() { "app.js" } else { "make web" };
        assert!(page.contains(wanted), "{page}");
    }

    #[test]
    fn what_a_browser_has_is_not_sent_again() {
        for file in FILES {
            let path = format!("/ui/{}", file.name);
            assert_eq!(ask(Method::GET, &path, file.tag).unwrap().status(), StatusCode::NOT_MODIFIED);
            assert_eq!(ask(Method::GET, &path, "\"other\"").unwrap().status(), StatusCode::OK);
        }
    }
}
