//! What holds for every query and all data.

mod generate;

use generate::{query, selector, series, source};
use promql::{Engine, Error, Labels, Limits, METRIC_NAME, Point, Steps, Value, parse};
use proptest::prelude::*;

fn vector_at(value: &Value, time: i64) -> Vec<(Labels, f64)> {
    let mut found: Vec<(Labels, f64)> = match value {
        Value::Vector(samples) => samples.iter().map(|s| (s.labels.clone(), s.point.value)).collect(),
        Value::Matrix(series) => series
            .iter()
            .filter_map(|s| {
                let at = |p: &&Point| p.time == time;
                s.points.iter().find(at).map(|p| (s.labels.clone(), p.value))
            })
            .collect(),
        _ => vec![],
    };
    found.sort_by(|a, b| a.0.cmp(&b.0));
    found
}

/// An instant query is one step of a range query, except for names after `or` (see `without_names`).
fn check_step(series: &[(Labels, Vec<(i64, f64)>)], query: &str, time: i64) -> Result<(), TestCaseError> {
    let source = source(series);
    let plan = parse(query).map_err(|e| TestCaseError::fail(format!("{query}: {e}")))?;
    let steps = Steps { start: time - 30_000, end: time + 60_000, step: 30_000 };
    let engine = Engine::default();
    let instant = engine.query_instant(&plan, &source, time, Limits::default());
    let range = engine.query_range(&plan, &source, steps, Limits::default());
    // Another step may fail where this one does not, but not the other way round.
    let Ok(range) = range else { return Ok(()) };
    let names_may_differ = query.contains(" or ");
    if names_may_differ && matches!(instant, Err(Error::DuplicateLabelset)) {
        return Ok(());
    }
    let instant = instant.map_err(|e| TestCaseError::fail(format!("{query}: {e}")))?;
    let (mut one, mut other) = (vector_at(&instant.value, time), vector_at(&range.value, time));
    if names_may_differ {
        (one, other) = (without_names(one), without_names(other));
    }
    let same = |((l, x), (m, y)): (&(Labels, f64), &(Labels, f64))| {
        l == m && (x == y || (x.is_nan() && y.is_nan()) || (x - y).abs() <= 1e-9 * (1.0 + x.abs() + y.abs()))
    };
    prop_assert!(one.len() == other.len() && one.iter().zip(&other).all(same), "{query}: {one:?} {other:?}");
    Ok(())
}

/// Names fall when a query is done. `or` makes one series of samples whose name is to fall at some steps and to stay at
/// others; in a range the first step decides for all, in Prometheus too (`differential.rs` asks it).
fn without_names(found: Vec<(Labels, f64)>) -> Vec<(Labels, f64)> {
    let mut found: Vec<_> = found.into_iter().map(|(l, v)| (l.without(&[METRIC_NAME]), v)).collect();
    found.sort_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)));
    found
}

/// Of equal values the first are picked. Which ones come first is settled for what a selector finds, but not for what
/// `or`, `count_values` or `sort` make of it.
fn picks(query: &str) -> bool {
    ["topk", "bottomk", "limitk"].iter().any(|pick| query.contains(pick))
}

proptest! {
    #![proptest_config(repeatable::cases(400))]

    #[test]
    fn no_text_makes_the_parser_panic(text in "\\PC{0,60}") {
        drop(parse(&text));
    }

    #[test]
    fn no_heap_of_tokens_makes_the_parser_panic(
        tokens in prop::collection::vec(prop::sample::select(vec![
            "a", "{", "}", "(", ")", "[", "]", "5m", "1e999", ":", "offset", "@", "-", "+", "sum", "by", "rate", "\"x\"",
            "\"\\xff\"", "=~", "=", ",", "on", "group_left", "and", "bool", "<", "1", "NaN", "0x", "start()", "topk",
            "absent", "le", "`", "'", "#", "\n", "fill", "99999999999999999999y", "info", "$", "\u{10ffc5}",
        ]), 0..25)
    ) {
        drop(parse(&tokens.join(" ")));
    }

    #[test]
    fn an_instant_is_a_step_of_a_range(series in series(), query in query(), middle in 0i64..45) {
        if !picks(&query) {
            check_step(&series, &query, middle * 10_000)?;
        }
    }

    #[test]
    fn a_pick_is_a_step_of_a_range(
        series in series(),
        pick in prop::sample::select(vec!["topk by (pod) (2, ", "bottomk(1, ", "limitk(2, "]),
        from in selector(),
        middle in 0i64..45,
    ) {
        check_step(&series, &format!("{pick}{from})"), middle * 10_000)?;
    }

    #[test]
    fn what_exceeds_the_limits_is_refused(series in series(), query in query(), samples in 0u64..200) {
        let source = source(&series);
        let plan = parse(&query).map_err(|e| TestCaseError::fail(format!("{query}: {e}")))?;
        let limits = Limits { samples, ..Limits::default() };
        if let Err(Error::Limit { limit, .. }) = Engine::default().query_instant(&plan, &source, 300_000, limits) {
            prop_assert_eq!(limit, samples);
        }
    }
}
