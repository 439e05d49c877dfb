//! Results as JSON, within what is left of their query's budget.

use std::fmt::Write as _;

use metrics::Millis;
use promql::{Budget, Labels, Point, Result, Value};
use serde_json::json;

/// `"…"`
pub(super) fn text(out: &mut String, text: &str) {
    let _ = write!(out, "{}", json!(text));
}

/// `[…]` of whatever `element` writes; a part of them at most if there is a limit. Says whether some were left out.
pub(super) fn list<T>(
    out: &mut String,
    elements: impl IntoIterator<Item = T>,
    limit: Option<usize>,
    budget: &Budget<'_>,
    mut element: impl FnMut(&mut String, T),
) -> Result<bool> {
    out.push('[');
    for (at, one) in elements.into_iter().enumerate() {
        if limit.is_some_and(|limit| at >= limit) {
            out.push(']');
            return Ok(true);
        }
        if at > 0 {
            out.push(',');
        }
        let before = out.len();
        element(out, one);
        let written = out.len() - before + 1;
        budget.take(written)?;
        budget.work(written / 8)?;
    }
    out.push(']');
    Ok(false)
}

/// `{"name":"value"}`
pub(super) fn labels(out: &mut String, labels: &Labels) {
    out.push('{');
    for (at, (name, value)) in labels.iter().enumerate() {
        let _ = write!(out, "{}{}:{}", if at == 0 { "" } else { "," }, json!(name), json!(value));
    }
    out.push('}');
}

/// `{"resultType": …, "result": …`, to be closed, and whether results were left out.
pub(super) fn value(
    out: &mut String,
    value: &Value,
    at: Millis,
    limit: Option<usize>,
    budget: &Budget<'_>,
) -> Result<bool> {
    match value {
        Value::Scalar(scalar) => {
            *out += r#"{"resultType":"scalar","result":"#;
            point(out, *scalar);
        }
        Value::String(string) => {
            *out += r#"{"resultType":"string","result":["#;
            time(out, at);
            out.push(',');
            text(out, string);
            out.push(']');
        }
        Value::Vector(samples) => {
            *out += r#"{"resultType":"vector","result":"#;
            return list(out, samples, limit, budget, |out, sample| {
                *out += r#"{"metric":"#;
                labels(out, &sample.labels);
                *out += r#","value":"#;
                point(out, sample.point);
                out.push('}');
            });
        }
        Value::Matrix(series) => {
            *out += r#"{"resultType":"matrix","result":"#;
            return list(out, series, limit, budget, |out, one| {
                *out += r#"{"metric":"#;
                labels(out, &one.labels);
                *out += r#","values":["#;
                for (at, one) in one.points.iter().enumerate() {
                    *out += if at == 0 { "" } else { "," };
                    point(out, *one);
                }
                *out += "]}";
            });
        }
    }
    Ok(false)
}

/// `[seconds, "value"]`: as text, since JSON has no NaN and no infinities.
fn point(out: &mut String, point: Point) {
    out.push('[');
    time(out, point.time);
    let _ = write!(out, ",\"{}\"]", promql::format_value(point.value));
}

fn time(out: &mut String, time: Millis) {
    let (sign, millis) = (if time < 0 { "-" } else { "" }, time.unsigned_abs());
    let _ = write!(out, "{sign}{}", millis / 1000);
    if millis % 1000 != 0 {
        let _ = write!(out, ".{:03}", millis % 1000);
    }
}
