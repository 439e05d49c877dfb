//! Costly queries are cut off, each by its own bound, with an error that says which.

use std::cell::Cell;

use expect_test::expect;
use promql::{Engine, Error, Labels, Limits, MemorySource, Steps, parse, query_instant, query_range};

fn source() -> MemorySource {
    let mut source = MemorySource::new();
    for i in 0..200 {
        let labels = Labels::from_pairs([("__name__", "m".to_string()), ("i", i.to_string())]);
        source.push_all(&labels, 0, 1000, &[1.0; 100]).expect("times ascend");
    }
    source
}

#[test]
fn every_bound_has_its_error() {
    let source = source();
    let instant = |query: &str, limits| match query_instant(query, &source, 99_000, limits) {
        Ok(_) => "ok".to_string(),
        Err(error) => error.to_string(),
    };
    let all = Limits::default();
    let nested = format!("{}m{}", "abs(".repeat(150), ")".repeat(150));
    let steps = Steps { start: 0, end: 99_000, step: 1 };
    let errors = [
        instant("sum(m)", all),
        instant("sum(m)", Limits { samples: 1000, ..all }),
        instant("sum(m)", Limits { series: 100, ..all }),
        instant("sum_over_time(m{i=\"1\"}[1h:1ms])", all),
        instant(&nested, all),
        instant("sum(m)", Limits { interrupted: Some(&|| true), ..all }),
        query_range("1", &source, steps, all).unwrap_err().to_string(),
        query_range("1", &source, Steps { step: 0, ..steps }, all).unwrap_err().to_string(),
        query_range("m[1m]", &source, Steps { step: 1000, ..steps }, all).unwrap_err().to_string(),
        query_instant("m", &source, i64::MAX, all).unwrap_err().to_string(),
    ];
    expect![[r#"
        ok
        the query needs more than 1000 samples: narrow its selectors, its range or its steps
        the query needs more than 100 series in one selector: narrow its selectors, its range or its steps
        the query needs more than 11000 steps: narrow its selectors, its range or its steps
        the query has 151 levels of nesting, at most 100 are allowed: split it or shorten it
        the query was cut off: it ran longer than it was allowed to
        the query needs more than 11000 steps: narrow its selectors, its range or its steps
        a range query needs a step above zero and an end that is not before its start; got 0 to 99000 by 0 ms
        invalid expression type "range vector" for range query, must be Scalar or instant Vector
        the time 9223372036854775807 ms is out of range"#]]
    .assert_eq(&errors.join("\n"));
}

/// Windows that overlap make work without taking memory, so they count too.
#[test]
fn samples_that_are_read_again_count() {
    let source = source();
    let steps = Steps { start: 50_000, end: 99_000, step: 1000 };
    let limits = Limits { samples: 5000, ..Limits::default() };
    let run = |query| Engine::default().query_range(&parse(query).unwrap(), &source, steps, limits);
    assert!(run("rate(m{i=~\"1.\"}[50s])").is_ok(), "10 series of 100 samples and 50 values are 1,500");
    assert!(
        matches!(run("sum_over_time(m{i=~\"1.\"}[50s])"), Err(Error::Limit { .. })),
        "10 × 50 × 50 are 25,000"
    );
}

#[test]
fn a_query_is_interrupted_between_series() {
    let source = source();
    let asked = Cell::new(0);
    let after_three = || {
        asked.set(asked.get() + 1);
        asked.get() > 3
    };
    let limits = Limits { interrupted: Some(&after_three), ..Limits::default() };
    assert_eq!(query_instant("sum(rate(m[1m]))", &source, 99_000, limits), Err(Error::Interrupted));
}
