//! What the server asks of nodes: logs and metrics, from a kubelet that is made up.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::{
    convert::Infallible,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use http::{Request, Response};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper_util::rt::TokioIo;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::{
    Api, Client,
    api::{LogParams, PostParams},
};
use localkube::{ApiServer, Options};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

/// Each time it is asked, half a second of CPU more was used within a second.
fn metrics(samples: &AtomicU64) -> String {
    let sample = samples.fetch_add(1, Ordering::Relaxed);
    let (cpu, millis) = (sample as f64 * 0.5, sample * 1000 + 1);
    format!(
        "container_cpu_usage_seconds_total{{container=\"c\",namespace=\"default\",pod=\"p\"}} {cpu} {millis}\n\
         container_memory_working_set_bytes{{container=\"c\",namespace=\"default\",pod=\"p\"}} 1048576 {millis}\n\
         node_cpu_usage_seconds_total {cpu} {millis}\nnode_memory_working_set_bytes 4194304 {millis}\n"
    )
}

fn answer(request: &Request<Incoming>, samples: &AtomicU64) -> Response<Full<Bytes>> {
    let text = match request.uri().path() {
        "/metrics/resource" => metrics(samples),
        path => format!("{path}?{}\n", request.uri().query().unwrap_or_default()),
    };
    Response::new(Full::new(Bytes::from(text)))
}

/// Answers on a port of its own, with a certificate that nobody signed.
async fn kubelet() -> u16 {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let key = rustls::pki_types::PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
    let config =
        rustls::ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![made.cert.der().clone()], key)
            .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let socket = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = socket.local_addr().unwrap().port();
    let samples = Arc::new(AtomicU64::new(0));
    tokio::spawn(async move {
        while let Ok((stream, _)) = socket.accept().await {
            let (acceptor, samples) = (acceptor.clone(), samples.clone());
            tokio::spawn(async move {
                let stream = acceptor.accept(stream).await.unwrap();
                let service = hyper::service::service_fn(|request| {
                    let response = answer(&request, &samples);
                    async move { Ok::<_, Infallible>(response) }
                });
                let _ = hyper::server::conn::http1::Builder::new()
                    .serve_connection(TokioIo::new(stream), service)
                    .await;
            });
        }
    });
    port
}

async fn get(client: &Client, path: &str) -> Value {
    client.request(Request::get(path).body(Vec::new()).unwrap()).await.unwrap()
}

#[tokio::test]
async fn logs_and_metrics_come_from_the_node() {
    let port = kubelet().await;
    let client = ApiServer::open(Options::default()).await.unwrap().client("default");
    let node: Node = serde_json::from_value(json!({
        "metadata": {"name": "n"},
        "status": {
            "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
        },
    }))
    .unwrap();
    Api::all(client.clone()).create(&PostParams::default(), &node).await.unwrap();
    let pod: Pod = serde_json::from_value(json!({
        "metadata": {"name": "p", "labels": {"app": "p"}},
        "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "i"}, {"name": "d", "image": "i"}]},
    }))
    .unwrap();
    let pods: Api<Pod> = Api::default_namespaced(client.clone());
    pods.create(&PostParams::default(), &pod).await.unwrap();

    let params = LogParams { container: Some("c".to_owned()), tail_lines: Some(3), ..LogParams::default() };
    assert_eq!(pods.logs("p", &params).await.unwrap(), "/containerLogs/default/p/c?tailLines=3\n");
    let unclear = pods.logs("p", &LogParams::default()).await.unwrap_err().to_string();
    assert!(
        unclear.contains("a container name must be specified for pod p, choose one of: [c d]"),
        "{unclear}"
    );

    let nodes = get(&client, "/apis/metrics.k8s.io/v1beta1/nodes").await;
    assert_eq!(nodes["items"][0]["usage"], json!({"cpu": "500000000n", "memory": "4096Ki"}));
    let list = "/apis/metrics.k8s.io/v1beta1/namespaces/default/pods?labelSelector=app%3Dp";
    let pods = get(&client, list).await;
    let containers = json!([{"name": "c", "usage": {"cpu": "500000000n", "memory": "1024Ki"}}]);
    assert_eq!(pods["items"][0]["containers"], containers);
    assert_eq!(get(&client, &list.replace("Dp", "Dother")).await["items"], json!([]));
}
