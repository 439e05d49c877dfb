//! The identity of a numbered pod.

use engine::kind;
use k8s_openapi::api::{
    apps::v1::StatefulSet,
    core::v1::{PersistentVolumeClaim, PersistentVolumeClaimVolumeSource, Pod, PodTemplateSpec, Volume},
};

use crate::object::{controller_reference, label, name, template};

pub(super) const REVISION_LABEL: &str = "controller-revision-hash";
const NAME_LABEL: &str = "statefulset.kubernetes.io/pod-name";
const INDEX_LABEL: &str = "apps.kubernetes.io/pod-index";

/// `web`, 3 of `web-3`.
pub(super) fn parent_and_ordinal(pod_name: &str) -> Option<(&str, i32)> {
    let (parent, ordinal) = pod_name.rsplit_once('-')?;
    let all_digits = !ordinal.is_empty() && ordinal.bytes().all(|byte| byte.is_ascii_digit());
    Some((parent, ordinal.parse().ok().filter(|_| all_digits)?))
}

pub(super) fn ordinal(pod: &Pod) -> i32 {
    parent_and_ordinal(name(&pod.metadata)).map_or(-1, |(_, ordinal)| ordinal)
}

pub(super) fn revision(pod: &Pod) -> &str {
    label(&pod.metadata, REVISION_LABEL).unwrap_or_default()
}

/// The pod `ordinal` of the set, from one of its templates.
pub(super) fn numbered(set: &StatefulSet, described: &PodTemplateSpec, revision: &str, ordinal: i32) -> Pod {
    let namespace = set.metadata.namespace.clone().unwrap_or_default();
    let owner = controller_reference(&kind::STATEFUL_SET, &set.metadata);
    let mut pod = template::pod(described, &namespace, owner);
    let pod_name = format!("{}-{ordinal}", name(&set.metadata));
    let labels = pod.metadata.labels.get_or_insert_default();
    labels.insert(NAME_LABEL.into(), pod_name.clone());
    labels.insert(INDEX_LABEL.into(), ordinal.to_string());
    labels.insert(REVISION_LABEL.into(), revision.into());
    if let Some(spec) = &mut pod.spec {
        spec.hostname = Some(pod_name.clone());
        spec.subdomain =
            set.spec.as_ref().and_then(|spec| spec.service_name.clone()).filter(|name| !name.is_empty());
    }
    let claims = claims(set, ordinal);
    if let (Some(spec), false) = (&mut pod.spec, claims.is_empty()) {
        mount(spec.volumes.get_or_insert_default(), set, &claims);
    }
    pod.metadata.name = Some(pod_name);
    // without effect beside a name, but every pod made by a controller has it
    pod.metadata.generate_name = Some(format!("{}-", name(&set.metadata)));
    pod
}

/// The claims of storage of the pod `ordinal`: `data-web-3` of the template `data`. They outlive the pod and the set.
pub(super) fn claims(set: &StatefulSet, ordinal: i32) -> Vec<PersistentVolumeClaim> {
    let Some(spec) = &set.spec else { return Vec::new() };
    let claim = |template: &PersistentVolumeClaim| {
        let mut claim = template.clone();
        let own = format!("{}-{}-{ordinal}", name(&template.metadata), name(&set.metadata));
        claim.metadata.name = Some(own);
        claim.metadata.namespace.clone_from(&set.metadata.namespace);
        if let Some(selected) = &spec.selector.match_labels {
            claim.metadata.labels.get_or_insert_default().extend(selected.clone());
        }
        claim.status = None;
        claim
    };
    spec.volume_claim_templates.iter().flatten().map(claim).collect()
}

/// A claim's volume goes before one of the same name in the template.
fn mount(volumes: &mut Vec<Volume>, set: &StatefulSet, claims: &[PersistentVolumeClaim]) {
    let templates = set.spec.iter().flat_map(|spec| spec.volume_claim_templates.iter().flatten());
    for (template, claim) in templates.zip(claims) {
        let volume_name = name(&template.metadata).to_owned();
        volumes.retain(|volume| volume.name != volume_name);
        volumes.push(Volume {
            name: volume_name,
            persistent_volume_claim: Some(PersistentVolumeClaimVolumeSource {
                claim_name: name(&claim.metadata).to_owned(),
                read_only: None,
            }),
            ..Volume::default()
        });
    }
}

/// Labels that a pod taken over from elsewhere may lack.
pub(super) fn missing_identity(pod: &Pod) -> Option<serde_json::Value> {
    let pod_name = name(&pod.metadata);
    if label(&pod.metadata, NAME_LABEL) == Some(pod_name) {
        return None;
    }
    let labels = serde_json::json!({ NAME_LABEL: pod_name, INDEX_LABEL: ordinal(pod).to_string() });
    Some(serde_json::json!({ "metadata": { "labels": labels } }))
}
