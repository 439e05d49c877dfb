//! Who needs whom: activity flows from a function to everything it depends on, readiness the other way.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Schedule;

/// One function, or another workload that functions depend on, as the others see it.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    pub name: Arc<str>,
    pub depends_on: Vec<Arc<str>>,
    pub last_call: Option<Timestamp>,
    /// Calls under way keep a function active for as long as they take.
    pub active_calls: u32,
    /// Any function's call counts as a call to this one.
    pub starts_with_any: bool,
    pub schedule: Schedule,
    pub ready: i32,
    /// Ready pods with which those that depend on it may start.
    pub needed: i32,
}

impl Node {
    /// A workload that is no function: there are no calls of it, and those that depend on it need all that it is to
    /// have, and one at least.
    pub fn plain(name: Arc<str>, ready: i32, wanted: i32) -> Self {
        Node {
            name,
            depends_on: Vec::new(),
            last_call: None,
            active_calls: 0,
            starts_with_any: false,
            schedule: Schedule::default(),
            ready,
            needed: wanted.max(1),
        }
    }
}

/// The latest sign of life, and whose it was.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Activity {
    pub at: Timestamp,
    pub source: ActivitySource,
    /// The function that depends on this one and was active; none if it was this one itself.
    pub of: Option<Arc<str>>,
}

// Later variants win where two signs of life are equally recent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum ActivitySource {
    AnyCall,
    Schedule,
    Call,
    CallUnderWay,
}

/// What has to happen before a function may start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dependencies {
    /// Direct dependencies without enough ready pods.
    pub waiting_for: Vec<Arc<str>>,
    /// Names of nothing that is known: waiting for a typing error would never end, so they are not waited for.
    pub unknown: Vec<Arc<str>>,
    /// Direct dependencies that in turn depend on this function. Waiting for each other would never end, so they
    /// are not waited for.
    pub cycle: Vec<Arc<str>>,
}

impl Dependencies {
    /// What to tell of `name` if it and others wait for each other.
    pub fn cycle_words(&self, name: &str) -> Option<String> {
        let others = self.cycle.join(", ");
        (!self.cycle.is_empty()).then(|| {
            format!("{name} and {others} depend on each other, so neither waits for the other: remove one direction")
        })
    }
}

/// All functions, with dependents resolved once.
#[derive(Clone, Debug)]
pub struct Graph {
    nodes: Vec<Node>,
    by_name: HashMap<Arc<str>, usize>,
    dependents: Vec<Vec<usize>>,
}

impl Graph {
    pub fn new(nodes: Vec<Node>) -> Self {
        let by_name: HashMap<_, _> =
            nodes.iter().enumerate().map(|(idx, node)| (node.name.clone(), idx)).collect();
        let mut dependents = vec![Vec::new(); nodes.len()];
        for (idx, node) in nodes.iter().enumerate() {
            for dependency in node.depends_on.iter().filter_map(|name| by_name.get(name)) {
                dependents[*dependency].push(idx);
            }
        }
        Graph { nodes, by_name, dependents }
    }

    /// The latest activity of the function or of anything that depends on it, at whatever distance.
    pub fn activity(&self, now: Timestamp, name: &str) -> Option<Activity> {
        let own = *self.by_name.get(name)?;
        let found = self.with_dependents(own).into_iter().filter_map(|idx| {
            let (at, source) = self.own_activity(now, idx)?;
            Some((at, source, idx == own, idx))
        });
        let (at, source, is_own, idx) = found.max_by_key(|(at, source, is_own, idx)| {
            (*at, *is_own, *source, std::cmp::Reverse(self.nodes[*idx].name.clone()))
        })?;
        Some(Activity { at, source, of: (!is_own).then(|| self.nodes[idx].name.clone()) })
    }

    /// When the schedule of the function, or of anything that depends on it, next wakes it.
    pub fn next_wake_up(&self, now: Timestamp, name: &str) -> Option<Timestamp> {
        let own = *self.by_name.get(name)?;
        let all = self.with_dependents(own).into_iter();
        all.filter_map(|idx| self.nodes[idx].schedule.next_wake_up(now)).min()
    }

    pub fn dependencies(&self, name: &str) -> Dependencies {
        let mut result = Dependencies::default();
        let Some(&own) = self.by_name.get(name) else { return result };
        if self.nodes[own].depends_on.is_empty() {
            return result;
        }
        let dependents: HashSet<usize> = self.with_dependents(own).into_iter().collect();
        for dependency in &self.nodes[own].depends_on {
            match self.by_name.get(dependency) {
                None => result.unknown.push(dependency.clone()),
                Some(idx) if dependents.contains(idx) => result.cycle.push(dependency.clone()),
                Some(idx) if self.nodes[*idx].ready < self.nodes[*idx].needed => {
                    result.waiting_for.push(dependency.clone());
                }
                Some(_) => {}
            }
        }
        result
    }

    fn own_activity(&self, now: Timestamp, idx: usize) -> Option<(Timestamp, ActivitySource)> {
        let node = &self.nodes[idx];
        let call = |node: &Node| match node.active_calls {
            0 => node.last_call.map(|at| (at.min(now), ActivitySource::Call)),
            _ => Some((now, ActivitySource::CallUnderWay)),
        };
        let scheduled = node.schedule.last_wake_up(now).map(|at| (at, ActivitySource::Schedule));
        let any = match node.starts_with_any {
            true => self.nodes.iter().filter_map(call).map(|(at, _)| (at, ActivitySource::AnyCall)).max(),
            false => None,
        };
        [call(node), scheduled, any].into_iter().flatten().max()
    }

    /// The node and all that depend on it; each once, so a cycle ends.
    fn with_dependents(&self, start: usize) -> Vec<usize> {
        if self.dependents[start].is_empty() {
            return vec![start];
        }
        let mut is_seen = vec![false; self.nodes.len()];
        is_seen[start] = true;
        let mut found = vec![start];
        let mut next = 0;
        while let Some(&idx) = found.get(next) {
            next += 1;
            for dependent in &self.dependents[idx] {
                if !std::mem::replace(&mut is_seen[*dependent], true) {
                    found.push(*dependent);
                }
            }
        }
        found
    }
}
