//! Executes the commands of a test file.

use super::check;
use super::command::{self, Command, Eval, Load, When};
use super::series::Item;
use super::{Case, Outcome, Report, Skip, SyntaxError};
use crate::engine::{Engine, Steps};
use crate::error::Error;
use crate::labels::{BUCKET, Labels, METRIC_NAME};
use crate::limits::Limits;
use crate::memory::{MemorySource, Refusal};
use crate::plan::{self, Plan};
use crate::value::{QueryResult, Sample, Value};

/// Runs a whole file. Evaluations that fail are in the report; an error means that the file itself is wrong.
pub fn run(text: &str, engine: &Engine) -> Result<Report, SyntaxError> {
    let mut source = MemorySource::new();
    let mut report = Report::default();
    for command in command::parse(text)? {
        match command {
            Command::Clear => source = MemorySource::new(),
            Command::Load(load) => fill(&mut source, &load)
                .map_err(|e| SyntaxError { line: load.line, message: e.to_string() })?,
            Command::Eval(eval) => {
                let outcome = match attempt(engine, &source, &eval) {
                    Ok(()) => Outcome::Passed,
                    Err(Stop::Failed(why)) => Outcome::Failed(why),
                    Err(Stop::Skipped(why)) => Outcome::Skipped(why),
                };
                report.cases.push(Case { line: eval.line, query: eval.query, outcome });
            }
        }
    }
    Ok(report)
}

fn fill(source: &mut MemorySource, load: &Load) -> Result<(), Error> {
    for series in &load.series {
        let native = load.with_native.then(|| native_of(&series.labels)).flatten();
        for (item, at) in series.items.iter().zip(0..) {
            let time = load.interval.saturating_mul(at);
            match item {
                Item::Nothing => continue,
                Item::NativeHistogram => source.push_refused(&series.labels, time, Refusal::NativeHistogram),
                Item::Value(value) => source.push(&series.labels, time, *value)?,
            }
            if series.start_timestamps {
                source.push_refused(&series.labels, time, Refusal::StartTimestamp);
            }
            if let Some(native) = &native {
                source.push_refused(native, time, Refusal::NativeHistogram);
            }
        }
    }
    Ok(())
}

/// The native histogram that a series of a classic one is part of.
fn native_of(labels: &Labels) -> Option<Labels> {
    let name = labels.metric_name();
    let base = ["_bucket", "_count", "_sum"].iter().find_map(|suffix| name.strip_suffix(suffix))?;
    Some(labels.without(&[BUCKET]).with(METRIC_NAME, base))
}

/// Why an evaluation did not pass.
pub(super) enum Stop {
    Failed(String),
    Skipped(Skip),
}

impl From<String> for Stop {
    fn from(why: String) -> Self {
        Self::Failed(why)
    }
}

fn attempt(engine: &Engine, source: &MemorySource, eval: &Eval) -> Result<(), Stop> {
    let plan = match plan::parse(&eval.query) {
        Ok(plan) => plan,
        Err(error) => return failure(eval, &error),
    };
    let limits = Limits::default();
    match eval.when {
        When::Range(steps) => {
            let result = engine.query_range(&plan, source, steps, limits);
            let Some(result) = settle(eval, result)? else { return Ok(()) };
            check::annotations(&eval.expect, &result.annotations)?;
            check::value(&eval.expect, &result.value, Some(steps))?;
        }
        When::Instant(time) => {
            let time = eval.expect.range_vector.map_or(time, |steps| steps.end);
            instant(engine, source, eval, &plan, time)?;
            let pinned = plan::parse_pinned(&eval.query, time).map_err(|e| e.to_string())?;
            for other in pinned.iter().flat_map(|_| times_around(time)) {
                if let Some(pinned) = &pinned {
                    instant(engine, source, eval, pinned, other)?;
                }
            }
        }
    }
    Ok(())
}

fn times_around(time: i64) -> Vec<i64> {
    if time == 0 { vec![-1000, 0, 1000] } else { vec![-10 * time, 0, time / 5, time, 10 * time] }
}

fn instant(engine: &Engine, source: &MemorySource, eval: &Eval, plan: &Plan, time: i64) -> Result<(), Stop> {
    let limits = Limits::default();
    let expect = &eval.expect;
    let context = |why: String| Stop::Failed(format!("{} at {time} ms: {why}", plan.text()));
    let Some(result) = settle(eval, engine.query_instant(plan, source, time, limits))? else { return Ok(()) };
    check::annotations(expect, &result.annotations).map_err(context)?;
    check::value(expect, &result.value, expect.range_vector).map_err(context)?;

    let asks_for_times = ["start()", "end()", "range()", "step()"].iter().any(|f| eval.query.contains(f));
    if expect.range_vector.is_some() || expect.string.is_some() || asks_for_times {
        return Ok(());
    }
    const MINUTE: i64 = 60_000;
    let steps = Steps { start: time - MINUTE, end: time + MINUTE, step: MINUTE };
    let ranged = match engine.query_range(plan, source, steps, limits) {
        Ok(result) => result,
        Err(error) => return Err(skip(&error).unwrap_or_else(|| context(format!("as a range: {error}")))),
    };
    if expect.ordered {
        return Ok(());
    }
    let middle = at_time(ranged, time);
    let middle = match (&result.value, middle.first()) {
        (Value::Scalar(_), Some(sample)) => Value::Scalar(sample.point),
        _ => Value::Vector(middle),
    };
    check::value(expect, &middle, None).map_err(|why| context(format!("as a range: {why}")))
}

fn at_time(result: QueryResult, time: i64) -> Vec<Sample> {
    let Value::Matrix(series) = result.value else { return vec![] };
    series
        .into_iter()
        .filter_map(|s| {
            let point = s.points.iter().copied().find(|p| p.time == time)?;
            Some(Sample { labels: s.labels, point })
        })
        .collect()
}

/// The result, or nothing if the query failed as it should.
fn settle(eval: &Eval, result: Result<QueryResult, Error>) -> Result<Option<QueryResult>, Stop> {
    match result {
        Err(error) => failure(eval, &error).map(|()| None),
        Ok(_) if eval.expect.fail.is_some() => Err(Stop::Failed("expected an error, got a result".into())),
        Ok(result) => Ok(Some(result)),
    }
}

fn failure(eval: &Eval, error: &Error) -> Result<(), Stop> {
    if let Some(stop) = skip(error) {
        return Err(stop);
    }
    match &eval.expect.fail {
        Some(text) if text.accepts(&error.to_string()) => Ok(()),
        Some(text) => Err(Stop::Failed(format!("expected an error like {text:?}, got: {error}"))),
        None => Err(Stop::Failed(error.to_string())),
    }
}

fn skip(error: &Error) -> Option<Stop> {
    match error {
        Error::NativeHistogram(_) => Some(Stop::Skipped(Skip::NativeHistogram)),
        Error::Experimental { what, .. } => Some(Stop::Skipped(Skip::Experimental(what))),
        _ => None,
    }
}
