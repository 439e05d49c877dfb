//! Deployments, ReplicaSets, StatefulSets and DaemonSets: controllers of pods made from a template.

use serde_json::Value;

use super::{
    Checks, Errors, amount, at_most_100_percent, int_or_percent, invalid_each, non_negative, pod, selector,
    spec, status, volume,
};
use crate::{FieldError, Path, json, meta, names};

pub(crate) const DEPLOYMENT: Checks =
    Checks { object: deployment, change: selector_stays, status: deployment_status };
pub(crate) const REPLICA_SET: Checks =
    Checks { object: replica_set, change: selector_stays, status: replica_set_status };
pub(crate) const STATEFUL_SET: Checks =
    Checks { object: stateful_set, change: stateful_set_change, status: stateful_set_status };
pub(crate) const DAEMON_SET: Checks =
    Checks { object: daemon_set, change: selector_stays, status: |_, _, _| {} };

fn deployment(object: &Value, errors: &mut Errors) {
    let spec = spec(object);
    let path = Path::ROOT.child("spec");
    non_negative(spec, "replicas", &path, errors);
    selector_and_template(spec, "deployment", "ReplicaSet", &path, errors);
    strategy(spec.get("strategy").unwrap_or(&Value::Null), &path.child("strategy"), errors);
    for field in ["minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds"] {
        non_negative(spec, field, &path, errors);
    }
    if let Some(deadline) = json::int(spec, "progressDeadlineSeconds")
        && deadline <= json::int(spec, "minReadySeconds").unwrap_or(0)
    {
        let detail = "must be greater than minReadySeconds";
        errors.push(FieldError::invalid(path.child("progressDeadlineSeconds"), deadline, detail));
    }
}

fn strategy(strategy: &Value, path: &Path<'_>, errors: &mut Errors) {
    let rolling = json::some(strategy, "rollingUpdate");
    match json::text(strategy, "type") {
        "Recreate" => {
            if rolling.is_some() {
                let detail = "may not be specified when strategy `type` is 'Recreate'";
                errors.push(FieldError::forbidden(path.child("rollingUpdate"), detail));
            }
        }
        "RollingUpdate" => {
            let base = path.child("rollingUpdate");
            let Some(rolling) = rolling else {
                let detail = "this should be defaulted and never be nil";
                errors.push(FieldError::required(base, detail));
                return;
            };
            let (unavailable, surge) = (&rolling["maxUnavailable"], &rolling["maxSurge"]);
            let at = base.child("maxUnavailable");
            int_or_percent(unavailable, &at, errors);
            int_or_percent(surge, &base.child("maxSurge"), errors);
            if amount(unavailable) == 0 && amount(surge) == 0 {
                let detail = "may not be 0 when `maxSurge` is 0";
                errors.push(FieldError::invalid(at, unavailable.clone(), detail));
            }
            at_most_100_percent(unavailable, &at, errors);
        }
        _ => errors.push(FieldError::not_supported(path, strategy.clone(), &["Recreate", "RollingUpdate"])),
    }
}

fn replica_set(object: &Value, errors: &mut Errors) {
    let spec = spec(object);
    let path = Path::ROOT.child("spec");
    non_negative(spec, "replicas", &path, errors);
    non_negative(spec, "minReadySeconds", &path, errors);
    selector_and_template(spec, "deployment", "ReplicaSet", &path, errors);
}

fn daemon_set(object: &Value, errors: &mut Errors) {
    let spec = spec(object);
    let path = Path::ROOT.child("spec");
    selector_and_template(spec, "daemonset", "DaemonSet", &path, errors);
    non_negative(spec, "minReadySeconds", &path, errors);
    non_negative(spec, "revisionHistoryLimit", &path, errors);
    let strategy = spec.get("updateStrategy").unwrap_or(&Value::Null);
    let at = path.child("updateStrategy");
    match json::text(strategy, "type") {
        "OnDelete" => {}
        "RollingUpdate" => {
            let base = at.child("rollingUpdate");
            let rolling = strategy.get("rollingUpdate").unwrap_or(&Value::Null);
            for field in ["maxUnavailable", "maxSurge"] {
                int_or_percent(&rolling[field], &base.child(field), errors);
                at_most_100_percent(&rolling[field], &base.child(field), errors);
            }
            match (amount(&rolling["maxUnavailable"]), amount(&rolling["maxSurge"])) {
                (0, 0) => {
                    let detail = "cannot be 0 when maxSurge is 0";
                    errors.push(FieldError::required(base.child("maxUnavailable"), detail));
                }
                (0, _) | (_, 0) => {}
                _ => {
                    let detail = "may not be set when maxUnavailable is non-zero";
                    errors.push(FieldError::invalid(
                        base.child("maxSurge"),
                        rolling["maxSurge"].clone(),
                        detail,
                    ));
                }
            }
        }
        _ => errors.push(FieldError::not_supported(at, strategy.clone(), &["RollingUpdate", "OnDelete"])),
    }
}

fn stateful_set(object: &Value, errors: &mut Errors) {
    let spec = spec(object);
    let path = Path::ROOT.child("spec");
    let management = json::text(spec, "podManagementPolicy");
    if !matches!(management, "OrderedReady" | "Parallel") {
        let detail = "must be 'OrderedReady' or 'Parallel'";
        errors.push(FieldError::invalid(path.child("podManagementPolicy"), management, detail));
    }
    update_strategy(spec, &path, errors);
    let base = path.child("persistentVolumeClaimRetentionPolicy");
    for field in ["whenDeleted", "whenScaled"] {
        let policy = json::text(&spec["persistentVolumeClaimRetentionPolicy"], field);
        if !matches!(policy, "Retain" | "Delete") {
            errors.push(FieldError::not_supported(base.child(field), policy, &["Retain", "Delete"]));
        }
    }
    let base = path.child("volumeClaimTemplates");
    for (index, claim) in json::list(spec, "volumeClaimTemplates").iter().enumerate() {
        let at = base.index(index);
        volume::claim(self::spec(claim), &at.child("spec"), errors);
    }
    for field in ["replicas", "minReadySeconds"] {
        non_negative(spec, field, &path, errors);
    }
    let service = json::text(spec, "serviceName");
    if !service.is_empty() {
        invalid_each(names::dns1123_label(service), service, &path.child("serviceName"), errors);
    }
    // claims become volumes of the pods
    let mut templated = spec.clone();
    if let Some(volumes) = templated.pointer_mut("/template/spec").and_then(Value::as_object_mut) {
        let claims = json::list(spec, "volumeClaimTemplates");
        let name = |claim: &Value| json::text(&claim["metadata"], "name").to_owned();
        let list = volumes.entry("volumes").or_insert_with(|| Value::Array(Vec::new()));
        if let (Some(list), false) = (list.as_array_mut(), claims.is_empty()) {
            list.retain(|volume| !claims.iter().any(|claim| name(claim) == json::text(volume, "name")));
            list.extend(claims.iter().map(|claim| {
                serde_json::json!({ "name": name(claim), "persistentVolumeClaim": { "claimName": name(claim) } })
            }));
        }
    }
    selector_and_template(&templated, "statefulset", "StatefulSet", &path, errors);
}

fn update_strategy(spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    let strategy = spec.get("updateStrategy").unwrap_or(&Value::Null);
    let at = path.child("updateStrategy");
    let rolling = json::some(strategy, "rollingUpdate");
    match (json::text(strategy, "type"), rolling) {
        ("OnDelete", Some(rolling)) => {
            let detail = "only allowed for updateStrategy 'RollingUpdate'";
            errors.push(FieldError::invalid(at.child("rollingUpdate"), rolling.clone(), detail));
        }
        ("RollingUpdate", Some(rolling)) => {
            let base = at.child("rollingUpdate");
            non_negative(rolling, "partition", &base, errors);
            if let Some(unavailable) = json::some(rolling, "maxUnavailable") {
                let at = base.child("maxUnavailable");
                int_or_percent(unavailable, &at, errors);
                if amount(unavailable) == 0 {
                    errors.push(FieldError::invalid(at, unavailable.clone(), "cannot be 0"));
                }
                at_most_100_percent(unavailable, &at, errors);
            }
        }
        ("OnDelete" | "RollingUpdate", None) => {}
        ("", _) => errors.push(FieldError::required(at, "")),
        _ => errors.push(FieldError::invalid(at, strategy.clone(), "must be 'RollingUpdate' or 'OnDelete'")),
    }
}

/// What all of them have: a selector, and a template of pods that it selects and that run for ever.
fn selector_and_template(spec: &Value, word: &str, kind: &str, path: &Path<'_>, errors: &mut Errors) {
    let template = spec.get("template").unwrap_or(&Value::Null);
    let template_path = path.child("template");
    let selector_path = path.child("selector");
    let mismatch = || {
        let base = template_path.child("metadata");
        let labels = template["metadata"].get("labels").cloned().unwrap_or_default();
        FieldError::invalid(base.child("labels"), labels, "`selector` does not match template `labels`")
    };
    match json::some(spec, "selector") {
        // no selector selects nothing
        None => {
            if word != "daemonset" {
                errors.push(FieldError::required(selector_path, ""));
            }
            errors.push(mismatch());
        }
        Some(selector) => {
            selector::validate(selector, &selector_path, errors);
            if selector::is_empty(selector) {
                let detail = format!("empty selector is invalid for {word}");
                errors.push(FieldError::invalid(selector_path, selector.clone(), detail));
            } else if !selector::is_sound(selector) {
                // a DaemonSet's template is looked at all the same
                if word != "daemonset" {
                    let detail = if word == "statefulset" { "" } else { "invalid label selector" };
                    errors.push(FieldError::invalid(selector_path, selector.clone(), detail));
                    return;
                }
            } else if !selector::matches(selector, &template["metadata"]["labels"]) {
                errors.push(mismatch());
            }
        }
    }
    pod::template(template, &template_path, errors);
    let pod_path = template_path.child("spec");
    let policy = json::text(&template["spec"], "restartPolicy");
    if policy != "Always" {
        errors.push(FieldError::not_supported(pod_path.child("restartPolicy"), policy, &["Always"]));
    }
    if json::some(&template["spec"], "activeDeadlineSeconds").is_some() {
        let detail = format!("activeDeadlineSeconds in {kind} is not Supported");
        errors.push(FieldError::forbidden(pod_path.child("activeDeadlineSeconds"), detail));
    }
}

fn selector_stays(new: &Value, old: &Value, errors: &mut Errors) {
    meta::immutable(spec(new), spec(old), "selector", &Path::ROOT.child("spec"), errors);
}

fn stateful_set_change(new: &Value, old: &Value, errors: &mut Errors) {
    const MUTABLE: [&str; 7] = [
        "replicas",
        "template",
        "updateStrategy",
        "minReadySeconds",
        "ordinals",
        "revisionHistoryLimit",
        "persistentVolumeClaimRetentionPolicy",
    ];
    let fixed = |object: &Value| {
        let mut spec = spec(object).clone();
        if let Some(map) = spec.as_object_mut() {
            map.retain(|name, value| !MUTABLE.contains(&name.as_str()) && !value.is_null());
        }
        spec
    };
    if fixed(new) != fixed(old) {
        let detail = "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden";
        errors.push(FieldError::forbidden(Path::ROOT.child("spec"), detail));
    }
}

fn deployment_status(new: &Value, old: &Value, errors: &mut Errors) {
    let fields = [
        "observedGeneration",
        "replicas",
        "updatedReplicas",
        "readyReplicas",
        "availableReplicas",
        "unavailableReplicas",
        "terminatingReplicas",
        "collisionCount",
    ];
    counts(new, &fields, &["updatedReplicas", "readyReplicas", "availableReplicas"], "readyReplicas", errors);
    collisions(new, old, errors);
}

fn replica_set_status(new: &Value, _old: &Value, errors: &mut Errors) {
    let fields = [
        "replicas",
        "fullyLabeledReplicas",
        "readyReplicas",
        "availableReplicas",
        "observedGeneration",
        "terminatingReplicas",
    ];
    counts(
        new,
        &fields,
        &["fullyLabeledReplicas", "readyReplicas", "availableReplicas"],
        "readyReplicas",
        errors,
    );
}

fn stateful_set_status(new: &Value, old: &Value, errors: &mut Errors) {
    let fields = [
        "replicas",
        "readyReplicas",
        "currentReplicas",
        "updatedReplicas",
        "availableReplicas",
        "observedGeneration",
        "collisionCount",
    ];
    let parts = ["readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas"];
    counts(new, &fields, &parts, "status.readyReplicas", errors);
    collisions(new, old, errors);
}

/// Counts are not negative, parts are not more than the whole, and what is available is ready.
fn counts(object: &Value, fields: &[&str], parts: &[&str], ready_name: &str, errors: &mut Errors) {
    let status = status(object);
    let path = Path::ROOT.child("status");
    let count = |field: &str| json::int(status, field).unwrap_or(0);
    for field in fields {
        non_negative(status, field, &path, errors);
    }
    for part in parts.iter().filter(|part| count(part) > count("replicas")) {
        let detail = "cannot be greater than status.replicas";
        errors.push(FieldError::invalid(path.child(part), count(part), detail));
    }
    if count("availableReplicas") > count("readyReplicas") {
        let detail = format!("cannot be greater than {ready_name}");
        errors.push(FieldError::invalid(path.child("availableReplicas"), count("availableReplicas"), detail));
    }
}

fn collisions(new: &Value, old: &Value, errors: &mut Errors) {
    let count = |object: &Value| json::int(status(object), "collisionCount");
    if count(old).is_some() && count(new).unwrap_or(0) < count(old).unwrap_or(0) {
        let base = Path::ROOT.child("status");
        let detail = "cannot be decremented";
        errors.push(FieldError::invalid(base.child("collisionCount"), count(new).unwrap_or(0), detail));
    }
}
