//! From one metric's answer to a proposal.

use std::sync::Arc;

use jiff::Timestamp;

use super::{
    observed::{Answer, Condition, Observed, Phase, Pod, Requests, Sample},
    rule::{Cause, Model, PodCounts, Reading},
    spec::{Metric, ResourceTarget, Settings, Source, Spec, Tolerance, TotalTarget},
};
use crate::window::{after, before};

/// What is the same for all metrics of one decision.
pub(super) struct Context<'a> {
    pub spec: &'a Spec,
    pub observed: &'a Observed,
    pub tolerance: Tolerance,
    now: Timestamp,
    /// A pod that started later is still within its CPU initialization period.
    warm_up_began: Timestamp,
    /// A sample taken earlier is stale.
    oldest_sample: Timestamp,
}

#[derive(Clone, Copy, PartialEq)]
enum Class {
    Ignored,
    Unready,
    Missing(Why),
    Ready(i64),
}

/// Why a pod counts as one without a sample.
#[derive(Clone, Copy, PartialEq)]
enum Why {
    NoSample,
    Stale,
    Negative,
}

impl<'a> Context<'a> {
    pub fn new(now: Timestamp, spec: &'a Spec, observed: &'a Observed) -> Self {
        let Settings { cpu_initialization_period_seconds, metric_max_age_seconds, .. } = spec.settings;
        Context {
            spec,
            observed,
            tolerance: spec.tolerance(),
            now,
            warm_up_began: before(now, cpu_initialization_period_seconds.into()),
            oldest_sample: before(now, metric_max_age_seconds.into()),
        }
    }

    pub fn read(&self, idx: usize, metric: &Metric) -> Result<Reading, Cause> {
        let answer = match self.observed.answers.get(idx) {
            None => return Err(Cause::NoAnswer),
            Some(Answer::Failed(message)) => return Err(Cause::Failed { message: message.clone() }),
            Some(answer) => answer,
        };
        match (&metric.source, answer) {
            (Source::Resource { resource, target, .. }, Answer::Pods { samples, requests }) => {
                let is_cpu = &**resource == "cpu";
                match *target {
                    ResourceTarget::Utilization(percent) => {
                        self.utilization(&metric.label, percent, is_cpu, samples, requests)
                    }
                    ResourceTarget::AverageValue(target) => {
                        self.average(&metric.label, target.0, is_cpu, samples)
                    }
                }
            }
            (Source::Pods { target }, Answer::Pods { samples, .. }) => {
                self.average(&metric.label, target.0, false, samples)
            }
            (Source::Object { target } | Source::External { target }, Answer::Total { values, at }) => {
                self.total(&metric.label, *target, values, *at)
            }
            _ => Err(Cause::NoAnswer),
        }
    }

    /// Percent of requests, truncated before the ratio is taken, as the HPA has always done.
    fn utilization(
        &self,
        label: &Arc<str>,
        target: i32,
        is_cpu: bool,
        samples: &[Option<Sample>],
        requests: &Requests,
    ) -> Result<Reading, Cause> {
        let requests = match requests {
            Requests::Known(requests) => requests,
            Requests::Missing { pod, container } => {
                return Err(Cause::MissingRequest { pod: pod.clone(), container: container.clone() });
            }
        };
        // A pod without a sample counts at its full request when the others say down, or at the target if that is higher.
        let fallback_percent = i128::from(target.max(100));
        let mut pods = PodCounts::default();
        let (mut used, mut requested) = (0i128, 0i128);
        let (mut missing_used, mut missing_requested, mut unready_requested) = (0i128, 0i128, 0i128);
        for (idx, pod) in self.observed.pods.iter().enumerate() {
            let request = i128::from(requests.get(idx).copied().unwrap_or(0).max(0));
            match self.classify(pod, samples.get(idx).copied().flatten(), is_cpu) {
                Class::Ignored => pods.ignored += 1,
                Class::Unready => {
                    pods.unready += 1;
                    unready_requested += request;
                }
                Class::Missing(_) => {
                    pods.missing += 1;
                    missing_used += request * fallback_percent / 100;
                    missing_requested += request;
                }
                Class::Ready(value) => {
                    pods.ready += 1;
                    used += i128::from(value);
                    requested += request;
                }
            }
        }
        self.check(target.into(), &pods, samples, is_cpu)?;
        let percent = |used: i128, requested: i128| match requested {
            0 => Err(Cause::ZeroRequests),
            _ => Ok((used * 100 / requested).min(i128::from(i32::MAX)) as i64),
        };
        let usage = percent(used, requested)?;
        let ratio = usage as f64 / f64::from(target);
        let with_unready = pods.unready > 0 && ratio > 1.0;
        let mut refilled = None;
        let mut count = pods.ready;
        if with_unready || pods.missing > 0 {
            if pods.missing > 0 && ratio != 1.0 {
                count += pods.missing;
                requested += missing_requested;
                used += if ratio < 1.0 { missing_used } else { 0 };
            }
            if with_unready {
                count += pods.unready;
                requested += unready_requested;
            }
            refilled = Some(percent(used, requested)?);
        }
        let average = (used_by_ready(used, missing_used, ratio, &pods) / i128::from(pods.ready)) as i64;
        Ok(Reading {
            model: Model::Utilization { average },
            target: target.into(),
            usage,
            refilled,
            count,
            pods,
            ..self.reading(label)
        })
    }

    /// The average figure of the pods, truncated to thousandths.
    fn average(
        &self,
        label: &Arc<str>,
        target: i64,
        is_cpu: bool,
        samples: &[Option<Sample>],
    ) -> Result<Reading, Cause> {
        let mut pods = PodCounts::default();
        let mut used = 0i128;
        for (idx, pod) in self.observed.pods.iter().enumerate() {
            match self.classify(pod, samples.get(idx).copied().flatten(), is_cpu) {
                Class::Ignored => pods.ignored += 1,
                Class::Unready => pods.unready += 1,
                Class::Missing(_) => pods.missing += 1,
                Class::Ready(value) => {
                    pods.ready += 1;
                    used += i128::from(value);
                }
            }
        }
        self.check(target, &pods, samples, is_cpu)?;
        let usage = (used / i128::from(pods.ready)) as i64;
        let ratio = usage as f64 / target as f64;
        let with_unready = pods.unready > 0 && ratio > 1.0;
        let mut refilled = None;
        let mut count = pods.ready;
        if with_unready || pods.missing > 0 {
            if pods.missing > 0 && ratio != 1.0 {
                count += pods.missing;
                used += if ratio < 1.0 { i128::from(target) * i128::from(pods.missing) } else { 0 };
            }
            if with_unready {
                count += pods.unready;
            }
            refilled = Some((used / i128::from(count)) as i64);
        }
        Ok(Reading { model: Model::Average, target, usage, refilled, count, pods, ..self.reading(label) })
    }

    /// One figure for the whole workload.
    fn total(
        &self,
        label: &Arc<str>,
        target: TotalTarget,
        values: &[crate::quantity::Figure],
        at: Option<Timestamp>,
    ) -> Result<Reading, Cause> {
        if values.is_empty() {
            return Err(Cause::NoValue);
        }
        if at.is_some_and(|at| at < self.oldest_sample) {
            return Err(Cause::Stale);
        }
        let mut usage = 0i64;
        for value in values {
            match value.0 {
                Some(value) if value.0 >= 0 => usage = usage.saturating_add(value.0),
                _ => return Err(Cause::Unusable),
            }
        }
        let (model, target) = match target {
            TotalTarget::Value(target) => (Model::Value, target.0),
            TotalTarget::AverageValue(target) => (Model::AverageValue, target.0),
        };
        if target <= 0 {
            return Err(Cause::BadTarget);
        }
        let mut pods = PodCounts::default();
        if model == Model::Value && self.observed.current != 0 {
            // On target nothing is multiplied, so pods are not missed.
            let on_target = self.tolerance.includes(usage as f64 / target as f64);
            if self.observed.pods.is_empty() && !on_target {
                return Err(Cause::NoPods);
            }
            for pod in &self.observed.pods {
                let ready = pod.ready.is_some_and(|ready| ready.status == Condition::True);
                if pod.phase == Phase::Running && ready {
                    pods.ready += 1;
                } else {
                    pods.ignored += 1;
                }
            }
        }
        Ok(Reading { model, target, usage, count: pods.ready, pods, ..self.reading(label) })
    }

    fn reading(&self, label: &Arc<str>) -> Reading {
        Reading {
            metric: label.clone(),
            model: Model::Average,
            usage: 0,
            target: 0,
            refilled: None,
            count: 0,
            status_replicas: self.observed.status_replicas,
            tolerance: self.tolerance,
            pods: PodCounts::default(),
        }
    }

    fn check(
        &self,
        target: i64,
        pods: &PodCounts,
        samples: &[Option<Sample>],
        is_cpu: bool,
    ) -> Result<(), Cause> {
        if target <= 0 {
            Err(Cause::BadTarget)
        } else if self.observed.pods.is_empty() {
            Err(Cause::NoPods)
        } else if pods.ready == 0 {
            Err(self.no_samples(pods, samples, is_cpu))
        } else {
            Ok(())
        }
    }

    fn no_samples(&self, pods: &PodCounts, samples: &[Option<Sample>], is_cpu: bool) -> Cause {
        let classes = self
            .observed
            .pods
            .iter()
            .enumerate()
            .map(|(idx, pod)| self.classify(pod, samples.get(idx).copied().flatten(), is_cpu));
        let (mut stale, mut unusable) = (0, 0);
        for class in classes {
            stale += u32::from(class == Class::Missing(Why::Stale));
            unusable += u32::from(class == Class::Missing(Why::Negative));
        }
        Cause::NoSamples {
            unready: pods.unready,
            stale,
            max_age_seconds: self.spec.settings.metric_max_age_seconds,
            unusable,
            missing: pods.missing.saturating_sub(stale).saturating_sub(unusable),
            ignored: pods.ignored,
        }
    }

    fn classify(&self, pod: &Pod, sample: Option<Sample>, is_cpu: bool) -> Class {
        if pod.deleting || pod.phase == Phase::Failed {
            return Class::Ignored;
        }
        if pod.phase == Phase::Pending {
            return Class::Unready;
        }
        let Some(sample) = sample else { return Class::Missing(Why::NoSample) };
        if sample.at.is_some_and(|at| at < self.oldest_sample) {
            return Class::Missing(Why::Stale);
        }
        if sample.value < 0 {
            return Class::Missing(Why::Negative);
        }
        if is_cpu && self.starting(pod, &sample) {
            return Class::Unready;
        }
        Class::Ready(sample.value)
    }

    /// CPU spent on starting up says nothing about load.
    fn starting(&self, pod: &Pod, sample: &Sample) -> bool {
        let (Some(ready), Some(start)) = (pod.ready, pod.start) else {
            return true;
        };
        let unready = ready.status == Condition::False;
        if start > self.warm_up_began {
            unready || sample.at.unwrap_or(self.now) < after(ready.since, sample.window_seconds)
        } else {
            let delay = self.spec.settings.initial_readiness_delay_seconds;
            unready && after(start, delay.into()) > ready.since
        }
    }

    /// When time alone makes the next pod count that does not count yet, because it is starting. (Samples grow old too,
    /// but what they wait for is new ones.)
    pub fn next_warm(&self) -> Option<Timestamp> {
        let answers = self.spec.metrics.iter().zip(&self.observed.answers);
        let samples_of_cpu = answers.filter_map(|(metric, answer)| match (&metric.source, answer) {
            (Source::Resource { resource, .. }, Answer::Pods { samples, .. }) if &**resource == "cpu" => {
                Some(samples)
            }
            _ => None,
        });
        let counts_at = samples_of_cpu.flat_map(|samples| {
            self.observed.pods.iter().zip(samples).filter_map(|(pod, sample)| self.warm_at(pod, (*sample)?))
        });
        counts_at.min()
    }

    fn warm_at(&self, pod: &Pod, sample: Sample) -> Option<Timestamp> {
        let (ready, start) = (pod.ready?, pod.start?);
        let is_warming = start > self.warm_up_began
            && self.classify(pod, Some(sample), true) == Class::Unready
            && pod.phase != Phase::Pending;
        if !is_warming {
            return None;
        }
        let settings = &self.spec.settings;
        let ends = after(start, settings.cpu_initialization_period_seconds.into());
        let unready = ready.status == Condition::False;
        // A sample without a time is always taken just now.
        let sampled =
            (sample.at.is_none() && !unready).then(|| after(ready.since, sample.window_seconds).min(ends));
        let was_never_ready =
            unready && after(start, settings.initial_readiness_delay_seconds.into()) > ready.since;
        sampled.or((!was_never_ready).then_some(ends))
    }
}

/// The usage of the pods that were really sampled, without what was filled in for missing ones.
fn used_by_ready(used: i128, missing_used: i128, ratio: f64, pods: &PodCounts) -> i128 {
    if pods.missing > 0 && ratio < 1.0 { used - missing_used } else { used }
}
