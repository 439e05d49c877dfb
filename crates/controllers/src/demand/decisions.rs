//! The last decision about each function, for whoever wants to know why.

use std::{
    collections::BTreeMap,
    sync::{Arc, PoisonError, RwLock},
};

use decide::demand::{Decision, Rule};
use jiff::Timestamp;
use metrics::Gauge;

/// A handle; clones share what is known. Only the master's fills.
#[derive(Clone, Debug, Default)]
pub struct Decisions(Arc<RwLock<BTreeMap<Arc<str>, Arc<Decided>>>>);

#[derive(Clone, Debug, PartialEq)]
pub struct Decided {
    pub at: Timestamp,
    /// Pods that could take a call.
    pub ready: usize,
    pub decision: Decision,
}

impl Decisions {
    pub fn get(&self, name: &str) -> Option<Arc<Decided>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).get(name).cloned()
    }

    pub fn all(&self) -> Vec<(Arc<str>, Arc<Decided>)> {
        let all = self.0.read().unwrap_or_else(PoisonError::into_inner);
        all.iter().map(|(name, decided)| (name.clone(), decided.clone())).collect()
    }

    pub(super) fn replace(&self, all: BTreeMap<Arc<str>, Arc<Decided>>) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = all;
    }

    /// Under the names that dashboards for SlimFaas know.
    pub fn gauges(&self) -> Vec<Gauge> {
        let mut gauges = Vec::new();
        for (name, decided) in self.all() {
            let decision = &decided.decision;
            let mut add = |metric: &str, labels: &[(&str, &str)], value: f64| {
                let mut all = vec![("function".to_owned(), name.to_string())];
                all.extend(labels.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
                gauges.push(Gauge { name: format!("slimfaas_autoscaler_{metric}"), labels: all, value });
            };
            add("current_replicas", &[], decision.current.into());
            add("desired_replicas", &[], decision.desired.into());
            add("ready_replicas", &[], decided.ready as f64);
            for step in &decision.steps {
                match &step.rule {
                    Rule::Trigger(reading) => {
                        add("trigger_value", &[("metric", &reading.trigger)], reading.value);
                        add("trigger_valid", &[("metric", &reading.trigger)], 1.0);
                    }
                    Rule::QuietTrigger { trigger } => add("trigger_valid", &[("metric", trigger)], 1.0),
                    Rule::InvalidTrigger { trigger, .. } => add("trigger_valid", &[("metric", trigger)], 0.0),
                    _ => {}
                }
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
