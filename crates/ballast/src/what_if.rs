//! What would have been: another policy on what was recorded of an object, decided by the core that decides about it.
//!
//! ```text
//! record of decisions, metric store ──▶ readings at each moment ──▶ decide::{demand, hpa} ──▶ replicas at each moment
//!                                                                        ▲        │
//!                                                                        └ memory ┘
//! ```
//!
//! A count is applied as soon as it is decided: nothing is known of how long pods would have taken to start. What was
//! measured stays as it was, but for figures of each pod, which are shared out among the pods that there would have been.

mod demand;
mod hpa;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use api::slimfaas::Settings;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use kube::{Api, api::ListParams};
use metrics::Database;
use ondemand::Catalog;
use scaling::{History, Object, Record};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use tokio::sync::Semaphore;

/// A policy of a few kilobytes is a long one.
const LONGEST_POLICY: usize = 64 << 10;
/// For a whole replay.
const PATIENCE: Duration = Duration::from_secs(10);
/// As far back as the metric store goes.
const WINDOW: SignedDuration = SignedDuration::from_mins(30);
/// Between two decisions of a replay, unless the window asks for longer steps.
const STEP: SignedDuration = SignedDuration::from_secs(5);
/// At once: each takes a processor for as long as it lasts.
const AT_ONCE: usize = 1;

#[derive(Clone)]
pub struct WhatIf {
    pub history: History,
    pub catalog: Catalog,
    pub database: Database,
    pub client: kube::Client,
    pub scrape_interval: Duration,
    turns: Arc<Semaphore>,
}

#[derive(Clone, Debug, Deserialize)]
pub struct Request {
    #[serde(flatten)]
    pub object: Object,
    /// As [`WhatIf::policy`] gives it, in YAML or JSON.
    pub policy: String,
}

/// The policy that decides about an object now.
#[derive(Clone, Debug, Serialize)]
pub struct Current {
    policy: &'static str,
    /// To be edited: JSON, which is YAML as well.
    text: String,
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Replayed {
    from: Timestamp,
    to: Timestamp,
    /// Where the count or the reason changes, oldest first.
    points: Vec<Point>,
    /// What the replay could not know.
    notes: Vec<String>,
}

/// From this moment on there would have been so many.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Point {
    at: Timestamp,
    replicas: i32,
    reason: String,
    why: String,
}

/// Why there is no answer, for the person who asked.
#[derive(Debug)]
pub enum Refusal {
    /// What was asked makes no sense.
    Bad(String),
    /// Nothing is known of it.
    Unknown(String),
    Busy(String),
}

/// What decides about an object.
enum Policy {
    Demand { name: Arc<str>, settings: Arc<Settings> },
    Hpa(Box<HorizontalPodAutoscaler>),
}

impl WhatIf {
    pub fn new(
        history: &History,
        catalog: &Catalog,
        database: &Database,
        client: &kube::Client,
        scrape_interval: Duration,
    ) -> Self {
        let turns = Arc::new(Semaphore::new(AT_ONCE));
        let (history, catalog, database) = (history.clone(), catalog.clone(), database.clone());
        Self { history, catalog, database, client: client.clone(), scrape_interval, turns }
    }

    /// # Errors
    /// If neither a function nor a HorizontalPodAutoscaler is known of it.
    pub async fn policy(&self, object: &Object) -> Result<Current, Refusal> {
        match self.decider(object).await? {
            Policy::Demand { name, settings } => {
                Ok(Current { policy: "demand", text: pretty(&demand::form(&name, &settings)) })
            }
            Policy::Hpa(autoscaler) => Ok(Current { policy: "hpa", text: pretty(&hpa::form(&autoscaler)?) }),
        }
    }

    /// # Errors
    /// If the policy cannot be read, nothing is recorded, or it takes too long.
    pub async fn replay(&self, Request { object, policy: text }: Request) -> Result<Replayed, Refusal> {
        if text.len() > LONGEST_POLICY {
            return Err(Refusal::Bad(format!("the policy is longer than {} KiB", LONGEST_POLICY >> 10)));
        }
        let decider = self.decider(&object).await?;
        let records = self.history.of(&object);
        let now = Timestamp::now();
        let from = now.checked_sub(WINDOW).unwrap_or(now);
        let turn = self.turns.clone().try_acquire_owned();
        let turn =
            turn.map_err(|_| Refusal::Busy("another replay is under way: try again in a moment".into()))?;
        let (database, interval) = (self.database.clone(), self.scrape_interval);
        let replay = move || {
            let _turn = turn;
            let began = Instant::now();
            let window = Window { from, to: now, is_over: &|| began.elapsed() > PATIENCE };
            match decider {
                Policy::Demand { name, settings } => {
                    let form = parse(&text)?;
                    let engine = api::slimfaas::triggers::engine(interval);
                    let store = demand::Store { engine, view: database.view() };
                    demand::replay(&form, &name, &settings, &records, &store, &window)
                }
                Policy::Hpa(_) => hpa::replay(&parse(&text)?, &records, &window),
            }
        };
        let replayed = tokio::task::spawn_blocking(replay).await;
        replayed.map_err(|error| Refusal::Busy(format!("the replay ended without an answer: {error}")))?
    }

    async fn decider(&self, object: &Object) -> Result<Policy, Refusal> {
        let snapshot = self.catalog.current();
        let is_it = |function: &ondemand::Function| {
            let ondemand::Target { kind, namespace, name, .. } = &function.target;
            (&**kind, &**namespace, &**name) == (&*object.kind, &*object.namespace, &*object.name)
        };
        if let Some((name, function)) = snapshot.functions.iter().find(|(_, function)| is_it(function)) {
            return Ok(Policy::Demand { name: name.clone(), settings: function.settings.clone() });
        }
        let api: Api<HorizontalPodAutoscaler> = Api::namespaced(self.client.clone(), &object.namespace);
        let all = api.list(&ListParams::default()).await.map_err(|error| {
            Refusal::Unknown(format!(
                "the HorizontalPodAutoscalers of {} are not known: {error}",
                object.namespace
            ))
        })?;
        let is_of_it = |one: &HorizontalPodAutoscaler| {
            let target = &one.spec.scale_target_ref;
            target.kind == object.kind && target.name == object.name
        };
        let found = all.items.into_iter().find(is_of_it);
        found.map(|found| Policy::Hpa(Box::new(found))).ok_or_else(|| {
            Refusal::Unknown(format!(
                "{object} is neither a function on demand nor scaled by a HorizontalPodAutoscaler"
            ))
        })
    }
}

/// What is replayed, and until when.
struct Window<'a> {
    from: Timestamp,
    to: Timestamp,
    is_over: &'a dyn Fn() -> bool,
}

impl Window<'_> {
    /// Each moment at which something is decided.
    fn moments(&self, from: Timestamp) -> impl Iterator<Item = Timestamp> {
        let (begin, end) = (from.max(self.from), self.to);
        std::iter::successors(Some(begin), |at| at.checked_add(STEP).ok()).take_while(move |at| *at <= end)
    }

    fn check(&self) -> Result<(), Refusal> {
        match (self.is_over)() {
            true => Err(Refusal::Busy(format!("the replay took longer than {} s", PATIENCE.as_secs()))),
            false => Ok(()),
        }
    }
}

/// Points where something changed.
#[derive(Default)]
struct Line(Vec<Point>);

impl Line {
    fn push(&mut self, at: Timestamp, replicas: i32, reason: &str, why: impl FnOnce() -> String) {
        let is_same = |last: &Point| last.replicas == replicas && last.reason == reason;
        if !self.0.last().is_some_and(is_same) {
            self.0.push(Point { at, replicas, reason: reason.to_owned(), why: why() });
        }
    }
}

/// The count that there was until a moment, as far as the record goes back.
fn count_before(records: &[Arc<Record>], at: Timestamp) -> Option<i32> {
    let before = records.iter().rfind(|record| record.at < at).map(|record| match record.outcome {
        scaling::Outcome::Written => record.desired,
        _ => record.current,
    });
    before.or_else(|| records.first().map(|record| record.current))
}

/// A message that names the line, as people who edit text expect.
fn parse<T: DeserializeOwned>(text: &str) -> Result<T, Refusal> {
    serde_saphyr::from_str(text).map_err(|error| {
        let message = error.to_string();
        Refusal::Bad(message.strip_prefix("error: ").unwrap_or(&message).to_owned())
    })
}

fn pretty(value: &impl Serialize) -> String {
    serde_json::to_string_pretty(value).unwrap_or_default()
}
