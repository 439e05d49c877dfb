//! The table of both.

use std::{fmt, time::Duration};

use cluster::{
    Requests,
    report::{heading, percentile, target},
};

use crate::sets;

/// Of one controller.
pub struct Side {
    pub all_active: Duration,
    /// Of each instance, from its creation to when it was active; in order.
    pub times: Vec<Duration>,
    /// From the first creation until it came to rest.
    pub calls: Requests,
    /// In a minute after that.
    pub idle: Requests,
    /// Those in the same minute by which it stays the leader.
    pub leases: Requests,
    pub processor: Duration,
    /// Processor time of kube-apiserver and etcd meanwhile.
    pub servers: Duration,
    /// Without instances.
    pub rss_before_mb: f64,
    pub rss_mb: f64,
    pub peak_rss_mb: f64,
}

pub struct Report {
    pub n_instances: usize,
    /// Of the machine, before anything of this program ran.
    pub load: String,
    pub ours: Side,
    pub peer: Side,
    pub sets: sets::Figures,
    pub compile: Duration,
}

impl Report {
    fn per_instance(&self, n_calls: u64) -> f64 {
        n_calls as f64 / self.n_instances as f64
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { n_instances, load, ours, peer, sets, compile } = self;
        let seconds = Duration::as_secs_f64;
        writeln!(f, "{}\n", heading(load))?;
        writeln!(f, "| {n_instances} instances × 3 resources | Ballast | kro, tuned | ratio | target |")?;
        writeln!(f, "|---|--:|--:|--:|--:|")?;
        let faster = seconds(&peer.all_active) / seconds(&ours.all_active);
        let goal = target("4×", faster >= 4.0);
        let (a, b) = (seconds(&ours.all_active), seconds(&peer.all_active));
        writeln!(f, "| all ACTIVE after, s | {a:.1} | {b:.1} | {faster:.1}× | {goal} |")?;
        let shown =
            |side: &Side| format!("{:.2}, {:.2}", percentile(&side.times, 50), percentile(&side.times, 99));
        let (a, b) = (shown(ours), shown(peer));
        writeln!(f, "| one instance, from creation to ACTIVE: p50, p99, s | {a} | {b} | | |")?;
        let [a, b] = [ours, peer].map(|side| self.per_instance(side.calls.n_all()));
        // what is listed once, at the start, is no part of an instance
        let goal = target("8", (a * 10.0).round() <= 80.0);
        writeln!(f, "| API calls an instance | {a:.1} | {b:.1} | 1/{:.1} | {goal} |", b / a)?;
        let [a, b] = [ours, peer].map(|side| self.per_instance(side.calls.n_writes()));
        writeln!(f, "| of which writes | {a:.1} | {b:.1} | 1/{:.1} | |", b / a)?;
        let [a, b] = [ours, peer].map(|side| side.idle.n_all());
        writeln!(
            f,
            "| API calls in an idle minute, without leases | {a} | {b} | | {} |",
            target("0", a == 0)
        )?;
        let [a, b] = [ours, peer].map(|side| side.leases.n_all());
        writeln!(f, "| for leases in the same minute | {a} | {b} | | |")?;
        let [a, b] = [ours, peer].map(|side| seconds(&side.processor));
        writeln!(f, "| processor time of the controller, s | {a:.1} | {b:.1} | 1/{:.1} | |", b / a)?;
        let [a, b] = [ours, peer].map(|side| seconds(&side.servers));
        writeln!(f, "| of kube-apiserver and etcd, s | {a:.1} | {b:.1} | 1/{:.1} | |", b / a)?;
        let [a, b] = [ours, peer].map(|side| side.rss_before_mb);
        writeln!(
            f,
            "| memory of the controller without instances, MB | {a:.0} | {b:.0} | 1/{:.1} | |",
            b / a
        )?;
        let [a, b] = [ours, peer].map(|side| side.peak_rss_mb);
        writeln!(f, "| at most, MB | {a:.0} | {b:.0} | 1/{:.1} | |", b / a)?;
        let [a, b] = [ours, peer].map(|side| side.rss_mb);
        let goal = target("1/3", a * 3.0 <= b);
        writeln!(f, "| after the idle minute, MB | {a:.0} | {b:.0} | 1/{:.1} | {goal} |", b / a)?;
        writeln!(f, "| a Set, 0 → {n_instances}, all ACTIVE after, s | {:.1} | | | |", seconds(&sets.up))?;
        writeln!(f, "| {n_instances} → 0, all gone after, s | {:.1} | | | |", seconds(&sets.down))?;
        let (count, limit) = (sets::ROLLED_OUT, sets::AT_ONCE);
        let rollout = seconds(&sets.rollout);
        writeln!(f, "| rolling update of {count}, {limit} at once, s | {rollout:.1} | | | |")?;
        let most = sets.most_in_flight;
        let goal = target(&limit.to_string(), most <= limit);
        writeln!(f, "| of which in flight, at most | {most} | | | {goal} |")?;
        let compile = seconds(compile) * 1e3;
        let goal = target("5", compile < 5.0);
        writeln!(f, "| compiling a definition of 20 resources, ms | {compile:.2} | | | {goal} |")
    }
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "all ACTIVE after {:.1} s, calls:\n{}", self.all_active.as_secs_f64(), self.calls)?;
        writeln!(f, "in the idle minute:\n{}", self.idle)
    }
}
