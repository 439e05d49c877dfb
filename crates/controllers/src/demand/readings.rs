//! What the triggers' queries say. Each distinct query is evaluated once a round, however many functions share it; one that
//! breaks its budget is turned off for a while.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
    time::Duration,
};

use api::slimfaas::triggers;
use decide::demand::Answer;
use metrics::{Millis, View};
use promql::{Engine, Error, Limits, Plan};
use tokio::time::Instant;

/// What one query may cost.
const MOST_SAMPLES: u64 = 2_000_000;
const MOST_MEMORY: u64 = 32 << 20;
const MOST_TIME: Duration = Duration::from_secs(2);
/// A query that cost more is left alone for so long.
const OFF_FOR: Duration = Duration::from_secs(300);
/// How the reason of such a query begins.
pub const TURNED_OFF: &str = "turned off";

/// What is known of queries from one round to the next.
#[derive(Default)]
pub struct Readings {
    /// A query that cannot be parsed is remembered with the reason.
    plans: HashMap<Arc<str>, Result<Arc<Plan>, Arc<str>>>,
    /// Queries that broke their budget: until when they are left alone, and why.
    off: HashMap<Arc<str>, (Instant, Arc<str>)>,
    /// Evaluations so far.
    n_evaluated: u64,
}

impl Readings {
    /// What each query says at `now`; queries that are not among them are forgotten. `interval` is the time between two
    /// scrapes.
    pub fn round(
        &mut self,
        queries: &BTreeSet<Arc<str>>,
        interval: Duration,
        view: &View,
        now: Millis,
    ) -> HashMap<Arc<str>, Answer> {
        self.plans.retain(|query, _| queries.contains(query));
        self.off.retain(|query, (until, _)| queries.contains(query) && Instant::now() < *until);
        let engine = triggers::engine(interval);
        queries.iter().map(|query| (query.clone(), self.answer(&engine, query, view, now))).collect()
    }

    fn answer(&mut self, engine: &Engine, query: &Arc<str>, view: &View, now: Millis) -> Answer {
        if let Some((_, why)) = self.off.get(query) {
            return Answer::Failed(why.clone());
        }
        let plan = match self.plan(query) {
            Ok(plan) => plan,
            Err(message) => return Answer::Failed(message),
        };
        self.n_evaluated += 1;
        let deadline = Instant::now() + MOST_TIME;
        let interrupted = || Instant::now() >= deadline;
        let limits = Limits {
            samples: MOST_SAMPLES,
            memory: MOST_MEMORY,
            interrupted: Some(&interrupted),
            ..Limits::default()
        };
        match triggers::answer(engine, &plan, view, now, limits) {
            Ok(answer) => answer,
            Err(error @ (Error::Limit { .. } | Error::Interrupted | Error::TooComplex { .. })) => {
                let why: Arc<str> = format!("{TURNED_OFF} for {} s: {error}", OFF_FOR.as_secs()).into();
                self.off.insert(query.clone(), (Instant::now() + OFF_FOR, why.clone()));
                Answer::Failed(why)
            }
            Err(error) => Answer::Failed(error.to_string().into()),
        }
    }

    fn plan(&mut self, query: &Arc<str>) -> Result<Arc<Plan>, Arc<str>> {
        if let Some(known) = self.plans.get(query) {
            return known.clone();
        }
        let plan = promql::parse(query).map_err(|error| Arc::from(error.to_string()));
        self.plans.insert(query.clone(), plan.clone());
        plan
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use jiff::Timestamp;
    use metrics::{Database, Gauge};
    use promql::Labels;

    use super::*;

    fn database() -> Database {
        let database = Database::default();
        database.ask(&promql::parse("depth").unwrap().metric_names(), 0);
        feed(&database, 7.0, Timestamp::now().as_millisecond());
        database
    }

    fn feed(database: &Database, value: f64, now: Millis) {
        let gauge = Gauge { name: "depth".into(), labels: vec![], value };
        database.feed("t", &Labels::from_pairs([("pod", "a")]), now, &[gauge]).unwrap();
    }

    /// 15 KB that want 156 GB.
    fn bomb() -> String {
        let many = "$0".repeat(2500);
        let seed = r#"label_replace(vector(1),"x","aaaaaaaaaa","","")"#.to_string();
        (0..3).fold(seed, |inner, _| format!(r#"label_replace({inner},"x","{many}","x",".*")"#))
    }

    #[test]
    fn a_query_beyond_its_budget_is_turned_off_and_the_others_go_on() {
        let database = database();
        let bomb: Arc<str> = bomb().into();
        let queries = [bomb.clone(), "sum(depth)".into(), "sum(".into(), "nothing".into()];
        let (queries, interval) = (BTreeSet::from(queries), Duration::from_secs(5));
        let mut readings = Readings::default();
        let now = Timestamp::now().as_millisecond();
        let mut rounds = Vec::new();
        for _ in 0..3 {
            let answers = readings.round(&queries, interval, &database.view(), now);
            let mut lines: Vec<String> =
                answers.iter().map(|(query, answer)| format!("{:.12} {answer:?}", &**query)).collect();
            lines.sort();
            rounds.push(lines.join("\n"));
        }
        expect![[r#"
            label_replac Failed("turned off for 300 s: the query needs more than 65536 bytes in one label value: narrow its selectors, its range or its steps")
            nothing Failed("there is no recent data")
            sum( Failed("cannot parse the query: 1:5: unexpected end of input, expected an expression")
            sum(depth) Value { value: 7.0, per: Some(Total) }"#]]
        .assert_eq(&rounds[0]);
        assert!(rounds.iter().all(|round| *round == rounds[0]));
        assert_eq!(readings.n_evaluated, 1 + 2 * 3, "what is off is not tried again");
        let without = BTreeSet::from(["sum(depth)".into()]);
        readings.round(&without, interval, &database.view(), now);
        assert!(readings.off.is_empty() && readings.plans.len() == 1, "what nobody wants is forgotten");
    }
}
