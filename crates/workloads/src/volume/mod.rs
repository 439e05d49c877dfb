//! Claims of storage: each gets a directory of the node, which goes with it. A claim stays as long as pods use it.
//!
//! ```text
//! PersistentVolumeClaim ──▶ PersistentVolume pvc-UID ──hostPath──▶ DIRECTORY/UID ◀── pods that mount the claim
//! ```

mod plan;
#[cfg(test)]
mod tests;

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use engine::{Cached, Failure, Key, PlanError, Queue, Reconcile, Scope, Selection, effect::Plan, kind};
use futures::future::{BoxFuture, FutureExt};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, Pod};

use self::plan::{Claim, Volume, plan_claim, plan_volume, volume_name};
use crate::object::{pods, uid};

pub(crate) const NAME: &str = "persistentvolume";

pub(crate) struct Controller {
    claims: Cached<PersistentVolumeClaim>,
    volumes: Cached<PersistentVolume>,
    pods: Cached<Pod>,
    /// Where directories are made; without it, claims wait for somebody else.
    directory: Option<PathBuf>,
}

impl Controller {
    pub fn new(scope: &Scope, directory: Option<PathBuf>, queue: &Arc<Queue<Key>>) -> Self {
        let claims: Cached<PersistentVolumeClaim> = scope.cache(Selection::all());
        let volumes: Cached<PersistentVolume> = scope.cache(Selection::all());
        let pods: Cached<Pod> = scope.cache(Selection::all());
        let own = queue.clone();
        claims.listen(move |change| {
            for claim in change.sides() {
                own.add(Key::of(&claim.metadata));
                own.add(Key::new("", volume_name(&claim.metadata)));
            }
        });
        let own = queue.clone();
        volumes.listen(move |change| {
            for volume in change.sides() {
                own.add(Key::of(&volume.metadata));
                let claim = volume.spec.as_ref().and_then(|spec| spec.claim_ref.as_ref());
                if let Some((namespace, name)) =
                    claim.and_then(|claim| claim.namespace.as_ref().zip(claim.name.as_ref()))
                {
                    own.add(Key::new(namespace, name));
                }
            }
        });
        let own = queue.clone();
        pods.listen(move |change| {
            for pod in change.sides() {
                let namespace = pod.metadata.namespace.clone().unwrap_or_default();
                for name in claims_of(pod) {
                    own.add(Key::new(&namespace, name));
                }
            }
        });
        Self { claims, volumes, pods, directory }
    }

    fn claim(&self, key: &Key) -> Plan {
        let Some(claim) = self.claims.get(key) else { return Plan::default() };
        let uses = |pod: &Arc<Pod>| !pods::finished(pod) && claims_of(pod).any(|name| name == key.name);
        plan_claim(&Claim {
            volume: self.volumes.get(&Key::new("", volume_name(&claim.metadata))),
            is_used: self.pods.in_namespace(&key.namespace).iter().any(uses),
            directory: self.directory.as_deref(),
            claim,
        })
    }

    async fn volume(&self, key: &Key) -> Result<Plan, PlanError> {
        let Some(volume) = self.volumes.get(key) else { return Ok(Plan::default()) };
        let claim = volume.spec.as_ref().and_then(|spec| spec.claim_ref.clone()).unwrap_or_default();
        let key = Key::new(claim.namespace.unwrap_or_default(), claim.name.unwrap_or_default());
        let found = self.claims.get(&key);
        let has_claim = found.is_some_and(|found| Some(uid(&found.metadata)) == claim.uid.as_deref());
        let plan = plan_volume(&Volume { volume, has_claim });
        if let Some(path) = plan.remove.filter(|path| self.is_ours(path)) {
            match tokio::fs::remove_dir_all(&path).await {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(PlanError(format!("failed to remove {}: {error}", path.display())));
                }
                _ => {}
            }
        }
        Ok(Plan::from(plan.effects))
    }

    /// A volume that somebody else wrote could name any directory.
    fn is_ours(&self, path: &Path) -> bool {
        self.directory.as_deref().is_some_and(|own| path.parent() == Some(own))
    }
}

/// Names of the claims that a pod mounts.
fn claims_of(pod: &Pod) -> impl Iterator<Item = &str> {
    let volumes = pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
    volumes.filter_map(|volume| Some(volume.persistent_volume_claim.as_ref()?.claim_name.as_str()))
}

impl Reconcile for Controller {
    fn name(&self) -> &'static str {
        NAME
    }

    fn kind(&self, key: &Key) -> Option<kind::Kind> {
        Some(match key.namespace.is_empty() {
            true => kind::PERSISTENT_VOLUME,
            false => kind::PERSISTENT_VOLUME_CLAIM,
        })
    }

    fn plan<'a>(
        &'a self,
        key: &'a Key,
        _failure: Option<&'a Failure>,
        _now: Timestamp,
    ) -> BoxFuture<'a, Result<Plan, PlanError>> {
        async move {
            match key.namespace.is_empty() {
                true => self.volume(key).await,
                false => Ok(self.claim(key)),
            }
        }
        .boxed()
    }
}
