//! Compares what came out with what was expected.

use super::command::{Expect, Text};
use super::series::Item;
use crate::almost;
use crate::annotations::Annotations;
use crate::engine::Steps;
use crate::labels::{ByHash, Labels};
use crate::source::is_stale;
use crate::value::{Point, Value};

/// Values may differ by one part in a million.
const EPSILON: f64 = 1e-6;

pub(super) fn annotations(expect: &Expect, got: &Annotations) -> Result<(), String> {
    let kinds = [
        ("warn", &expect.warn, expect.no_warn, got.warnings()),
        ("info", &expect.info, expect.no_info, got.infos()),
    ];
    for (kind, wanted, none_wanted, got) in kinds {
        if none_wanted && !got.is_empty() {
            return Err(format!("unexpected {kind} annotations: {got:?}"));
        }
        if let Some(missing) = wanted.iter().find(|w| !got.iter().any(|g| w.accepts(g))) {
            return Err(format!("expected {kind} annotation like {missing:?}, got {got:?}"));
        }
        let accepted = |g: &&String| wanted.iter().any(|w: &Text| w.accepts(g));
        if let Some(extra) = got.iter().find(|g| !wanted.is_empty() && !accepted(g)) {
            return Err(format!("unexpected {kind} annotation {extra:?}"));
        }
    }
    Ok(())
}

/// `steps` are the times of the expected values of a matrix.
pub(super) fn value(expect: &Expect, got: &Value, steps: Option<Steps>) -> Result<(), String> {
    match got {
        Value::String(got) => match &expect.string {
            Some(wanted) if wanted == got => Ok(()),
            wanted => Err(format!("expected {wanted:?}, got the string {got:?}")),
        },
        Value::Scalar(got) => match expect.scalar {
            Some(wanted) if same(wanted, got.value) => Ok(()),
            wanted => Err(format!("expected {wanted:?}, got the scalar {}", got.value)),
        },
        Value::Vector(samples) => {
            let got: Vec<(&Labels, Vec<Point>)> =
                samples.iter().map(|s| (&s.labels, vec![Point { time: 0, ..s.point }])).collect();
            series(expect, &got, Steps { start: 0, end: 0, step: 1 })
        }
        Value::Matrix(all) => {
            if let Some(pair) = all.windows(2).find(|p| p[0].labels > p[1].labels) {
                return Err(format!("{} comes before {}", pair[0].labels, pair[1].labels));
            }
            let steps = steps.ok_or("expected a vector, got a matrix")?;
            let got: Vec<(&Labels, Vec<Point>)> = all.iter().map(|s| (&s.labels, s.points.clone())).collect();
            series(expect, &got, steps)
        }
    }
}

fn series(expect: &Expect, got: &[(&Labels, Vec<Point>)], steps: Steps) -> Result<(), String> {
    if let Some(wanted) = expect.scalar {
        return Err(format!("expected the scalar {wanted}, got {} series", got.len()));
    }
    // Of two lines with the same labels the later one counts, as in Prometheus's runner.
    let mut wanted: ByHash<&Labels, &[Item]> =
        expect.series.iter().map(|(labels, items)| (labels, items.as_slice())).collect();
    for (at, (labels, points)) in got.iter().enumerate() {
        let items = wanted.remove(*labels).ok_or_else(|| format!("unexpected series {labels} {points:?}"))?;
        if expect.ordered && expect.series.get(at).is_none_or(|(l, _)| l != *labels) {
            return Err(format!("{labels} is out of order, at position {}", at + 1));
        }
        let expected = spelled_out(items, steps)?;
        let equal = |(e, g): (&Point, &Point)| e.time == g.time && same(e.value, g.value);
        if expected.len() != points.len() || !expected.iter().zip(points).all(equal) {
            return Err(format!("{labels}: expected {expected:?}, got {points:?}"));
        }
    }
    match wanted.keys().next() {
        Some(missing) => Err(format!("expected series {missing} is missing")),
        None => Ok(()),
    }
}

fn spelled_out(items: &[Item], steps: Steps) -> Result<Vec<Point>, String> {
    let mut points = Vec::new();
    for (item, at) in items.iter().zip(0..) {
        let time = steps.start + at * steps.step;
        if time > steps.end {
            return Err(format!("{} values are expected, more than there are steps", items.len()));
        }
        match item {
            Item::Value(value) => points.push(Point { time, value: *value }),
            Item::Nothing => {}
            Item::NativeHistogram => return Err("expected a native histogram, got floats".into()),
        }
    }
    Ok(points)
}

fn same(a: f64, b: f64) -> bool {
    is_stale(a) == is_stale(b) && almost::equal(a, b, EPSILON)
}
