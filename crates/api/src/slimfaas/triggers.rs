//! What a trigger's query says, in the terms of a decision: the same for the controller, a simulation and the command
//! line.

use std::time::Duration;

use decide::demand::{self, Answer, Per, input::ReadingForm};
use promql::{AutoscalingValue, Engine, Limits, Options, Plan, SeriesSource, autoscaling_value};

/// Without a sample for so many scrapes a series has no present value: old data scales nothing down.
const SCRAPES_MISSED: u32 = 3;

/// An engine over what is scraped every `interval`.
pub fn engine(interval: Duration) -> Engine {
    let lookback = interval.saturating_mul(SCRAPES_MISSED).as_millis();
    Engine::new(Options { lookback: i64::try_from(lookback).unwrap_or(i64::MAX), ..Options::default() })
}

/// What the query gives at `now`, in milliseconds since 1970.
///
/// # Errors
/// If it cannot be evaluated, or not within the limits.
pub fn answer(
    engine: &Engine,
    plan: &Plan,
    source: &dyn SeriesSource,
    now: i64,
    limits: Limits<'_>,
) -> Result<Answer, promql::Error> {
    let per = Some(per(plan));
    Ok(match autoscaling_value(engine, plan, source, now, limits)? {
        AutoscalingValue::Value(value) => Answer::Value { value, per },
        AutoscalingValue::AtLeast(value) => Answer::AtLeast { value, per },
        AutoscalingValue::Idle => Answer::Quiet,
        AutoscalingValue::NoData => Answer::Failed("there is no recent data".into()),
    })
}

/// What the query's figure stands for, read off its text.
pub fn per(plan: &Plan) -> Per {
    match plan.per() {
        promql::Per::Total => Per::Total,
        promql::Per::Pod => Per::Pod,
    }
}

/// Reads the queries of an input that was written by a person, whose readings say nothing of what they stand for. A query
/// that cannot be read has no reading, whatever the input says. One that is left out is taken for granted.
pub fn read_queries(input: &mut demand::Input) {
    let function = &input.function;
    let triggers = function.scale.iter().flat_map(|scale| &scale.triggers);
    for (trigger, reading) in triggers.zip(&mut input.observed.triggers) {
        let query = substituted(&trigger.query, "default", &function.name);
        if query.trim().is_empty() || reading.error.is_some() {
            continue;
        }
        match promql::parse(&query) {
            Ok(plan) => reading.per = reading.per.or(Some(per(&plan))),
            Err(error) => *reading = ReadingForm { error: Some(error.to_string()), ..ReadingForm::default() },
        }
    }
}

/// The query with `${namespace}` and `${app}` filled in.
pub fn substituted(query: &str, namespace: &str, app: &str) -> String {
    query.replace("${namespace}", namespace).replace("${app}", app)
}
