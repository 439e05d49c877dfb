//! What a run was like: figures to compare, a timeline, a chart.

mod chart;
mod html;
mod text;

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Serialize;

use crate::{
    Scenario, Seconds,
    scenario::Pods,
    world::{Size, Step, World},
};

/// As many points as a chart can show.
const MAX_POINTS: u64 = 720;

/// Moves of two axes within this many seconds have to do with each other.
const AT_ODDS: f64 = 1200.0;

/// Demand below this is floating-point dust.
const DUST: f64 = 1e-6;

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    pub scenario: String,
    pub description: String,
    pub start: Timestamp,
    pub duration: Seconds,
    pub runs: Vec<Run>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Run {
    pub policy: String,
    pub kind: String,
    pub summary: Summary,
    /// How often each reason decided, changes or not.
    pub reasons: BTreeMap<&'static str, u64>,
    pub changes: Vec<Change>,
    pub happenings: Vec<Happening>,
    pub points: Vec<Point>,
}

/// Figures to compare policies by; less is better in all of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Summary {
    /// Demand in all, in requests or messages.
    pub demand: f64,
    /// Demand that nobody was there for in time.
    pub missed: f64,
    pub missed_percent: f64,
    /// The longest wait for demand that was behind: backlog over capacity, at its worst.
    pub worst_backlog: f64,
    /// Pods times hours, starting ones included.
    pub replica_hours: f64,
    /// Requested cores times hours.
    pub core_hours: f64,
    pub changes: u64,
    /// Changes of direction: up after down or down after up.
    pub reversals: u64,
    pub peak_replicas: usize,
    /// The longest time in which demand was not met, until all that waited was done.
    pub time_to_recover: Seconds,
    /// All such time together.
    pub time_behind: Seconds,
    /// Times that demand found no pod ready.
    pub cold_starts: u64,
    /// CPU that the load would have taken beyond what the ready pods could give, times hours.
    pub unmet_core_hours: f64,
    /// The most cores that were requested at a time.
    pub peak_cores: f64,
    /// Changes of the pods' size.
    pub resizes: u64,
    /// Changes of one axis soon after the other one moved the opposite way: two scalers at odds.
    pub opposed: u64,
    /// Changes that made fewer pods larger or more pods smaller in one write.
    pub trades: u64,
}

/// A decision that changed something.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Change {
    pub at: Seconds,
    pub from: i32,
    pub to: i32,
    /// The new requests, if pods were resized.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<String>,
    pub load: f64,
    pub ready: usize,
    pub code: &'static str,
    pub why: String,
    pub explanation: String,
}

/// Something the scenario did.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Happening {
    pub at: Seconds,
    pub what: String,
}

/// The state of the workload over a short while.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Point {
    pub at: f64,
    pub load: f64,
    pub capacity: f64,
    pub desired: i32,
    pub ready: usize,
    pub backlog: f64,
    /// Cores that all pods request together.
    pub cores: f64,
    /// CPU that a pod is to request, in thousandths of a core.
    pub size: u64,
}

// === impl Report ===

impl Report {
    pub(crate) fn new(scenario: &Scenario, runs: Vec<Run>) -> Report {
        Report {
            scenario: scenario.name.clone(),
            description: scenario.description.trim().to_owned(),
            start: scenario.start,
            duration: scenario.duration,
            runs,
        }
    }

    /// A timeline for a terminal, and the comparison.
    pub fn timeline_text(&self) -> String {
        text::timeline(self)
    }

    /// A chart that needs nothing but a viewer; decisions tell their reason on hover.
    pub fn svg(&self) -> String {
        chart::svg(self, chart::Place::Alone)
    }

    /// A page that needs nothing but a browser.
    pub fn html(&self) -> String {
        html::page(self)
    }

    pub fn json(&self) -> serde_json::Value {
        serde_json::to_value(self).unwrap_or_default()
    }
}

// === Totals ===

/// Sums over a run.
#[derive(Debug, Default)]
pub(crate) struct Totals {
    summary: Summary,
    /// A handful of codes at most, so a list beats a map.
    reasons: Vec<(&'static str, u64)>,
    replica_seconds: f64,
    core_seconds: f64,
    unmet_seconds: f64,
    behind: f64,
    is_cold: bool,
    last_direction: i32,
    /// When each axis last moved and which way: replicas, size.
    last_moves: [Option<(f64, i32)>; 2],
}

impl Totals {
    pub fn decided(&mut self, code: &'static str) {
        match self.reasons.iter_mut().find(|(known, _)| *known == code) {
            Some((_, n)) => *n += 1,
            None => self.reasons.push((code, 1)),
        }
    }

    pub fn changed(&mut self, t: f64, (from, to): (i32, i32), (small, large): (Size, Size)) {
        self.summary.changes += 1;
        let moves = [(to - from).signum(), large.cpu.cmp(&small.cpu) as i32];
        self.summary.resizes += u64::from(small != large);
        self.summary.trades += u64::from(moves[0] * moves[1] < 0);
        for (axis, &direction) in moves.iter().enumerate() {
            let other = self.last_moves[1 - axis].filter(|(at, _)| moves[1 - axis] == 0 && t - at <= AT_ODDS);
            self.summary.opposed += u64::from(other.is_some_and(|(_, other)| other * direction < 0));
        }
        for (axis, direction) in moves.into_iter().enumerate().filter(|(_, direction)| *direction != 0) {
            self.last_moves[axis] = Some((t, direction));
        }
        let direction = (to - from).signum();
        if direction != 0 {
            self.summary.reversals += u64::from(self.last_direction == -direction);
            self.last_direction = direction;
        }
    }

    pub fn step(&mut self, pods: &Pods, dt: f64, load: f64, passed: &Step, world: &World) {
        let summary = &mut self.summary;
        let cores = world.requested_cpu() as f64 / 1000.0;
        summary.peak_cores = summary.peak_cores.max(cores);
        self.unmet_seconds += (load - passed.capacity).max(0.0) * pods.cpu_per_unit() / 1000.0 * dt;
        summary.demand += passed.arrived;
        summary.missed += passed.missed;
        summary.worst_backlog = summary.worst_backlog.max(world.backlog());
        summary.peak_replicas = summary.peak_replicas.max(world.pods().len());
        self.replica_seconds += world.pods().len() as f64 * dt;
        self.core_seconds += cores * dt;
        let is_behind = load > passed.capacity + DUST || passed.missed > DUST || world.backlog() > DUST;
        self.behind = if is_behind { self.behind + dt } else { 0.0 };
        summary.time_to_recover.0 = summary.time_to_recover.0.max(self.behind);
        summary.time_behind.0 += if is_behind { dt } else { 0.0 };
        let is_cold = load > 0.0 && passed.capacity <= 0.0;
        summary.cold_starts += u64::from(is_cold && !self.is_cold);
        self.is_cold = is_cold;
    }

    pub fn summary(&self) -> Summary {
        let demand = self.summary.demand;
        Summary {
            missed_percent: if demand > 0.0 { self.summary.missed / demand * 100.0 } else { 0.0 },
            replica_hours: self.replica_seconds / 3600.0,
            core_hours: self.core_seconds / 3600.0,
            unmet_core_hours: self.unmet_seconds / 3600.0,
            ..self.summary
        }
    }

    pub fn reasons(&self) -> BTreeMap<&'static str, u64> {
        self.reasons.iter().copied().collect()
    }
}

// === Recorder ===

/// Keeps as many points as a chart can show, however long the run is.
#[derive(Debug)]
pub(crate) struct Recorder {
    stride: u64,
    step: f64,
    /// Steps in the point that is being made.
    n: u64,
    sum: Point,
    points: Vec<Point>,
}

impl Recorder {
    pub fn new(n_steps: u64, step: f64) -> Recorder {
        let stride = n_steps.div_ceil(MAX_POINTS).max(1);
        Recorder { stride, step, n: 0, sum: Point::default(), points: Vec::new() }
    }

    pub fn step(&mut self, t: f64, load: f64, passed: &Step, desired: i32, world: &World) {
        if self.n == 0 {
            self.sum = Point { at: t, ..Point::default() };
        }
        self.n += 1;
        self.sum.load += load;
        self.sum.capacity += passed.capacity;
        if self.n == self.stride {
            self.finish(t, desired, world);
        }
    }

    fn finish(&mut self, t: f64, desired: i32, world: &World) {
        let n = self.n as f64;
        self.points.push(Point {
            at: self.sum.at,
            load: self.sum.load / n,
            capacity: self.sum.capacity / n,
            desired,
            ready: world.n_ready(t + self.step),
            backlog: world.backlog(),
            cores: world.requested_cpu() as f64 / 1000.0,
            size: world.size().cpu,
        });
        self.n = 0;
    }

    pub fn points(self) -> Vec<Point> {
        self.points
    }
}
