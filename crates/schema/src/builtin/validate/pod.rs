//! Pods and templates of pods.

use std::collections::HashSet;

use serde_json::{Value, json};

use super::{Checks, Errors, container, invalid_each, one_of, scheduling, spec, volume};
use crate::{FieldError, Path, json, meta, names};

pub(crate) const POD: Checks = Checks { object: pod, change, status: |_, _, _| {} };

fn pod(object: &Value, errors: &mut Errors) {
    pod_spec(spec(object), &Path::ROOT.child("spec"), errors);
}

/// A template's own metadata may be nameless; its labels are checked at the place where the API reports them.
pub(super) fn template(template: &Value, path: &Path<'_>, errors: &mut Errors) {
    let metadata = template.get("metadata").unwrap_or(&Value::Null);
    meta::labels(metadata.get("labels"), &path.child("labels"), errors);
    meta::annotations(metadata.get("annotations"), &path.child("annotations"), errors);
    let spec = template.get("spec").unwrap_or(&Value::Null);
    let at = path.child("spec");
    pod_spec(spec, &at, errors);
    if !json::list(spec, "ephemeralContainers").is_empty() {
        let detail = "ephemeral containers not allowed in pod template";
        errors.push(FieldError::forbidden(at.child("ephemeralContainers"), detail));
    }
}

fn pod_spec(spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    let volumes = volume::validate(json::list(spec, "volumes"), &path.child("volumes"), errors);
    containers(spec, &volumes, path, errors);
    one_of(
        json::text(spec, "restartPolicy"),
        &["Always", "OnFailure", "Never"],
        &path.child("restartPolicy"),
        errors,
    );
    one_of(
        json::text(spec, "dnsPolicy"),
        &["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"],
        &path.child("dnsPolicy"),
        errors,
    );
    meta::labels(spec.get("nodeSelector"), &path.child("nodeSelector"), errors);
    for (field, rule) in [
        ("serviceAccountName", names::dns1123_subdomain as fn(&str) -> Vec<String>),
        ("nodeName", names::dns1123_subdomain),
        ("hostname", names::dns1123_label),
        ("subdomain", names::dns1123_label),
        ("priorityClassName", names::dns1123_subdomain),
        ("runtimeClassName", names::dns1123_subdomain),
    ] {
        let text = json::text(spec, field);
        if !text.is_empty() {
            invalid_each(rule(text), text, &path.child(field), errors);
        }
    }
    if let Some(deadline) = json::int(spec, "activeDeadlineSeconds") {
        let faults = names::in_range(deadline, 1, i64::from(i32::MAX));
        invalid_each(faults, deadline, &path.child("activeDeadlineSeconds"), errors);
    }
    tolerations(json::list(spec, "tolerations"), &path.child("tolerations"), errors);
    image_pull_secrets(spec, path, errors);
    scheduling::validate(spec, path, errors);
}

fn containers(spec: &Value, volumes: &HashSet<String>, path: &Path<'_>, errors: &mut Errors) {
    let regular = json::list(spec, "containers");
    let base = path.child("containers");
    let mut seen = HashSet::new();
    if regular.is_empty() {
        errors.push(FieldError::required(base, ""));
    }
    for (index, item) in regular.iter().enumerate() {
        let at = base.index(index);
        container::common(item, volumes, &at, errors);
        let name = json::text(item, "name");
        if !seen.insert(name) {
            errors.push(FieldError::duplicate(at.child("name"), name));
        }
        container::running(item, &at, errors);
        container::resize_policy(item, json::text(spec, "restartPolicy"), &at, errors);
    }
    container::host_ports(regular, &base, errors);

    let base = path.child("initContainers");
    for (index, item) in json::list(spec, "initContainers").iter().enumerate() {
        let at = base.index(index);
        container::common(item, volumes, &at, errors);
        let name = json::text(item, "name");
        if !seen.insert(name) {
            errors.push(FieldError::duplicate(at.child("name"), name));
        }
        container::host_ports(std::slice::from_ref(item), &base, errors);
        if json::text(item, "restartPolicy") == "Always" {
            container::running(item, &at, errors);
            container::resize_policy(item, json::text(spec, "restartPolicy"), &at, errors);
        } else {
            for field in ["lifecycle", "livenessProbe", "readinessProbe", "startupProbe"] {
                if json::some(item, field).is_some() {
                    let detail = "may not be set for init containers without restartPolicy=Always";
                    errors.push(FieldError::forbidden(at.child(field), detail));
                }
            }
        }
    }
}

fn tolerations(tolerations: &[Value], path: &Path<'_>, errors: &mut Errors) {
    for (index, toleration) in tolerations.iter().enumerate() {
        let at = path.index(index);
        let (key, operator, value, effect) = (
            json::text(toleration, "key"),
            json::text(toleration, "operator"),
            json::text(toleration, "value"),
            json::text(toleration, "effect"),
        );
        if key.is_empty() {
            if operator != "Exists" {
                let detail = "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
                errors.push(FieldError::invalid(at.child("operator"), operator, detail));
            }
        } else {
            invalid_each(names::qualified_name(key), key, &at.child("key"), errors);
        }
        if json::some(toleration, "tolerationSeconds").is_some() && effect != "NoExecute" {
            let detail = "effect must be 'NoExecute' when `tolerationSeconds` is set";
            errors.push(FieldError::invalid(at.child("effect"), effect, detail));
        }
        let operator_path = at.child("operator");
        match operator {
            "" | "Equal" => {
                let faults = names::label_value(value);
                if !faults.is_empty() {
                    errors.push(FieldError::invalid(operator_path, value, faults.join(";")));
                }
            }
            "Exists" => {
                if !value.is_empty() {
                    let detail = "value must be empty when `operator` is 'Exists'";
                    errors.push(FieldError::invalid(operator_path, value, detail));
                }
            }
            other => errors.push(FieldError::not_supported(operator_path, other, &["Equal", "Exists"])),
        }
        let effects = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
        if !effect.is_empty() && !effects.contains(&effect) {
            errors.push(FieldError::not_supported(at.child("effect"), effect, &effects));
        }
    }
}

fn image_pull_secrets(spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    let base = path.child("imagePullSecrets");
    for (index, secret) in json::list(spec, "imagePullSecrets").iter().enumerate() {
        if json::text(secret, "name").is_empty() {
            let at = base.index(index);
            errors.push(FieldError::required(at.child("name"), ""));
        }
    }
}

/// A pod runs as it was made: only images, a shorter deadline and more tolerations may come later.
fn change(new: &Value, old: &Value, errors: &mut Errors) {
    let path = Path::ROOT.child("spec");
    let (new_spec, old_spec) = (spec(new), spec(old));
    for list in ["containers", "initContainers"] {
        if json::list(new_spec, list).len() != json::list(old_spec, list).len() {
            let detail = "pod updates may not add or remove containers";
            errors.push(FieldError::forbidden(path.child(list), detail));
            return;
        }
        let base = path.child(list);
        for (index, container) in json::list(new_spec, list).iter().enumerate() {
            let image = json::text(container, "image");
            if image.trim() != image {
                let at = base.index(index);
                let detail = "must not have leading or trailing whitespace";
                errors.push(FieldError::invalid(at.child("image"), image, detail));
            }
        }
    }
    let deadline = "activeDeadlineSeconds";
    match (json::int(new_spec, deadline), json::int(old_spec, deadline)) {
        (Some(new), Some(old)) if old < new => {
            let detail = "must be less than or equal to previous value";
            errors.push(FieldError::invalid(path.child(deadline), new, detail));
            return;
        }
        (None, Some(_)) => {
            let detail = "must not update from a positive integer to nil value";
            errors.push(FieldError::invalid(path.child(deadline), Value::Null, detail));
        }
        _ => {}
    }
    let lost = json::list(old_spec, "tolerations")
        .iter()
        .any(|old| !json::list(new_spec, "tolerations").contains(old));
    if lost {
        let detail = "existing toleration can not be modified except its tolerationSeconds";
        errors.push(FieldError::forbidden(path.child("tolerations"), detail));
    }
    if !json::list(new_spec, "schedulingGates")
        .iter()
        .all(|gate| json::list(old_spec, "schedulingGates").contains(gate))
    {
        let detail = "only deletion is allowed, but found new scheduling gate";
        errors.push(FieldError::forbidden(path.child("schedulingGates"), detail));
    }
    let changed = changed_fields(&fixed(old_spec), &fixed(new_spec));
    if !changed.is_empty() {
        let detail = format!(
            "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)\n{changed}"
        );
        errors.push(FieldError::forbidden(path, detail));
    }
}

/// What of a pod's spec stays as it is.
fn fixed(spec: &Value) -> Value {
    let mut spec = spec.clone();
    for list in ["containers", "initContainers"] {
        for container in spec.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
            if let Some(container) = container.as_object_mut() {
                container.remove("image");
            }
        }
    }
    if let Some(map) = spec.as_object_mut() {
        for field in ["activeDeadlineSeconds", "schedulingGates", "tolerations"] {
            map.remove(field);
        }
        if map.get("terminationGracePeriodSeconds").and_then(Value::as_i64).is_some_and(|seconds| seconds < 0)
        {
            map.insert("terminationGracePeriodSeconds".to_owned(), json!(1));
        }
    }
    spec
}

/// The difference, field by field, for a person.
fn changed_fields(old: &Value, new: &Value) -> String {
    let names: std::collections::BTreeSet<&String> =
        [old, new].into_iter().filter_map(Value::as_object).flat_map(|map| map.keys()).collect();
    let mut shown = String::new();
    for name in names {
        let (old, new) = (json::some(old, name), json::some(new, name));
        if old != new {
            for (sign, value) in [('-', old), ('+', new)] {
                if let Some(value) = value {
                    shown.push_str(&format!("{sign} \t{name}: {value}\n"));
                }
            }
        }
    }
    shown
}
