//! What holds for every query and all data.

use promql::{Engine, Error, Labels, Limits, MemorySource, Point, STALE, Steps, Value, parse};
use proptest::prelude::*;

/// Samples every 15 s with gaps, resets, NaN, infinities and stale markers.
fn source() -> impl Strategy<Value = MemorySource> {
    let value = prop_oneof![
        6 => (0u32..100).prop_map(f64::from),
        2 => -1e3..1e3,
        1 => Just(f64::NAN),
        1 => Just(f64::INFINITY),
        1 => Just(STALE),
    ];
    let series = prop::collection::vec(prop::option::weighted(0.8, value), 0..40);
    prop::collection::vec(series, 1..12).prop_map(|all| {
        let mut source = MemorySource::new();
        for (i, values) in all.iter().enumerate() {
            let le = ["0.1", "1", "+Inf"][i % 3];
            let name = ["a_total", "b_bucket", "c"][i % 2 + usize::from(i > 8)];
            let (pod, instance) = ((i / 3).to_string(), (i / 6).to_string());
            let labels =
                [("__name__", name), ("pod", pod.as_str()), ("le", le), ("instance", instance.as_str())];
            let labels = Labels::from_pairs(labels);
            for (value, at) in values.iter().zip(0i64..) {
                if let Some(value) = value {
                    source.push(&labels, at * 15_000, *value).unwrap();
                }
            }
        }
        source
    })
}

fn selector() -> impl Strategy<Value = String> {
    let name =
        prop::sample::select(vec!["a_total", "b_bucket", "c", "{__name__=~\".+\"}", "a_total{pod!=\"1\"}"]);
    (
        name,
        prop::sample::select(vec!["", "", "", " offset 45s", " offset -30s", " @ 200", " @ 100 offset 15s"]),
    )
        .prop_map(|(name, modifier)| format!("{name}{modifier}"))
}

fn range() -> impl Strategy<Value = String> {
    let names = prop::sample::select(vec!["a_total", "b_bucket", "c"]);
    let windows =
        prop::sample::select(vec!["[1m]", "[17s]", "[5m]", "[1m] offset 20s", "[2m] @ 150", "[90s:20s]"]);
    (names, windows).prop_map(|(name, window)| format!("{name}{window}"))
}

/// Well-formed queries; `range_safe` ones do not ask for the times of the query.
fn query() -> impl Strategy<Value = String> {
    let over_range = prop::sample::select(vec![
        "rate",
        "increase",
        "delta",
        "irate",
        "idelta",
        "deriv",
        "resets",
        "changes",
        "avg_over_time",
        "sum_over_time",
        "min_over_time",
        "max_over_time",
        "count_over_time",
        "stddev_over_time",
        "last_over_time",
        "first_over_time",
        "mad_over_time",
        "absent_over_time",
        "present_over_time",
        "ts_of_max_over_time",
        "ts_of_last_over_time",
    ]);
    let leaf = prop_oneof![
        2 => selector(),
        3 => (over_range, range()).prop_map(|(f, r)| format!("{f}({r})")),
        1 => range().prop_map(|r| format!("quantile_over_time(0.7, {r})")),
        1 => range().prop_map(|r| format!("predict_linear({r}, 60)")),
        1 => Just("vector(3)".to_string()),
    ];
    leaf.prop_recursive(4, 24, 3, |inner| {
        let unary = prop::sample::select(vec![
            "abs",
            "ceil",
            "-",
            "sgn",
            "absent",
            "timestamp",
            "sort_desc",
            "sum",
            "avg",
            "min",
            "max",
            "count",
            "group",
            "stddev",
            "sum by (pod)",
            "avg without (le)",
            "topk by (pod) (2, ",
            "bottomk(1, ",
            "limitk(2, ",
            "quantile(0.4, ",
            "count_values(\"v\", ",
            "histogram_quantile(0.9, ",
            "histogram_fraction(0, 0.5, ",
            "limit_ratio(-0.5, ",
            "clamp_max(5 + 0 * scalar(c), ",
            "hour",
            "label_replace(",
        ]);
        let binary = prop::sample::select(vec![
            "+",
            "-",
            "*",
            "/",
            "%",
            "^",
            "atan2",
            "==",
            "!=",
            "> bool",
            "<=",
            "and",
            "or",
            "unless",
            "+ on (pod)",
            "- ignoring (le)",
            "* on (pod) group_left ()",
            "and on (instance)",
            "/ on (pod) group_right (le)",
            "+ on (pod, le) fill (0)",
            "> on (pod, le) fill_left (2)",
        ]);
        let apply = |(f, arg): (&str, String)| match f {
            "-" => format!("-({arg})"),
            "clamp_max(5 + 0 * scalar(c), " => format!("clamp_max({arg}, 5 + 0 * scalar(c))"),
            "label_replace(" => format!("label_replace({arg}, \"pod\", \"$1x\", \"le\", \"(.*)\")"),
            open if open.ends_with(", ") => format!("{open}{arg})"),
            open => format!("{open}({arg})"),
        };
        prop_oneof![
            4 => (unary, inner.clone()).prop_map(apply),
            3 => (inner.clone(), binary, inner.clone()).prop_map(|(l, op, r)| format!("({l}) {op} ({r})")),
            1 => (inner.clone(), -3..3i32).prop_map(|(l, n)| format!("({l}) * {n}")),
            1 => (inner.clone(), -3..3i32).prop_map(|(l, n)| format!("{n} < ({l})")),
            1 => inner.prop_map(|i| format!("max_over_time(({i})[1m:15s])")),
        ]
    })
}

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
    fn an_instant_is_a_step_of_a_range(source in source(), query in query(), middle in 0i64..45) {
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
    fn what_exceeds_the_limits_is_refused(source in source(), query in query(), samples in 0u64..200) {
        let plan = parse(&query).map_err(|e| TestCaseError::fail(format!("{query}: {e}")))?;
        let limits = Limits { samples, ..Limits::default() };
        if let Err(Error::Limit { limit, .. }) = Engine::default().query_instant(&plan, &source, 300_000, limits) {
            prop_assert_eq!(limit, samples);
        }
    }
}
