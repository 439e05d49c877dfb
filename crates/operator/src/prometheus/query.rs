//! Evaluating, laying out and taking apart queries.

use std::fmt::Write;
use std::sync::Arc;

use metrics::{Millis, Store};
use promql::{Engine, Labels, MetricNames, Options, Plan, Point, QueryResult, Steps, Value, parse};
use serde_json::{Value as Json, json};

use super::answer::{Answer, ApiError, Result, said};
use crate::form::Form;
use crate::operator::Shared;
use crate::run::Turn;

/// As many points per series as Prometheus gives out.
const MAX_POINTS: i64 = 11_000;

pub(super) async fn instant(shared: &Shared, form: &Form) -> Result<Answer> {
    let limit = form.limit().map_err(|e| ApiError::parameter("limit", e))?;
    let time = form.time("time").map_err(|e| ApiError::parameter("time", e))?;
    let timeout = form.duration("timeout").map_err(|e| ApiError::parameter("timeout", e))?;
    let engine = engine(form)?;
    let plan = planned(shared, form)?;
    let time = time.unwrap_or_else(|| shared.clock.now());
    run(shared, form, timeout, time, limit, move |store, limits| {
        engine.query_instant(&plan, store, time, limits)
    })
    .await
}

pub(super) async fn range(shared: &Shared, form: &Form) -> Result<Answer> {
    let limit = form.limit().map_err(|e| ApiError::parameter("limit", e))?;
    let time = |name| crate::form::time(form.get(name)).map_err(|e| ApiError::parameter(name, e));
    let (start, end) = (time("start")?, time("end")?);
    if end < start {
        return Err(ApiError::parameter("end", "end timestamp must not be before start time"));
    }
    let step = crate::form::duration(form.get("step")).map_err(|e| ApiError::parameter("step", e))?;
    if step <= 0 {
        let message =
            "zero or negative query resolution step widths are not accepted. Try a positive integer";
        return Err(ApiError::parameter("step", message));
    }
    if (end - start) / step > MAX_POINTS {
        return Err(ApiError::bad_data(
            "exceeded maximum resolution of 11,000 points per timeseries. Try decreasing the query resolution (?step=XX)",
        ));
    }
    let timeout = form.duration("timeout").map_err(|e| ApiError::parameter("timeout", e))?;
    let engine = engine(form)?;
    let plan = planned(shared, form)?;
    let steps = Steps { start, end, step };
    run(shared, form, timeout, end, limit, move |store, limits| {
        // The last of 11,000 intervals ends in one step more.
        let limits = promql::Limits { steps: MAX_POINTS as u64 + 1, ..limits };
        engine.query_range(&plan, store, steps, limits)
    })
    .await
}

/// `time` is that of a text, which has none of its own.
async fn run(
    shared: &Shared,
    form: &Form,
    timeout: Option<Millis>,
    time: Millis,
    limit: Option<usize>,
    evaluate: impl FnOnce(&Store, promql::Limits<'_>) -> promql::Result<QueryResult> + Send + 'static,
) -> Result<Answer> {
    let asked = shared.clock.now();
    let on_turn = |turn: Turn<'_>| Ok((evaluate(turn.store, turn.limits)?, turn.waited));
    let (result, waited) = shared.runner.run(timeout, on_turn).await?;
    let (mut data, is_truncated) = written(result.value, time, limit);
    let wanted = form.get("stats");
    if !wanted.is_empty() {
        let stats = stats(waited, shared.clock.now() - asked);
        let _ = write!(data, r#","stats":{stats}"#);
    }
    data.push('}');
    let answer = Answer::written(data).remark(&result.annotations).truncated(is_truncated);
    Ok(answer.warn(odd_stats(wanted)))
}

/// How long it took, in seconds. Samples are left out: how Prometheus counts them follows from how its engine works.
fn stats(waited: Millis, total: Millis) -> Json {
    let seconds = |millis: Millis| millis as f64 / 1000.0;
    json!({ "timings": {
        "evalTotalTime": seconds(total - waited),
        "resultSortTime": 0.0,
        "queryPreparationTime": 0.0,
        "innerEvalTime": seconds(total - waited),
        "execQueueTime": seconds(waited),
        "execTotalTime": seconds(total),
    } })
}

fn odd_stats(wanted: &str) -> Option<String> {
    let is_odd = !["", "true", "all"].contains(&wanted);
    is_odd.then(|| {
        format!(
            "value {wanted:?} for parameter \"stats\" is deprecated and will be rejected in the next major release, use \"true\" or \"all\""
        )
    })
}

/// Targets' exemplars are not kept.
pub(super) fn exemplars(form: &Form) -> Result<Answer> {
    let start = form.time("start").map_err(|e| ApiError::parameter("start", e))?.unwrap_or(Millis::MIN);
    let end = form.time("end").map_err(|e| ApiError::parameter("end", e))?.unwrap_or(Millis::MAX);
    if end < start {
        return Err(ApiError::bad_data("end timestamp must not be before start timestamp"));
    }
    parse(form.get("query")).map_err(|error| ApiError::bad_data(said(&error)))?;
    Ok(Answer::empty_list())
}

pub(super) fn format(form: &Form) -> Result<Answer> {
    Ok(Answer::new(json!(promql::pretty(form.get("query"))?)))
}

pub(super) fn parse_tree(form: &Form) -> Result<Answer> {
    Ok(Answer::new(promql::syntax_tree(form.get("query"))?))
}

fn engine(form: &Form) -> Result<Engine> {
    let lookback = form
        .duration("lookback_delta")
        .map_err(|e| ApiError::bad_data(format!("error parsing lookback delta duration: {e}")))?;
    let options = Options::default();
    let lookback = lookback.filter(|lookback| *lookback > 0).unwrap_or(options.lookback);
    Ok(Engine::new(Options { lookback, ..options }))
}

/// What a query names is scraped from now on, so that a dashboard shows something the next time. What it only describes
/// (`{job="x"}`) is not: one such panel would fill the store with everything there is.
fn planned(shared: &Shared, form: &Form) -> Result<Arc<Plan>> {
    let plan = parse(form.get("query"))?;
    let names = MetricNames { exact: plan.metric_names().exact, ..MetricNames::default() };
    shared.database.ask(&names, shared.clock.now());
    Ok(plan)
}

/// `{"resultType": …, "result": …`, to be closed, and whether results were left out.
fn written(value: Value, time: Millis, limit: Option<usize>) -> (String, bool) {
    let cut = |len: usize| limit.filter(|limit| len > *limit);
    let mut out = String::new();
    let mut is_truncated = false;
    match value {
        Value::Scalar(point) => {
            out += r#"{"resultType":"scalar","result":"#;
            write_point(&mut out, point);
        }
        Value::String(text) => {
            out += r#"{"resultType":"string","result":["#;
            write_time(&mut out, time);
            let _ = write!(out, ",{}]", json!(text));
        }
        Value::Vector(mut samples) => {
            if let Some(limit) = cut(samples.len()) {
                (is_truncated, _) = (true, samples.truncate(limit));
            }
            out += r#"{"resultType":"vector","result":["#;
            for (at, sample) in samples.iter().enumerate() {
                begin(&mut out, at, &sample.labels);
                out += r#","value":"#;
                write_point(&mut out, sample.point);
                out.push('}');
            }
            out.push(']');
        }
        Value::Matrix(mut series) => {
            if let Some(limit) = cut(series.len()) {
                (is_truncated, _) = (true, series.truncate(limit));
            }
            out += r#"{"resultType":"matrix","result":["#;
            for (at, one) in series.iter().enumerate() {
                begin(&mut out, at, &one.labels);
                out += r#","values":["#;
                for (at, point) in one.points.iter().enumerate() {
                    out += if at == 0 { "" } else { "," };
                    write_point(&mut out, *point);
                }
                out += "]}";
            }
            out.push(']');
        }
    }
    (out, is_truncated)
}

fn begin(out: &mut String, at: usize, labels: &Labels) {
    out.push_str(if at == 0 { "{\"metric\":{" } else { ",{\"metric\":{" });
    for (at, (name, value)) in labels.iter().enumerate() {
        let _ = write!(out, "{}{}:{}", if at == 0 { "" } else { "," }, json!(name), json!(value));
    }
    out.push('}');
}

/// `[seconds, "value"]`: as text, since JSON has no NaN and no infinities.
fn write_point(out: &mut String, point: Point) {
    out.push('[');
    write_time(out, point.time);
    let _ = write!(out, ",\"{}\"]", promql::format_value(point.value));
}

fn write_time(out: &mut String, time: Millis) {
    let (sign, millis) = (if time < 0 { "-" } else { "" }, time.unsigned_abs());
    let _ = write!(out, "{sign}{}", millis / 1000);
    if millis % 1000 != 0 {
        let _ = write!(out, ".{:03}", millis % 1000);
    }
}
