use super::{Story, stage::Running};

/// What became of a story. "Late" is its second half.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    seconds: u64,
    pub vertices: Vec<Vertex>,
    pub arrived: f64,
    pub late_arrived: f64,
    /// What left the chain.
    pub delivered: f64,
    pub late_delivered: f64,
    /// What found the first buffer full.
    pub refused: f64,
    pub late_refused: f64,
    /// The most that waited anywhere in the chain.
    pub late_backlog: f64,
    /// What waited when the second half began, and in the end.
    pub half_backlog: f64,
    pub last_backlog: f64,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Vertex {
    pub name: &'static str,
    /// Every count and since when.
    pub counts: Vec<(u64, usize)>,
    pub late_lowest: usize,
    pub late_highest: usize,
    pub replica_seconds: f64,
    /// Why the last count was decided.
    pub reasons: Vec<String>,
}

impl Outcome {
    pub fn new(story: &Story<'_>) -> Outcome {
        let vertex = |name| Vertex { name, late_lowest: usize::MAX, ..Vertex::default() };
        Outcome {
            seconds: story.seconds,
            vertices: story.stages.iter().map(|stage| vertex(stage.name)).collect(),
            ..Outcome::default()
        }
    }

    pub(super) fn step(&mut self, t: u64, arrived: f64, refused: f64, stages: &[Running]) {
        let is_late = t * 2 >= self.seconds;
        let delivered = stages.last().map_or(0.0, |stage| stage.moved);
        let backlog: f64 = stages.iter().map(|stage| stage.backlog).sum();
        self.arrived += arrived;
        self.delivered += delivered;
        self.refused += refused;
        self.last_backlog = backlog;
        if is_late {
            if self.late_arrived == 0.0 {
                self.half_backlog = backlog;
            }
            self.late_arrived += arrived;
            self.late_delivered += delivered;
            self.late_refused += refused;
            self.late_backlog = self.late_backlog.max(backlog);
        }
        for (vertex, stage) in self.vertices.iter_mut().zip(stages) {
            let count = stage.replicas();
            if vertex.counts.last().is_none_or(|(_, last)| *last != count) {
                vertex.counts.push((t, count));
                vertex.reasons.push(stage.why.clone());
            }
            vertex.replica_seconds += count as f64;
            if is_late {
                vertex.late_lowest = vertex.late_lowest.min(count);
                vertex.late_highest = vertex.late_highest.max(count);
            }
        }
    }

    /// The share of what arrived in the second half that left the chain, or only waits as more did when it began.
    pub fn late_delivered_share(&self) -> f64 {
        let grown = (self.last_backlog - self.half_backlog).max(0.0);
        1.0 - (self.late_refused + grown) / self.late_arrived.max(1.0)
    }

    /// The largest backlog of the second half, in seconds of what arrives.
    pub fn late_backlog_seconds(&self) -> f64 {
        let rate = self.late_arrived / (self.seconds as f64 / 2.0);
        self.late_backlog / rate.max(1e-9)
    }

    /// Per hour, of the vertex that turned most often.
    pub fn reversals_per_hour(&self) -> f64 {
        let most = self.vertices.iter().map(|vertex| vertex.reversals(0)).max().unwrap_or(0);
        most as f64 * 3600.0 / self.seconds as f64
    }

    pub fn replica_hours(&self) -> f64 {
        self.vertices.iter().map(|vertex| vertex.replica_seconds).sum::<f64>() / 3600.0
    }
}

impl Vertex {
    /// How often the count turned since `since`: up after down, or down after up.
    pub fn reversals(&self, since: u64) -> usize {
        let later = self.counts.iter().rposition(|(at, _)| *at <= since).unwrap_or(0);
        let ups: Vec<bool> = self.counts[later..].windows(2).map(|pair| pair[1].1 > pair[0].1).collect();
        ups.windows(2).filter(|pair| pair[0] != pair[1]).count()
    }

    /// When the count first was `replicas` or more.
    pub fn reached(&self, replicas: usize) -> Option<u64> {
        self.counts.iter().find(|(_, count)| *count >= replicas).map(|(at, _)| *at)
    }
}
