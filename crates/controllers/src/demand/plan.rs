//! From what is known to decisions, and from a decision to what is written. Pure: the time comes in.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use decide::demand::{self, Answer, Decision, Graph, Memory, Node, Observed};
use engine::effect::{Effect, Target};
use functions::{Calls, Function, Snapshot};
use jiff::Timestamp;
use serde_json::json;

use crate::catalog::Plains;

pub const COMPONENT: &str = "ballast-demand";

/// Everything the decisions about all functions depend on.
pub struct Situation<'a> {
    pub now: Timestamp,
    pub snapshot: &'a Snapshot,
    pub plain: &'a Plains,
    pub calls: HashMap<Arc<str>, Calls>,
    /// Of functions with triggers, in the order of the triggers.
    pub readings: HashMap<Arc<str>, Vec<Answer>>,
    pub memories: &'a BTreeMap<Arc<str>, Memory>,
}

/// One decision a function.
pub fn decide(situation: &Situation<'_>) -> BTreeMap<Arc<str>, Decision> {
    let graph = graph(situation);
    let now = situation.now;
    let decision = |(name, function): (&Arc<str>, &Arc<Function>)| {
        let observed = Observed {
            current: function.requested,
            activity: graph.activity(now, name),
            dependencies: graph.dependencies(name),
            unschedulable: function.unschedulable.clone(),
            autoscaler: function.autoscaler.clone(),
            readings: situation.readings.get(name).cloned().unwrap_or_default(),
        };
        let memory = situation.memories.get(name).cloned().unwrap_or_default();
        (name.clone(), demand::decide(now, &function.settings.scaling, &observed, memory))
    };
    situation.snapshot.functions.iter().map(decision).collect()
}

fn graph(situation: &Situation<'_>) -> Graph {
    let nodes = situation.snapshot.functions.iter().map(|(name, function)| {
        let calls = situation.calls.get(name).copied().unwrap_or_default();
        let settings = &function.settings;
        Node {
            name: name.clone(),
            depends_on: settings.depends_on.clone(),
            last_call: calls.latest(),
            active_calls: calls.active + calls.active_elsewhere,
            starts_with_any: settings.starts_with_any,
            schedule: settings.scaling.schedule.clone(),
            ready: i32::try_from(function.ready().count()).unwrap_or(i32::MAX),
            // Metrics may have made it smaller than it started: then all that is asked for is enough.
            needed: settings.scaling.wake_target().min(function.requested.max(1)),
        }
    });
    Graph::new(nodes.chain(situation.plain.iter().map(|(name, plain)| plain.node(name))).collect())
}

/// The write of a decision that changes something, and the Event that tells of it.
pub fn effects(decision: &Decision, object: &Target) -> Vec<Effect> {
    let body = json!({ "spec": { "replicas": decision.desired } });
    vec![
        Effect::Patch { target: object.clone(), subresource: Some("scale"), body },
        Effect::event(object.clone(), COMPONENT, decision.reason.code, headline(&object.name, decision)),
    ]
}

/// `Scale up fibonacci from 0 to 1: wakes up with 1`
pub fn headline(name: &str, decision: &Decision) -> String {
    let Decision { current, desired, .. } = decision;
    let way = if desired > current { "up" } else { "down" };
    format!("Scale {way} {name} from {current} to {desired}: {}", decision.why())
}
