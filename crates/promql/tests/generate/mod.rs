//! Random series and well-formed random queries over them.

use promql::{Labels, MemorySource, STALE};
use proptest::prelude::*;

/// Samples every 15 s with gaps, resets, NaN, infinities and stale markers.
pub fn series() -> impl Strategy<Value = Vec<(Labels, Vec<(i64, f64)>)>> {
    let value = prop_oneof![
        6 => (0u32..100).prop_map(f64::from),
        2 => -1e3..1e3,
        1 => Just(f64::NAN),
        1 => Just(f64::INFINITY),
        1 => Just(STALE),
    ];
    let series = prop::collection::vec(prop::option::weighted(0.8, value), 0..40);
    let pods = 1..12usize;
    prop::collection::vec(series, pods).prop_map(|all| {
        let labels = |i: usize| {
            let le = ["0.1", "1", "+Inf"][i % 3];
            let name = ["a_total", "b_bucket", "c"][i % 2 + usize::from(i > 8)];
            let (pod, instance) = ((i / 3).to_string(), (i / 6).to_string());
            Labels::from_pairs([("__name__", name), ("pod", &pod), ("le", le), ("instance", &instance)])
        };
        let samples = |values: Vec<Option<f64>>| {
            values.into_iter().zip(0i64..).filter_map(|(v, at)| v.map(|v| (at * 15_000, v))).collect()
        };
        all.into_iter().enumerate().map(|(i, values)| (labels(i), samples(values))).collect()
    })
}

pub fn source(series: &[(Labels, Vec<(i64, f64)>)]) -> MemorySource {
    let mut source = MemorySource::new();
    for (labels, samples) in series {
        samples.iter().for_each(|&(time, value)| source.push(labels, time, value).expect("times ascend"));
    }
    source
}

pub fn selector() -> impl Strategy<Value = String> {
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

/// Well-formed queries that do not ask for the times of the query itself.
pub fn query() -> impl Strategy<Value = String> {
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
