//! How many replicas each function gets: looks at everything, lets `decide::demand` decide, writes what changed.
//!
//! ```text
//! Activity, View, scrapes, time ──▶ plan::decide ──▶ Decision ──▶ scale write + Event (the master only)
//!                                      ▲    │
//!                                      └────┴─ memory: windows and budgets, kept in the store
//! ```
//!
//! - `plan`: decisions and effects, pure
//! - `readings`: what the triggers' queries say
//! - `memory`: what outlives a master
//! - `told`: what people have been told already
//! - `decisions`: the last decision about each function, for status and metrics
//! - `told_to_all`: how the other nodes learn of it

mod decisions;
mod memory;
mod plan;
mod readings;
#[cfg(test)]
mod tests;
mod told;
mod told_to_all;

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    future::Future,
    sync::Arc,
    time::Duration,
};

use decide::demand::{Answer, Decision};
use engine::{Executor, Failure, WriteChange};
use functions::Activity;
use jiff::Timestamp;
use kube::Client;
use metrics::Database;
use tokio::{
    sync::watch,
    task::JoinSet,
    time::{Instant, sleep_until},
};

use crate::{catalog::View, roles};
use memory::Memories;
use plan::Situation;
use readings::Readings;
use told::Told;

pub use decisions::{Decided, Decisions};

/// Metrics are looked at this often, also when no scrape was told.
const METRICS_EVERY: Duration = Duration::from_secs(1);
/// Calls to functions that are awake change a decision by their end only; they need not be looked at one by one.
const UNHURRIED: Duration = Duration::from_millis(100);
/// A write that the watch does not show by then was undone by somebody.
const OWN_WRITE_PATIENCE: Duration = Duration::from_secs(10);
/// Whether this node is the master.
const LOOK_AGAIN: Duration = Duration::from_millis(500);
/// For the watch to show what somebody else wrote.
const OUTDATED_PAUSE: Duration = Duration::from_millis(10);
/// After a write that failed.
const RETRY_AFTER: Duration = Duration::from_millis(500);
/// Looked at although nothing happened, in case a clock was set.
const LONGEST_SLEEP: Duration = Duration::from_secs(60);

/// What the controller works with.
pub struct Parts {
    pub client: Client,
    pub view: watch::Receiver<Arc<View>>,
    pub activity: Activity,
    pub database: Database,
    /// Changes with every scrape, or snapshot of another node's scrapes.
    pub scraped: watch::Receiver<u64>,
    pub scrape_interval: Duration,
    pub store: store::Shared,
    pub roles: roles::Handle,
    pub decisions: Decisions,
}

/// Decides until `shutdown`, whenever this node is the master.
pub async fn run(parts: Parts, shutdown: impl Future<Output = ()>) {
    let mut roles = parts.roles.changes();
    let (decisions, store, handle) = (parts.decisions.clone(), parts.store.clone(), parts.roles.clone());
    let mut controller = Controller::new(parts);
    let work = async {
        loop {
            if controller.parts.roles.is_master() {
                tokio::select! {
                    () = controller.govern() => {}
                    () = told_to_all::tell(&decisions, &store, &handle) => {}
                }
                decisions.resign();
            }
            // Nobody tells of a lease that ran out and was renewed before anybody looked.
            tokio::select! {
                Ok(()) = roles.changed() => {}
                () = tokio::time::sleep(LOOK_AGAIN) => {}
            }
        }
    };
    tokio::select! {
        () = work => {}
        () = told_to_all::hear(&decisions, &store) => {}
        () = shutdown => {}
    }
}

struct Controller {
    parts: Parts,
    executor: Executor,
    readings: Readings,
    told: Told,
}

/// What a master knows beside what it sees.
struct Reign {
    memories: Memories,
    /// Writes on their way.
    writes: JoinSet<(Arc<str>, Written)>,
    writing: HashSet<Arc<str>>,
    /// Written, but not yet shown by the watch: decided anew only then.
    unseen: HashMap<Arc<str>, (u64, Instant)>,
    /// Not tried again before.
    refused: HashMap<Arc<str>, Instant>,
    answers: Answers,
    /// Functions that a call would wake, when they were last looked at.
    asleep: HashSet<Arc<str>>,
}

/// How a write went.
enum Written {
    /// The version that the object has now.
    As(u64),
    /// Somebody else wrote in between: the watch will show it.
    Outdated,
    Failed,
}

/// Readings are made once a scrape or second, not once a call.
struct Answers {
    of: HashMap<Arc<str>, Vec<Answer>>,
    made: Option<Instant>,
}

impl Controller {
    fn new(parts: Parts) -> Self {
        let executor = Executor::new(parts.client.clone(), plan::COMPONENT);
        let readings = Readings::new(parts.database.clone());
        Controller { parts, executor, readings, told: Told::default() }
    }

    /// One time of being master.
    async fn govern(&mut self) {
        let mut reign = Reign {
            memories: Memories::load(self.parts.store.clone()).await,
            writes: JoinSet::new(),
            writing: HashSet::new(),
            unseen: HashMap::new(),
            refused: HashMap::new(),
            answers: Answers { of: HashMap::new(), made: None },
            asleep: HashSet::new(),
        };
        let mut activity = self.parts.activity.changes();
        let mut roles = self.parts.roles.changes();
        let (mut view, mut scraped) = (self.parts.view.clone(), self.parts.scraped.clone());
        while self.parts.roles.is_master() {
            activity.mark_unchanged();
            view.mark_unchanged();
            // All of it is looked at now.
            drop(self.parts.activity.take_news());
            let unhurried = Instant::now() + UNHURRIED;
            let mut next = self.turn(&mut reign);
            loop {
                tokio::select! {
                    () = sleep_until(next) => break,
                    Ok(()) = activity.changed() => match self.is_urgent(&reign) {
                        true => break,
                        false => next = next.min(unhurried),
                    },
                    Ok(()) = view.changed() => break,
                    Ok(()) = scraped.changed() => {
                        reign.answers.made = None;
                        break;
                    }
                    Ok(()) = roles.changed() => break,
                    Some(done) = reign.writes.join_next(), if !reign.writes.is_empty() => {
                        reign.finished(done);
                        break;
                    }
                }
            }
        }
    }

    /// Whether a call came for a function that sleeps.
    fn is_urgent(&self, reign: &Reign) -> bool {
        !self.parts.activity.take_news().is_disjoint(&reign.asleep)
    }

    /// Decides about all functions and starts to write what changed. Returns when to look again.
    fn turn(&mut self, reign: &mut Reign) -> Instant {
        let view = self.parts.view.borrow().clone();
        let now = Timestamp::now();
        let instant = Instant::now();
        if !view.complete {
            return instant + LONGEST_SLEEP;
        }
        let has_triggers = self.read(&view, reign, now, instant);
        let situation = Situation {
            now,
            snapshot: &view.snapshot,
            plain: &view.plain,
            calls: self.parts.activity.all().into_iter().collect(),
            readings: reign.answers.of.clone(),
            memories: reign.memories.all(),
        };
        let decisions = plan::decide(&situation);
        reign.asleep.clear();
        let mut next = instant + if has_triggers { METRICS_EVERY } else { LONGEST_SLEEP };
        let mut all = BTreeMap::new();
        for (name, decision) in decisions {
            let (Some(function), Some(object)) =
                (view.snapshot.functions.get(&name), view.objects.get(&name))
            else {
                continue;
            };
            if function.requested < function.settings.scaling.min.max(1) {
                reign.asleep.insert(name.clone());
            }
            self.told.of(&name, function, object, &decision, &self.executor);
            all.insert(name.clone(), Arc::new(Decided::new(now, function, &decision)));
            if let Some(wait) = reign.must_wait(&name, object, instant) {
                next = next.min(wait);
                continue;
            }
            if let Some(at) = decision.next_check {
                let wait = Duration::try_from(at.duration_since(now)).unwrap_or_default();
                // Up to the next millisecond, so as not to wake just before the time.
                next = next.min(instant + wait + Duration::from_millis(1));
            }
            reign.memories.put(&name, &decision, now);
            if decision.changes() {
                self.write(reign, &name, &decision, object);
            }
        }
        reign.memories.retain(|name| view.snapshot.functions.contains_key(name));
        self.told.refused(&view.refused, &self.executor);
        self.told.retain(|name| view.snapshot.functions.contains_key(name));
        self.parts.decisions.decided(all);
        next
    }

    /// Brings the readings up to date. Says whether any function has triggers that count now.
    fn read(&mut self, view: &View, reign: &mut Reign, now: Timestamp, instant: Instant) -> bool {
        let with_triggers = |function: &&Arc<functions::Function>| {
            let scale = function.settings.scaling.scale.as_ref();
            function.requested > 0 && scale.is_some_and(|scale| !scale.triggers.is_empty())
        };
        let functions: Vec<_> = view.snapshot.functions.values().filter(with_triggers).collect();
        let is_fresh = reign.answers.made.is_some_and(|made| instant < made + METRICS_EVERY)
            && functions.iter().all(|function| reign.answers.of.contains_key(function.name()));
        if !is_fresh {
            let interval = self.parts.scrape_interval.max(view.longest_interval);
            reign.answers.made = Some(instant);
            reign.answers.of.clear();
            for function in &functions {
                if let Some(scale) = &function.settings.scaling.scale {
                    let answers = self.readings.of(scale, now.as_millisecond(), interval);
                    reign.answers.of.insert(function.name().clone(), answers);
                }
            }
        }
        !functions.is_empty()
    }

    fn write(
        &self,
        reign: &mut Reign,
        name: &Arc<str>,
        decision: &Decision,
        object: &engine::effect::Target,
    ) {
        reign.writing.insert(name.clone());
        let name = name.clone();
        let (executor, roles) = (self.executor.clone(), self.parts.roles.clone());
        let (headline, effects) = (plan::headline(&name, decision), plan::effects(decision, object));
        reign.writes.spawn(async move {
            // The last moment: a master that was paused since it decided must not write.
            if !roles.is_master() {
                tracing::warn!(function = %name, "no longer the master: not written");
                return (name, Written::Failed);
            }
            let outcome = executor.execute(effects).await;
            let version = outcome.writes.iter().find_map(|(_, write)| match write.change {
                WriteChange::Applied { version } => Some(version),
                WriteChange::Deleted => None,
            });
            let written = match (outcome.failure, version) {
                (Some(Failure { conflict: true, message, .. }), _) => {
                    tracing::debug!(function = %name, message, "changed meanwhile, deciding again");
                    Written::Outdated
                }
                (Some(failure), _) => {
                    tracing::warn!(function = %name, message = failure.message, "could not be scaled, retrying");
                    Written::Failed
                }
                (None, version) => {
                    tracing::info!("{headline}");
                    Written::As(version.unwrap_or_default())
                }
            };
            (name, written)
        });
    }
}

impl Reign {
    /// Until when the function is left alone.
    fn must_wait(
        &mut self,
        name: &Arc<str>,
        object: &engine::effect::Target,
        now: Instant,
    ) -> Option<Instant> {
        if self.writing.contains(name) {
            return Some(now + LONGEST_SLEEP);
        }
        if let Some((written, at)) = self.unseen.get(name) {
            let shown = object.resource_version.as_deref().and_then(|version| version.parse::<u64>().ok());
            let patience = *at + OWN_WRITE_PATIENCE;
            if shown.is_some_and(|shown| shown < *written) && now < patience {
                return Some(patience);
            }
            self.unseen.remove(name);
        }
        match self.refused.get(name) {
            Some(until) if now < *until => Some(*until),
            _ => {
                self.refused.remove(name);
                None
            }
        }
    }

    /// Notes how a write went.
    fn finished(&mut self, done: Result<(Arc<str>, Written), tokio::task::JoinError>) {
        let Ok((name, written)) = done else {
            // Which one it was is unknown, so all are looked at again.
            self.writing.clear();
            return;
        };
        self.writing.remove(&name);
        let now = Instant::now();
        match written {
            Written::As(version) => drop(self.unseen.insert(name, (version, now))),
            Written::Outdated => drop(self.refused.insert(name, now + OUTDATED_PAUSE)),
            Written::Failed => drop(self.refused.insert(name, now + RETRY_AFTER)),
        }
    }
}
