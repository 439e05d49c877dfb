//! `metrics.k8s.io`: what nodes and pods use, as their nodes report it.
//!
//! Nothing is asked of nodes until somebody asks here. The first question takes two samples a second apart, since CPU
//! use is a difference; from then on samples are taken in the background until nobody has asked for a while.

mod samples;

use serde_json::{Value, json};

pub use samples::Samples;
use samples::{Measured, Usage};

use crate::{
    ApiServer,
    error::{ApiError, Result, Subject},
    http::{Query, Response, Target, Verb, json as json_reply},
    object,
    registry::Kind,
    selectors::Filter,
    storage::{ReadAt, Record},
};

pub const GROUP: &str = "metrics.k8s.io";
pub const VERSION: &str = "v1beta1";
const API_VERSION: &str = "metrics.k8s.io/v1beta1";
const VERBS: [&str; 2] = ["get", "list"];
/// Resource, kind of its metrics, whether it lives in namespaces.
const RESOURCES: [(&str, &str, bool); 2] = [("nodes", "NodeMetrics", false), ("pods", "PodMetrics", true)];

pub async fn answer(server: &ApiServer, target: &Target, verb: Verb, query: &Query) -> Result<Response> {
    let known = RESOURCES.iter().find(|(resource, ..)| *resource == target.resource);
    let (Some((resource, metrics_kind, _)), VERSION) = (known, target.version.as_str()) else {
        return Err(ApiError::no_such_path());
    };
    if !matches!(verb, Verb::Get | Verb::List) {
        return Err(ApiError::method_unknown());
    }
    let registry = server.registry();
    let kind = registry.resource("", resource).ok_or_else(ApiError::no_such_path)?;
    let filter = Filter::parse(kind, query.get("labelSelector"), query.get("fieldSelector"))?;
    let records = match verb {
        Verb::Get => {
            let subject = Subject::new(GROUP, resource, metrics_kind);
            let key = kind.key(&target.namespace, &target.name);
            vec![
                server
                    .store()
                    .get(kind.table, &key)
                    .ok_or_else(|| ApiError::not_found(&subject, &target.name))?,
            ]
        }
        _ => {
            let prefix = kind.prefix(&target.namespace);
            server
                .store()
                .list(kind.table, &prefix, None, ReadAt::Latest, usize::MAX, |record| filter.matches(record))
                .map_err(|_| ApiError::internal("the present is always readable"))?
                .records
        }
    };
    let measured = server.metrics().measure(server).await;
    let items: Vec<Value> = records.iter().filter_map(|record| describe(record, kind, &measured)).collect();
    if verb == Verb::Get {
        let subject = Subject::new(GROUP, resource, metrics_kind);
        let item = items.into_iter().next().ok_or_else(|| ApiError::not_found(&subject, &target.name))?;
        return Ok(json_reply(200, &item));
    }
    let list = json!({"kind": format!("{metrics_kind}List"), "apiVersion": API_VERSION, "metadata": {}, "items": items});
    Ok(json_reply(200, &list))
}

/// The metrics of one node or pod, if there are any yet.
fn describe(record: &Record, kind: &Kind, measured: &Measured) -> Option<Value> {
    let labels: Value =
        record.labels.iter().map(|(key, value)| (key.to_string(), Value::from(&**value))).collect();
    let mut metadata =
        json!({"name": record.name(), "creationTimestamp": object::timestamp(jiff::Timestamp::now())});
    if !record.labels.is_empty() {
        metadata["labels"] = labels;
    }
    if !kind.namespaced {
        let node = measured.nodes.get(record.name())?;
        return Some(json!({
            "kind": "NodeMetrics",
            "apiVersion": API_VERSION,
            "metadata": metadata,
            "timestamp": object::timestamp(node.at),
            "window": window(node),
            "usage": usage(node),
        }));
    }
    metadata["namespace"] = record.namespace().into();
    let containers = measured.pods.get(&*record.key)?;
    let newest = containers.values().max_by_key(|usage| usage.at)?;
    let shown: Vec<Value> =
        containers.iter().map(|(name, one)| json!({"name": name, "usage": usage(one)})).collect();
    Some(json!({
        "kind": "PodMetrics",
        "apiVersion": API_VERSION,
        "metadata": metadata,
        "timestamp": object::timestamp(newest.at),
        "window": window(newest),
        "containers": shown,
    }))
}

/// Nanocores and kibibytes, as the metrics server writes them.
fn usage(usage: &Usage) -> Value {
    json!({"cpu": format!("{}n", (usage.cores * 1e9).round() as i64), "memory": format!("{}Ki", usage.bytes / 1024)})
}

fn window(usage: &Usage) -> String {
    format!("{:.3}s", usage.window.as_secs_f64())
}

pub fn resources() -> Vec<Value> {
    RESOURCES
        .iter()
        .map(|(name, kind, namespaced)| {
            json!({"name": name, "singularName": "", "namespaced": namespaced, "kind": kind, "verbs": VERBS})
        })
        .collect()
}

pub fn aggregated_resources() -> Vec<Value> {
    RESOURCES
        .iter()
        .map(|(name, kind, namespaced)| {
            json!({
                "resource": name,
                "responseKind": {"group": GROUP, "version": VERSION, "kind": kind},
                "scope": if *namespaced { "Namespaced" } else { "Cluster" },
                "singularResource": "",
                "verbs": VERBS,
            })
        })
        .collect()
}
