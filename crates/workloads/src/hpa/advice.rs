//! What a HorizontalPodAutoscaler of some spec would do, for a controller that carries it out in its own way.

use std::{collections::BTreeMap, sync::Arc};

use decide::hpa::{self, Decision, Memory, Settings, Source};
use engine::{Universe, effect::Target, kind};
use jiff::Timestamp;
use k8s_openapi::api::{
    autoscaling::v2::{HorizontalPodAutoscaler, HorizontalPodAutoscalerSpec},
    core::v1::Pod,
};
use kube::Client;

use super::{
    Scaled,
    metrics::{Answers, Metrics, Usage},
    observe::{self, Circumstances},
    plan::Trouble,
};

/// Asks the metrics APIs, and decides as the autoscaler does. Writes nothing.
pub struct Advisor {
    pub client: Client,
    /// Finds the objects that metrics of type `Object` are about.
    pub kinds: Arc<Universe>,
    pub settings: Settings,
}

/// Whom the advice is about.
pub struct Question<'a> {
    pub namespace: &'a str,
    pub spec: &'a HorizontalPodAutoscalerSpec,
    pub replicas: i32,
    pub status_replicas: i32,
    /// As a scale's status has it.
    pub selector: &'a str,
    /// Those that the selector matches.
    pub pods: &'a [Arc<Pod>],
    pub memory: Memory,
}

#[derive(Clone, Debug)]
pub struct Advice {
    pub decision: Decision,
    /// What the metric that decided reads, and what is wanted of it.
    pub deciding: Option<Source>,
    /// More is wanted than the bounds or the rate limit let it say.
    pub is_limited: bool,
}

impl Advisor {
    /// What each pod used, as `metrics.k8s.io` has it.
    ///
    /// # Errors
    /// In words, if the API does not tell.
    pub async fn usage(&self, namespace: &str, selector: &str) -> Result<BTreeMap<String, Usage>, String> {
        self.metrics(namespace).usage(selector).await
    }

    /// # Errors
    /// In words, if the spec cannot be used.
    pub async fn advise(
        &self,
        question: Question<'_>,
        usage: Result<BTreeMap<String, Usage>, String>,
        now: Timestamp,
    ) -> Result<Advice, String> {
        let Question { namespace, spec, replicas, status_replicas, selector, pods, memory } = question;
        let others = self.metrics(namespace).others(spec, selector).await;
        let scaled = Scaled {
            target: Target::absent(&kind::HORIZONTAL_POD_AUTOSCALER, Some(namespace), ""),
            replicas,
            status_replicas,
            selector: Some(selector.to_owned()),
        };
        let unnamed = HorizontalPodAutoscaler { spec: spec.clone(), ..HorizontalPodAutoscaler::default() };
        let circumstances = Circumstances { settings: self.settings, memory };
        let input = observe::input(&unnamed, spec, &scaled, pods, Answers { usage, others }, circumstances);
        let input = input.map_err(|trouble| match trouble {
            Trouble::NoScale(why) | Trouble::BadSelector(why) | Trouble::BadSpec(why) => why,
        })?;
        let decision = hpa::decide(now, &input.spec, &input.observed, input.memory);
        let deciding = input.spec.deciding(&decision);
        let is_limited = deciding.is_some_and(|(_, proposed)| proposed > decision.desired);
        let deciding = deciding.map(|(metric, _)| metric.source.clone());
        Ok(Advice { decision, deciding, is_limited })
    }

    fn metrics<'a>(&'a self, namespace: &'a str) -> Metrics<'a> {
        Metrics { client: &self.client, kinds: &self.kinds, namespace }
    }
}
