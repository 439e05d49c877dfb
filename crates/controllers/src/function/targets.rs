//! Which autoscalers, whoever made them, scale which Function.

use std::{
    collections::{BTreeSet, HashMap},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use engine::{Change, Key};
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;

use super::function_kind;

/// Kept up with the cache's changes: to ask costs the same however many autoscalers a namespace has.
#[derive(Clone, Default)]
pub(super) struct Targets(Arc<Mutex<HashMap<Key, BTreeSet<Key>>>>);

impl Targets {
    pub fn change(&self, change: &Change<HorizontalPodAutoscaler>) {
        let mut all = self.all();
        if let Some((function, hpa)) = change.old.as_deref().and_then(target_of)
            && let Some(hpas) = all.get_mut(&function)
        {
            hpas.remove(&hpa);
            if hpas.is_empty() {
                all.remove(&function);
            }
        }
        if let Some((function, hpa)) = change.new.as_deref().and_then(target_of) {
            all.entry(function).or_default().insert(hpa);
        }
    }

    /// The autoscalers that name this Function.
    pub fn of(&self, function: &Key) -> BTreeSet<Key> {
        self.all().get(function).cloned().unwrap_or_default()
    }

    fn all(&self) -> MutexGuard<'_, HashMap<Key, BTreeSet<Key>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The Function that an autoscaler names, and the autoscaler.
pub(super) fn target_of(hpa: &HorizontalPodAutoscaler) -> Option<(Key, Key)> {
    let target = &hpa.spec.scale_target_ref;
    let own = Key::of(&hpa.metadata);
    (target.kind == function_kind().kind).then(|| (Key::new(&own.namespace, &target.name), own))
}
