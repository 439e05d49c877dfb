//! Which nodes get a pod, and the pod for a node.

use engine::{kind, nodes};
use k8s_openapi::api::{
    apps::v1::DaemonSet,
    core::v1::{
        Affinity, Node, NodeAffinity, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, Pod, PodSpec,
        Toleration,
    },
};

use crate::object::{controller_reference, hash, label, name, template, uid};

pub(super) const HASH_LABEL: &str = "controller-revision-hash";
const GENERATION_LABEL: &str = "pod-template-generation";
/// A daemon stays on a node in trouble; it may be what helps.
const TOLERATED: [(&str, &str); 6] = [
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
];

/// Whether a change of a node may change which daemons it runs. Its heartbeat does not.
pub(super) fn concerns_daemons(old: Option<&Node>, new: Option<&Node>) -> bool {
    let (Some(old), Some(new)) = (old, new) else { return true };
    old.metadata.labels != new.metadata.labels || old.spec != new.spec
}

/// A template's hash, which tells its pods from those of another.
pub(super) fn template_hash(set: &DaemonSet) -> String {
    hash::short(&set.spec.as_ref().map(|spec| &spec.template), None)
}

pub(super) fn is_current(pod: &Pod, hash: &str) -> bool {
    label(&pod.metadata, HASH_LABEL) == Some(hash)
}

/// The spec of the set's pods, with what all daemons tolerate.
pub(super) fn daemon_spec(set: &DaemonSet) -> PodSpec {
    let mut spec = set.spec.as_ref().and_then(|spec| spec.template.spec.clone()).unwrap_or_default();
    let tolerations = spec.tolerations.get_or_insert_default();
    for (key, effect) in TOLERATED {
        let toleration = Toleration {
            key: Some(key.into()),
            operator: Some("Exists".into()),
            effect: Some(effect.into()),
            ..Default::default()
        };
        if !tolerations.contains(&toleration) {
            tolerations.push(toleration);
        }
    }
    spec
}

pub(super) fn wants(spec: &PodSpec, node: &Node) -> bool {
    nodes::misfit(spec, node).is_none()
}

/// The node a pod runs on, or the one it was made for.
pub(super) fn node_of(pod: &Pod) -> Option<&str> {
    let spec = pod.spec.as_ref()?;
    if let Some(node) = spec.node_name.as_deref().filter(|node| !node.is_empty()) {
        return Some(node);
    }
    let required = spec
        .affinity
        .as_ref()?
        .node_affinity
        .as_ref()?
        .required_during_scheduling_ignored_during_execution
        .as_ref()?;
    let mut fields = required.node_selector_terms.iter().flat_map(|term| term.match_fields.iter().flatten());
    let field = fields.find(|field| field.key == "metadata.name" && field.operator == "In")?;
    field.values.as_ref()?.first().map(String::as_str)
}

/// Named after set, node and template: two who decide the same create one.
pub(super) fn pod_for(set: &DaemonSet, spec: &PodSpec, node: &str, template_hash: &str) -> Option<Pod> {
    let described = &set.spec.as_ref()?.template;
    let namespace = set.metadata.namespace.clone().unwrap_or_default();
    let mut pod =
        template::pod(described, &namespace, controller_reference(&kind::DAEMON_SET, &set.metadata));
    let suffix = hash::short(&(uid(&set.metadata), node, template_hash), None);
    pod.metadata.name = Some(format!("{}-{suffix}", name(&set.metadata)));
    let labels = pod.metadata.labels.get_or_insert_default();
    labels.insert(HASH_LABEL.into(), template_hash.to_owned());
    labels.insert(GENERATION_LABEL.into(), set.metadata.generation.unwrap_or(1).to_string());
    let mut spec = spec.clone();
    bind(&mut spec, node);
    pod.spec = Some(spec);
    Some(pod)
}

/// The scheduler may choose this node only.
fn bind(spec: &mut PodSpec, node: &str) {
    let field = NodeSelectorRequirement {
        key: "metadata.name".into(),
        operator: "In".into(),
        values: Some(vec![node.to_owned()]),
    };
    let affinity = spec.affinity.get_or_insert_with(Affinity::default);
    let affinity = affinity.node_affinity.get_or_insert_with(NodeAffinity::default);
    let required = affinity
        .required_during_scheduling_ignored_during_execution
        .get_or_insert_with(NodeSelector::default);
    if required.node_selector_terms.is_empty() {
        required.node_selector_terms.push(NodeSelectorTerm::default());
    }
    for term in &mut required.node_selector_terms {
        term.match_fields = Some(vec![field.clone()]);
    }
}
