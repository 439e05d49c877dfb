//! What a decision about an Hvpa depends on, gathered from the caches and the last readings.

use std::sync::Arc;

use api::hvpa::{Hvpa, Resolved, TargetRef, UpdateMode};
use decide::{
    hvpa::{HorizontalRecommendation, LimitRange as Bounds, Mode, VerticalRecommendation},
    recommender::amount::{Resource, Resources},
};
use engine::{
    Cached, IndexId, Key,
    effect::Target,
    kind::group_of,
    object::{being_deleted, by_age, name, uid},
};
use k8s_openapi::api::{
    autoscaling::v2::{HorizontalPodAutoscaler, HorizontalPodAutoscalerSpec},
    core::v1::LimitRange,
};
use kube::api::DynamicObject;
use serde_json::json;

use super::{
    adopted, horizontal, hvpa_kind,
    pods::amounts,
    readings::{Asked, Readings},
    vertical,
    workload::{SizesIn, Workload, Workloads, kind_of, known, place, supported},
};
use crate::autoscaled::target_of;

pub struct Caches {
    pub hvpas: Cached<Hvpa>,
    /// By the workload that each scales.
    pub by_target: IndexId,
    pub workloads: Workloads,
    pub autoscalers: Cached<HorizontalPodAutoscaler>,
    pub autoscaler_targets: IndexId,
    pub vpas: Cached<DynamicObject>,
    /// By the workload that each is about.
    pub vpa_targets: IndexId,
    pub limit_ranges: Cached<LimitRange>,
}

/// What there is to see of an Hvpa.
pub enum Sight {
    Gone,
    /// Its target has yet to be read.
    NotYet,
    Seen(Box<Seen>),
}

/// One Hvpa with all that matters to it.
pub struct Seen {
    pub hvpa: Arc<Hvpa>,
    pub workload: Option<Workload>,
    /// What can be decided on, or why nothing can.
    pub resolved: Result<Resolved, Trouble>,
    pub horizontal: Horizontal,
    pub vertical: Vertical,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Trouble {
    pub reason: &'static str,
    pub message: String,
}

/// Who recommends replicas, and what.
#[derive(Clone, Debug)]
pub enum Horizontal {
    /// A HorizontalPodAutoscaler that scales the Hvpa.
    Autoscaler { name: String, recommendation: Option<HorizontalRecommendation> },
    /// Whoever writes the Hvpa's scale.
    Scale,
    /// Our own algorithm, over the Hvpa's metrics or over those of an autoscaler that scales the target and is switched off;
    /// no answer before the first.
    Metrics { adopted: Option<String>, answer: Option<Result<HorizontalRecommendation, String>> },
    /// There is no count: one pod on each node.
    Nobody,
}

/// Who recommends sizes, and what.
#[derive(Clone, Debug)]
pub enum Vertical {
    Autoscaler { name: String, found: Option<Arc<DynamicObject>> },
    Embedded(Option<Result<VerticalRecommendation, String>>),
    Nobody,
}

impl Trouble {
    pub fn new(reason: &'static str, message: impl Into<String>) -> Self {
        Self { reason, message: message.into() }
    }
}

impl Vertical {
    pub fn recommendation(&self) -> Option<VerticalRecommendation> {
        match self {
            Vertical::Autoscaler { found, .. } => found.as_ref().map(|found| vertical::from_vpa(found)),
            Vertical::Embedded(Some(Ok(recommendation))) => Some(recommendation.clone()),
            Vertical::Embedded(_) | Vertical::Nobody => None,
        }
    }
}

impl Seen {
    /// The autoscaler of the target whose metrics are read.
    pub fn adopted(&self) -> Option<&str> {
        match &self.horizontal {
            Horizontal::Metrics { adopted, .. } => adopted.as_deref(),
            _ => None,
        }
    }

    pub fn is_in_place(&self) -> bool {
        matches!(self.hvpa.spec.update_mode, UpdateMode::InPlace | UpdateMode::InPlaceOrRecreate)
    }
}

impl Caches {
    pub fn see(&self, key: &Key, readings: &Readings) -> Sight {
        let Some(hvpa) = self.present(key) else { return Sight::Gone };
        let Some((workload, resolved)) = self.resolve(key, &hvpa, readings) else { return Sight::NotYet };
        let (mut horizontal, mut vertical) = (Horizontal::Nobody, Vertical::Nobody);
        if let (Some(workload), Ok(resolved)) = (&workload, &resolved) {
            horizontal = self.horizontal(key, workload, resolved);
            vertical = self.vertical(&hvpa, workload, resolved);
        }
        if matches!(horizontal, Horizontal::Metrics { .. }) || matches!(vertical, Vertical::Embedded(_)) {
            let reading = readings.get(key);
            if let Horizontal::Metrics { answer, .. } = &mut horizontal {
                *answer = reading.horizontal;
            }
            if let Vertical::Embedded(answer) = &mut vertical {
                *answer = reading.vertical;
            }
        }
        Sight::Seen(Box::new(Seen { hvpa, workload, resolved, horizontal, vertical }))
    }

    fn present(&self, key: &Key) -> Option<Arc<Hvpa>> {
        self.hvpas.get(key).filter(|hvpa| !being_deleted(&hvpa.metadata))
    }

    /// What an Hvpa scales, if that has to be asked for.
    pub fn to_read(&self, key: &Key) -> Option<TargetRef> {
        let reference = &self.present(key)?.spec.target_ref;
        (kind_of(reference).is_none() && reference.api_version.is_some()).then(|| reference.clone())
    }

    /// Nothing while the target has yet to be read.
    fn resolve(
        &self,
        key: &Key,
        hvpa: &Hvpa,
        readings: &Readings,
    ) -> Option<(Option<Workload>, Result<Resolved, Trouble>)> {
        let mut resolved = match hvpa.spec.resolve() {
            Ok(resolved) => resolved,
            Err(error) => return Some((None, Err(Trouble::new("InvalidSpec", format!("spec.{error}"))))),
        };
        let workload = match self.target(key, &hvpa.spec.target_ref, readings)? {
            Ok(workload) => workload,
            Err(trouble) => return Some((None, Err(trouble))),
        };
        if let Some(message) = self.conflict(key, hvpa, &workload) {
            return Some((Some(workload), Err(Trouble::new("TargetConflict", message))));
        }
        resolved.spec.vertical.limit_range = self.bounds(&key.namespace);
        if let Some(hpa) = self.direct(key, &workload).first()
            && let Err(message) = adopted::adopt(&mut resolved, hpa)
        {
            return Some((Some(workload), Err(Trouble::new("TargetConflict", message))));
        }
        fit(&mut resolved, &workload);
        Some((Some(workload), Ok(resolved)))
    }

    fn target(
        &self,
        key: &Key,
        reference: &TargetRef,
        readings: &Readings,
    ) -> Option<Result<Workload, Trouble>> {
        let TargetRef { api_version, kind, name } = reference;
        if let Some(known) = kind_of(reference) {
            let missing = || Trouble::new("TargetNotFound", format!("there is no {kind} {name}"));
            return Some(self.workloads.get(known, &Key::new(&key.namespace, name)).ok_or_else(missing));
        }
        if api_version.is_none() {
            let message = format!("which {kind} is meant? Give its apiVersion, or choose of {}", supported());
            return Some(Err(Trouble::new("UnsupportedTarget", message)));
        }
        let scaled = readings.scale(key, reference)?;
        Some(scaled.map(|scaled| self.workloads.with_scale(&scaled)))
    }

    /// Who else scales the same pods. Nothing is written while two would undo each other's work.
    fn conflict(&self, key: &Key, hvpa: &Hvpa, workload: &Workload) -> Option<String> {
        let kind = &workload.target.kind;
        let target = format!("{} {}", kind.kind, workload.target.name);
        let at = place(&kind.kind, &key.namespace, &workload.target.name);
        let mut others = self.hvpas.by_index(self.by_target, &at);
        let means_it = |reference: &TargetRef| {
            let group = reference.api_version.as_deref().map(group_of);
            group.is_none_or(|group| group == kind.group)
        };
        others.retain(|other| !being_deleted(&other.metadata) && means_it(&other.spec.target_ref));
        others.sort_by(|a, b| by_age(&a.metadata, &b.metadata));
        if let Some(first) = others.first().filter(|first| uid(&first.metadata) != uid(&hvpa.metadata)) {
            return Some(format!("{target} is scaled by Hvpa {} already", name(&first.metadata)));
        }
        if let Some(why) = workload.own_scaling {
            return Some(format!("{target}: {why}"));
        }
        let (direct, of_hvpa) = (self.direct(key, workload), self.of_hvpa(key));
        if let Some(message) = adopted::conflict(&direct, &of_hvpa, &target, &key.name) {
            return Some(message);
        }
        let acting = std::iter::once(&workload.target)
            .chain(&workload.made)
            .find_map(|one| self.vpas_of(one).into_iter().find(|vpa| vertical::acts_on(vpa, one)));
        if let Some(vpa) = acting {
            return Some(format!(
                "VerticalPodAutoscaler {} changes the pods of {target} itself: set its updateMode to Off",
                name(&vpa.metadata)
            ));
        }
        if let Some(manager) = &workload.manager {
            let owner = format!("{} {}", manager.kind, manager.name);
            let is_known = known(Some(&manager.api_version), &manager.kind).is_some();
            let instead = if is_known { format!(": let the Hvpa scale {owner}") } else { String::new() };
            return Some(format!(
                "{target} belongs to {owner}, which would undo every change of it{instead}"
            ));
        }
        workload
            .is_on_demand
            .then(|| format!("{target} is a function on demand, scaled by its SlimFaas annotations"))
    }

    /// The autoscalers of the target itself, the oldest first.
    fn direct(&self, key: &Key, workload: &Workload) -> Vec<Arc<HorizontalPodAutoscaler>> {
        let target = Key::new(&key.namespace, &workload.target.name);
        self.scaling(&target_of(&workload.target.kind, &target))
    }

    /// The autoscalers of the Hvpa, the oldest first.
    fn of_hvpa(&self, key: &Key) -> Vec<Arc<HorizontalPodAutoscaler>> {
        self.scaling(&target_of(&hvpa_kind(), key))
    }

    fn scaling(&self, target: &str) -> Vec<Arc<HorizontalPodAutoscaler>> {
        let mut all = self.autoscalers.by_index(self.autoscaler_targets, target);
        all.sort_by(|a, b| by_age(&a.metadata, &b.metadata));
        all
    }

    fn vpas_of(&self, workload: &Target) -> Vec<Arc<DynamicObject>> {
        let namespace = workload.namespace.as_deref().unwrap_or_default();
        self.vpas.by_index(self.vpa_targets, &place(&workload.kind.kind, namespace, &workload.name))
    }

    /// The namespace's bounds for containers: the narrowest of all.
    fn bounds(&self, namespace: &str) -> Bounds {
        let mut bounds = Bounds::default();
        for range in self.limit_ranges.in_namespace(namespace) {
            let limits = range.spec.iter().flat_map(|spec| &spec.limits);
            for item in limits.filter(|item| item.type_ == "Container") {
                let (min, max) = (amounts(item.min.as_ref()), amounts(item.max.as_ref()));
                narrow(&mut bounds.min, &min, u64::max);
                narrow(&mut bounds.max, &max, u64::min);
            }
        }
        bounds
    }

    fn horizontal(&self, key: &Key, workload: &Workload, resolved: &Resolved) -> Horizontal {
        if !workload.has_scale {
            return Horizontal::Nobody;
        }
        if let Some(hpa) = self.of_hvpa(key).first() {
            let name = name(&hpa.metadata).to_owned();
            let recommendation = horizontal::from_autoscaler(hpa, workload.replicas);
            return Horizontal::Autoscaler { name, recommendation };
        }
        let adopted = self.direct(key, workload).first().map(|hpa| name(&hpa.metadata).to_owned());
        match resolved.spec.horizontal.deployed {
            true => Horizontal::Metrics { adopted, answer: None },
            false => Horizontal::Scale,
        }
    }

    fn vertical(&self, hvpa: &Hvpa, workload: &Workload, resolved: &Resolved) -> Vertical {
        if !resolved.has_vertical {
            return Vertical::Nobody;
        }
        if !self.vpas.is_synced() || vertical::wants_embedded(hvpa) {
            return Vertical::Embedded(None);
        }
        let found = vertical::choose(hvpa, self.vpas_of(&workload.target));
        let name =
            found.as_ref().map_or_else(|| vertical::child_name(hvpa), |vpa| name(&vpa.metadata).to_owned());
        Vertical::Autoscaler { name, found }
    }

    /// What to ask the metrics APIs about an Hvpa.
    pub fn ask(&self, key: &Key, readings: &Readings) -> Option<Asked> {
        let hvpa = self.present(key)?;
        let (workload, resolved) = self.resolve(key, &hvpa, readings)?;
        let (workload, resolved) = (workload?, resolved.ok()?);
        let horizontal = matches!(self.horizontal(key, &workload, &resolved), Horizontal::Metrics { .. });
        let vertical = matches!(self.vertical(&hvpa, &workload, &resolved), Vertical::Embedded(_));
        if workload.selector.is_empty() || !(horizontal || vertical) {
            return None;
        }
        Some(Asked {
            uid: uid(&hvpa.metadata).to_owned(),
            namespace: key.namespace.clone(),
            selector: workload.selector,
            replicas: workload.replicas,
            status_replicas: workload.status_replicas,
            sizes: workload.pods.first().map(|pod| super::pods::pod_sizes(pod)).unwrap_or(workload.sizes),
            pods: workload.pods,
            horizontal: horizontal.then(|| autoscaler_spec(&hvpa, &resolved)).flatten(),
            vertical: vertical.then(|| vertical::recommender(&resolved.spec)),
        })
    }
}

/// What of an Hvpa's wishes its target can fulfil.
pub fn fit(resolved: &mut Resolved, workload: &Workload) {
    narrow(&mut resolved.spec.vertical.limit_range.min, &workload.least, u64::max);
    resolved.spec.horizontal.deployed &= workload.has_scale;
    if workload.sizes_in == SizesIn::Nowhere {
        // Replicas carry all of it, whatever share of it a mode would have left to sizes.
        resolved.has_vertical = false;
        resolved.spec.mode = Mode::HpaBiased;
    }
}

/// The Hvpa's metrics as an autoscaler's spec.
fn autoscaler_spec(hvpa: &Hvpa, resolved: &Resolved) -> Option<HorizontalPodAutoscalerSpec> {
    let mut form = serde_json::to_value(&resolved.horizontal).ok()?;
    form["scaleTargetRef"] = json!({ "kind": "Hvpa", "name": name(&hvpa.metadata) });
    serde_json::from_value(form).ok()
}

fn narrow(to: &mut Resources, by: &Resources, choose: fn(u64, u64) -> u64) {
    for resource in Resource::ALL {
        if let Some(amount) = by.get(resource) {
            let known = to.get(resource);
            to.set(resource, Some(known.map_or(amount, |known| choose(known, amount))));
        }
    }
}
