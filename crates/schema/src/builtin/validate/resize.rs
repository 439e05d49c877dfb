//! What may change through a pod's `resize` subresource: CPU and memory of containers that run, within the pod's class.

use serde_json::Value;

use super::{Errors, spec, status};
use crate::{FieldError, Path, builtin::quality_of_service, json};

/// Marks the copies of pods that a node reads from files of its own.
const MIRROR: &str = "kubernetes.io/config.mirror";

/// `errors` are those of the new pod as such.
pub(super) fn validate(new: &Value, old: &Value, errors: &mut Errors) {
    let (new_spec, old_spec) = (spec(new), spec(old));
    if let Some(why) = impossible(old) {
        // the real server names no field here and tells nothing else
        *errors = vec![FieldError::forbidden("[]", why)];
        return;
    }
    let path = Path::ROOT.child("spec");
    let class = json::text(status(old), "qosClass");
    if class != quality_of_service(Some(new_spec)) {
        let detail = "Pod QOS Class may not change as a result of resizing";
        errors.push(FieldError::invalid(path, class, detail));
    }
    if !node_can_resize(old) {
        errors.push(FieldError::forbidden(path, "Pod running on node without support for resize"));
    }
    let n_errors = errors.len();
    for list in ["containers", "initContainers"] {
        same_containers(list, new_spec, old_spec, errors);
    }
    if errors.len() > n_errors {
        return;
    }
    for list in ["containers", "initContainers"] {
        nothing_removed(list, new_spec, old_spec, errors);
    }
    if fixed(new_spec) != fixed(old_spec) {
        errors.push(FieldError::forbidden(path, "only cpu and memory resources are mutable"));
    }
}

fn impossible(pod: &Value) -> Option<&'static str> {
    let annotations = pod.get("metadata").and_then(|metadata| metadata.get("annotations"));
    if annotations.is_some_and(|all| all.get(MIRROR).is_some()) {
        return Some("static pods cannot be resized");
    }
    let system = spec(pod).get("os").map(|system| json::text(system, "name"));
    (system == Some("windows")).then_some("windows pods cannot be resized")
}

/// A node that can do it tells what containers that run have got.
fn node_can_resize(pod: &Value) -> bool {
    let running = json::list(status(pod), "containerStatuses")
        .iter()
        .find(|container| container.pointer("/state/running").is_some_and(Value::is_object));
    running.is_none_or(|container| json::some(container, "resources").is_some())
}

fn same_containers(list: &str, new: &Value, old: &Value, errors: &mut Errors) {
    let (new, old) = (json::list(new, list), json::list(old, list));
    let path = Path::ROOT.child("spec");
    let path = path.child(list);
    if new.len() != old.len() {
        let detail = format!("{list} may not be added or removed on resize");
        errors.push(FieldError::forbidden(path, detail));
        return;
    }
    for (index, (new, old)) in new.iter().zip(old).enumerate() {
        if json::text(new, "name") != json::text(old, "name") {
            let detail = format!("{list} may not be renamed or reordered on resize");
            errors.push(FieldError::forbidden(path.index(index).child("name"), detail));
        }
    }
}

fn nothing_removed(list: &str, new: &Value, old: &Value, errors: &mut Errors) {
    let path = Path::ROOT.child("spec");
    let path = path.child(list);
    for (index, (new, old)) in json::list(new, list).iter().zip(json::list(old, list)).enumerate() {
        for section in ["requests", "limits"] {
            let amounts = |container: &Value| container.pointer(&format!("/resources/{section}")).cloned();
            let new = amounts(new).unwrap_or_default();
            let is_removed = |name: &String| new.get(name).is_none();
            if amounts(old).as_ref().and_then(Value::as_object).is_some_and(|old| old.keys().any(is_removed))
            {
                let at = path.index(index);
                let at = at.child("resources");
                let detail = format!("resource {section} cannot be removed");
                errors.push(FieldError::forbidden(at.child(section), detail));
            }
        }
    }
}

/// What of a pod's spec stays as it is.
fn fixed(spec: &Value) -> Value {
    let mut spec = spec.clone();
    for list in ["containers", "initContainers"] {
        for container in spec.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
            let Some(resources) = container.get_mut("resources").and_then(Value::as_object_mut) else {
                continue;
            };
            for section in ["requests", "limits"] {
                let Some(amounts) = resources.get_mut(section).and_then(Value::as_object_mut) else {
                    continue;
                };
                amounts.retain(|name, _| !matches!(name.as_str(), "cpu" | "memory"));
                if amounts.is_empty() {
                    resources.remove(section);
                }
            }
        }
    }
    spec
}
