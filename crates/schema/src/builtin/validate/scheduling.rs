//! Where pods may go: affinities and spreading.

use serde_json::Value;

use super::{Errors, invalid_each, selector};
use crate::{FieldError, Path, json, names};

pub(super) fn validate(spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    let base = path.child("affinity");
    let affinity = spec.get("affinity").unwrap_or(&Value::Null);
    if let Some(nodes) = json::some(affinity, "nodeAffinity") {
        node_affinity(nodes, &base.child("nodeAffinity"), errors);
    }
    for kind in ["podAffinity", "podAntiAffinity"] {
        if let Some(pods) = json::some(affinity, kind) {
            pod_affinity(pods, &base.child(kind), errors);
        }
    }
    let base = path.child("topologySpreadConstraints");
    for (index, constraint) in json::list(spec, "topologySpreadConstraints").iter().enumerate() {
        let at = base.index(index);
        let skew = json::int(constraint, "maxSkew").unwrap_or(0);
        if skew <= 0 {
            errors.push(FieldError::invalid(at.child("maxSkew"), skew, "must be greater than zero"));
        }
        if json::text(constraint, "topologyKey").is_empty() {
            errors.push(FieldError::required(at.child("topologyKey"), "can not be empty"));
        }
        let action = json::text(constraint, "whenUnsatisfiable");
        let actions = ["DoNotSchedule", "ScheduleAnyway"];
        if !actions.contains(&action) {
            errors.push(FieldError::not_supported(at.child("whenUnsatisfiable"), action, &actions));
        }
        if let Some(labels) = json::some(constraint, "labelSelector") {
            selector::validate(labels, &at.child("labelSelector"), errors);
        }
    }
}

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

fn node_affinity(affinity: &Value, path: &Path<'_>, errors: &mut Errors) {
    if let Some(required) = json::some(affinity, REQUIRED) {
        let base = path.child(REQUIRED);
        let base = base.child("nodeSelectorTerms");
        let terms = json::list(required, "nodeSelectorTerms");
        if terms.is_empty() {
            errors.push(FieldError::required(base, "must have at least one node selector term"));
        }
        for (index, term) in terms.iter().enumerate() {
            node_term(term, true, &base.index(index), errors);
        }
    }
    let base = path.child(PREFERRED);
    for (index, preferred) in json::list(affinity, PREFERRED).iter().enumerate() {
        let at = base.index(index);
        weight(preferred, &at, errors);
        let term = preferred.get("preference").unwrap_or(&Value::Null);
        node_term(term, false, &at.child("preference"), errors);
    }
}

/// Values are held to the grammar of labels only where the term is required.
fn node_term(term: &Value, strict: bool, path: &Path<'_>, errors: &mut Errors) {
    let base = path.child("matchExpressions");
    for (index, expression) in json::list(term, "matchExpressions").iter().enumerate() {
        let at = base.index(index);
        let values = json::list(expression, "values");
        let values_path = at.child("values");
        match json::text(expression, "operator") {
            "In" | "NotIn" if values.is_empty() => {
                let detail = "must be specified when `operator` is 'In' or 'NotIn'";
                errors.push(FieldError::required(values_path, detail));
            }
            "Exists" | "DoesNotExist" if !values.is_empty() => {
                let detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
                errors.push(FieldError::forbidden(values_path, detail));
            }
            "Gt" | "Lt" if values.len() != 1 => {
                let detail = "must be specified single value when `operator` is 'Lt' or 'Gt'";
                errors.push(FieldError::required(values_path, detail));
            }
            "In" | "NotIn" | "Exists" | "DoesNotExist" | "Gt" | "Lt" => {}
            other => {
                errors.push(FieldError::invalid(
                    at.child("operator"),
                    other,
                    "not a valid selector operator",
                ));
            }
        }
        let key = json::text(expression, "key");
        invalid_each(names::qualified_name(key), key, &at.child("key"), errors);
        for (index, value) in values.iter().filter_map(Value::as_str).enumerate().filter(|_| strict) {
            invalid_each(names::label_value(value), value, &values_path.index(index), errors);
        }
    }
}

fn pod_affinity(affinity: &Value, path: &Path<'_>, errors: &mut Errors) {
    let base = path.child(REQUIRED);
    for (index, term) in json::list(affinity, REQUIRED).iter().enumerate() {
        pod_term(term, &base.index(index), errors);
    }
    let base = path.child(PREFERRED);
    for (index, preferred) in json::list(affinity, PREFERRED).iter().enumerate() {
        let at = base.index(index);
        weight(preferred, &at, errors);
        let term = preferred.get("podAffinityTerm").unwrap_or(&Value::Null);
        pod_term(term, &at.child("podAffinityTerm"), errors);
    }
}

fn pod_term(term: &Value, path: &Path<'_>, errors: &mut Errors) {
    for field in ["labelSelector", "namespaceSelector"] {
        if let Some(labels) = json::some(term, field) {
            selector::validate(labels, &path.child(field), errors);
        }
    }
    for name in json::list(term, "namespaces").iter().filter_map(Value::as_str) {
        invalid_each(names::dns1123_label(name), name, &path.child("namespace"), errors);
    }
    let key = json::text(term, "topologyKey");
    let at = path.child("topologyKey");
    if key.is_empty() {
        errors.push(FieldError::required(at, "can not be empty"));
    }
    invalid_each(names::qualified_name(key), key, &at, errors);
}

fn weight(preferred: &Value, path: &Path<'_>, errors: &mut Errors) {
    let weight = json::int(preferred, "weight").unwrap_or(0);
    if !(1..=100).contains(&weight) {
        errors.push(FieldError::invalid(path.child("weight"), weight, "must be in the range 1-100"));
    }
}
