//! Evaluating, laying out and taking apart queries.

use std::fmt::Write as _;

use metrics::{Database, Millis, View};
use promql::{Budget, Engine, MetricNames, Options, Plan, QueryResult, Steps, parse};
use serde_json::{Value as Json, json};

use super::answer::{Answer, ApiError, Result, said};
use super::write;
use crate::form::Form;
use crate::operator::Shared;

/// As many points per series as Prometheus gives out.
const MAX_POINTS: i64 = 11_000;

pub(super) async fn instant(shared: &Shared, form: &Form) -> Result<Answer> {
    let time = form.time("time").map_err(|e| ApiError::parameter("time", e))?;
    let timeout = form.duration("timeout").map_err(|e| ApiError::parameter("timeout", e))?;
    let engine = engine(form)?;
    let time = time.unwrap_or_else(|| shared.clock.now());
    run(shared, form, timeout, time, move |plan, view, budget| {
        engine.query_instant_within(plan, view, time, budget)
    })
    .await
}

pub(super) async fn range(shared: &Shared, form: &Form) -> Result<Answer> {
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
    // The ends of time are further apart than any number tells.
    if end.saturating_sub(start) / step > MAX_POINTS {
        return Err(ApiError::bad_data(
            "exceeded maximum resolution of 11,000 points per timeseries. Try decreasing the query resolution (?step=XX)",
        ));
    }
    let timeout = form.duration("timeout").map_err(|e| ApiError::parameter("timeout", e))?;
    let engine = engine(form)?;
    let steps = Steps { start, end, step };
    run(shared, form, timeout, end, move |plan, view, budget| {
        engine.query_range_within(plan, view, steps, budget)
    })
    .await
}

/// Reads, evaluates and writes on the query's own thread. `time` is that of a string, which has none of its own.
async fn run(
    shared: &Shared,
    form: &Form,
    timeout: Option<Millis>,
    time: Millis,
    evaluate: impl FnOnce(&Plan, &View, &Budget<'_>) -> promql::Result<QueryResult> + Send + 'static,
) -> Result<Answer> {
    let limit = form.limit().map_err(|e| ApiError::parameter("limit", e))?;
    let (query, wanted) = (form.get("query").to_string(), form.get("stats").to_string());
    let (database, clock, asked) = (shared.database.clone(), shared.clock.clone(), shared.clock.now());
    let on_thread = move |turn: crate::run::Turn<'_>| {
        let plan = parse(&query)?;
        ask(&database, &plan, asked);
        let result = evaluate(&plan, turn.view, turn.budget)?;
        let mut answer = Answer::begun();
        let is_truncated = write::value(&mut answer.body, &result.value, time, limit, turn.budget)?;
        if !wanted.is_empty() {
            let _ = write!(answer.body, r#","stats":{}"#, stats(turn.waited, clock.now() - asked));
        }
        answer.body.push('}');
        Ok(answer.remark(&result.annotations).truncated(is_truncated).warn(odd_stats(&wanted)))
    };
    Ok(shared.runner.run(timeout, on_thread).await?)
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
pub(super) async fn exemplars(shared: &Shared, form: &Form) -> Result<Answer> {
    let start = form.time("start").map_err(|e| ApiError::parameter("start", e))?.unwrap_or(Millis::MIN);
    let end = form.time("end").map_err(|e| ApiError::parameter("end", e))?.unwrap_or(Millis::MAX);
    if end < start {
        return Err(ApiError::bad_data("end timestamp must not be before start timestamp"));
    }
    let query = form.get("query").to_string();
    let parsed = shared.runner.run(None, move |_| Ok(parse(&query).map(drop))).await?;
    parsed.map_err(|error| ApiError::bad_data(said(&error)))?;
    Ok(Answer::empty_list())
}

pub(super) async fn format(shared: &Shared, form: &Form) -> Result<Answer> {
    let query = form.get("query").to_string();
    Ok(shared.runner.run(None, move |_| Ok(Answer::new(&json!(promql::pretty(&query)?)))).await?)
}

pub(super) async fn parse_tree(shared: &Shared, form: &Form) -> Result<Answer> {
    let query = form.get("query").to_string();
    Ok(shared.runner.run(None, move |_| Ok(Answer::new(&promql::syntax_tree(&query)?))).await?)
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
fn ask(database: &Database, plan: &Plan, now: Millis) {
    let names = MetricNames { exact: plan.metric_names().exact, ..MetricNames::default() };
    database.ask(&names, now);
}
