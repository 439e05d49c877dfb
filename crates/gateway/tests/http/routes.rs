use std::sync::Arc;

use gateway::{Body, Hooks, Mount, Options};
use http::Response;

use crate::support::*;

#[tokio::test]
async fn every_route_and_its_codes() {
    let rig = Rig::new().await;
    let pod = Pod::echo("pod").await;
    rig.functions([function("fib", &[&pod])]);
    for (method, path, status) in [
        ("GET", "/function/fib", 200),
        ("POST", "/function/fib/a/b?c=d", 200),
        ("PUT", "/function/fib/", 200),
        ("DELETE", "/function/fib/x", 200),
        ("PATCH", "/function/fib/x", 200),
        ("HEAD", "/function/fib/x", 200),
        ("OPTIONS", "/function/fib/x", 200),
        ("TRACE", "/function/fib/x", 405),
        ("PROPFIND", "/function/fib/x", 405),
        ("GET", "/function/nobody", 404),
        ("GET", "/function/", 404),
        ("GET", "/function", 404),
        ("GET", "/function/FIB", 404),
        ("POST", "/wake-function/fib", 204),
        ("GET", "/wake-function/fib", 204),
        ("POST", "/wake-function/nobody", 404),
        ("DELETE", "/wake-function/fib", 405),
        ("POST", "/wake-functions", 204),
        ("GET", "/status-functions", 200),
        ("POST", "/status-functions", 405),
        ("GET", "/status-function/fib", 200),
        ("GET", "/status-function/nobody", 404),
        ("POST", "/publish-event/nothing", 404),
        ("GET", "/health", 200),
        ("GET", "/ready", 200),
        ("GET", "/metrics", 200),
        ("GET", "/", 404),
        ("GET", "/unknown", 404),
        ("GET", "/debug/store", 404),
        ("GET", "/internal/activity-events", 404),
    ] {
        let request = rig.request(method, path).body(Default::default()).unwrap();
        let answer = rig.send(request).await;
        assert_eq!(answer.status(), status, "{method} {path}: {}", text(&answer));
        assert!(header_of(&answer, "x-request-id").is_some(), "{method} {path}");
        assert_eq!(header_of(&answer, "ballast-error").is_some(), status >= 400, "{method} {path}");
    }
    assert_eq!(text(&rig.get("/health").await), "OK");
    let refused = rig.send(rig.request("TRACE", "/function/fib").body(Default::default()).unwrap()).await;
    assert_eq!(header_of(&refused, "allow"), Some("GET, POST, PUT, DELETE, PATCH, HEAD, OPTIONS"));
}

#[tokio::test]
async fn a_wake_is_a_sign_of_life() {
    let rig = Rig::new().await;
    rig.functions([function("one", &[]), function("two", &[])]);
    let mut changes = rig.activity.changes();
    rig.post("/wake-function/one", "").await;
    assert!(changes.has_changed().unwrap() && rig.activity.of("one").last.is_some());
    assert_eq!(rig.activity.of("two").last, None);
    rig.post("/wake-functions", "").await;
    assert!(changes.borrow_and_update().ge(&2) && rig.activity.of("two").last.is_some());
    assert_eq!(rig.activity.of("one").active, 0, "nobody waits for it");
}

#[tokio::test]
async fn a_call_lasts_as_long_as_its_answer() {
    let rig = Rig::new().await;
    let pod = Pod::echo("pod").await;
    rig.functions([function("fib", &[&pod])]);
    rig.get("/function/fib").await;
    until("the end of the call", || rig.activity.of("fib").active == 0).await;
    assert!(rig.activity.of("fib").last.is_some());
    assert_eq!(rig.metric("ballast_gateway_calls_total", "2xx"), 1.0);
    assert_eq!(rig.metric("ballast_gateway_call_duration_seconds_count", "fib"), 1.0);
}

#[tokio::test]
async fn what_the_program_mounts_is_served() {
    let serve = |answer: &'static str| -> gateway::Serve {
        Arc::new(move |request, peer| {
            let text = format!("{answer} {} {peer}", request.uri().path());
            Box::pin(async move { Response::new(Body::from(text)) })
        })
    };
    let mounts = vec![
        Mount { prefix: "/debug/".into(), serve: serve("debug") },
        // what the gateway serves itself cannot be taken over
        Mount { prefix: "/function/".into(), serve: serve("never") },
    ];
    let rig = Rig::with(visible(), Hooks { mounts, ..Hooks::default() }).await;
    rig.functions([]);
    assert_eq!(text(&rig.get("/debug/store").await), "debug /debug/store 127.0.0.1");
    assert_eq!(rig.get("/function/fib").await.status(), 404);
    assert_eq!(rig.get("/debugger").await.status(), 404);
}

#[tokio::test]
async fn pages_of_other_origins_may_call() {
    let rig = Rig::new().await;
    let pod = Pod::echo("pod").await;
    rig.functions([function("fib", &[&pod])]);
    let preflight = rig
        .request("OPTIONS", "/function/fib/x")
        .header("origin", "https://a.example")
        .header("access-control-request-method", "PUT")
        .header("access-control-request-headers", "x-a, x-b");
    let answer = rig.send(preflight.body(Default::default()).unwrap()).await;
    assert_eq!(answer.status(), 204);
    assert_eq!(header_of(&answer, "access-control-allow-origin"), Some("*"));
    assert_eq!(header_of(&answer, "access-control-allow-methods"), Some("PUT"));
    assert_eq!(header_of(&answer, "access-control-allow-headers"), Some("x-a, x-b"));
    assert_eq!(pod.calls(), 0);
    let call = rig.request("GET", "/function/fib/x").header("origin", "https://a.example");
    let answer = rig.send(call.body(Default::default()).unwrap()).await;
    assert_eq!(header_of(&answer, "access-control-allow-origin"), Some("*"));
    assert_eq!(header_of(&rig.get("/function/fib").await, "access-control-allow-origin"), None);

    let origins = vec!["https://a.example".parse().unwrap()];
    let options = Options { cors: gateway::Cors::Only(origins), ..Options::default() };
    let rig = Rig::with(options, Hooks::default()).await;
    for (origin, allowed) in [("https://a.example", Some("https://a.example")), ("https://b.example", None)] {
        let request = rig.request("GET", "/health").header("origin", origin);
        let answer = rig.send(request.body(Default::default()).unwrap()).await;
        assert_eq!(header_of(&answer, "access-control-allow-origin"), allowed);
        assert_eq!(header_of(&answer, "vary"), Some("origin"));
    }
}
