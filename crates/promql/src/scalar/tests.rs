use super::*;
use crate::labels::Labels;
use crate::memory::MemorySource;
use crate::parse;

#[test]
fn totals_and_figures_per_pod_are_told_apart() {
    let totals = [
        "sum(rate(http_requests_total[1m]))",
        "count(up)",
        "queue_length",
        "rate(http_requests_total[1m])",
        "sum(rate(a_total[1m])) * 60",
        "60 * sum(a)",
        "sum(a) / 1000",
        "sum(a) + sum(b)",
        "sum by (pod) (a)",
        "sum(a) or vector(0)",
        "clamp_min(sum(a), 0)",
        "scalar(sum(a))",
        "avg(a) * count(b)",
        "max_over_time(sum(rate(a_total[1m]))[5m:])",
        "avg_over_time(queue_length[5m])",
        "sum(a) > 5",
        "topk(3, a)",
        "5",
        "sum(a) + avg(b)",
    ];
    let per_pod = [
        "avg(queue_length)",
        "min(a)",
        "max(a)",
        "max by (pod) (a)",
        "quantile(0.9, a)",
        "histogram_quantile(0.95, sum by (le) (rate(d_bucket[5m])))",
        "sum(rate(d_sum[1m])) / sum(rate(d_count[1m]))",
        "1000 * avg(a)",
        "max_over_time(queue_length[10m])",
        "avg(a) or vector(0)",
        "1 - avg(rate(idle_total[1m]))",
        "(max(a) > 3) / 2",
        "topk(1, a)",
    ];
    for (queries, expected) in [(&totals[..], Per::Total), (&per_pod[..], Per::Pod)] {
        for query in queries {
            assert_eq!(parse(query).unwrap().per(), expected, "{query}");
        }
    }
}

/// Two pods: `a` is busy, `b` is idle; the samples end at 120 s.
fn pods() -> MemorySource {
    let mut source = MemorySource::new();
    let mut add = |name: &str, pod: &str, extra: &[(&str, &str)], values: &[f64]| {
        let pairs = [("__name__", name), ("pod", pod)].into_iter().chain(extra.iter().copied());
        source.push_all(&Labels::from_pairs(pairs), 0, 60_000, values).unwrap();
    };
    for (pod, fast, all) in [("a", [0.0, 30.0, 60.0], [0.0, 60.0, 120.0]), ("b", [5.0; 3], [5.0; 3])] {
        add("d_bucket", pod, &[("le", "0.5")], &fast);
        add("d_bucket", pod, &[("le", "1")], &all);
        add("d_bucket", pod, &[("le", "+Inf")], &all);
        add("d_count", pod, &[], &all);
    }
    add("queue", "a", &[], &[1.0, 9.0, 4.0]);
    add("queue", "b", &[], &[2.0, 3.0, 5.0]);
    source
}

#[test]
fn every_result_is_one_number_or_says_why_not() {
    use AutoscalingValue::{AtLeast, Idle, NoData, Value};
    let p95 = |by: &str, pod: &str| {
        format!("histogram_quantile(0.95, sum by (le{by}) (rate(d_bucket{{pod=~{pod:?}}}[2m])))")
    };
    let cases = [
        ("queue".to_string(), Value(9.0)),
        ("max_over_time(queue[5m])".into(), Value(9.0)),
        ("sum(max_over_time(queue[5m]))".into(), Value(14.0)),
        ("scalar(sum(queue)) * 2".into(), Value(18.0)),
        ("missing".into(), NoData),
        ("scalar(missing)".into(), NoData),
        ("scalar(missing) * queue".into(), NoData),
        ("queue > 100".into(), NoData),
        (p95("", "a"), Value(0.95)),
        (p95("", "b"), Idle),
        (p95(", pod", "a|b"), AtLeast(0.95)),
        ("rate(d_count{pod=\"b\"}[2m]) / rate(d_count{pod=\"b\"}[2m])".into(), Idle),
        ("queue offset 1h".into(), NoData),
    ];
    let source = pods();
    for (query, expected) in cases {
        let plan = parse(&query).unwrap();
        let got = autoscaling_value(&Engine::default(), &plan, &source, 120_000, Limits::default()).unwrap();
        assert_eq!(got, expected, "{query}");
    }
    let no_number = autoscaling_value(
        &Engine::default(),
        &parse("queue[5m]").unwrap(),
        &source,
        120_000,
        Limits::default(),
    );
    assert!(no_number.unwrap_err().to_string().contains("does not give a number"));
}
