//! What a node must have for a pod, as far as both say. Pure.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    Node, NodeSelectorRequirement, NodeSelectorTerm, PodSpec, Taint, Toleration,
};

pub fn is_ready(node: &Node) -> bool {
    let conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.into_iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

/// Why a pod's selector, affinity or tolerations keep it from the node, in kube-scheduler's words.
pub fn misfit(spec: &PodSpec, node: &Node) -> Option<String> {
    let empty = BTreeMap::new();
    let labels = node.metadata.labels.as_ref().unwrap_or(&empty);
    let selected = spec.node_selector.iter().flatten().all(|(key, value)| labels.get(key) == Some(value));
    let required = spec
        .affinity
        .as_ref()
        .and_then(|affinity| affinity.node_affinity.as_ref())
        .and_then(|affinity| affinity.required_during_scheduling_ignored_during_execution.as_ref());
    let name = node.metadata.name.as_deref().unwrap_or_default();
    let attracted =
        required.is_none_or(|r| r.node_selector_terms.iter().any(|term| matches(term, labels, name)));
    if !selected || !attracted {
        return Some("didn't match Pod's node affinity/selector".to_owned());
    }
    let taints = node.spec.iter().flat_map(|spec| spec.taints.iter().flatten());
    let taint = taints.into_iter().find(|taint| {
        matches!(taint.effect.as_str(), "NoSchedule" | "NoExecute")
            && !spec.tolerations.iter().flatten().any(|t| tolerates(t, taint))
    })?;
    let value = taint.value.as_deref().unwrap_or_default();
    Some(format!("had untolerated taint {{{}: {value}}}", taint.key))
}

pub fn tolerates(toleration: &Toleration, taint: &Taint) -> bool {
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
