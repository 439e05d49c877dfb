//! Functions on demand as a policy.

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock},
};

use decide::demand::{self, Answer, Decision, Memory, Observed, Rule, Spec};
use engine::{
    Cached, Key,
    effect::Effect,
    kind::{self, Kind},
};
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use kube::api::DynamicObject;
use ondemand::{Activity, Calls, Function};
use scaling::{Look, Policy, Subject, Writers};
use tokio::{sync::watch, time::Instant};

use super::{
    Decided, Decisions,
    neighbours::Neighbours,
    plan::{self, COMPONENT, Situation},
    reported::Reported,
};
use crate::catalog::{FUNCTION, View};

pub const NAME: &str = "demand";

/// What one term of leadership works with.
pub struct Shared {
    pub namespace: Arc<str>,
    pub view: watch::Receiver<Arc<View>>,
    pub activity: Activity,
    pub decisions: Decisions,
    pub answers: RwLock<Answers>,
    pub neighbours: RwLock<Arc<Neighbours>>,
    /// Functions that a call would wake, when they were last looked at.
    pub asleep: Mutex<HashSet<Arc<str>>>,
    pub reported: Mutex<Reported>,
    pub caches: Caches,
}

/// What the triggers say, as of the last evaluation.
#[derive(Default)]
pub struct Answers {
    /// By function, in the order of its triggers.
    pub of: HashMap<Arc<str>, Vec<Answer>>,
    pub good_until: Option<Instant>,
}

/// Where own writes show up first.
pub struct Caches {
    pub deployments: Cached<Deployment>,
    pub stateful_sets: Cached<StatefulSet>,
    pub functions: Cached<DynamicObject>,
}

pub struct Demand(pub Arc<Shared>);

/// What a decision is made from, and where it comes from.
pub struct Seen {
    pub function: Arc<Function>,
    pub observed: Observed,
}

impl Shared {
    pub fn key(&self, name: &str) -> Key {
        Key::new(&*self.namespace, name)
    }

    pub fn asleep(&self) -> MutexGuard<'_, HashSet<Arc<str>>> {
        self.asleep.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn reported(&self) -> MutexGuard<'_, Reported> {
        self.reported.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn neighbours(&self) -> Arc<Neighbours> {
        self.neighbours.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn answers_of(&self, name: &str) -> Option<Vec<Answer>> {
        let answers = self.answers.read().unwrap_or_else(PoisonError::into_inner);
        let are_good = answers.good_until.is_some_and(|until| Instant::now() < until);
        answers.of.get(name).filter(|_| are_good).cloned()
    }

    fn any_call(&self) -> Calls {
        let mut all = Calls::default();
        for (_, calls) in self.activity.all() {
            all.last = all.last.max(calls.latest());
            all.active = all.active.saturating_add(calls.active);
            all.active_elsewhere = all.active_elsewhere.saturating_add(calls.active_elsewhere);
        }
        all
    }
}

impl Caches {
    /// Whether the watch has shown a newer version than the view, which is made from it a moment later.
    fn are_ahead_of(&self, kind: &Kind, key: &Key, shown: Option<&str>) -> bool {
        let version = match &*kind.kind {
            "Deployment" => {
                self.deployments.get(key).and_then(|found| found.metadata.resource_version.clone())
            }
            "StatefulSet" => {
                self.stateful_sets.get(key).and_then(|found| found.metadata.resource_version.clone())
            }
            _ => self.functions.get(key).and_then(|found| found.metadata.resource_version.clone()),
        };
        let number = |version: Option<&str>| version.and_then(|version| version.parse::<u64>().ok());
        number(version.as_deref()) > number(shown)
    }
}

impl Policy for Demand {
    type Spec = Spec;
    type Observed = Seen;
    type Memory = Memory;
    type Rule = Rule;

    fn name(&self) -> &'static str {
        NAME
    }

    fn component(&self) -> &'static str {
        COMPONENT
    }

    fn kind(&self, key: &Key) -> Option<Kind> {
        let view = self.0.view.borrow();
        let target = &view.snapshot.functions.get(&*key.name)?.target;
        Some(match &*target.kind {
            "Deployment" => kind::DEPLOYMENT,
            "StatefulSet" => kind::STATEFUL_SET,
            _ => FUNCTION,
        })
    }

    fn look(&self, key: &Key, now: Timestamp) -> Look<Spec, Seen> {
        let shared = &self.0;
        let view = shared.view.borrow().clone();
        if !view.complete {
            return Look::NotYet;
        }
        let Some((name, function)) = view.snapshot.functions.get_key_value(&*key.name) else {
            return Look::Gone;
        };
        let Some(managed) = view.managed.get(name) else { return Look::Gone };
        let target = &managed.target;
        if shared.caches.are_ahead_of(&target.kind, key, target.resource_version.as_deref()) {
            return Look::NotYet;
        }
        let neighbours = shared.neighbours();
        let situation = Situation {
            now,
            snapshot: &view.snapshot,
            unmanaged: &view.unmanaged,
            neighbours: &neighbours,
            calls: &|name| shared.activity.of(name),
            any_call: &|| shared.any_call(),
            readings: &|name| shared.answers_of(name),
        };
        let observed = plan::observe(&situation, name, function);
        Look::Found(Box::new(Subject {
            target: target.clone(),
            controls: view.controls.get(name).cloned().unwrap_or_default(),
            spec: function.settings.scaling.clone(),
            observed: Seen { function: function.clone(), observed },
        }))
    }

    fn decide(&self, now: Timestamp, spec: &Spec, seen: &Seen, memory: Memory) -> Decision {
        demand::decide(now, spec, &seen.observed, memory)
    }

    fn lacks_metrics(&self, decision: &Decision) -> bool {
        let mut n_triggers = 0;
        let mut n_invalid = 0;
        for step in &decision.steps {
            match &step.rule {
                Rule::Trigger(_) | Rule::QuietTrigger { .. } => n_triggers += 1,
                Rule::InvalidTrigger { .. } => (n_triggers, n_invalid) = (n_triggers + 1, n_invalid + 1),
                _ => {}
            }
        }
        decision.current > 0 && n_triggers > 0 && n_triggers == n_invalid
    }

    fn gist(&self, decision: &Decision) -> String {
        gist(decision)
    }

    fn decided(&self, subject: &Subject<Spec, Seen>, decision: &Decision, now: Timestamp) -> Vec<Effect> {
        let function = &subject.observed.function;
        let name = function.name();
        if function.requested < subject.spec.min.max(1) {
            self.0.asleep().insert(name.clone());
        } else {
            self.0.asleep().remove(name);
        }
        self.0.decisions.decided(name, Decided::new(now, function, decision));
        self.0.reported().of(name, function, &subject.target, decision, now)
    }

    fn writers(&self, key: &Key) -> Writers {
        self.0.view.borrow().managed.get(&*key.name).map(|known| known.writers.clone()).unwrap_or_default()
    }

    fn created(&self, key: &Key) -> Option<Timestamp> {
        self.0.view.borrow().managed.get(&*key.name)?.created
    }

    fn gone(&self, key: &Key) {
        self.0.asleep().remove(&*key.name);
        self.0.reported().forget(&key.name);
        self.0.decisions.forget(&key.name);
    }
}

/// What of a decision is worth a record. That the last call is a second older is not, nor that one begins or ends, nor that
/// a trigger reads another figure and asks for the same count: under load there are several a second, and twenty of them
/// would leave no record of the last wake-up.
pub fn gist(decision: &Decision) -> String {
    let mut gist = format!("{} {} {}", decision.current, decision.desired, decision.reason.code);
    for step in &decision.steps {
        let words = match &step.rule {
            Rule::Activity { idle, .. } => format!("idle: {idle}"),
            Rule::Trigger(reading) => format!("{} asks for {}", reading.trigger, step.after),
            _ => step.words().to_string(),
        };
        gist += "\n";
        gist += &words;
    }
    gist
}
