//! Whether a pod may run on a node.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Node, NodeSelectorRequirement, NodeSelectorTerm, Pod, Taint, Toleration};

/// Why the node will not do, in kube-scheduler's words; `None` when it will.
pub fn unfit(pod: &Pod, node: &Node) -> Option<String> {
    let spec = pod.spec.clone().unwrap_or_default();
    let node_spec = node.spec.clone().unwrap_or_default();
    let labels = node.metadata.labels.clone().unwrap_or_default();
    if node_spec.unschedulable == Some(true) {
        return Some("were unschedulable".to_owned());
    }
    if !is_ready(node) {
        return Some("were not ready".to_owned());
    }
    let selected = spec.node_selector.iter().flatten().all(|(key, value)| labels.get(key) == Some(value));
    let required = spec
        .affinity
        .and_then(|affinity| affinity.node_affinity?.required_during_scheduling_ignored_during_execution);
    let name = node.metadata.name.as_deref().unwrap_or_default();
    let attracted =
        required.is_none_or(|r| r.node_selector_terms.iter().any(|term| matches(term, &labels, name)));
    if !selected || !attracted {
        return Some("didn't match Pod's node affinity/selector".to_owned());
    }
    let tolerations = spec.tolerations.unwrap_or_default();
    let taint = node_spec.taints.iter().flatten().find(|taint| {
        matches!(taint.effect.as_str(), "NoSchedule" | "NoExecute")
            && !tolerations.iter().any(|t| tolerates(t, taint))
    })?;
    let value = taint.value.as_deref().unwrap_or_default();
    Some(format!("had untolerated taint {{{}: {value}}}", taint.key))
}

pub fn is_ready(node: &Node) -> bool {
    let conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.into_iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

fn tolerates(toleration: &Toleration, taint: &Taint) -> bool {
    let effect_fits =
        toleration.effect.as_deref().is_none_or(|effect| effect.is_empty() || effect == taint.effect);
    let key = toleration.key.as_deref().unwrap_or_default();
    let exists = toleration.operator.as_deref() == Some("Exists");
    let key_fits = if key.is_empty() { exists } else { key == taint.key };
    let value_fits = exists
        || toleration.value.as_deref().unwrap_or_default() == taint.value.as_deref().unwrap_or_default();
    effect_fits && key_fits && value_fits
}

/// A term with nothing in it matches nothing.
fn matches(term: &NodeSelectorTerm, labels: &BTreeMap<String, String>, name: &str) -> bool {
    let expressions = term.match_expressions.as_deref().unwrap_or_default();
    let fields = term.match_fields.as_deref().unwrap_or_default();
    (!expressions.is_empty() || !fields.is_empty())
        && expressions.iter().all(|e| holds(e, labels.get(&e.key).map(String::as_str)))
        && fields.iter().all(|f| holds(f, (f.key == "metadata.name").then_some(name)))
}

fn holds(requirement: &NodeSelectorRequirement, value: Option<&str>) -> bool {
    let values = requirement.values.as_deref().unwrap_or_default();
    let listed = value.is_some_and(|value| values.iter().any(|v| v == value));
    let number = |text: Option<&str>| text.and_then(|t| t.parse::<i64>().ok());
    let bound = number(values.first().map(String::as_str));
    match requirement.operator.as_str() {
        "In" => listed,
        "NotIn" => !listed,
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        "Gt" => number(value).zip(bound).is_some_and(|(value, bound)| value > bound),
        "Lt" => number(value).zip(bound).is_some_and(|(value, bound)| value < bound),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn check(pod_spec: Value, node: Value, expected: Option<&str>) {
        let pod: Pod = serde_json::from_value(json!({ "spec": pod_spec })).unwrap();
        let node: Node = serde_json::from_value(node).unwrap();
        assert_eq!(unfit(&pod, &node).as_deref(), expected, "{pod_spec}");
    }

    fn node(labels: Value, spec: Value) -> Value {
        let ready = json!([{ "type": "Ready", "status": "True" }]);
        json!({ "metadata": { "name": "n1", "labels": labels }, "spec": spec, "status": { "conditions": ready } })
    }

    #[test]
    fn what_keeps_a_pod_from_a_node() {
        let plain = || node(json!({ "disk": "ssd", "gen": "7" }), json!({}));
        let tainted =
            || node(json!({}), json!({ "taints": [{ "key": "k", "value": "v", "effect": "NoSchedule" }] }));
        let affinity = |expression: Value| {
            json!({ "containers": [], "affinity": { "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [{ "matchExpressions": [expression] }] } } } })
        };
        let tolerating = |toleration: Value| json!({ "containers": [], "tolerations": [toleration] });
        let mismatch = Some("didn't match Pod's node affinity/selector");
        let taint = Some("had untolerated taint {k: v}");

        check(json!({ "containers": [] }), plain(), None);
        check(json!({ "containers": [], "nodeSelector": { "disk": "ssd" } }), plain(), None);
        check(json!({ "containers": [], "nodeSelector": { "disk": "hdd" } }), plain(), mismatch);
        check(affinity(json!({ "key": "gen", "operator": "Gt", "values": ["6"] })), plain(), None);
        check(affinity(json!({ "key": "gen", "operator": "Lt", "values": ["6"] })), plain(), mismatch);
        check(affinity(json!({ "key": "disk", "operator": "NotIn", "values": ["ssd"] })), plain(), mismatch);
        check(affinity(json!({ "key": "gpu", "operator": "DoesNotExist" })), plain(), None);
        check(json!({ "containers": [] }), tainted(), taint);
        check(tolerating(json!({ "key": "k", "operator": "Equal", "value": "v" })), tainted(), None);
        check(tolerating(json!({ "key": "k", "value": "other" })), tainted(), taint);
        check(tolerating(json!({ "operator": "Exists" })), tainted(), None);
        check(
            tolerating(json!({ "key": "k", "operator": "Exists", "effect": "NoExecute" })),
            tainted(),
            taint,
        );
        check(
            json!({ "containers": [] }),
            node(json!({}), json!({ "unschedulable": true })),
            Some("were unschedulable"),
        );
        check(json!({ "containers": [] }), json!({ "metadata": { "name": "n1" } }), Some("were not ready"));
    }
}
