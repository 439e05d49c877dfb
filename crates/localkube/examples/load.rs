//! Puts load on any API server and prints what it took, one JSON object:
//! `KUBECONFIG=… cargo run --release -p localkube --example load -- [OBJECTS] [CONCURRENCY] [WATCHERS]`.

#![allow(clippy::print_stdout, reason = "a program for the terminal")]

use std::time::{Duration, Instant};

use futures::{StreamExt, TryStreamExt, stream};
use http_body_util::BodyExt;
use k8s_openapi::api::core::v1::Namespace;
use kube::{
    Api, Client,
    api::{DeleteParams, PostParams},
    client::Body,
};
use serde_json::{Value, json};
use tokio::sync::mpsc;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

#[tokio::main]
async fn main() -> Result<()> {
    let mut args = std::env::args().skip(1).map(|arg| arg.parse::<usize>());
    let mut next = |otherwise| args.next().transpose().map(|given| given.unwrap_or(otherwise));
    let (objects, concurrency, watchers) = (next(10_000)?, next(64)?, next(1_000)?);
    let client = Client::try_default().await?;
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let namespace = format!("load-{}", std::process::id());
    let object: Namespace = serde_json::from_value(json!({"metadata": {"name": namespace}}))?;
    namespaces.create(&PostParams::default(), &object).await?;
    let path = format!("/api/v1/namespaces/{namespace}/configmaps");

    // Texts, not objects, here and below: the server is to be measured, not this client's parser.
    let started = Instant::now();
    stream::iter(0..objects)
        .map(|index| {
            let (client, path) = (&client, &path);
            async move {
                let labels = json!({"app": "load", "shard": (index % 10).to_string()});
                let data = json!({"key": "value", "index": index.to_string()});
                create(client, path, &format!("c{index:06}"), labels, data).await
            }
        })
        .buffer_unordered(concurrency)
        .try_collect::<Vec<()>>()
        .await?;
    let creates_per_second = objects as f64 / started.elapsed().as_secs_f64();

    let mut lists = Vec::new();
    for _ in 0..5 {
        let started = Instant::now();
        let text = client.request_text(http::Request::get(&path).body(Vec::new())?).await?;
        lists.push((started.elapsed(), text.len()));
    }
    lists.sort();
    let (list, list_bytes) = lists[lists.len() / 2];

    let fan_out = fan_out(&client, &path, watchers).await?;
    namespaces.delete(&namespace, &DeleteParams::default()).await?;
    let report = json!({
        "objects": objects,
        "creates_per_second": creates_per_second.round(),
        "list_ms": list.as_secs_f64() * 1e3,
        "list_bytes": list_bytes,
        "watchers": watchers,
        "event_to_all_watchers_ms": fan_out.as_secs_f64() * 1e3,
    });
    println!("{report:#}");
    Ok(())
}

async fn create(client: &Client, path: &str, name: &str, labels: Value, data: Value) -> Result<()> {
    let object = json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "labels": labels},
        "data": data,
    });
    let request = http::Request::post(path)
        .header(http::header::CONTENT_TYPE, "application/json")
        .body(object.to_string().into_bytes())?;
    client.request_text(request).await?;
    Ok(())
}

/// From before a write until the last watcher has seen it: the median of several writes.
async fn fan_out(client: &Client, path: &str, watchers: usize) -> Result<Duration> {
    const ROUNDS: usize = 9;
    let request = http::Request::get(format!("{path}?limit=1")).body(Vec::new())?;
    let list: Value = client.request(request).await?;
    let version = list["metadata"]["resourceVersion"].as_str().unwrap_or_default();
    let watch = format!("{path}?watch=1&timeoutSeconds=290&resourceVersion={version}");
    let (seen, mut arrivals) = mpsc::unbounded_channel();
    let (ready, mut readiness) = mpsc::unbounded_channel();
    for _ in 0..watchers {
        let request = http::Request::get(&watch).body(Body::empty())?;
        let (client, seen, ready) = (client.clone(), seen.clone(), ready.clone());
        tokio::spawn(async move {
            let Ok(response) = client.send(request).await else { return };
            let _ = ready.send(());
            let mut body = response.into_body();
            while let Some(Ok(frame)) = body.frame().await {
                let lines =
                    frame.data_ref().map_or(0, |data| data.iter().filter(|byte| **byte == b'\n').count());
                for _ in 0..lines {
                    let _ = seen.send(Instant::now());
                }
            }
        });
    }
    for _ in 0..watchers {
        readiness.recv().await.ok_or("a watcher did not start")?;
    }
    let mut rounds = Vec::new();
    for round in 0..ROUNDS {
        let started = Instant::now();
        create(client, path, &format!("event{round}"), json!({}), json!({})).await?;
        let mut last = started;
        for _ in 0..watchers {
            last = last.max(arrivals.recv().await.ok_or("a watcher did not see the event")?);
        }
        rounds.push(last - started);
    }
    rounds.sort();
    Ok(rounds[ROUNDS / 2])
}
