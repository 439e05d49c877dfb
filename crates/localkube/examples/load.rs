//! Puts load on any API server and prints what it took, one JSON object:
//! `KUBECONFIG=… cargo run --release -p localkube --example load -- [OBJECTS] [CONCURRENCY] [WATCHERS]`.

#![allow(clippy::print_stdout, reason = "a program for the terminal")]

use std::time::{Duration, Instant};

use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::{
    Api, Client,
    api::{DeleteParams, ListParams, PostParams, WatchEvent, WatchParams},
};
use serde_json::json;
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
    let configs: Api<ConfigMap> = Api::namespaced(client.clone(), &namespace);

    let started = Instant::now();
    stream::iter(0..objects)
        .map(|index| {
            let configs = &configs;
            async move {
                let labels = json!({"app": "load", "shard": (index % 10).to_string()});
                let data = json!({"key": "value", "index": index.to_string()});
                let object =
                    json!({"metadata": {"name": format!("c{index:06}"), "labels": labels}, "data": data});
                let object: ConfigMap = serde_json::from_value(object)?;
                configs.create(&PostParams::default(), &object).await?;
                Ok::<_, Box<dyn std::error::Error + Send + Sync>>(())
            }
        })
        .buffer_unordered(concurrency)
        .try_collect::<Vec<()>>()
        .await?;
    let creates_per_second = objects as f64 / started.elapsed().as_secs_f64();

    // The text, not objects: the server is to be measured, not this client's parser.
    let path = format!("/api/v1/namespaces/{namespace}/configmaps");
    let mut lists = Vec::new();
    for _ in 0..5 {
        let started = Instant::now();
        let text = client.request_text(http::Request::get(&path).body(Vec::new())?).await?;
        lists.push((started.elapsed(), text.len()));
    }
    lists.sort();
    let (list, list_bytes) = lists[lists.len() / 2];

    let fan_out = fan_out(&configs, watchers).await?;
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

/// From before a write until the last watcher has seen it.
async fn fan_out(configs: &Api<ConfigMap>, watchers: usize) -> Result<Duration> {
    let version =
        configs.list(&ListParams::default().limit(1)).await?.metadata.resource_version.unwrap_or_default();
    let (seen, mut arrivals) = mpsc::unbounded_channel();
    let (ready, mut readiness) = mpsc::unbounded_channel();
    for _ in 0..watchers {
        let (configs, version, seen, ready) = (configs.clone(), version.clone(), seen.clone(), ready.clone());
        tokio::spawn(async move {
            let Ok(events) = configs.watch(&WatchParams::default().timeout(290), &version).await else {
                return;
            };
            let mut events = events.boxed();
            let _ = ready.send(());
            while let Some(Ok(event)) = events.next().await {
                if matches!(event, WatchEvent::Added(_)) {
                    let _ = seen.send(Instant::now());
                    return;
                }
            }
        });
    }
    for _ in 0..watchers {
        readiness.recv().await.ok_or("a watcher did not start")?;
    }
    let object: ConfigMap = serde_json::from_value(json!({"metadata": {"name": "event"}}))?;
    let configs: Api<ConfigMap> = configs.clone();
    let started = Instant::now();
    configs.create(&PostParams::default(), &object).await?;
    let mut last = started;
    for _ in 0..watchers {
        last = last.max(arrivals.recv().await.ok_or("a watcher did not see the event")?);
    }
    Ok(last - started)
}
