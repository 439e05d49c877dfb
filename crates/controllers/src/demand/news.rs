//! Which functions to look at again: those the news is about, and those that hang together with them.

use std::{
    collections::{BTreeSet, HashMap},
    sync::{Arc, PoisonError},
    time::Duration,
};

use decide::demand::{Answer, Scale};
use engine::{Executor, Key, Queue};
use jiff::Timestamp;
use metrics::Database;
use ondemand::{Difference, Function, SharedMap, Snapshot};
use tokio::{sync::watch, time::Instant};

use super::{
    neighbours::Neighbours,
    policy::{Answers, Shared},
    readings::Readings,
};
use crate::catalog::View;

/// It is looked this often whether anything has to be evaluated: something was scraped, a function is awake that has no
/// answer yet, or so much time has passed that time alone may have changed the answers.
const METRICS_EVERY: Duration = Duration::from_secs(1);
/// Answers older than so many rounds are no answers: old data scales nothing down.
const ROUNDS_MISSED: u32 = 3;
/// Calls to functions that are awake change a decision by their end only; they need not be looked at one by one.
const UNHURRIED: Duration = Duration::from_millis(100);

#[derive(Clone)]
pub struct News {
    pub shared: Arc<Shared>,
    pub queue: Arc<Queue<Key>>,
    pub executor: Executor,
}

#[derive(Clone)]
pub struct Metrics {
    pub database: Database,
    pub scraped: watch::Receiver<u64>,
    pub scrape_interval: Duration,
}

impl News {
    /// Of workloads, their pods and their annotations.
    pub async fn of_workloads(self) {
        let mut view = self.shared.view.clone();
        let mut last: Arc<View> = Arc::default();
        loop {
            let new = view.borrow_and_update().clone();
            if new.complete {
                let differences = Snapshot::differences(&last.snapshot, &new.snapshot);
                if differences.iter().any(has_other_neighbours) {
                    let neighbours = Arc::new(Neighbours::new(&new.snapshot));
                    *self.shared.neighbours.write().unwrap_or_else(PoisonError::into_inner) = neighbours;
                }
                let neighbours = self.shared.neighbours();
                for name in changed(&differences, &last, &new) {
                    for name in neighbours.of(&name) {
                        self.queue.add(self.shared.key(&name));
                    }
                }
                if !Arc::ptr_eq(&last.refused, &new.refused) {
                    let effects = self.shared.reported().refused(&new.refused);
                    self.executor.execute(effects).await;
                }
                last = new;
            }
            if view.changed().await.is_err() {
                // the catalog ends with this node
                return std::future::pending().await;
            }
        }
    }

    /// Of calls: at once of functions that sleep, a little later of those that are awake.
    pub async fn of_calls(self) {
        let mut activity = self.shared.activity.changes();
        loop {
            let about = self.shared.activity.take_news();
            let neighbours = self.shared.neighbours();
            if !about.is_empty() {
                for name in neighbours.of_any_call() {
                    self.look_at(&name);
                }
            }
            for name in about {
                for name in neighbours.of(&name) {
                    self.look_at(&name);
                }
            }
            if activity.changed().await.is_err() {
                return std::future::pending().await;
            }
        }
    }

    fn look_at(&self, name: &Arc<str>) {
        let is_asleep = self.shared.asleep().contains(name);
        let delay = if is_asleep { Duration::ZERO } else { UNHURRIED };
        self.queue.add_after(self.shared.key(name), delay);
    }

    /// Of triggers. Queries run beside the decisions, which use the last answers there are.
    pub async fn of_metrics(self, Metrics { database, mut scraped, scrape_interval }: Metrics) {
        let mut readings = Readings::default();
        loop {
            scraped.mark_unchanged();
            let view = self.shared.view.borrow().clone();
            let interval = scrape_interval.max(view.longest_interval);
            let (began, database, snapshot) = (Instant::now(), database.clone(), view.snapshot.clone());
            let evaluate = move || {
                let answers = answers(&mut readings, &database, &snapshot, interval);
                (readings, answers)
            };
            // A thread of its own: a query may take as long as a wake-up may not.
            let Ok((own, of)) = tokio::task::spawn_blocking(evaluate).await else {
                // It panicked: the supervisor starts this anew.
                return;
            };
            readings = own;
            let good_until = began + interval.max(METRICS_EVERY) * ROUNDS_MISSED;
            self.take_over(Answers { of, good_until: Some(good_until) });
            for name in self.shared.reported().due(Timestamp::now()) {
                self.queue.add(self.shared.key(&name));
            }
            // Half of one processor at most, however many queries and scrapes there are.
            tokio::time::sleep(began.elapsed().min(METRICS_EVERY)).await;
            let due = began + scrape_interval.max(METRICS_EVERY);
            let mut looked_at = view.snapshot.clone();
            while Instant::now() < due && !self.lacks_answers(&mut looked_at) {
                tokio::select! {
                    Ok(()) = scraped.changed() => break,
                    () = tokio::time::sleep(METRICS_EVERY) => {}
                }
            }
        }
    }

    /// Whether a function that is awake has no answers, of those that are not as they were when this was last asked.
    fn lacks_answers(&self, looked_at: &mut Arc<Snapshot>) -> bool {
        let snapshot = self.shared.view.borrow().snapshot.clone();
        let before = std::mem::replace(looked_at, snapshot);
        if Arc::ptr_eq(&before, looked_at) {
            return false;
        }
        let known = self.shared.answers.read().unwrap_or_else(PoisonError::into_inner);
        Snapshot::differences(&before, looked_at).into_iter().any(
            |Difference { key: name, before, after }| {
                let Some(after) = after.filter(|after| triggers_of(after).is_some()) else { return false };
                // answers to other triggers are none
                let has_other_triggers = || {
                    before.is_some_and(|before| before.settings.scaling.scale != after.settings.scaling.scale)
                };
                !known.of.contains_key(name) || has_other_triggers()
            },
        )
    }

    fn take_over(&self, new: Answers) {
        let mut known = self.shared.answers.write().unwrap_or_else(PoisonError::into_inner);
        let changed: Vec<Arc<str>> = new
            .of
            .iter()
            .filter(|(name, answers)| known.of.get(*name) != Some(answers))
            .map(|(name, _)| name.clone())
            .collect();
        *known = new;
        drop(known);
        for name in changed {
            self.queue.add(self.shared.key(&name));
        }
    }
}

/// What the triggers of all functions that are awake say, on a view of the store: no scrape waits for a query.
fn answers(
    readings: &mut Readings,
    database: &Database,
    snapshot: &Snapshot,
    interval: Duration,
) -> HashMap<Arc<str>, Vec<Answer>> {
    let all = snapshot.functions.iter();
    let scaled: Vec<_> = all.filter_map(|(name, function)| Some((name, triggers_of(function)?))).collect();
    let queries = scaled.iter().flat_map(|(_, scale)| &scale.triggers);
    let queries: BTreeSet<Arc<str>> = queries.map(|trigger| trigger.query.as_str().into()).collect();
    let now = Timestamp::now().as_millisecond();
    let said = readings.round(&queries, interval, &database.view(), now);
    let of_scale = |scale: &Scale| {
        let queries = scale.triggers.iter().map(|trigger| said.get(trigger.query.as_str()).cloned());
        queries.collect::<Option<Vec<_>>>()
    };
    scaled.into_iter().filter_map(|(name, scale)| Some((name.clone(), of_scale(scale)?))).collect()
}

/// What is to be evaluated for a function, if it is awake and has anything to evaluate.
fn triggers_of(function: &Function) -> Option<&Scale> {
    let scale = function.settings.scaling.scale.as_ref()?;
    (function.requested > 0 && !scale.triggers.is_empty()).then_some(scale)
}

type FunctionDifference<'a> = Difference<'a, Arc<str>, Arc<Function>>;

/// Those that are new, gone, or not what they were, whoever else depends on them.
fn changed(functions: &[FunctionDifference<'_>], last: &View, new: &View) -> BTreeSet<Arc<str>> {
    let mut changed: BTreeSet<Arc<str>> = functions.iter().map(|one| one.key.clone()).collect();
    let controls = SharedMap::differences(&last.controls, &new.controls, |a, b| a == b);
    changed.extend(controls.into_iter().map(|one| one.key.clone()));
    let of_unmanaged = new.unmanaged.iter().filter(|(name, one)| last.unmanaged.get(*name) != Some(one));
    changed.extend(of_unmanaged.map(|(name, _)| name.clone()));
    changed
}

fn has_other_neighbours(one: &FunctionDifference<'_>) -> bool {
    let neighbours = |function: Option<&Arc<Function>>| {
        let settings = function.map(|function| function.settings.clone())?;
        let has_any = settings.starts_with_any || !settings.depends_on.is_empty();
        has_any.then(|| (settings.starts_with_any, settings.depends_on.clone()))
    };
    neighbours(one.before) != neighbours(one.after)
}
