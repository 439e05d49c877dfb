//! Leases, events, nodes, quotas and roles.

use serde_json::Value;

use super::{Checks, Errors, invalid_each, spec};
use crate::{FieldError, Path, Quantity, json, names};

pub(crate) const LEASE: Checks = Checks { object: lease, ..super::NONE };
pub(crate) const EVENT: Checks =
    Checks { object: |event, errors| self::event(event, true, errors), ..super::NONE };
pub(crate) const NEW_EVENT: Checks =
    Checks { object: |event, errors| self::event(event, false, errors), ..super::NONE };
pub(crate) const NODE: Checks = Checks { object: node, change: node_change, ..super::NONE };
pub(crate) const RESOURCE_QUOTA: Checks = Checks { object: resource_quota, ..super::NONE };
pub(crate) const LIMIT_RANGE: Checks = Checks { object: limit_range, ..super::NONE };
pub(crate) const PRIORITY_CLASS: Checks =
    Checks { object: priority_class, change: priority_class_change, ..super::NONE };
pub(crate) const ROLE: Checks = Checks { object: |role, errors| rules(role, true, errors), ..super::NONE };
pub(crate) const CLUSTER_ROLE: Checks =
    Checks { object: |role, errors| rules(role, false, errors), ..super::NONE };
pub(crate) const ROLE_BINDING: Checks = Checks {
    object: |binding, errors| self::binding(binding, true, errors),
    change: binding_change,
    ..super::NONE
};
pub(crate) const CLUSTER_ROLE_BINDING: Checks = Checks {
    object: |binding, errors| self::binding(binding, false, errors),
    change: binding_change,
    ..super::NONE
};

fn lease(object: &Value, errors: &mut Errors) {
    let spec = spec(object);
    let path = Path::ROOT.child("spec");
    if let Some(seconds) = json::int(spec, "leaseDurationSeconds").filter(|seconds| *seconds <= 0) {
        errors.push(FieldError::invalid(
            path.child("leaseDurationSeconds"),
            seconds,
            "must be greater than 0",
        ));
    }
    if let Some(count) = json::int(spec, "leaseTransitions").filter(|count| *count < 0) {
        let detail = "must be greater than or equal to 0";
        errors.push(FieldError::invalid(path.child("leaseTransitions"), count, detail));
    }
    if !json::text(spec, "preferredHolder").is_empty() && json::text(spec, "strategy").is_empty() {
        let detail = "may only be specified if `strategy` is defined";
        errors.push(FieldError::forbidden(path.child("preferredHolder"), detail));
    }
}

/// Events have two spellings; `old_api` is the one of the core group.
fn event(object: &Value, old_api: bool, errors: &mut Errors) {
    let (involved, controller) =
        if old_api { ("involvedObject", "reportingComponent") } else { ("regarding", "reportingController") };
    let root = Path::ROOT;
    let namespace = json::text(&object["metadata"], "namespace");
    let about = object.get(involved).map_or("", |involved| json::text(involved, "namespace"));
    let base = root.child("involvedObject");
    let mismatch = || FieldError::invalid(base.child("namespace"), about, "does not match event.namespace");
    if json::some(object, "eventTime").is_none() {
        let elsewhere =
            if about.is_empty() { !matches!(namespace, "" | "default") } else { namespace != about };
        if elsewhere {
            errors.push(mismatch());
        }
    } else {
        if about.is_empty() && !matches!(namespace, "default" | "kube-system") {
            errors.push(mismatch());
        }
        let reporter = json::text(object, controller);
        let at = root.child(controller);
        if reporter.is_empty() {
            errors.push(FieldError::required(at, ""));
        }
        invalid_each(names::qualified_name(reporter), reporter, &at, errors);
        for (field, limit) in [("reportingInstance", 128), ("action", 128), ("reason", 128)] {
            let text = json::text(object, field);
            if text.is_empty() {
                errors.push(FieldError::required(root.child(field), ""));
            } else if text.len() > limit {
                let detail = format!("can have at most {limit} characters");
                errors.push(FieldError::invalid(root.child(field), "", detail));
            }
        }
        if json::text(object, if old_api { "message" } else { "note" }).len() > 1024 {
            errors.push(FieldError::invalid(root.child("message"), "", "can have at most 1024 characters"));
        }
    }
    if !old_api {
        if json::some(object, "eventTime").is_none() {
            errors.push(FieldError::required(root.child("eventTime"), ""));
        }
        let kind = json::text(object, "type");
        if !matches!(kind, "Normal" | "Warning") {
            errors.push(FieldError::invalid(root.child("type"), "", format!("has invalid value: {kind}")));
        }
    }
}

fn node(object: &Value, errors: &mut Errors) {
    let base = Path::ROOT.child("spec");
    let base = base.child("taints");
    let mut seen = std::collections::HashSet::new();
    for (index, taint) in json::list(spec(object), "taints").iter().enumerate() {
        let at = base.index(index);
        let (key, value, effect) =
            (json::text(taint, "key"), json::text(taint, "value"), json::text(taint, "effect"));
        invalid_each(names::qualified_name(key), key, &at.child("key"), errors);
        let faults = names::label_value(value);
        if !faults.is_empty() {
            errors.push(FieldError::invalid(at.child("value"), value, faults.join(";")));
        }
        super::one_of(effect, &["NoSchedule", "PreferNoSchedule", "NoExecute"], &at.child("effect"), errors);
        if !seen.insert((key, effect)) {
            errors.push(FieldError::duplicate(at, taint.clone()));
        }
    }
}

fn node_change(new: &Value, old: &Value, errors: &mut Errors) {
    let path = Path::ROOT.child("spec");
    if !json::text(spec(old), "providerID").is_empty() && spec(new)["providerID"] != spec(old)["providerID"] {
        let detail = "node updates may not change providerID except from \"\" to valid";
        errors.push(FieldError::forbidden(path.child("providerID"), detail));
    }
}

fn quantities(amounts: &Value, path: &Path<'_>, errors: &mut Errors) {
    for (name, value) in amounts.as_object().into_iter().flatten() {
        let negative =
            value.as_str().and_then(|text| Quantity::parse(text).ok()).is_some_and(|q| q.is_negative());
        if negative {
            let detail = "must be greater than or equal to 0";
            errors.push(FieldError::invalid(path.key(name), value.clone(), detail));
        }
        invalid_each(names::qualified_name(name), name.as_str(), &path.key(name), errors);
    }
}

fn resource_quota(object: &Value, errors: &mut Errors) {
    let path = Path::ROOT.child("spec");
    quantities(spec(object).get("hard").unwrap_or(&Value::Null), &path.child("hard"), errors);
}

/// Above it is only what the cluster itself needs.
const HIGHEST_PRIORITY: i64 = 1_000_000_000;
const SYSTEM_PRIORITIES: [(&str, i64); 2] =
    [("system-node-critical", 2_000_001_000), ("system-cluster-critical", 2_000_000_000)];

fn priority_class(object: &Value, errors: &mut Errors) {
    let name = json::text(&object["metadata"], "name");
    let value = json::int(object, "value").unwrap_or(0);
    if name.starts_with("system-") {
        let fault = match SYSTEM_PRIORITIES.iter().find(|(known, _)| *known == name) {
            None => Some(format!("{name} is not a known system priority class")),
            Some((_, wanted)) if value != *wanted => {
                Some(format!("value of {name} PriorityClass must be {wanted}"))
            }
            Some(_) if json::flag(object, "globalDefault") => {
                Some(format!("globalDefault of {name} PriorityClass must be false"))
            }
            Some(_) => None,
        };
        if let Some(fault) = fault {
            let words =
                "priority class names with 'system-' prefix are reserved for system use only. error: ";
            errors.push(FieldError::forbidden("metadata.name", format!("{words}{fault}")));
        }
    } else if value > HIGHEST_PRIORITY {
        let detail = format!("maximum allowed value of a user defined priority is {HIGHEST_PRIORITY}");
        errors.push(FieldError::forbidden("value", detail));
    }
    let policy = json::text(object, "preemptionPolicy");
    let policies = ["PreemptLowerPriority", "Never"];
    if !policy.is_empty() && !policies.contains(&policy) {
        errors.push(FieldError::not_supported("preemptionPolicy", policy, &policies));
    }
}

fn priority_class_change(new: &Value, old: &Value, errors: &mut Errors) {
    if json::int(new, "value") != json::int(old, "value") {
        errors.push(FieldError::forbidden("value", "may not be changed in an update."));
    }
    crate::meta::immutable(new, old, "preemptionPolicy", &Path::ROOT, errors);
}

fn limit_range(object: &Value, errors: &mut Errors) {
    let base = Path::ROOT.child("spec");
    let base = base.child("limits");
    let mut seen = std::collections::HashSet::new();
    for (index, limit) in json::list(spec(object), "limits").iter().enumerate() {
        let at = base.index(index);
        let kind = json::text(limit, "type");
        if !seen.insert(kind) {
            errors.push(FieldError::duplicate(at.child("type"), kind));
        }
        let standard = ["Pod", "Container", "PersistentVolumeClaim"];
        if names::qualified_name(kind).is_empty() && !kind.contains('/') && !standard.contains(&kind) {
            let detail = "must be a standard limit type or fully qualified";
            errors.push(FieldError::invalid(at.child("type"), kind, detail));
        }
        invalid_each(names::qualified_name(kind), kind, &at.child("type"), errors);
        for field in ["max", "min", "default", "defaultRequest"] {
            quantities(limit.get(field).unwrap_or(&Value::Null), &at.child(field), errors);
        }
        let amount = |field: &str, name: &str| {
            let text = limit.get(field)?.get(name)?.as_str()?;
            Some((text.to_owned(), Quantity::parse(text).ok()?))
        };
        for (name, _) in json::object(limit, "min").into_iter().flatten() {
            if let (Some((min, low)), Some((max, high))) = (amount("min", name), amount("max", name))
                && low > high
            {
                let base = at.child("min");
                let detail = format!("min value {min} is greater than max value {max}");
                errors.push(FieldError::invalid(base.key(name), min, detail));
            }
        }
    }
}

fn rules(role: &Value, namespaced: bool, errors: &mut Errors) {
    let base = Path::ROOT.child("rules");
    for (index, rule) in json::list(role, "rules").iter().enumerate() {
        let at = base.index(index);
        if json::list(rule, "verbs").is_empty() {
            errors.push(FieldError::required(at.child("verbs"), "verbs must contain at least one value"));
        }
        if !json::list(rule, "nonResourceURLs").is_empty() {
            if namespaced {
                let detail = "namespaced rules cannot apply to non-resource URLs";
                let value = rule["nonResourceURLs"].clone();
                errors.push(FieldError::invalid(at.child("nonResourceURLs"), value, detail));
            }
            let regular = ["apiGroups", "resources", "resourceNames"]
                .iter()
                .any(|field| !json::list(rule, field).is_empty());
            if regular {
                let detail = "rules cannot apply to both regular resources and non-resource URLs";
                let value = rule["nonResourceURLs"].clone();
                errors.push(FieldError::invalid(at.child("nonResourceURLs"), value, detail));
            }
            continue;
        }
        if json::list(rule, "apiGroups").is_empty() {
            let detail = "resource rules must supply at least one api group";
            errors.push(FieldError::required(at.child("apiGroups"), detail));
        }
        if json::list(rule, "resources").is_empty() {
            let detail = "resource rules must supply at least one resource";
            errors.push(FieldError::required(at.child("resources"), detail));
        }
    }
}

fn binding(binding: &Value, namespaced: bool, errors: &mut Errors) {
    const GROUP: &str = "rbac.authorization.k8s.io";
    let role = binding.get("roleRef").unwrap_or(&Value::Null);
    let at = Path::ROOT.child("roleRef");
    let group = json::text(role, "apiGroup");
    if group != GROUP {
        errors.push(FieldError::not_supported(at.child("apiGroup"), group, &[GROUP]));
    }
    let kind = json::text(role, "kind");
    let kinds: &[&str] = if namespaced { &["Role", "ClusterRole"] } else { &["ClusterRole"] };
    if !kinds.contains(&kind) {
        errors.push(FieldError::not_supported(at.child("kind"), kind, kinds));
    }
    let name = json::text(role, "name");
    if name.is_empty() {
        errors.push(FieldError::required(at.child("name"), ""));
    } else {
        invalid_each(names::path_segment(name, false), name, &at.child("name"), errors);
    }
    let base = Path::ROOT.child("subjects");
    for (index, subject) in json::list(binding, "subjects").iter().enumerate() {
        let at = base.index(index);
        let name = json::text(subject, "name");
        if name.is_empty() {
            errors.push(FieldError::required(at.child("name"), ""));
        }
        let group = json::text(subject, "apiGroup");
        match json::text(subject, "kind") {
            "ServiceAccount" => {
                if !name.is_empty() {
                    invalid_each(names::dns1123_subdomain(name), name, &at.child("name"), errors);
                }
                if !group.is_empty() {
                    errors.push(FieldError::not_supported(at.child("apiGroup"), group, &[""]));
                }
                if !namespaced && json::text(subject, "namespace").is_empty() {
                    errors.push(FieldError::required(at.child("namespace"), ""));
                }
            }
            "User" | "Group" => {
                if group != GROUP {
                    errors.push(FieldError::not_supported(at.child("apiGroup"), group, &[GROUP]));
                }
            }
            other => {
                let kinds = ["ServiceAccount", "User", "Group"];
                errors.push(FieldError::not_supported(at.child("kind"), other, &kinds));
            }
        }
    }
}

fn binding_change(new: &Value, old: &Value, errors: &mut Errors) {
    let (new_role, old_role) = (new.get("roleRef"), old.get("roleRef"));
    if new_role != old_role {
        let field = |name: &str| new_role.map_or("", |role| json::text(role, name));
        let value = serde_json::json!({
            "APIGroup": field("apiGroup"), "Kind": field("kind"), "Name": field("name"),
        });
        errors.push(FieldError::invalid(Path::ROOT.child("roleRef"), value, "cannot change roleRef"));
    }
}
