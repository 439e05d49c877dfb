//! Whether a pod may run on a node.

use engine::nodes;
use k8s_openapi::api::core::v1::{Node, Pod, Taint};

pub use engine::nodes::is_ready;

/// Why the node will not do, in kube-scheduler's words; `None` when it will.
pub fn unfit(pod: &Pod, node: &Node) -> Option<String> {
    let spec = pod.spec.clone().unwrap_or_default();
    let cordoned = Taint {
        key: "node.kubernetes.io/unschedulable".to_owned(),
        effect: "NoSchedule".to_owned(),
        ..Default::default()
    };
    let is_cordoned = node.spec.as_ref().is_some_and(|spec| spec.unschedulable == Some(true));
    if is_cordoned && !spec.tolerations.iter().flatten().any(|t| nodes::tolerates(t, &cordoned)) {
        return Some("were unschedulable".to_owned());
    }
    if !is_ready(node) {
        return Some("were not ready".to_owned());
    }
    nodes::misfit(&spec, node)
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
        let daemon = json!({ "key": "node.kubernetes.io/unschedulable", "operator": "Exists", "effect": "NoSchedule" });
        check(tolerating(daemon), node(json!({}), json!({ "unschedulable": true })), None);
        check(json!({ "containers": [] }), json!({ "metadata": { "name": "n1" } }), Some("were not ready"));
    }
}
