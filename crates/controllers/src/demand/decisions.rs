//! The last decision about each function, as metrics.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use decide::demand::{Decision, Rule};
use jiff::Timestamp;
use metrics::Gauge;
use ondemand::Function;

/// Of one term of leadership, so that each series is there once among the nodes. A handle; clones share what is known.
#[derive(Clone, Debug, Default)]
pub struct Decisions(Arc<Mutex<BTreeMap<Arc<str>, Arc<Decided>>>>);

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
}

impl Decisions {
    pub(super) fn decided(&self, name: &Arc<str>, decided: Decided) {
        self.own().insert(name.clone(), Arc::new(decided));
    }

    pub(super) fn forget(&self, name: &str) {
        self.own().remove(name);
    }

    fn own(&self) -> MutexGuard<'_, BTreeMap<Arc<str>, Arc<Decided>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Under the names that dashboards for SlimFaas know.
    pub fn gauges(&self) -> Vec<Gauge> {
        let mut gauges = Vec::new();
        let own = self.own().clone();
        for (name, decided) in &own {
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
