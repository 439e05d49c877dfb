//! HorizontalPodAutoscaler: asks the metrics APIs, lets `decide::hpa` decide, writes the target's scale.
//!
//! - `advice`: the same decision for others, who write it themselves
//! - `metrics`: the metrics APIs
//! - `observe`: pods and answers in the decision's terms
//! - `plan`: a decision into effects
//! - `status`: conditions and current metrics

pub(crate) mod advice;
pub(crate) mod metrics;
mod observe;
mod plan;
mod status;
#[cfg(test)]
mod tests;

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use decide::hpa::{Memory, Settings};
use engine::{
    Cached, Failure, Key, PlanError, Queue, Reconcile,
    effect::{Plan, Target},
    execute,
    kind::{Kind, group_of},
};
use futures::future::{BoxFuture, FutureExt};
use jiff::Timestamp;
use k8s_openapi::api::{
    autoscaling::v2::{HorizontalPodAutoscaler, HorizontalPodAutoscalerSpec},
    core::v1::Pod,
};
use kube::{Client, core::SelectorExt};
use scaling::{History, Outcome, Record};

use crate::{
    object::{being_deleted, uid},
    options::Options,
    universe::Universe,
};
use observe::Circumstances;
use plan::{Observed, Trouble, plan};

pub(crate) const NAME: &str = "horizontalpodautoscaler";
/// In the record of decisions.
const POLICY: &str = "hpa";

pub(crate) struct Controller {
    client: Client,
    autoscalers: Cached<HorizontalPodAutoscaler>,
    pods: Cached<Pod>,
    universe: Universe,
    period: Duration,
    settings: Settings,
    history: History,
    /// By uid, so that an autoscaler deleted and made again begins anew. What matters of it is also in the object,
    /// for the next process.
    memories: Mutex<HashMap<String, Memory>>,
}

impl Controller {
    pub fn new(
        client: Client,
        autoscalers: Cached<HorizontalPodAutoscaler>,
        pods: Cached<Pod>,
        universe: Universe,
        options: &Options,
        queue: &Arc<Queue<Key>>,
    ) -> Self {
        let own = queue.clone();
        // Its own status and annotations change with every decision; only another spec asks for another one.
        autoscalers.listen(move |change| {
            let generation = |side: &Option<Arc<HorizontalPodAutoscaler>>| {
                side.as_ref().map(|hpa| (hpa.metadata.uid.clone(), hpa.metadata.generation, hpa.spec.clone()))
            };
            if generation(&change.old) != generation(&change.new)
                && let Some(hpa) = change.either()
            {
                own.add(Key::of(&hpa.metadata));
            }
        });
        let (period, settings) = (options.hpa_sync_period, options.hpa_settings);
        let (history, memories) = (options.history.clone(), Mutex::default());
        Self { client, autoscalers, pods, universe, period, settings, history, memories }
    }

    async fn turn(&self, key: &Key, failure: Option<&Failure>, now: Timestamp) -> Result<Plan, PlanError> {
        let hpa = self.autoscalers.get(key).filter(|hpa| !being_deleted(&hpa.metadata));
        let Some(hpa) = hpa else { return Ok(Plan::default()) };
        let spec = &hpa.spec;
        let memory = self.memory(&hpa);
        let scaled = self.target(key, spec).await;
        let input = match &scaled {
            Ok(scaled) => self.input(key, &hpa, spec, scaled, memory).await,
            Err(trouble) => Err(trouble.clone()),
        };
        let observed = Observed {
            hpa: hpa.clone(),
            target: scaled.as_ref().ok().map(|scaled| (scaled.target.clone(), scaled.replicas)),
            input,
            failure: failure.cloned(),
        };
        let (mut plan, decision) = plan(&observed, now);
        if let (Some(decision), Ok(scaled)) = (decision, scaled) {
            let outcome = if decision.changes() { Outcome::Written } else { Outcome::Nothing };
            let gist = format!("{} {} {}", decision.current, decision.desired, decision.reason.code);
            self.history.note(Record::new(now, POLICY, &scaled.target, &decision, outcome), gist);
            let mut memories = self.memories.lock().unwrap_or_else(PoisonError::into_inner);
            memories.insert(uid(&hpa.metadata).to_owned(), decision.memory);
        }
        if let Ok(at) = now.checked_add(self.period) {
            plan.look_again(at);
        }
        Ok(plan)
    }

    fn memory(&self, hpa: &HorizontalPodAutoscaler) -> Memory {
        let mut memories = self.memories.lock().unwrap_or_else(PoisonError::into_inner);
        // Those of deleted autoscalers need not be kept for ever.
        if memories.len() > 64 + 2 * self.autoscalers.all().len() {
            let alive: Vec<String> =
                self.autoscalers.all().iter().map(|hpa| uid(&hpa.metadata).to_owned()).collect();
            memories.retain(|uid, _| alive.contains(uid));
        }
        memories.get(uid(&hpa.metadata)).cloned().unwrap_or_else(|| plan::stored_memory(hpa))
    }

    async fn target(&self, key: &Key, spec: &HorizontalPodAutoscalerSpec) -> Result<Scaled, Trouble> {
        let reference = &spec.scale_target_ref;
        let api_version = reference.api_version.as_deref().unwrap_or("v1");
        let unable = |why: String| {
            Trouble::NoScale(format!(
                "the HPA controller was unable to get the target's current scale: {why}"
            ))
        };
        let kind = self.kind_of(api_version, &reference.kind).await.map_err(unable)?;
        let scale = execute::api(&self.client, &kind, Some(&key.namespace)).get_scale(&reference.name).await;
        let scale = scale.map_err(|error| unable(metrics::words(&error)))?;
        let status = scale.status.unwrap_or_default();
        let selector = status.selector.filter(|selector| !selector.is_empty());
        Ok(Scaled {
            target: Target::of(&kind, &scale.metadata),
            replicas: scale.spec.and_then(|spec| spec.replicas).unwrap_or(0),
            status_replicas: status.replicas,
            selector,
        })
    }

    async fn kind_of(&self, api_version: &str, kind: &str) -> Result<Kind, String> {
        self.universe.discovered().await;
        self.universe
            .find(group_of(api_version), kind)
            .ok_or_else(|| format!("no matches for kind {kind:?} in group {:?}", group_of(api_version)))
    }

    async fn input(
        &self,
        key: &Key,
        hpa: &HorizontalPodAutoscaler,
        spec: &HorizontalPodAutoscalerSpec,
        scaled: &Scaled,
        memory: Memory,
    ) -> Result<plan::Input, Trouble> {
        let Some(selector) = &scaled.selector else {
            return Err(Trouble::BadSelector("the HPA target's scale is missing a selector".into()));
        };
        let wanted = metrics::parse_selector(selector).map_err(|why| {
            Trouble::BadSelector(format!(
                "couldn't convert selector into a corresponding internal selector object: {why}"
            ))
        })?;
        let mut pods = self.pods.in_namespace(&key.namespace);
        pods.retain(|pod| wanted.matches(pod.metadata.labels.as_ref().unwrap_or(&Default::default())));
        let source =
            metrics::Metrics { client: &self.client, kinds: &self.universe, namespace: &key.namespace };
        let answers = source.fetch(spec, selector).await;
        let circumstances = Circumstances { settings: self.settings, memory };
        observe::input(hpa, spec, scaled, &pods, answers, circumstances)
    }
}

/// The target, as its scale subresource shows it.
pub(super) struct Scaled {
    pub target: Target,
    pub replicas: i32,
    pub status_replicas: i32,
    pub selector: Option<String>,
}

impl Reconcile for Controller {
    fn name(&self) -> &'static str {
        NAME
    }

    fn kind(&self, _: &Key) -> Option<engine::kind::Kind> {
        Some(engine::kind::HORIZONTAL_POD_AUTOSCALER)
    }

    fn plan<'a>(
        &'a self,
        key: &'a Key,
        failure: Option<&'a Failure>,
        now: Timestamp,
    ) -> BoxFuture<'a, Result<Plan, PlanError>> {
        self.turn(key, failure, now).boxed()
    }
}
