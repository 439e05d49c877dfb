//! Functions on demand.

use std::sync::Arc;

use api::slimfaas::{Settings, triggers};
use decide::demand::{
    self, Answer, Memory,
    input::{FunctionForm, Input, ObservedForm},
};
use jiff::Timestamp;
use metrics::View;
use promql::{Engine, Limits, Plan};
use scaling::Record;

use super::{Line, Refusal, Replayed, Window, count_before};
use crate::control_plane::LAST_CALL;

/// What the metric store kept.
pub struct Store {
    pub engine: Engine,
    pub view: Arc<View>,
}

/// The policy of a function as `ballast decide demand` takes it.
pub fn form(name: &str, settings: &Settings) -> FunctionForm {
    let spec = &settings.scaling;
    FunctionForm {
        name: name.to_owned(),
        replicas_min: spec.min,
        replicas_at_start: spec.at_start,
        timeout_second_before_set_replicas_min: spec.timeout_seconds,
        // Whether those are ready was not recorded.
        depends_on: Vec::new(),
        replicas_start_as_soon_as_one_function_retrieve_a_request: settings.starts_with_any,
        schedule: spec.schedule.clone(),
        scale: spec.scale.clone(),
    }
}

pub fn replay(
    form: &FunctionForm,
    name: &str,
    settings: &Settings,
    records: &[Arc<Record>],
    store: &Store,
    window: &Window<'_>,
) -> Result<Replayed, Refusal> {
    let bad = |error: decide::input::InputError| Refusal::Bad(error.to_string());
    form.spec().map_err(bad)?;
    let first = records.first().map(|record| record.at).ok_or_else(|| {
        Refusal::Unknown("nothing was decided about it yet, so there is nothing to replay".into())
    })?;
    let plans = plans(form, name)?;
    let calls = Calls::new(name, records, store, window)?;
    let from = first.max(window.from);
    let mut replicas = count_before(records, from).unwrap_or(0);
    let (mut memory, mut line) = (Memory::default(), Line::default());
    let mut n_unanswered = 0;
    for now in window.moments(from) {
        window.check()?;
        let input = Input {
            now,
            function: form.clone(),
            observed: ObservedForm { replicas, last_call: calls.last(now), ..ObservedForm::default() },
            others: Vec::new(),
            memory: Memory::default(),
        };
        let (spec, mut observed) = input.resolve().map_err(bad)?;
        observed.readings = answers(&plans, store, now, window);
        n_unanswered += observed.readings.iter().filter(|answer| matches!(answer, Answer::Failed(_))).count();
        let decision = demand::decide(now, &spec, &observed, memory);
        line.push(now, decision.desired, decision.reason.code, || decision.why());
        (replicas, memory) = (decision.desired, decision.memory);
    }
    let mut notes = calls.notes(first, window);
    if n_unanswered > 0 {
        notes.push(format!(
            "at {n_unanswered} looks a trigger had no recent data: the store keeps a metric from when somebody first asks for it"
        ));
    }
    if !settings.depends_on.is_empty() {
        notes.push(
            "whether its dependencies were ready is not known: it wakes without waiting for them".into(),
        );
    }
    Ok(Replayed { from, to: window.to, points: line.0, notes })
}

fn plans(form: &FunctionForm, name: &str) -> Result<Vec<Arc<Plan>>, Refusal> {
    let triggers = form.scale.iter().flat_map(|scale| &scale.triggers).enumerate();
    let plan = |(idx, trigger): (usize, &demand::Trigger)| {
        let query = triggers::substituted(&trigger.query, "default", name);
        promql::parse(&query).map_err(|error| Refusal::Bad(format!("scale.Triggers[{idx}].Query: {error}")))
    };
    triggers.map(plan).collect()
}

fn answers(plans: &[Arc<Plan>], store: &Store, now: Timestamp, window: &Window<'_>) -> Vec<Answer> {
    let limits = || Limits { interrupted: Some(window.is_over), ..Limits::default() };
    let answer = |plan: &Arc<Plan>| {
        let answer = triggers::answer(&store.engine, plan, &*store.view, now.as_millisecond(), limits());
        answer.unwrap_or_else(|error| Answer::Failed(error.to_string().into()))
    };
    plans.iter().map(answer).collect()
}

/// When it was called, as far as that is known: the record has the last call at each decision, the metric store that at
/// each scrape since the page of the function was opened.
struct Calls {
    /// Oldest first.
    times: Vec<Timestamp>,
    /// From when on the store has them all.
    stored_from: Option<Timestamp>,
}

impl Calls {
    fn new(name: &str, records: &[Arc<Record>], store: &Store, window: &Window<'_>) -> Result<Self, Refusal> {
        let mut times: Vec<Timestamp> = records.iter().filter_map(|record| last_call(record)).collect();
        let query = format!("{LAST_CALL}{{function={}}}", serde_json::json!(name));
        let mut stored_from = None;
        if let Ok(plan) = promql::parse(&query) {
            for now in window.moments(window.from) {
                window.check()?;
                let known = answers(std::slice::from_ref(&plan), store, now, window);
                if let Some(Answer::Value { value, .. }) = known.first() {
                    stored_from.get_or_insert(now);
                    times.extend(Timestamp::from_second(*value as i64).ok().filter(|at| at.as_second() > 0));
                }
            }
        }
        times.sort_unstable();
        times.dedup();
        Ok(Self { times, stored_from })
    }

    fn last(&self, now: Timestamp) -> Option<Timestamp> {
        let n_before = self.times.partition_point(|at| *at <= now);
        n_before.checked_sub(1).and_then(|idx| self.times.get(idx)).copied()
    }

    fn notes(&self, first: Timestamp, window: &Window<'_>) -> Vec<String> {
        let known = self.stored_from.unwrap_or(window.to);
        let is_partial = first.max(window.from) < known;
        let note = || {
            let until = known.strftime("%H:%M:%S UTC");
            format!("until {until} only the last call before each decision is known, not those between")
        };
        is_partial.then(note).into_iter().collect()
    }
}

/// The function's own last call, as a decision saw it.
fn last_call(record: &Record) -> Option<Timestamp> {
    let steps = record.steps.values();
    let last = &steps.iter().find(|step| step["rule"] == "activity")?["input"]["last"];
    let is_call = matches!(last["source"].as_str(), Some("call" | "callUnderWay")) && last["of"].is_null();
    last["at"].as_str().filter(|_| is_call)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use engine::effect::Target;
    use metrics::Database;
    use scaling::Outcome;

    use super::*;

    fn at(text: &str) -> Timestamp {
        format!("2026-03-02T{text}Z").parse().unwrap()
    }

    /// Called at noon and a quarter past, with the usual five minutes.
    fn recorded() -> Vec<Arc<Record>> {
        let spec = form("fib", &Settings::default()).spec().unwrap();
        let target = Target::absent(&engine::kind::DEPLOYMENT, Some("default"), "fib");
        let rows = [
            ("12:00:00", 0, "12:00:00"),
            ("12:05:01", 1, "12:00:00"),
            ("12:15:00", 0, "12:15:00"),
            ("12:20:01", 1, "12:15:00"),
        ];
        rows.map(|(now, current, call)| {
            let activity = demand::Activity { at: at(call), source: demand::ActivitySource::Call, of: None };
            let observed =
                demand::Observed { current, activity: Some(activity), ..demand::Observed::default() };
            let decision = demand::decide(at(now), &spec, &observed, Memory::default());
            Arc::new(Record::new(at(now), "demand", &target, &decision, Outcome::Written))
        })
        .to_vec()
    }

    fn replayed(policy: &str) -> Result<String, String> {
        let store = Store {
            engine: triggers::engine(std::time::Duration::from_secs(5)),
            view: Database::default().view(),
        };
        let window = Window { from: at("12:00:00"), to: at("12:30:00"), is_over: &|| false };
        let replayed = super::super::parse(policy).and_then(|form: FunctionForm| {
            replay(&form, "fib", &Settings::default(), &recorded(), &store, &window)
        });
        let replayed = replayed.map_err(|refusal| match refusal {
            Refusal::Bad(why) | Refusal::Unknown(why) | Refusal::Busy(why) => why,
        })?;
        let points = replayed.points.iter();
        let lines =
            points.map(|one| format!("{} {} {}", one.at.strftime("%H:%M:%S"), one.replicas, one.reason));
        Ok(lines.chain(replayed.notes).collect::<Vec<_>>().join("\n"))
    }

    #[test]
    fn the_same_policy_gives_what_happened() {
        expect_test::expect![[r#"
            12:00:00 1 WakeUp
            12:00:05 1 Active
            12:05:05 0 Idle
            12:15:00 1 WakeUp
            12:15:05 1 Active
            12:20:05 0 Idle
            until 12:30:00 UTC only the last call before each decision is known, not those between"#]]
        .assert_eq(&replayed("{}").unwrap());
    }

    #[test]
    fn another_timeout_sleeps_sooner_or_not_at_all() {
        expect_test::expect![[r#"
            12:00:00 1 WakeUp
            12:00:05 1 Active
            12:01:05 0 Idle
            12:15:00 1 WakeUp
            12:15:05 1 Active
            12:16:05 0 Idle
            until 12:30:00 UTC only the last call before each decision is known, not those between"#]]
        .assert_eq(&replayed("timeoutSecondBeforeSetReplicasMin: 60").unwrap());
        expect_test::expect![[r#"
            12:00:00 2 WakeUp
            12:00:05 2 Active
            12:05:05 1 Idle
            12:15:00 1 Active
            12:20:05 1 Idle
            until 12:30:00 UTC only the last call before each decision is known, not those between"#]]
        .assert_eq(&replayed("{\"replicasMin\": 1, \"replicasAtStart\": 2}").unwrap());
    }

    #[test]
    fn what_cannot_be_read_is_named_with_its_place() {
        let refused = [
            "replicasMin: many",
            "nmae: fib",
            "replicasMin: -1",
            "scale: {Triggers: [{Query: 'sum(', Threshold: 1}]}",
        ];
        let messages = refused.map(|policy| replayed(policy).unwrap_err()).join("\n--\n");
        expect_test::expect![[r#"
            line 1 column 14: invalid i32
             --> <input>:1:14
              |
            1 | replicasMin: many
              |              ^ invalid i32
            --
            line 1 column 1: unknown field `nmae`, expected one of name, replicasMin, replicasAtStart, timeoutSecondBeforeSetReplicasMin, dependsOn, replicasStartAsSoonAsOneFunctionRetrieveARequest, schedule, scale
             --> <input>:1:1
              |
            1 | nmae: fib
              | ^ unknown field `nmae`, expected one of name, replicasMin, replicasAtStart, timeoutSecondBeforeSetReplicasMin, dependsOn, replicasStartAsSoonAsOneFunctionRetrieveARequest, schedule, scale
            --
            replicasMin: expected a number from 0 to 2147483647, found -1
            --
            scale.Triggers[0].Query: cannot parse the query: 1:5: unexpected end of input, expected an expression"#]].assert_eq(&messages);
    }
}
