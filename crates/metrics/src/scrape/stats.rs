//! How scraping goes: per target for people, per group as metrics.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde::Serialize;

use super::Target;
use crate::Millis;
use crate::database::{self, Gauge};
use crate::text::Problem;

/// Why a scrape failed, as the `reason` label says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    InvalidUrl,
    AddressRefused,
    Connection,
    Timeout,
    Redirect,
    HttpStatus,
    Encoding,
    ResponseTooLarge,
    LineTooLong,
    TooManySeries,
    Parse,
    Store,
}

impl Reason {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::InvalidUrl => "invalid_url",
            Self::AddressRefused => "address_refused",
            Self::Connection => "connection",
            Self::Timeout => "timeout",
            Self::Redirect => "redirect",
            Self::HttpStatus => "http_status",
            Self::Encoding => "encoding",
            Self::ResponseTooLarge => "response_too_large",
            Self::LineTooLong => "line_too_long",
            Self::TooManySeries => "too_many_series",
            Self::Parse => "parse",
            Self::Store => "store",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct Failure {
    pub reason: Reason,
    pub message: String,
}

impl Failure {
    pub fn new(reason: Reason, message: impl fmt::Display) -> Self {
        Self { reason, message: message.to_string() }
    }
}

impl From<database::Error> for Failure {
    fn from(error: database::Error) -> Self {
        let reason = match &error {
            database::Error::Text(text) => match text.problem {
                Problem::LineTooLong { .. } => Reason::LineTooLong,
                Problem::TooManySeries { .. } => Reason::TooManySeries,
                _ => Reason::Parse,
            },
            database::Error::Store(_) => Reason::Store,
        };
        Self::new(reason, error)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.reason.as_str(), self.message)
    }
}

/// One target, as a person wants to see it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TargetStatus {
    pub target: Arc<str>,
    pub url: String,
    pub labels: BTreeMap<String, String>,
    pub group: String,
    /// Its own, if it has one.
    pub interval_millis: Option<Millis>,
    pub last_scrape: Millis,
    pub last_success: Option<Millis>,
    pub duration_millis: Millis,
    /// Samples stored by the last success.
    pub samples: usize,
    /// What went wrong in the last scrape.
    pub error: Option<String>,
}

#[derive(Debug, Default)]
pub struct Stats {
    targets: BTreeMap<Arc<str>, TargetStatus>,
    groups: BTreeMap<String, Group>,
    n_skipped: u64,
}

/// Upper bounds in milliseconds: from a pod next door to the time limit.
const BOUNDS: [Millis; 11] = [5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000];

#[derive(Debug, Default)]
struct Group {
    /// How many scrapes took at most the bound.
    buckets: [u64; BOUNDS.len()],
    n_scrapes: u64,
    total_millis: Millis,
    failures: BTreeMap<Reason, u64>,
    last_success: Option<Millis>,
    n_targets: usize,
}

impl Stats {
    pub fn record(&mut self, target: &Target, start: Millis, took: Millis, result: Result<usize, Failure>) {
        let is_new = !self.targets.contains_key(target.key());
        let group = self.groups.entry(target.group.clone()).or_default();
        group.n_targets += usize::from(is_new);
        group.n_scrapes += 1;
        group.total_millis += took;
        for (bucket, bound) in group.buckets.iter_mut().zip(BOUNDS) {
            *bucket += u64::from(took <= bound);
        }
        let known = self.targets.get(target.key());
        let mut status = TargetStatus {
            target: target.key().clone(),
            url: target.url(),
            labels: target.labels.iter().map(|(n, v)| (n.to_string(), v.to_string())).collect(),
            interval_millis: target.interval.map(|interval| interval.as_millis() as Millis),
            group: target.group.clone(),
            last_scrape: start,
            last_success: known.and_then(|k| k.last_success),
            duration_millis: took,
            samples: known.map_or(0, |k| k.samples),
            error: None,
        };
        match result {
            Ok(samples) => {
                group.last_success = Some(start);
                status.last_success = Some(start);
                status.samples = samples;
            }
            Err(failure) => {
                *group.failures.entry(failure.reason).or_default() += 1;
                status.error = Some(failure.to_string());
            }
        }
        self.targets.insert(target.key().clone(), status);
    }

    /// Forgets a target; the last one of a group takes the group with it.
    pub fn remove(&mut self, key: &str) {
        let Some(status) = self.targets.remove(key) else { return };
        if let Some(group) = self.groups.get_mut(&status.group) {
            group.n_targets = group.n_targets.saturating_sub(1);
            if group.n_targets == 0 {
                self.groups.remove(&status.group);
            }
        }
    }

    pub fn set_skipped(&mut self, n: u64) {
        self.n_skipped = n;
    }

    pub fn status(&self) -> Vec<TargetStatus> {
        self.targets.values().cloned().collect()
    }

    /// Under the names that dashboards for SlimFaas know.
    pub fn gauges(&self) -> Vec<Gauge> {
        const PREFIX: &str = "slimfaas_metrics_scrape";
        let mut all = vec![gauge(format!("{PREFIX}_skipped_total"), &[], self.n_skipped as f64)];
        for (name, group) in &self.groups {
            let function = ("function", name.as_str());
            let bounds = BOUNDS.iter().map(|b| (*b as f64 / 1000.0).to_string()).chain(["+Inf".to_string()]);
            for (le, n) in bounds.zip(group.buckets.iter().copied().chain([group.n_scrapes])) {
                all.push(gauge(
                    format!("{PREFIX}_duration_seconds_bucket"),
                    &[function, ("le", &le)],
                    n as f64,
                ));
            }
            let seconds = group.total_millis as f64 / 1000.0;
            all.push(gauge(format!("{PREFIX}_duration_seconds_sum"), &[function], seconds));
            all.push(gauge(format!("{PREFIX}_duration_seconds_count"), &[function], group.n_scrapes as f64));
            for (reason, n) in &group.failures {
                let labels = [function, ("reason", reason.as_str())];
                all.push(gauge(format!("{PREFIX}_failures_total"), &labels, *n as f64));
            }
            if let Some(time) = group.last_success {
                all.push(gauge(format!("{PREFIX}_last_success_unixtime"), &[function], time as f64 / 1000.0));
            }
        }
        all
    }
}

fn gauge(name: String, labels: &[(&str, &str)], value: f64) -> Gauge {
    let labels = labels.iter().map(|(n, v)| (n.to_string(), v.to_string())).collect();
    Gauge { name, labels, value }
}
