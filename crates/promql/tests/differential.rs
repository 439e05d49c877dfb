//! Asks Prometheus's own engine and ours the same random questions about the same random data.
//!
//! Prometheus's engine is built from the pinned Go module (`tests/oracle`), which takes some minutes the first time.
#![allow(clippy::unwrap_used)] // a test, though its helpers are not marked as such

mod generate;

use oracle::ask;
use promql::{Engine, Labels, Limits, METRIC_NAME, MemorySource, Point, STALE, Steps, Value, parse};
use proptest::strategy::{Strategy as _, ValueTree as _};
use proptest::test_runner::TestRunner;
use serde_json::Value as Json;

/// How many data sets, and how many queries to each.
const ROUNDS: usize = 60;
const QUERIES: usize = 150;

#[test]
fn prometheus_answers_alike() {
    let mut runner = TestRunner::new(repeatable::cases(1));
    let (mut compared, mut failed) = (0, 0);
    let mut differences: Vec<String> = Vec::new();
    for _ in 0..ROUNDS {
        let series = generate::series().new_tree(&mut runner).unwrap().current();
        let source = generate::source(&series);
        let asked: Vec<(String, Steps)> = (0..QUERIES)
            .map(|i| {
                let query = generate::query().new_tree(&mut runner).unwrap().current();
                let start = (i as i64 * 7 % 40) * 10_000;
                (query, Steps { start, end: start + 120_000, step: if i % 3 == 0 { 0 } else { 25_000 } })
            })
            .filter(|(query, _)| is_determined(query))
            .collect();
        for ((query, steps), theirs) in asked.iter().zip(ask(&series, &asked)) {
            compared += 1;
            let ours = answer(&source, query, *steps);
            failed += usize::from(ours.is_err());
            if let Err(difference) = compare(&ours, &theirs, compares(query)) {
                differences.push(format!("{query}\n  at {steps:?}: {difference}"));
            }
        }
    }
    println!("{compared} queries compared; both fail on {failed} of them");
    assert!(
        differences.is_empty(),
        "{} differ:\n{}",
        differences.len(),
        differences[..differences.len().min(20)].join("\n")
    );
}

/// `or` makes one series of samples whose name is to fall (of `resets`) and to stay. The first step of a query decides,
/// so that an instant may show a name which a range over the same time does not.
#[test]
fn the_first_step_decides_whether_a_name_falls() {
    let labels = Labels::from_pairs([(METRIC_NAME, "a_total"), ("pod", "1")]);
    let series = [(labels.clone(), vec![(0, 1.0), (15_000, STALE), (30_000, 2.0)])];
    let query = || "a_total or resets(a_total[5m])".to_string();
    let instant = |time| (query(), Steps { start: time, end: time, step: 0 });
    let range = |start| (query(), Steps { start, end: 30_000, step: 15_000 });
    let asked = [instant(15_000), instant(30_000), range(15_000), range(0)];
    let source = generate::source(&series);
    let unnamed = labels.without(&[METRIC_NAME]);
    let expected = [&unnamed, &labels, &unnamed, &labels];
    for (((query, steps), theirs), expected) in asked.iter().zip(ask(&series, &asked)).zip(expected) {
        let ours = answer(&source, query, *steps);
        compare(&ours, &theirs, false).unwrap_or_else(|difference| panic!("{steps:?}: {difference}"));
        let shown: Vec<Labels> = ours.unwrap().0.into_iter().map(|(labels, _)| labels).collect();
        assert_eq!(shown, std::slice::from_ref(expected), "{steps:?}");
    }
}

/// Of equal values Prometheus picks by the order of its maps; what hour NaN is depends on the processor; count_values
/// makes a label of the last, rounded digit, and the remainder of a power is made of such digits alone.
fn is_determined(query: &str) -> bool {
    let is_rounded = query.contains('^') && query.contains('%');
    !is_rounded && !["topk", "bottomk", "limitk", "hour", "count_values"].iter().any(|op| query.contains(op))
}

/// A comparison of vectors brings back a name that was to fall (`rate(a) > rate(b)` is called `a`) if names fall late, as
/// they do in the oracle. By default they fall early in Prometheus, and the name is gone; so it is here.
fn compares(query: &str) -> bool {
    ["==", "!=", "<=", "> on"].iter().any(|op| query.contains(op))
}

type Row = (Labels, Vec<Point>);
type Rows = Vec<Row>;

fn answer(source: &MemorySource, query: &str, steps: Steps) -> Result<(Rows, [bool; 2]), String> {
    let plan = parse(query).map_err(|e| e.to_string())?;
    let engine = Engine::default();
    let result = match steps.step {
        0 => engine.query_instant(&plan, source, steps.start, Limits::default()),
        _ => engine.query_range(&plan, source, steps, Limits::default()),
    };
    let result = result.map_err(|e| e.to_string())?;
    let rows = match result.value {
        Value::Scalar(point) => vec![(Labels::empty(), vec![point])],
        Value::Vector(samples) => samples.into_iter().map(|s| (s.labels, vec![s.point])).collect(),
        Value::Matrix(series) => series.into_iter().map(|s| (s.labels, s.points)).collect(),
        Value::String(_) => vec![],
    };
    Ok((rows, [!result.annotations.warnings().is_empty(), !result.annotations.infos().is_empty()]))
}

fn compare(
    ours: &Result<(Rows, [bool; 2]), String>,
    theirs: &Json,
    without_names: bool,
) -> Result<(), String> {
    let their_error = theirs["error"].as_str().unwrap_or("");
    let (ours, remarks) = match ours {
        Err(_) if !their_error.is_empty() => return Ok(()),
        Err(error) => return Err(format!("we fail, they do not: {error}")),
        Ok(_) if !their_error.is_empty() => return Err(format!("they fail, we do not: {their_error}")),
        Ok(ours) => ours,
    };
    let mut ours = ours.clone();
    let mut theirs_rows: Rows = theirs["series"].as_array().into_iter().flatten().map(row).collect();
    for rows in [&mut ours, &mut theirs_rows] {
        if without_names {
            rows.iter_mut().for_each(|(labels, _)| *labels = labels.without(&[METRIC_NAME]));
        }
        rows.sort_by(|a, b| a.0.cmp(&b.0));
    }
    let same_point = |(a, b): (&Point, &Point)| a.time == b.time && same(a.value, b.value);
    let same_row =
        |((l, a), (m, b)): (&Row, &Row)| l == m && a.len() == b.len() && a.iter().zip(b).all(same_point);
    if ours.len() != theirs_rows.len() || !ours.iter().zip(&theirs_rows).all(same_row) {
        return Err(format!("\n    ours   {ours:?}\n    theirs {theirs_rows:?}"));
    }
    let their_remarks = ["warnings", "infos"].map(|kind| theirs[kind].as_u64().unwrap_or(0) > 0);
    if *remarks != their_remarks {
        return Err(format!("warnings and infos: ours {remarks:?}, theirs {their_remarks:?}"));
    }
    Ok(())
}

fn row(json: &Json) -> Row {
    let labels = json["labels"].as_object().into_iter().flatten();
    let labels = Labels::from_pairs(labels.map(|(k, v)| (k.as_str(), v.as_str().unwrap_or(""))));
    let times = json["times"].as_array().into_iter().flatten();
    let bits = json["bits"].as_array().into_iter().flatten();
    let point = |(time, bits): (&Json, &Json)| Point {
        time: time.as_i64().unwrap(),
        value: f64::from_bits(u64::from_str_radix(bits.as_str().unwrap(), 16).unwrap()),
    };
    (labels, times.zip(bits).map(point).collect())
}

/// Up to rounding: sums come in another order, so that what cancels out leaves other digits.
fn same(a: f64, b: f64) -> bool {
    a == b || (a.is_nan() && b.is_nan()) || (a - b).abs() <= 1e-9 * (1.0 + a.abs() + b.abs())
}
