//! Autoscalers, scales and disruption budgets.

use serde_json::Value;

use super::{
    Checks, Errors, at_most_100_percent, int_or_percent, invalid_each, non_negative, selector, spec, status,
};
use crate::{FieldError, Path, Quantity, json, names};

pub(crate) const HPA_V1: Checks = Checks { object: hpa_v1, change: |_, _, _| {}, status: hpa_status };
pub(crate) const HPA_V2: Checks = Checks { object: hpa_v2, change: |_, _, _| {}, status: hpa_status };
pub(crate) const SCALE: Checks = Checks { object: scale, ..super::NONE };
pub(crate) const PDB: Checks = Checks { object: budget, change: |_, _, _| {}, status: budget_status };

const SOURCES: [(&str, &str); 5] = [
    ("ContainerResource", "containerResource"),
    ("External", "external"),
    ("Object", "object"),
    ("Pods", "pods"),
    ("Resource", "resource"),
];

fn scale(object: &Value, errors: &mut Errors) {
    non_negative(spec(object), "replicas", &Path::ROOT.child("spec"), errors);
}

fn hpa_v1(object: &Value, errors: &mut Errors) {
    let path = Path::ROOT.child("spec");
    bounds(object, &path, errors);
    // stored and checked as a metric of version 2
    if let Some(percent) = json::int(spec(object), "targetCPUUtilizationPercentage").filter(|p| *p < 1) {
        let base = path.child("metrics");
        let base = base.index(0);
        let base = base.child("resource");
        let base = base.child("target");
        let detail = "must be greater than 0";
        errors.push(FieldError::invalid(base.child("averageUtilization"), percent, detail));
    }
}

fn hpa_v2(object: &Value, errors: &mut Errors) {
    let path = Path::ROOT.child("spec");
    bounds(object, &path, errors);
    let spec = spec(object);
    let metrics = json::list(spec, "metrics");
    let base = path.child("metrics");
    for (index, item) in metrics.iter().enumerate() {
        metric(item, &base.index(index), errors);
    }
    let outside = |metric: &Value| matches!(json::text(metric, "type"), "Object" | "External");
    if json::int(spec, "minReplicas") == Some(0) && !metrics.iter().any(outside) {
        let detail =
            "must specify at least one Object or External metric to support scaling to zero replicas";
        errors.push(FieldError::forbidden(base, detail));
    }
    let behavior_path = path.child("behavior");
    for direction in ["scaleUp", "scaleDown"] {
        if let Some(rules) = spec.get("behavior").and_then(|behavior| json::some(behavior, direction)) {
            scaling_rules(rules, &behavior_path.child(direction), errors);
        }
    }
}

fn bounds(object: &Value, path: &Path<'_>, errors: &mut Errors) {
    let spec = spec(object);
    let (min, max) = (json::int(spec, "minReplicas"), json::int(spec, "maxReplicas").unwrap_or(0));
    if let Some(min) = min.filter(|min| *min < MIN_REPLICAS) {
        let detail = format!("must be greater than or equal to {MIN_REPLICAS}");
        errors.push(FieldError::invalid(path.child("minReplicas"), min, detail));
    }
    let at = path.child("maxReplicas");
    if max == 0 {
        errors.push(FieldError::required(at, "must be set and greater than 0"));
    } else if max < 0 {
        errors.push(FieldError::invalid(at, max, "must be greater than or equal to 1"));
    }
    if min.is_some_and(|min| max < min) {
        errors.push(FieldError::invalid(at, max, "must be greater than or equal to `minReplicas`"));
    }
    let target = spec.get("scaleTargetRef").unwrap_or(&Value::Null);
    let at = path.child("scaleTargetRef");
    reference(target, &at, errors);
    let version = json::text(target, "apiVersion");
    if !version.contains('/') {
        let detail = "apiVersion must specify API group";
        errors.push(FieldError::invalid(at.child("apiVersion"), version, detail));
    }
}

/// Scaling to zero by an HPA is not switched on.
const MIN_REPLICAS: i64 = 1;

fn reference(reference: &Value, path: &Path<'_>, errors: &mut Errors) {
    for field in ["kind", "name"] {
        let text = json::text(reference, field);
        if text.is_empty() {
            errors.push(FieldError::required(path.child(field), ""));
        } else {
            invalid_each(names::path_segment(text, false), text, &path.child(field), errors);
        }
    }
    let version = json::text(reference, "apiVersion");
    if version.matches('/').count() > 1 {
        let detail = format!("unexpected GroupVersion string: {version}");
        errors.push(FieldError::invalid(path.child("apiVersion"), version, detail));
    }
}

fn metric(metric: &Value, path: &Path<'_>, errors: &mut Errors) {
    let kind = json::text(metric, "type");
    let known: Vec<&str> = SOURCES.iter().map(|(kind, _)| *kind).collect();
    let at = path.child("type");
    if kind.is_empty() {
        errors.push(FieldError::required(at, "must specify a metric source type"));
    }
    if !known.contains(&kind) {
        errors.push(FieldError::not_supported(at, kind, &known));
    }
    let order = ["object", "external", "pods", "resource", "containerResource"];
    let present: Vec<&str> = order.into_iter().filter(|field| json::some(metric, field).is_some()).collect();
    if let Some(field) = present.first() {
        source(&metric[*field], field, &path.child(field), errors);
    }
    let expected = SOURCES.iter().find(|(known, _)| *known == kind).map(|(_, field)| *field);
    match expected {
        Some(field) if !present.contains(&field) => {
            let detail = "must populate information for the given metric source";
            errors.push(FieldError::required(path.child(field), detail));
        }
        Some(_) => {}
        None => errors.push(FieldError::not_supported(at, kind, &known)),
    }
    if present.len() != 1 {
        for field in present.into_iter().filter(|field| Some(*field) != expected) {
            let detail = "must populate the given metric source only";
            errors.push(FieldError::forbidden(path.child(field), detail));
        }
    }
}

fn source(source: &Value, field: &str, path: &Path<'_>, errors: &mut Errors) {
    let target_path = path.child("target");
    let wanted = source.get("target").unwrap_or(&Value::Null);
    let set = |field: &str| json::some(wanted, field).is_some();
    match field {
        "object" => {
            let described = source.get("describedObject").unwrap_or(&Value::Null);
            reference(described, &path.child("describedObject"), errors);
            identifier(source, path, errors);
        }
        "external" | "pods" => identifier(source, path, errors),
        _ => {
            if json::text(source, "name").is_empty() {
                errors.push(FieldError::required(path.child("name"), "must specify a resource name"));
            }
            if field == "containerResource" {
                let name = json::text(source, "container");
                let at = path.child("container");
                if name.is_empty() {
                    errors.push(FieldError::required(at, "must specify a container"));
                } else {
                    invalid_each(names::dns1123_label(name), name, &at, errors);
                }
            }
        }
    }
    target(wanted, &target_path, errors);
    match field {
        "object" if !set("value") && !set("averageValue") => {
            let detail = "must set either a target value or averageValue";
            errors.push(FieldError::required(target_path.child("averageValue"), detail));
        }
        "external" => {
            if !set("value") && !set("averageValue") {
                let detail = "must set either a target value for metric or a per-pod target";
                errors.push(FieldError::required(target_path.child("averageValue"), detail));
            }
            if set("value") && set("averageValue") {
                let detail = "may not set both a target value for metric and a per-pod target";
                errors.push(FieldError::forbidden(target_path.child("value"), detail));
            }
        }
        "pods" if !set("averageValue") => {
            let detail = "must specify a positive target averageValue";
            errors.push(FieldError::required(target_path.child("averageValue"), detail));
        }
        "resource" | "containerResource" => {
            if !set("averageUtilization") && !set("averageValue") {
                let detail = "must set either a target raw value or a target utilization";
                errors.push(FieldError::required(target_path.child("averageUtilization"), detail));
            }
            if set("averageUtilization") && set("averageValue") {
                let detail = "may not set both a target raw value and a target utilization";
                errors.push(FieldError::forbidden(target_path.child("averageValue"), detail));
            }
        }
        _ => {}
    }
}

fn identifier(source: &Value, path: &Path<'_>, errors: &mut Errors) {
    let name = json::text(&source["metric"], "name");
    let base = path.child("metric");
    let at = base.child("name");
    if name.is_empty() {
        errors.push(FieldError::required(at, "must specify a metric name"));
    } else {
        invalid_each(names::path_segment(name, false), name, &at, errors);
    }
}

fn target(target: &Value, path: &Path<'_>, errors: &mut Errors) {
    let kind = json::text(target, "type");
    let at = path.child("type");
    if kind.is_empty() {
        errors.push(FieldError::required(at, "must specify a metric target type"));
    }
    if !matches!(kind, "Utilization" | "Value" | "AverageValue") {
        let detail = "must be either Utilization, Value, or AverageValue";
        errors.push(FieldError::invalid(at, kind, detail));
    }
    for field in ["value", "averageValue"] {
        let Some(value) = json::some(target, field) else { continue };
        let positive = value
            .as_str()
            .and_then(|text| Quantity::parse(text).ok())
            .is_some_and(|amount| !amount.is_zero() && !amount.is_negative());
        if !positive {
            errors.push(FieldError::invalid(path.child(field), value.clone(), "must be positive"));
        }
    }
    if let Some(percent) = json::int(target, "averageUtilization").filter(|percent| *percent < 1) {
        errors.push(FieldError::invalid(path.child("averageUtilization"), percent, "must be greater than 0"));
    }
}

fn scaling_rules(rules: &Value, path: &Path<'_>, errors: &mut Errors) {
    if let Some(window) = json::int(rules, "stabilizationWindowSeconds") {
        let at = path.child("stabilizationWindowSeconds");
        if window < 0 {
            errors.push(FieldError::invalid(at, window, "must be greater than or equal to zero"));
        } else if window > 3600 {
            errors.push(FieldError::invalid(at, window, "must be less than or equal to 3600"));
        }
    }
    let select = json::text(rules, "selectPolicy");
    if !select.is_empty() && !matches!(select, "Disabled" | "Max" | "Min") {
        let at = path.child("selectPolicy");
        errors.push(FieldError::not_supported(at, select, &["Disabled", "Max", "Min"]));
    }
    let policies = json::list(rules, "policies");
    let base = path.child("policies");
    if policies.is_empty() {
        errors.push(FieldError::required(base, "must specify at least one Policy"));
    }
    for (index, policy) in policies.iter().enumerate() {
        let at = base.index(index);
        let kind = json::text(policy, "type");
        if !matches!(kind, "Pods" | "Percent") {
            errors.push(FieldError::not_supported(at.child("type"), kind, &["Percent", "Pods"]));
        }
        for field in ["value", "periodSeconds"] {
            let number = json::int(policy, field).unwrap_or(0);
            if number <= 0 {
                errors.push(FieldError::invalid(at.child(field), number, "must be greater than zero"));
            } else if field == "periodSeconds" && number > 1800 {
                errors.push(FieldError::invalid(
                    at.child(field),
                    number,
                    "must be less than or equal to 1800",
                ));
            }
        }
    }
}

fn hpa_status(new: &Value, _old: &Value, errors: &mut Errors) {
    for field in ["currentReplicas", "desiredReplicas"] {
        non_negative(status(new), field, &Path::ROOT.child("status"), errors);
    }
}

fn budget(object: &Value, errors: &mut Errors) {
    let spec = spec(object);
    let path = Path::ROOT.child("spec");
    let fields = ["minAvailable", "maxUnavailable"];
    if fields.iter().all(|field| json::some(spec, field).is_some()) {
        let detail = "minAvailable and maxUnavailable cannot be both set";
        errors.push(FieldError::invalid(path, spec.clone(), detail));
    }
    for field in fields {
        if let Some(value) = json::some(spec, field) {
            let at = path.child(field);
            int_or_percent(value, &at, errors);
            at_most_100_percent(value, &at, errors);
        }
    }
    if let Some(labels) = json::some(spec, "selector") {
        selector::validate(labels, &path.child("selector"), errors);
    }
    let policy = json::text(spec, "unhealthyPodEvictionPolicy");
    if !policy.is_empty() && !matches!(policy, "AlwaysAllow" | "IfHealthyBudget") {
        let at = path.child("unhealthyPodEvictionPolicy");
        errors.push(FieldError::not_supported(at, policy, &["AlwaysAllow", "IfHealthyBudget"]));
    }
}

fn budget_status(new: &Value, _old: &Value, errors: &mut Errors) {
    for field in ["disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"] {
        non_negative(status(new), field, &Path::ROOT.child("status"), errors);
    }
}
