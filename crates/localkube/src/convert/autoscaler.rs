//! HorizontalPodAutoscalers in `autoscaling/v1`: a CPU target in `spec`, everything else as JSON in annotations.

use serde_json::{Map, Value, json};

use crate::object;

const METRICS: &str = "autoscaling.alpha.kubernetes.io/metrics";
const BEHAVIOR: &str = "autoscaling.alpha.kubernetes.io/behavior";
const CURRENT_METRICS: &str = "autoscaling.alpha.kubernetes.io/current-metrics";
const CONDITIONS: &str = "autoscaling.alpha.kubernetes.io/conditions";

pub fn to_v1(autoscaler: &mut Value) {
    let mut annotations = Map::new();
    let mut note = |key: &str, value: Value| annotations.insert(key.to_owned(), value.to_string().into());

    if let Some(Value::Array(metrics)) = object::remove(autoscaler, &["spec", "metrics"]) {
        let (cpu, others): (Vec<_>, Vec<_>) = metrics.into_iter().partition(is_cpu_utilization);
        if let Some(cpu) = cpu.first() {
            autoscaler["spec"]["targetCPUUtilizationPercentage"] =
                cpu["resource"]["target"]["averageUtilization"].clone();
        }
        if !others.is_empty() {
            note(METRICS, others.iter().map(spec_to_v1).collect());
        }
    }
    if let Some(behavior) = object::remove(autoscaler, &["spec", "behavior"]) {
        note(BEHAVIOR, behavior);
    }
    if let Some(conditions) = object::remove(autoscaler, &["status", "conditions"])
        && conditions.as_array().is_some_and(|list| !list.is_empty())
    {
        note(CONDITIONS, conditions);
    }
    if let Some(Value::Array(metrics)) = object::remove(autoscaler, &["status", "currentMetrics"]) {
        let cpu =
            metrics.iter().find(|metric| metric["type"] == "Resource" && metric["resource"]["name"] == "cpu");
        if let Some(used) = cpu.and_then(|cpu| cpu["resource"]["current"].get("averageUtilization")) {
            autoscaler["status"]["currentCPUUtilizationPercentage"] = used.clone();
        }
        if !metrics.is_empty() {
            note(CURRENT_METRICS, metrics.iter().map(status_to_v1).collect());
        }
    }
    if !annotations.is_empty() {
        object::map_at(autoscaler, &["metadata", "annotations"]).extend(annotations);
    }
}

pub fn from_v1(autoscaler: &mut Value) {
    let mut take = |key: &str| -> Option<Value> {
        let value = object::remove(autoscaler, &["metadata", "annotations", key])?;
        serde_json::from_str(value.as_str()?).ok()
    };
    let (metrics, behavior) = (take(METRICS), take(BEHAVIOR));
    let (current, conditions) = (take(CURRENT_METRICS), take(CONDITIONS));

    let mut all: Vec<Value> =
        metrics.iter().filter_map(Value::as_array).flatten().map(spec_from_v1).collect();
    if let Some(target) = object::remove(autoscaler, &["spec", "targetCPUUtilizationPercentage"])
        && !target.is_null()
    {
        let target = json!({"type": "Utilization", "averageUtilization": target});
        all.push(json!({"type": "Resource", "resource": {"name": "cpu", "target": target}}));
    }
    if !all.is_empty() {
        autoscaler["spec"]["metrics"] = all.into();
    }
    if let Some(behavior) = behavior {
        autoscaler["spec"]["behavior"] = behavior;
    }
    object::remove(autoscaler, &["status", "currentCPUUtilizationPercentage"]);
    if let Some(Value::Array(current)) = current {
        autoscaler["status"]["currentMetrics"] = current.iter().map(status_from_v1).collect();
    }
    if let Some(conditions) = conditions {
        autoscaler["status"]["conditions"] = conditions;
    }
    object::tidy_metadata(autoscaler);
}

fn is_cpu_utilization(metric: &Value) -> bool {
    metric["type"] == "Resource"
        && metric["resource"]["name"] == "cpu"
        && metric["resource"]["target"].get("averageUtilization").is_some()
}

/// v1 spreads what v2 nests: `{metric: {name, selector}, target: {…}}` is `{metricName, metricSelector, target…}`.
/// Columns: name of the source in both, name of the selector in v1, and (v2 target field, v1 field) pairs.
type Flat = (&'static str, &'static str, &'static [(&'static str, &'static str)]);

const SPECS: &[Flat] = &[
    (
        "resource",
        "",
        &[("averageUtilization", "targetAverageUtilization"), ("averageValue", "targetAverageValue")],
    ),
    (
        "containerResource",
        "",
        &[("averageUtilization", "targetAverageUtilization"), ("averageValue", "targetAverageValue")],
    ),
    ("pods", "selector", &[("averageValue", "targetAverageValue")]),
    ("object", "selector", &[("value", "targetValue"), ("averageValue", "averageValue")]),
    ("external", "metricSelector", &[("value", "targetValue"), ("averageValue", "targetAverageValue")]),
];

const STATUSES: &[Flat] = &[
    (
        "resource",
        "",
        &[("averageUtilization", "currentAverageUtilization"), ("averageValue", "currentAverageValue")],
    ),
    (
        "containerResource",
        "",
        &[("averageUtilization", "currentAverageUtilization"), ("averageValue", "currentAverageValue")],
    ),
    ("pods", "selector", &[("averageValue", "currentAverageValue")]),
    ("object", "selector", &[("value", "currentValue"), ("averageValue", "averageValue")]),
    ("external", "metricSelector", &[("value", "currentValue"), ("averageValue", "currentAverageValue")]),
];

fn spec_to_v1(metric: &Value) -> Value {
    flatten(metric, SPECS, "target")
}

fn spec_from_v1(metric: &Value) -> Value {
    nest(metric, SPECS, "target")
}

fn status_to_v1(metric: &Value) -> Value {
    flatten(metric, STATUSES, "current")
}

fn status_from_v1(metric: &Value) -> Value {
    nest(metric, STATUSES, "current")
}

fn flatten(metric: &Value, shapes: &[Flat], values: &str) -> Value {
    let mut flat = json!({"type": metric["type"]});
    for (source, selector, fields) in shapes {
        let Some(nested) = metric.get(source) else { continue };
        let mut out = Map::new();
        for key in ["name", "container"] {
            if let Some(value) = nested.get(key) {
                out.insert(key.to_owned(), value.clone());
            }
        }
        if let Some(target) = nested.get("describedObject") {
            out.insert("target".to_owned(), target.clone());
        }
        if let Some(name) = nested["metric"].get("name") {
            out.insert("metricName".to_owned(), name.clone());
        }
        if let Some(labels) = nested["metric"].get("selector") {
            out.insert((*selector).to_owned(), labels.clone());
        }
        for (from, to) in *fields {
            if let Some(value) = nested[values].get(from) {
                out.insert((*to).to_owned(), value.clone());
            }
        }
        flat[*source] = out.into();
    }
    flat
}

fn nest(metric: &Value, shapes: &[Flat], values: &str) -> Value {
    let mut nested = json!({"type": metric["type"]});
    for (source, selector, fields) in shapes {
        let Some(flat) = metric.get(source) else { continue };
        let mut out = json!({});
        for key in ["name", "container"] {
            if let Some(value) = flat.get(key) {
                out[key] = value.clone();
            }
        }
        if let Some(target) = flat.get("target") {
            out["describedObject"] = target.clone();
        }
        if let Some(name) = flat.get("metricName") {
            out["metric"]["name"] = name.clone();
        }
        if let Some(labels) = flat.get(selector) {
            out["metric"]["selector"] = labels.clone();
        }
        for (to, from) in *fields {
            if let Some(value) = flat.get(from) {
                out[values][*to] = value.clone();
                if values == "target" {
                    out[values]["type"] = match *to {
                        "averageUtilization" => "Utilization",
                        "averageValue" => "AverageValue",
                        _ => "Value",
                    }
                    .into();
                }
            }
        }
        nested[*source] = out;
    }
    nested
}
