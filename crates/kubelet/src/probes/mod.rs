//! Probes: one task a container runs its startup probe, then its liveness and readiness probes, each on its own timer.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Container, Probe};
use tokio::{
    sync::mpsc,
    time::{Instant, MissedTickBehavior, interval_at, sleep},
};

mod check;
pub mod http;

pub use check::{Action, Outcome, Target, unsupported};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    Startup,
    Liveness,
    Readiness,
}

/// What a probe has to say to the pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Report {
    /// Enough results in a row to believe it.
    Became { kind: Kind, healthy: bool },
    /// One failed try: worth an event.
    Failed { kind: Kind, message: String },
}

/// Counts results in a row.
#[derive(Debug, Clone)]
pub struct Tally {
    success_threshold: u32,
    failure_threshold: u32,
    row: u32,
    last: Option<bool>,
    believed: Option<bool>,
}

// === impl Kind ===

impl Kind {
    pub const ALL: [Kind; 3] = [Kind::Startup, Kind::Liveness, Kind::Readiness];

    pub fn of(self, container: &Container) -> Option<&Probe> {
        match self {
            Kind::Startup => container.startup_probe.as_ref(),
            Kind::Liveness => container.liveness_probe.as_ref(),
            Kind::Readiness => container.readiness_probe.as_ref(),
        }
    }

    pub fn title(self) -> &'static str {
        match self {
            Kind::Startup => "Startup",
            Kind::Liveness => "Liveness",
            Kind::Readiness => "Readiness",
        }
    }

    /// What holds before the first result: alive, but not ready.
    fn assumed(self) -> Option<bool> {
        match self {
            Kind::Startup => None,
            Kind::Liveness => Some(true),
            Kind::Readiness => Some(false),
        }
    }
}

// === impl Tally ===

impl Tally {
    pub fn new(kind: Kind, probe: &Probe) -> Self {
        let threshold =
            |value: Option<i32>, default| value.and_then(|v| u32::try_from(v).ok()).unwrap_or(default).max(1);
        Self {
            success_threshold: threshold(probe.success_threshold, 1),
            failure_threshold: threshold(probe.failure_threshold, 3),
            row: 0,
            last: None,
            believed: kind.assumed(),
        }
    }

    /// The new belief, when this result changes it.
    pub fn observe(&mut self, healthy: bool) -> Option<bool> {
        self.row = if self.last == Some(healthy) { self.row.saturating_add(1) } else { 1 };
        self.last = Some(healthy);
        let needed = if healthy { self.success_threshold } else { self.failure_threshold };
        (self.row >= needed && self.believed != Some(healthy)).then(|| {
            self.believed = Some(healthy);
            healthy
        })
    }
}

/// Somebody waits for a start, and most take a fraction of a probe's period: so often it is looked for in between. Only
/// success counts then; failures are counted in the probe's own time.
const PEEK: Duration = Duration::from_millis(100);

/// Runs all probes of a container that has started, until dropped.
pub async fn run(container: &Container, target: &Target, reports: mpsc::Sender<Report>) {
    if let Some(probe) = &container.startup_probe {
        run_one(Kind::Startup, probe, target, &reports).await;
    }
    let steady = |kind: Kind| {
        let reports = &reports;
        let probe = kind.of(container);
        async move {
            if let Some(probe) = probe {
                run_one(kind, probe, target, reports).await;
            }
        }
    };
    futures::join!(steady(Kind::Liveness), steady(Kind::Readiness));
}

/// Returns when there is nothing left to find out: the container has started up, or is to be killed.
async fn run_one(kind: Kind, probe: &Probe, target: &Target, reports: &mpsc::Sender<Report>) {
    let seconds = |value: Option<i32>, default: u64| {
        Duration::from_secs(value.and_then(|v| u64::try_from(v).ok()).filter(|v| *v > 0).unwrap_or(default))
    };
    let delay =
        Duration::from_secs(probe.initial_delay_seconds.and_then(|v| u64::try_from(v).ok()).unwrap_or(0));
    let mut timer = interval_at(Instant::now() + delay, seconds(probe.period_seconds, 10));
    timer.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let timeout = seconds(probe.timeout_seconds, 1);
    let action = Action::of_probe(probe);
    let mut tally = Tally::new(kind, probe);
    let may_peek = kind == Kind::Startup && matches!(action, Action::Http(_) | Action::Tcp(_));
    let mut has_begun = false;
    loop {
        let is_due = tokio::select! {
            _ = timer.tick() => true,
            () = sleep(PEEK), if may_peek && has_begun => false,
        };
        has_begun = true;
        let outcome = target.perform(&action, if is_due { timeout } else { timeout.min(PEEK) }).await;
        if !is_due && outcome != Outcome::Success {
            continue;
        }
        if let Outcome::Failure(message) = &outcome {
            let _ = reports.send(Report::Failed { kind, message: message.clone() }).await;
        }
        if let Some(healthy) = tally.observe(outcome == Outcome::Success) {
            let _ = reports.send(Report::Became { kind, healthy }).await;
            if kind == Kind::Startup || (kind == Kind::Liveness && !healthy) {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests;
