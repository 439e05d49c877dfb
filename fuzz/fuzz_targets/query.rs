//! A query: parsed and evaluated within its limits, or refused.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use promql::{Engine, Labels, Limits, MemorySource, STALE, Steps, autoscaling_value, parse};

static SOURCE: LazyLock<MemorySource> = LazyLock::new(|| {
    let mut source = MemorySource::new();
    for (name, le) in [("a_total", "1"), ("b_bucket", "0.5"), ("b_bucket", "+Inf"), ("c", "x")] {
        let labels = Labels::from_pairs([("__name__", name), ("le", le), ("pod", "p")]);
        for n in 0..20i32 {
            let value = match n {
                5 => f64::NAN,
                9 => STALE,
                13 => f64::INFINITY,
                n => f64::from(n % 7),
            };
            source.push(&labels, i64::from(n) * 15_000, value).expect("times ascend");
        }
    }
    source
});

fuzz_target!(|query: &str| {
    let Ok(plan) = parse(query) else { return };
    let limits = Limits { samples: 20_000, series: 100, steps: 200, ..Limits::default() };
    let engine = Engine::default();
    let _ = plan.metric_names();
    let _ = promql::pretty(query);
    let _ = promql::syntax_tree(query);
    let _ = engine.query_instant(&plan, &*SOURCE, 200_000, limits);
    let _ = engine.query_range(&plan, &*SOURCE, Steps { start: 0, end: 300_000, step: 30_000 }, limits);
    let _ = autoscaling_value(&engine, &plan, &*SOURCE, 200_000, limits);
});
