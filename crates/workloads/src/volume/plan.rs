//! What to do for one claim, or for one volume that was made for a claim. Synchronous: no clock, no I/O, no memory.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use engine::{
    effect::{Effect, Plan, Propagation, Target},
    kind::{PERSISTENT_VOLUME, PERSISTENT_VOLUME_CLAIM},
    object::annotation,
};
use k8s_openapi::{
    api::core::v1::{
        PersistentVolume, PersistentVolumeClaim, PersistentVolumeClaimStatus, PersistentVolumeStatus,
    },
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use serde_json::json;

use crate::object::{being_deleted, name, uid};

const CLAIM_FINALIZER: &str = "kubernetes.io/pvc-protection";
const VOLUME_FINALIZER: &str = "kubernetes.io/pv-protection";
/// Who made a volume.
const PROVISIONED_BY: &str = "pv.kubernetes.io/provisioned-by";
const PROVISIONER: &str = "ballast.dev/directory";

pub(crate) struct Claim<'a> {
    pub claim: Arc<PersistentVolumeClaim>,
    /// The one that was made for it.
    pub volume: Option<Arc<PersistentVolume>>,
    /// Whether a pod mounts it that has not ended.
    pub is_used: bool,
    pub directory: Option<&'a Path>,
}

pub(crate) struct Volume {
    pub volume: Arc<PersistentVolume>,
    /// Whether the claim that it was made for is still there.
    pub has_claim: bool,
}

#[derive(Default)]
pub(crate) struct VolumePlan {
    /// A directory that has to be gone before anything else is done.
    pub remove: Option<PathBuf>,
    pub effects: Vec<Effect>,
}

/// Of the volume that a claim is given.
pub(crate) fn volume_name(claim: &ObjectMeta) -> String {
    format!("pvc-{}", uid(claim))
}

pub(crate) fn plan_claim(observed: &Claim<'_>) -> Plan {
    let claim = &*observed.claim;
    let meta = &claim.metadata;
    if being_deleted(meta) {
        let effect = Effect::remove_finalizer(&PERSISTENT_VOLUME_CLAIM, meta, CLAIM_FINALIZER);
        return Plan::from(effect.filter(|_| !observed.is_used).into_iter().collect::<Vec<_>>());
    }
    let (Some(directory), Some(spec)) = (observed.directory, &claim.spec) else { return Plan::default() };
    let own = volume_name(meta);
    let chosen = spec.volume_name.as_deref().unwrap_or_default();
    // A volume that somebody made by hand is theirs to bind, and there are no devices to hand out.
    if ![own.as_str(), ""].contains(&chosen) || spec.volume_mode.as_deref() == Some("Block") {
        return Plan::default();
    }
    let Some(volume) = &observed.volume else {
        return Plan::from(vec![Effect::Create {
            kind: PERSISTENT_VOLUME,
            namespace: None,
            body: new_volume(claim, &own, directory),
            announce: None,
        }]);
    };
    let mut effects = Vec::new();
    let mut target = Target::of(&PERSISTENT_VOLUME_CLAIM, meta);
    if chosen.is_empty() {
        let body = json!({
            "metadata": { "annotations": { "pv.kubernetes.io/bind-completed": "yes" } },
            "spec": { "volumeName": own },
        });
        effects.push(Effect::patch(target.clone(), body));
        // The write before it makes the version an old one.
        target.resource_version = None;
    }
    let stored = claim.status.clone().unwrap_or_default();
    let given = volume.spec.as_ref();
    let status = PersistentVolumeClaimStatus {
        phase: Some("Bound".to_owned()),
        access_modes: given.and_then(|given| given.access_modes.clone()),
        capacity: given.and_then(|given| given.capacity.clone()),
        ..stored.clone()
    };
    if status != stored {
        let effect = Effect::status(&PERSISTENT_VOLUME_CLAIM, meta, Some(&stored), &status);
        effects.push(match effect {
            Effect::Patch { subresource, body, .. } => Effect::Patch { target, subresource, body },
            other => other,
        });
    }
    Plan::from(effects)
}

fn new_volume(claim: &PersistentVolumeClaim, own: &str, directory: &Path) -> serde_json::Value {
    let meta = &claim.metadata;
    let spec = claim.spec.clone().unwrap_or_default();
    let size = spec.resources.and_then(|resources| resources.requests?.get("storage").cloned());
    json!({
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": { "name": own, "annotations": { PROVISIONED_BY: PROVISIONER } },
        "spec": {
            "capacity": { "storage": size.unwrap_or_default() },
            "accessModes": spec.access_modes,
            "volumeMode": spec.volume_mode,
            "storageClassName": spec.storage_class_name,
            "persistentVolumeReclaimPolicy": "Delete",
            "hostPath": { "path": directory.join(uid(meta)), "type": "DirectoryOrCreate" },
            "claimRef": {
                "apiVersion": "v1", "kind": PERSISTENT_VOLUME_CLAIM.kind,
                "namespace": meta.namespace, "name": name(meta), "uid": uid(meta),
            },
        },
    })
}

/// Only volumes that were made here are looked after.
pub(crate) fn plan_volume(observed: &Volume) -> VolumePlan {
    let volume = &*observed.volume;
    let meta = &volume.metadata;
    if annotation(meta, PROVISIONED_BY) != Some(PROVISIONER) {
        return VolumePlan::default();
    }
    let effects = match (being_deleted(meta), observed.has_claim) {
        (false, true) => bound(volume),
        (false, false) => vec![Effect::Delete {
            target: Target { resource_version: None, ..Target::of(&PERSISTENT_VOLUME, meta) },
            propagation: Some(Propagation::Background),
            announce: None,
        }],
        // It goes with its claim.
        (true, true) => Vec::new(),
        (true, false) => {
            let path = volume.spec.as_ref().and_then(|spec| spec.host_path.as_ref());
            return VolumePlan {
                remove: path.map(|path| PathBuf::from(&path.path)),
                effects: Effect::remove_finalizer(&PERSISTENT_VOLUME, meta, VOLUME_FINALIZER)
                    .into_iter()
                    .collect(),
            };
        }
    };
    VolumePlan { remove: None, effects }
}

fn bound(volume: &PersistentVolume) -> Vec<Effect> {
    let stored = volume.status.clone().unwrap_or_default();
    let status = PersistentVolumeStatus { phase: Some("Bound".to_owned()), ..stored.clone() };
    let is_new = status != stored;
    let effect = || Effect::status(&PERSISTENT_VOLUME, &volume.metadata, Some(&stored), &status);
    is_new.then(effect).into_iter().collect()
}
