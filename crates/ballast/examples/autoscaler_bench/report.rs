//! The table.

use std::{fmt, time::Duration};

use cluster::{
    Requests,
    report::{heading, percentile, target},
};

/// From the first messages in a buffer to the new count of its vertex.
#[derive(Default)]
pub struct Fills {
    pub n_filled: usize,
    /// Of those that were seen to change, in order.
    times: Vec<Duration>,
}

pub struct Report {
    pub n_vertices: usize,
    /// Of the machine, before anything of this program ran.
    pub load: String,
    /// From the creation of the pipelines until nothing was written any more.
    pub settled: Duration,
    pub idle_cores: f64,
    /// While sleeping vertices were woken.
    pub busy_cores: f64,
    /// In a minute in which nothing changed, without leases.
    pub idle: Requests,
    pub leases: Requests,
    /// How often each buffer was asked about in that minute, least and most.
    pub asked: (u64, u64),
    /// A few at a time.
    pub sleeping: Fills,
    pub together: Fills,
    pub running: Fills,
    pub rss_mb: f64,
    pub peak_rss_mb: f64,
}

impl Fills {
    pub fn new(n_filled: usize, mut times: Vec<Duration>) -> Self {
        times.sort();
        Self { n_filled, times }
    }

    pub fn extend(&mut self, more: Self) {
        self.n_filled += more.n_filled;
        self.times.extend(more.times);
        self.times.sort();
    }

    fn row(&self, f: &mut fmt::Formatter<'_>, what: &str, goal: Option<f64>) -> fmt::Result {
        let Self { n_filled, times } = self;
        let (p50, p99) = (percentile(times, 50), percentile(times, 99));
        let is_met = |goal: f64| p99 <= goal && times.len() == *n_filled;
        let goal = goal.map(|goal| target(&format!("{goal:.0}"), is_met(goal))).unwrap_or_default();
        let missing = match n_filled - times.len() {
            0 => String::new(),
            missing => format!(" ({missing} of {n_filled} never were)"),
        };
        writeln!(f, "| {what}: p50, p99, s | {p50:.2}, {p99:.2}{missing} | {goal} |")
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { n_vertices, load, .. } = self;
        writeln!(f, "{}\n", heading(load))?;
        writeln!(f, "| {n_vertices} vertices | measured | target |")?;
        writeln!(f, "|---|--:|--:|")?;
        self.sleeping.row(f, "10 buffers filled, of vertices that sleep → their counts", Some(2.0))?;
        self.together.row(
            f,
            &format!("{} buffers filled, one after another", self.together.n_filled),
            None,
        )?;
        self.running.row(f, "10 buffers filled, of vertices that run", Some(2.0))?;
        let cores = |cores: f64| (format!("{cores:.3}"), target("0.2", cores < 0.2));
        let ((idle, idle_goal), (busy, busy_goal)) = (cores(self.idle_cores), cores(self.busy_cores));
        writeln!(f, "| cores when nothing changes | {idle} | {idle_goal} |")?;
        writeln!(f, "| cores while vertices are woken | {busy} | {busy_goal} |")?;
        let (least, most) = self.asked;
        // a look a second, and the minute may begin just before one
        let goal = target("60: one a look", most <= 61);
        writeln!(f, "| requests for each buffer in an idle minute | {least} to {most} | {goal} |")?;
        let writes = self.idle.n_writes();
        writeln!(
            f,
            "| writes to the API in an idle minute, without leases | {writes} | {} |",
            target("0", writes == 0)
        )?;
        let reads = self.idle.n_all() - writes;
        writeln!(f, "| other requests to the API in the same minute | {reads} | |")?;
        writeln!(f, "| for leases in the same minute | {} | |", self.leases.n_all())?;
        writeln!(
            f,
            "| memory after the idle minute; at most, MB | {:.0}; {:.0} | |",
            self.rss_mb, self.peak_rss_mb
        )?;
        let settled = self.settled.as_secs_f64();
        writeln!(f, "| from the creation of the pipelines to rest, s | {settled:.0} | |")
    }
}
