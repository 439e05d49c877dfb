//! What holds for every query and all data.

mod generate;

use generate::{query, series, source};
use promql::{Engine, Error, Labels, Limits, Point, Steps, Value, parse};
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

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

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

    /// An instant query is one step of a range query.
    #[test]
    fn an_instant_is_a_step_of_a_range(series in series(), query in query(), middle in 0i64..45) {
        let source = source(&series);
        let plan = parse(&query).map_err(|e| TestCaseError::fail(format!("{query}: {e}")))?;
        let time = middle * 10_000;
        let steps = Steps { start: time - 30_000, end: time + 60_000, step: 30_000 };
        let engine = Engine::default();
        let instant = engine.query_instant(&plan, &source, time, Limits::default());
        let range = engine.query_range(&plan, &source, steps, Limits::default());
        // Another step may fail where this one does not, but not the other way round.
        let Ok(range) = range else { return Ok(()) };
        let instant = instant.map_err(|e| TestCaseError::fail(format!("{query}: {e}")))?;
        let (one, other) = (vector_at(&instant.value, time), vector_at(&range.value, time));
        let same = |((l, x), (m, y)): (&(Labels, f64), &(Labels, f64))| {
            l == m && (x == y || (x.is_nan() && y.is_nan()) || (x - y).abs() <= 1e-9 * (x.abs() + y.abs()))
        };
        prop_assert!(one.len() == other.len() && one.iter().zip(&other).all(same), "{query}: {one:?} {other:?}");
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
