//! The operators' paths, and who is served them on the gateway's port.

use api::slimfaas::Visibility;
use gateway::{Hooks, OperatorPaths, Options};
use http::{Method, Uri};
use http_body_util::BodyExt as _;

use crate::support::*;

const PATHS: [&str; 9] = [
    "/async-function-dead/open",
    "/async-function-dead/open/1",
    "/status-functions",
    "/status-function/open",
    "/status-functions-stream",
    "/wake-functions",
    "/wake-function/open",
    "/metrics",
    "/debug/store",
];

async fn rig(operator_paths: OperatorPaths) -> Rig {
    let mount = gateway::Mount {
        prefix: "/debug/".into(),
        serve: std::sync::Arc::new(|_, _| {
            Box::pin(async { http::Response::new(gateway::Body::from("debug")) })
        }),
    };
    let hooks = Hooks { mounts: vec![mount], ..Hooks::default() };
    let rig = Rig::with(Options { operator_paths, ..Options::default() }, hooks).await;
    let secret = function_with("secret", &[], |settings| settings.visibility = Visibility::Private);
    rig.functions([function("open", &[]), secret]);
    rig
}

/// The head of the answer, and as much of the body as came with it.
async fn head(rig: &Rig, method: &str, path: &str, lines: &str) -> String {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let mut stream = rig.connect().await;
    stream.write_all(format!("{method} {path} HTTP/1.1\r\n{lines}\r\n").as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    while !answer.windows(4).any(|end| end == b"\r\n\r\n") {
        let mut buffer = [0; 4096];
        let n = patient("an answer", stream.read(&mut buffer)).await.unwrap();
        assert!(n > 0, "{path}: closed after {answer:?}");
        answer.extend_from_slice(&buffer[..n]);
    }
    String::from_utf8(answer).unwrap()
}

#[tokio::test]
async fn a_stranger_gets_none_of_them() {
    let rig = rig(OperatorPaths::Off).await;
    for path in PATHS {
        for method in ["GET", "POST", "DELETE"] {
            let answer = rig.send(rig.request(method, path).body(Default::default()).unwrap()).await;
            assert_eq!(answer.status(), 404, "{method} {path}: {}", text(&answer));
        }
    }
    assert_eq!(rig.activity.of("open").last, None, "and nothing was woken");
    assert_eq!(
        (rig.get("/health").await.status(), rig.get("/ready").await.status()),
        (http::StatusCode::OK, http::StatusCode::OK)
    );
}

#[tokio::test]
async fn on_loopback_no_page_from_elsewhere_gets_them() {
    let rig = rig(OperatorPaths::Loopback).await;
    let foreign = [
        "host: evil.example\r\n",
        "host: localhost\r\norigin: https://evil.example\r\n",
        "host: localhost\r\norigin: null\r\n",
        "host: localhost\r\nsec-fetch-site: cross-site\r\n",
    ];
    for path in PATHS {
        for lines in foreign {
            for method in ["GET", "POST", "DELETE"] {
                let answer = head(&rig, method, path, lines).await;
                assert!(answer.starts_with("HTTP/1.1 403 "), "{method} {path} {lines}: {answer}");
                assert!(!answer.contains("access-control-"), "{method} {path} {lines}: {answer}");
            }
        }
        let asked =
            "host: localhost\r\norigin: https://evil.example\r\naccess-control-request-method: POST\r\n";
        let preflight = head(&rig, "OPTIONS", path, asked).await;
        assert!(
            preflight.starts_with("HTTP/1.1 403 ") && !preflight.contains("access-control-"),
            "{preflight}"
        );
    }
    assert_eq!(rig.activity.of("open").last, None, "nothing was woken");
    for (path, status) in PATHS.into_iter().zip([200, 404, 200, 200, 200, 204, 204, 200, 200]) {
        let answer = head(&rig, "GET", path, "host: localhost:5000\r\n").await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{path}: {answer}");
    }
    // whoever sits at the machine sees all
    assert!(text(&rig.get("/status-functions").await).contains("secret"));
}

#[tokio::test]
async fn where_anybody_is_served_only_what_they_may_call_is_shown() {
    let rig = rig(OperatorPaths::Visible).await;
    let names = |answer: &Answer| -> Vec<String> {
        let all: Vec<serde_json::Value> = serde_json::from_slice(answer.body()).unwrap();
        all.iter().map(|one| one["Name"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(names(&rig.get("/status-functions").await), ["open"]);
    for path in ["/status-function/secret", "/async-function-dead/secret", "/wake-function/secret"] {
        assert_eq!(rig.get(path).await.status(), 404, "{path}");
    }
    let stream = head(&rig, "GET", "/status-functions-stream", "host: x\r\n").await;
    assert!(!stream.contains("secret"), "{stream}");
    assert_eq!(rig.get("/wake-functions").await.status(), 204);
    assert!(rig.activity.of("open").last.is_some() && rig.activity.of("secret").last.is_none());
    // what tells of all is for those who may see all
    for path in ["/metrics", "/debug/store"] {
        assert_eq!(rig.get(path).await.status(), 404, "{path}");
    }
    let secret = || function_with("secret", &[], |settings| settings.visibility = Visibility::Private);
    rig.snapshot([function("open", &[]), secret()], &["127.0.0.1"]);
    for path in ["/metrics", "/debug/store", "/status-function/secret"] {
        assert_eq!(rig.get(path).await.status(), 200, "{path}");
    }
    let page = rig.request("GET", "/status-functions").header("origin", "https://a.example");
    let answer = rig.send(page.body(Default::default()).unwrap()).await;
    assert_eq!(header_of(&answer, "access-control-allow-origin"), None);
}

#[tokio::test]
async fn the_operators_port_has_them_whatever_the_gateway_serves() {
    let rig = rig(OperatorPaths::Off).await;
    for (method, path, status) in [
        ("GET", "/status-functions", 200),
        ("GET", "/status-function/secret", 200),
        ("GET", "/async-function-dead/secret", 200),
        ("POST", "/wake-function/secret", 204),
        ("DELETE", "/wake-function/secret", 405),
        ("GET", "/health", 200),
    ] {
        let uri: Uri = path.parse().unwrap();
        let answer = rig.gateway.for_operator(&method.parse::<Method>().unwrap(), &uri).unwrap().await;
        assert_eq!(answer.status(), status, "{method} {path}");
        answer.into_body().collect().await.unwrap();
    }
    assert!(rig.activity.of("secret").last.is_some());
    for path in ["/function/open", "/async-function/open", "/publish-event/e", "/metrics", "/debug/store"] {
        assert!(rig.gateway.for_operator(&Method::GET, &path.parse().unwrap()).is_none(), "{path}");
    }
}
