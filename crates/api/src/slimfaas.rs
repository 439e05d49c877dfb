//! `SlimFaas/*` annotations: what turns a workload into a function on demand.

mod read;
#[cfg(test)]
mod tests;
pub mod triggers;
mod values;

use std::{fmt, sync::Arc, time::Duration};

use decide::demand;

pub use read::{Annotations, MOST_PROBLEMS, PREFIX, names, read, refused};

/// All a function asks for. A bad annotation leaves its default here and a [`Problem`] beside it.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// `ReplicasMin`, `ReplicasAtStart`, `TimeoutSecondBeforeSetReplicasMin`, `Schedule`, `Scale`. Queries are
    /// substituted already (`${namespace}`, `${app}`).
    pub scaling: demand::Spec,
    pub depends_on: Vec<Arc<str>>,
    /// `ReplicasStartAsSoonAsOneFunctionRetrieveARequest`.
    pub starts_with_any: bool,
    /// `Configuration.DefaultSync.HttpTimeout`: one deadline over wake and call.
    pub sync_timeout: Duration,
    /// `Configuration.DefaultAsync`.
    pub asynchronous: Attempts,
    /// `Configuration.DefaultPublish`.
    pub publish: Attempts,
    /// `NumberParallelRequest`: asynchronous calls under way, all pods together.
    pub parallel: u32,
    /// `NumberParallelRequestPerPod`.
    pub parallel_per_pod: u32,
    pub subscriptions: Vec<Subscription>,
    /// `DefaultVisibility`.
    pub visibility: Visibility,
    /// `PathsStartWithVisibility`: the first prefix that fits decides.
    pub path_visibility: Vec<(String, Visibility)>,
    /// `DefaultTrust`: whether this function's pods may call what is private.
    pub trusted: bool,
    /// `Scale.ScrapeIntervalMilliseconds`: how often its pods are asked for metrics.
    pub scrape_interval: Option<Duration>,
}

/// How often and when a call is tried.
#[derive(Clone, Debug, PartialEq)]
pub struct Attempts {
    /// Of each attempt.
    pub timeout: Duration,
    /// Before the second attempt, the third, …; there is one attempt more than there are delays.
    pub delays: Vec<Duration>,
    /// Answers that are tried again.
    pub statuses: Vec<u16>,
}

/// `SubscribeEvents`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subscription {
    pub event: Arc<str>,
    pub visibility: Visibility,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Visibility {
    #[default]
    Public,
    Private,
}

/// An annotation that could not be used: only its own feature is off.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// As written, `SlimFaas/Scale`.
    pub annotation: Arc<str>,
    pub message: String,
}

impl Problem {
    /// Longer messages are cut off: what they quote may be as long as annotations can be, 256 KiB.
    pub const LONGEST_MESSAGE: usize = 500;

    pub fn new(annotation: impl Into<Arc<str>>, message: impl fmt::Display) -> Self {
        let mut message = message.to_string();
        if let Some((end, _)) = message.char_indices().nth(Self::LONGEST_MESSAGE) {
            message.truncate(end);
            message.push('…');
        }
        Problem { annotation: annotation.into(), message }
    }
}

impl Default for Attempts {
    fn default() -> Self {
        Attempts {
            timeout: Duration::from_secs(120),
            delays: [2, 4, 8].map(Duration::from_secs).to_vec(),
            statuses: vec![500, 502, 503],
        }
    }
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            scaling: demand::Spec {
                min: 0,
                at_start: 1,
                timeout_seconds: 300,
                schedule: demand::Schedule::default(),
                scale: None,
            },
            depends_on: Vec::new(),
            starts_with_any: false,
            sync_timeout: Duration::from_secs(120),
            asynchronous: Attempts::default(),
            publish: Attempts::default(),
            parallel: 10,
            parallel_per_pod: 10,
            subscriptions: Vec::new(),
            visibility: Visibility::Public,
            path_visibility: Vec::new(),
            trusted: true,
            scrape_interval: None,
        }
    }
}

impl Settings {
    /// What is said of paths like this one (which starts with a slash): the first prefix counts. Servers differ in whether
    /// they regard case, so there are two answers; none stands for [`Settings::visibility`].
    pub fn path_rules(&self, path: &str) -> [Option<Visibility>; 2] {
        let first = |fits: &dyn Fn(&str) -> bool| {
            let rule = self.path_visibility.iter().find(|(prefix, _)| fits(prefix));
            rule.map(|(_, visibility)| *visibility)
        };
        let folded = path.to_lowercase();
        [
            first(&|prefix| path.starts_with(prefix)),
            first(&|prefix| folded.starts_with(&prefix.to_lowercase())),
        ]
    }
}
