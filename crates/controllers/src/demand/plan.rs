//! What a decision about one function depends on. Pure: the time comes in.

use std::sync::Arc;

use decide::demand::{self, Answer, Graph, Node, Observed};
use jiff::Timestamp;
use ondemand::{Calls, Function, Snapshot};

use super::neighbours::Neighbours;
use crate::catalog::Unmanaged;

pub const COMPONENT: &str = "ballast-demand";
/// Instead of the answer of a trigger that has none yet. For a second after waking up that is as it should be.
pub const UNREAD: &str = "the query has not been evaluated yet";

/// Everything that is known at one moment.
pub struct Situation<'a> {
    pub now: Timestamp,
    pub snapshot: &'a Snapshot,
    pub unmanaged: &'a Unmanaged,
    pub neighbours: &'a Neighbours,
    pub calls: &'a (dyn Fn(&str) -> Calls + Sync),
    /// The latest call of any function, and how many are under way. Asked for only if a function starts with any.
    pub any_call: &'a (dyn Fn() -> Calls + Sync),
    /// Of a function with triggers, in their order; none before they were evaluated.
    pub readings: &'a (dyn Fn(&str) -> Option<Vec<Answer>> + Sync),
}

/// What there is to know about one function. It costs as much as the function has neighbours, however many others there
/// are.
pub fn observe(situation: &Situation<'_>, name: &Arc<str>, function: &Function) -> Observed {
    let graph = graph(situation, name);
    let triggers = function.settings.scaling.scale.as_ref().map_or(0, |scale| scale.triggers.len());
    let unread = || vec![Answer::Failed(UNREAD.into()); triggers];
    Observed {
        current: function.requested,
        activity: graph.activity(situation.now, name),
        next_wake_up: graph.next_wake_up(situation.now, name),
        dependencies: graph.dependencies(name),
        unschedulable: function.unschedulable.clone(),
        autoscaler: function.autoscaler.clone(),
        readings: (situation.readings)(name).unwrap_or_else(unread),
    }
}

/// The function with all that it depends on or that depends on it, at whatever distance.
fn graph(situation: &Situation<'_>, name: &Arc<str>) -> Graph {
    let mut nodes = Vec::new();
    let mut starts_with_any = false;
    for name in situation.neighbours.of(name) {
        if let Some(function) = situation.snapshot.functions.get(&name) {
            starts_with_any |= function.settings.starts_with_any;
            nodes.push(node(&name, function, (situation.calls)(&name)));
        } else if let Some(other) = situation.unmanaged.get(&name) {
            nodes.push(other.node(&name));
        }
    }
    if starts_with_any {
        // stands for all the others: no object has an empty name
        let calls = (situation.any_call)();
        nodes.push(Node {
            last_call: calls.latest(),
            active_calls: calls.active + calls.active_elsewhere,
            ..Node::plain("".into(), 0, 0)
        });
    }
    Graph::new(nodes)
}

fn node(name: &Arc<str>, function: &Function, calls: Calls) -> Node {
    let settings = &function.settings;
    Node {
        name: name.clone(),
        depends_on: settings.depends_on.clone(),
        last_call: calls.latest(),
        active_calls: calls.active + calls.active_elsewhere,
        starts_with_any: settings.starts_with_any,
        schedule: settings.scaling.schedule.clone(),
        ready: i32::try_from(function.ready().count()).unwrap_or(i32::MAX),
        needed: demand::needed(settings.scaling.wake_target(), function.requested),
    }
}
