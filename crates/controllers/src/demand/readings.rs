//! What the triggers' queries say now.

use std::{collections::HashMap, sync::Arc, time::Duration};

use decide::demand::{Answer, Per, Scale};
use metrics::{Database, Millis};
use promql::{AutoscalingValue, Engine, Limits, Options, Plan, autoscaling_value};

/// Parsed queries, and the engine they run on.
pub struct Readings {
    database: Database,
    /// By text. A query that cannot be parsed is remembered with the reason.
    plans: HashMap<String, Result<Arc<Plan>, Arc<str>>>,
}

/// Without a sample for so many scrapes a series has no present value: old data scales nothing down.
const SCRAPES_MISSED: u32 = 3;

/// Some milliseconds of work: while a query runs, no function is woken.
const MOST_SAMPLES: u64 = 2_000_000;

impl Readings {
    pub fn new(database: Database) -> Self {
        Readings { database, plans: HashMap::new() }
    }

    /// In the order of the triggers. `interval` is the time between two scrapes.
    pub fn of(&mut self, scale: &Scale, now: Millis, interval: Duration) -> Vec<Answer> {
        let lookback = interval.saturating_mul(SCRAPES_MISSED).as_millis();
        let options = Options { lookback: i64::try_from(lookback).unwrap_or(i64::MAX), ..Options::default() };
        let engine = Engine::new(options);
        scale.triggers.iter().map(|trigger| self.answer(&engine, &trigger.query, now)).collect()
    }

    fn answer(&mut self, engine: &Engine, query: &str, now: Millis) -> Answer {
        let plan = match self.plan(query) {
            Ok(plan) => plan,
            Err(message) => return Answer::Failed(message),
        };
        let per = Some(match plan.per() {
            promql::Per::Total => Per::Total,
            promql::Per::Pod => Per::Pod,
        });
        let store = self.database.store();
        let limits = Limits { samples: MOST_SAMPLES, ..Limits::default() };
        match autoscaling_value(engine, &plan, &*store, now, limits) {
            Ok(AutoscalingValue::Value(value)) => Answer::Value { value, per },
            Ok(AutoscalingValue::AtLeast(value)) => Answer::AtLeast { value, per },
            Ok(AutoscalingValue::Idle) => Answer::Quiet,
            Ok(AutoscalingValue::NoData) => Answer::Failed("there is no recent data".into()),
            Err(error) => Answer::Failed(error.to_string().into()),
        }
    }

    fn plan(&mut self, query: &str) -> Result<Arc<Plan>, Arc<str>> {
        if let Some(known) = self.plans.get(query) {
            return known.clone();
        }
        // Queries of functions that are gone need not be kept for ever.
        if self.plans.len() > 10_000 {
            self.plans.clear();
        }
        let plan = promql::parse(query).map_err(|error| Arc::from(error.to_string()));
        self.plans.insert(query.to_owned(), plan.clone());
        plan
    }
}
