//! The last decision about each function, for whoever wants to know why.

use std::{
    collections::BTreeMap,
    sync::{Arc, PoisonError, RwLock, RwLockReadGuard},
};

use bytes::Bytes;
use decide::demand::{Decision, Rule};
use functions::Function;
use jiff::Timestamp;
use metrics::Gauge;
use serde_json::{Value, json};
use tokio::sync::watch;

/// A handle; clones share what is known.
#[derive(Clone, Debug, Default)]
pub struct Decisions(Arc<Known>);

pub(super) type Own = Arc<BTreeMap<Arc<str>, Arc<Decided>>>;

#[derive(Debug, Default)]
struct Known {
    /// None unless this node is the master and has decided.
    own: watch::Sender<Option<Own>>,
    /// What the store holds: see `told_to_all`.
    told: RwLock<BTreeMap<Arc<str>, Bytes>>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Decided {
    pub at: Timestamp,
    /// Pods that could take a call.
    pub ready: usize,
    /// How many there are of each annotation.
    pub problems: BTreeMap<Arc<str>, u32>,
    pub decision: Decision,
}

impl Decided {
    pub(super) fn new(at: Timestamp, function: &Function, decision: &Decision) -> Self {
        let mut problems = BTreeMap::new();
        for problem in &function.problems {
            *problems.entry(problem.annotation.clone()).or_default() += 1;
        }
        Decided { at, ready: function.ready().count(), problems, decision: decision.clone() }
    }

    /// As people read it in a function's status.
    pub(super) fn shown(&self) -> Value {
        let decision = &self.decision;
        json!({
            "At": self.at,
            "Current": decision.current,
            "Desired": decision.desired,
            "Reason": decision.reason.code,
            "Why": decision.why(),
            "Steps": decision.steps,
            "NextCheck": decision.next_check,
        })
    }
}

impl Decisions {
    /// The last decision about a function for people to read, whichever node made it.
    pub fn last(&self, name: &str) -> Option<Value> {
        if let Some(own) = &*self.0.own.borrow() {
            return own.get(name).map(|decided| decided.shown());
        }
        self.told().get(name).and_then(|text| serde_json::from_slice(text).ok())
    }

    pub(super) fn own(&self) -> watch::Receiver<Option<Own>> {
        self.0.own.subscribe()
    }

    pub(super) fn decided(&self, all: BTreeMap<Arc<str>, Arc<Decided>>) {
        self.0.own.send_replace(Some(Arc::new(all)));
    }

    /// Another node decides from now on.
    pub(super) fn resign(&self) {
        self.0.own.send_replace(None);
    }

    pub(super) fn heard(&self, name: &str, text: Option<Bytes>) {
        let mut told = self.0.told.write().unwrap_or_else(PoisonError::into_inner);
        match text {
            Some(text) => drop(told.insert(name.into(), text)),
            None => drop(told.remove(name)),
        }
    }

    pub(super) fn told(&self) -> RwLockReadGuard<'_, BTreeMap<Arc<str>, Bytes>> {
        self.0.told.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Under the names that dashboards for SlimFaas know; the master's alone, so that each series is there once.
    pub fn gauges(&self) -> Vec<Gauge> {
        let mut gauges = Vec::new();
        let own = self.0.own.borrow().clone().unwrap_or_default();
        for (name, decided) in own.iter() {
            let decision = &decided.decision;
            let mut add = |metric: &str, labels: &[(&str, &str)], value: f64| {
                let mut all = vec![("function".to_owned(), name.to_string())];
                all.extend(labels.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
                gauges.push(Gauge { name: format!("slimfaas_autoscaler_{metric}"), labels: all, value });
            };
            add("current_replicas", &[], decision.current.into());
            add("desired_replicas", &[], decision.desired.into());
            add("ready_replicas", &[], decided.ready as f64);
            for (annotation, n) in &decided.problems {
                add("problems", &[("annotation", annotation)], f64::from(*n));
            }
            let readings = decision.steps.iter().filter_map(|step| match &step.rule {
                Rule::Trigger(reading) => Some((&reading.trigger, Some(reading.value), 1.0)),
                Rule::QuietTrigger { trigger } => Some((trigger, None, 1.0)),
                Rule::InvalidTrigger { trigger, .. } => Some((trigger, None, 0.0)),
                _ => None,
            });
            for (idx, (metric, value, is_valid)) in readings.enumerate() {
                // Nothing keeps two triggers from having the same name; their places differ.
                let idx = idx.to_string();
                let labels = [("metric", &**metric), ("trigger", idx.as_str())];
                if let Some(value) = value {
                    add("trigger_value", &labels, value);
                }
                add("trigger_valid", &labels, is_valid);
            }
            let direction = match decision.desired.cmp(&decision.current) {
                std::cmp::Ordering::Greater => "up",
                std::cmp::Ordering::Less => "down",
                std::cmp::Ordering::Equal => "hold",
            };
            add("last_decision", &[("direction", direction), ("reason", decision.reason.code)], 1.0);
        }
        // All samples of one metric stand together on a page of metrics.
        gauges.sort_by(|a, b| a.name.cmp(&b.name));
        gauges
    }
}
