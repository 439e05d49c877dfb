//! Requests that mean harm. The pod must see nothing, or exactly one request that means what the gateway read.

use std::sync::{Arc, Mutex};

use gateway::{Hooks, Options};
use http::{Request, StatusCode};
use http_body_util::BodyExt;
use hyper::body::Incoming;

use tokio::io::AsyncWriteExt as _;

use crate::support::*;

/// A pod that keeps a list of what reached it.
async fn witness() -> (Pod, Arc<Mutex<Vec<String>>>) {
    let seen: Arc<Mutex<Vec<String>>> = Arc::default();
    let keep = seen.clone();
    let pod = Pod::start(move |request: Request<Incoming>| {
        let keep = keep.clone();
        async move {
            let (head, body) = request.into_parts();
            let body = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
            let body = String::from_utf8_lossy(&body).into_owned();
            keep.lock().unwrap().push(format!("{} {} {body:?}", head.method, head.uri));
            whole(StatusCode::OK, "seen")
        }
    })
    .await;
    (pod, seen)
}

#[tokio::test]
async fn what_could_be_read_in_two_ways() {
    let rig = Rig::new().await;
    let (pod, seen) = witness().await;
    rig.functions([function("fib", &[&pod])]);
    let smuggled = "GET /function/fib/smuggled HTTP/1.1\r\nhost: x\r\n\r\n";
    // (what is sent behind the first line, what the pod may see at the most)
    let long = format!("x-long: {}\r\n\r\n", "a".repeat(70_000));
    let many = format!("{}\r\n", (0..200).map(|n| format!("x-{n}: 1\r\n")).collect::<String>());
    for (rest, allowed) in [
        // two lengths
        ("content-length: 4\r\ncontent-length: 5\r\n\r\nbody!".to_owned(), None),
        ("content-length: 4\r\ncontent-length: 4\r\n\r\nbody".to_owned(), Some("body")),
        ("content-length: 4, 5\r\n\r\nbody".to_owned(), None),
        ("content-length: +4\r\n\r\nbody".to_owned(), None),
        ("content-length: -1\r\n\r\n".to_owned(), None),
        ("content-length: 0x4\r\n\r\nbody".to_owned(), None),
        ("content-length: 99999999999999999999\r\n\r\n".to_owned(), None),
        // a length and chunks: the length is ignored, and what follows is not taken for a request
        (format!("content-length: 4\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n{smuggled}"), Some("")),
        (format!("transfer-encoding: chunked\r\ncontent-length: 4\r\n\r\n0\r\n\r\n{smuggled}"), Some("")),
        // chunks in disguise
        (format!("transfer-encoding: xchunked\r\n\r\n0\r\n\r\n{smuggled}"), None),
        (format!("transfer-encoding: chunked, identity\r\n\r\n0\r\n\r\n{smuggled}"), None),
        (format!("transfer-encoding: identity\r\ncontent-length: 4\r\n\r\nbody{smuggled}"), None),
        (format!("transfer-encoding : chunked\r\n\r\n0\r\n\r\n{smuggled}"), None),
        (format!("transfer-encoding:\x0bchunked\r\n\r\n0\r\n\r\n{smuggled}"), None),
        (format!("x: y\r\n transfer-encoding: chunked\r\n\r\n0\r\n\r\n{smuggled}"), None),
        // chunks that lie
        ("transfer-encoding: chunked\r\n\r\n-1\r\nbody\r\n0\r\n\r\n".to_owned(), None),
        ("transfer-encoding: chunked\r\n\r\nfffffffffffffffff\r\nbody\r\n0\r\n\r\n".to_owned(), None),
        ("transfer-encoding: chunked\r\n\r\n4\r\nbodyXX0\r\n\r\n".to_owned(), None),
        // heads
        ("x-bad\x00: 1\r\n\r\n".to_owned(), None),
        ("x bad: 1\r\n\r\n".to_owned(), None),
        (": nameless\r\n\r\n".to_owned(), None),
        (long, None),
        (many, None),
    ] {
        seen.lock().unwrap().clear();
        let answer =
            rig.raw(format!("POST /function/fib/x HTTP/1.1\r\nhost: x\r\nconnection: close\r\n{rest}")).await;
        let (short, seen) = (rest.chars().take(120).collect::<String>(), seen.lock().unwrap().clone());
        match allowed {
            Some(body) => {
                assert_eq!(seen, [format!("POST /x {body:?}")], "{short:?}");
                assert!(
                    answer.starts_with("HTTP/1.1 200 ") && answer.matches("HTTP/1.1").count() == 1,
                    "{answer}"
                );
            }
            None => {
                let is_refused = answer.is_empty() || answer.starts_with("HTTP/1.1 4");
                assert!(is_refused, "{short:?} was answered {answer}");
                assert!(!seen.iter().any(|seen| seen.contains("smuggled")), "{short:?} let through {seen:?}");
            }
        }
    }
}

#[tokio::test]
async fn a_request_names_one_host() {
    let rig = Rig::new().await;
    let (pod, seen) = witness().await;
    rig.functions([function("fib", &[&pod])]);
    for hosts in ["", "host: a\r\nhost: b\r\n", "host: a\r\nhost: a\r\n"] {
        let answer = rig.raw(format!("GET /function/fib HTTP/1.1\r\n{hosts}connection: close\r\n\r\n")).await;
        assert!(answer.starts_with("HTTP/1.1 400 "), "{hosts:?}: {answer}");
    }
    assert_eq!(*seen.lock().unwrap(), Vec::<String>::new());
    let old = rig.raw("GET /function/fib HTTP/1.0\r\n\r\n").await;
    assert!(old.starts_with("HTTP/1.0 200 "), "{old}");
}

#[tokio::test]
async fn first_lines_that_mean_harm() {
    let rig = Rig::new().await;
    let (pod, seen) = witness().await;
    rig.functions([function("fib", &[&pod]), function("other", &[&pod])]);
    let long = format!("GET /function/fib/{} HTTP/1.1", "a".repeat(70_000));
    for line in [
        "GET /function/fib/../other HTTP/1.1",
        "GET /function/fib/../../metrics HTTP/1.1",
        "GET /function/fib/%2e%2e/other HTTP/1.1",
        "GET /function/fib/%2e%2e%2fother HTTP/1.1",
        "GET /function/fib/..\\other HTTP/1.1",
        "GET /function/../function/other HTTP/1.1",
        "GET /function/%2e%2e/metrics HTTP/1.1",
        "GET /function/..%2fother HTTP/1.1",
        "GET /./function/fib HTTP/1.1",
        "GET //function/fib HTTP/1.1",
        "GET /function//fib HTTP/1.1",
        "GET /function/fib%00 HTTP/1.1",
        "GET /function/fib/%00 HTTP/1.1",
        "GET /function/f%69b HTTP/1.1",
        "GET function/fib HTTP/1.1",
        "GET /function/fib HTTP/1.2",
        "GET /function/fib HTTP/3.0",
        "GET /function/fib",
        "GET  /function/fib HTTP/1.1",
        "GET /function/fib x HTTP/1.1",
        "G\x01T /function/fib HTTP/1.1",
        "CONNECT fib:80 HTTP/1.1",
        "CONNECT /function/fib HTTP/1.1",
        "TRACE /function/fib HTTP/1.1",
        "OPTIONS * HTTP/1.1",
        "PRI * HTTP/2.0",
        "\x16\x03\x01\x02",
        long.as_str(),
    ] {
        let answer = rig.raw(format!("{line}\r\nhost: x\r\nconnection: close\r\n\r\n")).await;
        let short: String = line.chars().take(60).collect();
        // Not HTTP/1.1 at all: closed, perhaps with frames of HTTP/2.
        let is_refused = answer.starts_with("HTTP/1.1 4") || !answer.starts_with("HTTP/1.1");
        assert!(is_refused, "{short:?} was answered {answer}");
        assert_eq!(*seen.lock().unwrap(), Vec::<String>::new(), "{short:?}");
    }
    // A whole address names a host, and that is not believed.
    let answer =
        rig.raw("GET http://10.0.0.1/function/fib/x HTTP/1.1\r\nhost: y\r\nconnection: close\r\n\r\n").await;
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    assert_eq!(*seen.lock().unwrap(), ["GET /x \"\""]);
}

/// Connections beyond the bound learn that the gateway lives, and nothing else.
#[tokio::test]
async fn connections_are_bounded() {
    let options = Options { connections: 2, connections_per_address: Some(2), ..Options::default() };
    let rig = Rig::with(options, Hooks::default()).await;
    let pod = Pod::echo("pod").await;
    rig.functions([function("fib", &[&pod])]);
    let (first, _second) = (rig.connect().await, rig.connect().await);
    until("two connections", || rig.metric("ballast_gateway_connections", "") == 2.0).await;
    let get = |path: &str| rig.raw(format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"));
    for path in ["/health", "/ready"] {
        let answer = get(path).await;
        assert!(answer.starts_with("HTTP/1.1 200 "), "{path}: {answer}");
    }
    let refused = get("/function/fib").await;
    assert!(
        refused.starts_with("HTTP/1.1 503 ") && refused.contains("ballast-error: too-many-connections"),
        "{refused}"
    );
    assert_eq!(pod.calls(), 0);
    assert_eq!(rig.metric("ballast_gateway_refused_connections_total", ""), 3.0);
    drop(first);
    until("a place", || rig.metric("ballast_gateway_connections", "") == 1.0).await;
    let answer = get("/function/fib").await;
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
}

/// However many connections are held that say nothing: whoever asks for the health at once is answered.
#[tokio::test]
async fn health_is_answered_while_all_connections_are_taken() {
    let options = Options { connections: 4, ..Options::default() };
    let rig = Rig::with(options, Hooks::default()).await;
    let mut held = Vec::new();
    for n in 0..200 {
        let mut stream = rig.connect().await;
        stream.write_all(if n % 2 == 0 { b"PRI" } else { b"GET /he" }).await.unwrap();
        held.push(stream);
        if n % 50 == 49 {
            let answer = rig.raw("GET /health HTTP/1.1\r\nhost: x\r\n\r\n").await;
            assert!(answer.starts_with("HTTP/1.1 200 "), "after {n}: {answer}");
        }
    }
    // one address has half of them
    assert_eq!(rig.metric("ballast_gateway_connections", ""), 2.0);
}

/// What begins like HTTP/2 has no more time than what begins like HTTP/1.1.
#[tokio::test]
async fn half_a_handshake_is_not_waited_for() {
    let options = Options { head_timeout: std::time::Duration::from_millis(200), ..Options::default() };
    let rig = Rig::with(options, Hooks::default()).await;
    let preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".as_bytes();
    let settings = [0, 0, 0, 4, 0, 0, 0, 0, 0];
    // a request that never ends its headers
    let headers = [0, 0, 1, 1, 0, 0, 0, 0, 1, 0x82];
    for bytes in [
        b"PRI".to_vec(),
        preface[..20].to_vec(),
        preface.to_vec(),
        [preface, &settings].concat(),
        [preface, &settings, &headers].concat(),
    ] {
        rig.raw(&bytes).await;
    }
    until("all are gone", || rig.metric("ballast_gateway_connections", "") == 0.0).await;
}

#[tokio::test]
async fn pipelined_requests_are_answered_in_order() {
    let rig = Rig::new().await;
    let pod = Pod::echo("pod").await;
    rig.functions([function("fib", &[&pod])]);
    let first = "GET /function/fib/1 HTTP/1.1\r\nhost: x\r\n\r\n";
    let last = "GET /function/fib/2 HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
    let answer = rig.raw(format!("{first}{last}")).await;
    let (one, two) = (answer.find("GET /1\n").unwrap(), answer.find("GET /2\n").unwrap());
    assert!(one < two && answer.matches("HTTP/1.1 200 ").count() == 2, "{answer}");
}
