use std::{
    net::Ipv4Addr,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU16, Ordering},
    },
};

use http_body_util::Empty;
use hyper::{server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use super::*;
use crate::{launch::Spec, process::Launcher};

fn target(container: Value) -> Target {
    Target {
        address: Ipv4Addr::LOCALHOST,
        container: serde_json::from_value(container).unwrap(),
        launcher: Launcher { command: Vec::new(), namespaces: false },
        spec: Spec::default(),
        scratch: PathBuf::new(),
    }
}

/// A server that answers with whatever status is set.
async fn server() -> (u16, Arc<AtomicU16>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let status = Arc::new(AtomicU16::new(200));
    let answer = Arc::clone(&status);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let answer = Arc::clone(&answer);
            let service = service_fn(move |request: ::http::Request<hyper::body::Incoming>| {
                let wanted = request.headers().get("x-probe").is_some_and(|v| v == "yes");
                let status = if wanted { answer.load(Ordering::SeqCst) } else { 400 };
                async move { ::http::Response::builder().status(status).body(Empty::<bytes::Bytes>::new()) }
            });
            tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
        }
    });
    (port, status)
}

#[test]
fn results_count_only_in_a_row() {
    let probe = |success, failure| Probe {
        success_threshold: Some(success),
        failure_threshold: Some(failure),
        ..Probe::default()
    };
    let check = |kind, probe: Probe, results: &str, expected: &str| {
        let mut tally = Tally::new(kind, &probe);
        let beliefs: String = results
            .chars()
            .map(|c| match tally.observe(c == '+') {
                Some(true) => 'Y',
                Some(false) => 'N',
                None => '.',
            })
            .collect();
        assert_eq!(beliefs, expected, "{kind:?} {results}");
    };
    check(Kind::Liveness, probe(1, 3), "+--+---", "......N");
    check(Kind::Readiness, probe(2, 2), "+-++--+", "...Y.N.");
    check(Kind::Readiness, probe(1, 1), "-+-+", ".YNY");
    check(Kind::Startup, probe(1, 3), "--+", "..Y");
    check(Kind::Startup, probe(1, 3), "---", "..N");
    check(Kind::Readiness, Probe::default(), "+--+---+", "Y.....NY");
    check(Kind::Readiness, probe(0, -4), "+---", "Y..N");
}

#[tokio::test]
async fn http_and_tcp() {
    let (port, status) = server().await;
    let target = target(json!({ "name": "c", "ports": [{ "name": "web", "containerPort": port }] }));
    let probe = async |probe: Value| {
        let probe: Probe = serde_json::from_value(probe).unwrap();
        target.perform(&Action::of_probe(&probe), Duration::from_secs(5)).await
    };
    let header = json!([{ "name": "X-Probe", "value": "yes" }]);
    let get = json!({ "httpGet": { "port": "web", "path": "/ok", "httpHeaders": header } });
    assert_eq!(probe(get.clone()).await, Outcome::Success);
    status.store(302, Ordering::SeqCst);
    assert_eq!(probe(get.clone()).await, Outcome::Success, "a redirect is an answer");
    status.store(503, Ordering::SeqCst);
    assert_eq!(probe(get).await, Outcome::Failure("HTTP probe failed with statuscode: 503".to_owned()));
    let no_header = json!({ "httpGet": { "port": port, "path": "ok" } });
    assert_eq!(probe(no_header).await, Outcome::Failure("HTTP probe failed with statuscode: 400".to_owned()));
    let https = probe(json!({ "httpGet": { "port": port, "scheme": "HTTPS" } })).await;
    assert!(matches!(https, Outcome::Failure(_)), "plain HTTP is no answer to TLS");
    assert_eq!(probe(json!({ "tcpSocket": { "port": port } })).await, Outcome::Success);
    let unknown = probe(json!({ "tcpSocket": { "port": "grpc" } })).await;
    assert_eq!(
        unknown,
        Outcome::Failure("couldn't find port \"grpc\" among the container's ports".to_owned())
    );
    let closed = probe(json!({ "tcpSocket": { "port": 1 } })).await;
    assert!(matches!(closed, Outcome::Failure(message) if message.starts_with("dial tcp 127.0.0.1:1: ")));
}

/// Startup comes first and alone; then the others report what they find.
#[tokio::test]
async fn the_order_of_probes() {
    let (port, status) = server().await;
    let probe = |failures: u32| {
        json!({ "periodSeconds": 1, "failureThreshold": failures,
                "httpGet": { "port": port, "httpHeaders": [{ "name": "X-Probe", "value": "yes" }] } })
    };
    status.store(500, Ordering::SeqCst);
    let target = target(json!({
        "name": "c", "startupProbe": probe(100), "livenessProbe": probe(1), "readinessProbe": probe(1),
    }));
    let container = target.container.clone();
    let (sender, mut reports) = mpsc::channel(1);
    let _running = tokio::spawn(async move { run(&container, &target, sender).await });

    let failed = |kind| Report::Failed { kind, message: "HTTP probe failed with statuscode: 500".to_owned() };
    assert_eq!(reports.recv().await, Some(failed(Kind::Startup)));
    status.store(200, Ordering::SeqCst);
    let mut next = reports.recv().await;
    while next == Some(failed(Kind::Startup)) {
        next = reports.recv().await;
    }
    assert_eq!(next, Some(Report::Became { kind: Kind::Startup, healthy: true }));
    assert_eq!(reports.recv().await, Some(Report::Became { kind: Kind::Readiness, healthy: true }));
    status.store(500, Ordering::SeqCst);
    let mut unhealthy = Vec::new();
    while unhealthy.len() < 2 {
        if let Some(Report::Became { kind, healthy: false }) = reports.recv().await {
            unhealthy.push(kind);
        }
    }
    assert!(unhealthy.contains(&Kind::Liveness) && unhealthy.contains(&Kind::Readiness));
}

/// Not a limit of speed: the probe's own turn would come after a day.
const STUCK: Duration = Duration::from_secs(300);

#[tokio::test]
async fn a_start_is_seen_before_the_next_turn_of_its_probe() {
    let (port, status) = server().await;
    status.store(500, Ordering::SeqCst);
    let target = target(json!({ "name": "c", "startupProbe": {
        "periodSeconds": 86400, "failureThreshold": 2,
        "httpGet": { "port": port, "httpHeaders": [{ "name": "X-Probe", "value": "yes" }] },
    } }));
    let container = target.container.clone();
    let (sender, mut reports) = mpsc::channel(1);
    let _running = tokio::spawn(async move { run(&container, &target, sender).await });
    assert!(matches!(reports.recv().await, Some(Report::Failed { kind: Kind::Startup, .. })));
    // several looks in between, none of which is a failure
    let quiet = tokio::time::timeout(PEEK * 5, reports.recv()).await;
    assert!(quiet.is_err(), "{quiet:?}");
    status.store(200, Ordering::SeqCst);
    let next = tokio::time::timeout(STUCK, reports.recv()).await;
    assert_eq!(next, Ok(Some(Report::Became { kind: Kind::Startup, healthy: true })));
}

#[test]
fn grpc_is_refused_by_name() {
    let container = target(json!({ "name": "c", "livenessProbe": { "grpc": { "port": 1 } } })).container;
    let reason = unsupported(&container).unwrap();
    assert!(reason.contains("liveness probe of container \"c\" is a grpc probe"), "{reason}");
}
