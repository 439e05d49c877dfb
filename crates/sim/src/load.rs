//! Demand over time, in requests or messages a second.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    Error, Seconds,
    random::{Stream, unit},
};

const DAY: f64 = 86_400.0;

/// One part of the load; the parts add up, and the sum never goes below 0.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "shape", rename_all = "camelCase", rename_all_fields = "camelCase", deny_unknown_fields)]
pub enum Shape {
    Constant {
        value: f64,
    },
    /// From `at` on.
    Step {
        at: Seconds,
        value: f64,
    },
    /// From `at` for `length`.
    Spike {
        at: Seconds,
        length: Seconds,
        value: f64,
    },
    /// `from` until `at`, then evenly to `to` within `length`, then `to`.
    Ramp {
        at: Seconds,
        length: Seconds,
        #[serde(default)]
        from: f64,
        to: f64,
    },
    /// Up and down between `low` and `high`, highest at `peak` after midnight UTC.
    Wave {
        low: f64,
        high: f64,
        #[serde(default = "a_day")]
        period: Seconds,
        #[serde(default)]
        peak: Seconds,
    },
    /// Between minus and plus `amplitude`, wandering to another value `every` so often.
    Noise {
        amplitude: f64,
        #[serde(default = "half_a_minute")]
        every: Seconds,
    },
    /// Rows of time and value; each value holds until the next. Written here, or in a file beside the scenario.
    Trace {
        #[serde(default, skip_serializing_if = "String::is_empty")]
        csv: String,
        #[serde(default, skip_serializing_if = "String::is_empty")]
        file: String,
    },
}

/// The load of a scenario, ready to be asked.
#[derive(Clone, Debug)]
pub struct Load {
    parts: Vec<Part>,
    seed: u64,
    /// Seconds from midnight UTC to the start.
    offset: f64,
}

#[derive(Clone, Debug)]
enum Part {
    Shape(Shape),
    Trace(Vec<(f64, f64)>),
}

impl Load {
    /// `read` fetches the file that a trace names.
    pub fn new(
        shapes: &[Shape],
        seed: u64,
        start: Timestamp,
        read: &dyn Fn(&str) -> Result<String, String>,
    ) -> Result<Load, Error> {
        let parts = shapes.iter().enumerate().map(|(idx, shape)| {
            let at = |field: &str| format!("load[{idx}].{field}");
            for (field, value) in shape.numbers() {
                if !value.is_finite() {
                    return Err(Error::field(at(field), format!("expected a finite number, found {value}")));
                }
            }
            match shape {
                Shape::Wave { period: Seconds(0.0), .. } => {
                    Err(Error::field(at("period"), "expected more than 0 seconds"))
                }
                Shape::Noise { every: Seconds(0.0), .. } => {
                    Err(Error::field(at("every"), "expected more than 0 seconds"))
                }
                Shape::Trace { csv, file } if file.is_empty() => {
                    trace(csv).map(Part::Trace).map_err(|message| Error::field(at("csv"), message))
                }
                Shape::Trace { csv, .. } if !csv.is_empty() => {
                    Err(Error::field(at("file"), "expected either csv or file, found both"))
                }
                Shape::Trace { file, .. } => read(file)
                    .and_then(|csv| trace(&csv).map_err(|message| format!("{file}: {message}")))
                    .map(Part::Trace)
                    .map_err(|message| Error::field(at("file"), message)),
                shape => Ok(Part::Shape(shape.clone())),
            }
        });
        let parts = parts.collect::<Result<_, _>>()?;
        Ok(Load { parts, seed, offset: start.as_second().rem_euclid(DAY as i64) as f64 })
    }

    pub(crate) fn reseed(&mut self, seed: u64) {
        self.seed = seed;
    }

    /// The load `t` seconds after the start.
    pub fn at(&self, t: f64) -> f64 {
        let parts = self.parts.iter().enumerate().map(|(idx, part)| match part {
            Part::Trace(rows) => {
                let after = rows.partition_point(|&(time, _)| time <= t);
                if after == 0 { 0.0 } else { rows[after - 1].1 }
            }
            Part::Shape(shape) => self.shape_at(idx, shape, t),
        });
        parts.sum::<f64>().max(0.0)
    }

    fn shape_at(&self, idx: usize, shape: &Shape, t: f64) -> f64 {
        match *shape {
            Shape::Constant { value } => value,
            Shape::Step { at, value } => {
                if t >= at.0 {
                    value
                } else {
                    0.0
                }
            }
            Shape::Spike { at, length, value } => {
                if (at.0..at.0 + length.0).contains(&t) {
                    value
                } else {
                    0.0
                }
            }
            Shape::Ramp { at, length, from, to } => {
                let progress = if length.0 > 0.0 {
                    ((t - at.0) / length.0).clamp(0.0, 1.0)
                } else {
                    f64::from(t >= at.0)
                };
                from + (to - from) * progress
            }
            Shape::Wave { low, high, period, peak } => {
                let turn = (self.offset + t - peak.0) / period.0 * std::f64::consts::TAU;
                low + (high - low) * (1.0 + turn.cos()) / 2.0
            }
            Shape::Noise { amplitude, every } => {
                let position = t / every.0;
                let index = position as u64;
                let value = |index: u64| amplitude * (2.0 * unit(self.seed, Stream::Noise(idx), index) - 1.0);
                let share = position - index as f64;
                value(index) * (1.0 - share) + value(index + 1) * share
            }
            Shape::Trace { .. } => 0.0,
        }
    }
}

impl Shape {
    fn numbers(&self) -> Vec<(&'static str, f64)> {
        match *self {
            Shape::Constant { value } | Shape::Step { value, .. } | Shape::Spike { value, .. } => {
                vec![("value", value)]
            }
            Shape::Ramp { from, to, .. } => vec![("from", from), ("to", to)],
            Shape::Wave { low, high, .. } => vec![("low", low), ("high", high)],
            Shape::Noise { amplitude, .. } => vec![("amplitude", amplitude)],
            Shape::Trace { .. } => vec![],
        }
    }
}

fn trace(csv: &str) -> Result<Vec<(f64, f64)>, String> {
    let mut rows: Vec<(f64, f64)> = Vec::new();
    for (idx, line) in csv.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let fields = line.split_once(',').map(|(time, value)| (time.trim(), value.trim()));
        let row =
            fields.and_then(|(time, value)| Some((Seconds::parse(time)?.0, value.parse::<f64>().ok()?)));
        match row {
            Some((_, value)) if !value.is_finite() => {
                return Err(format!("line {}: expected a finite value, found {value}", idx + 1));
            }
            Some(row) if rows.last().is_some_and(|last| row.0 < last.0) => {
                return Err(format!(
                    "line {}: expected times in order, found {} after a later one",
                    idx + 1,
                    row.0
                ));
            }
            Some(row) => rows.push(row),
            // The first line may name the columns.
            None if rows.is_empty() && idx == 0 => {}
            None => return Err(format!("line {}: expected \"time,value\", found {line:?}", idx + 1)),
        }
    }
    match rows.is_empty() {
        true => Err("expected rows of \"time,value\", found none".to_owned()),
        false => Ok(rows),
    }
}

fn a_day() -> Seconds {
    Seconds(DAY)
}

fn half_a_minute() -> Seconds {
    Seconds(30.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(shapes: &str, times: &[f64]) -> Vec<f64> {
        let shapes: Vec<Shape> = serde_saphyr::from_str(shapes).unwrap();
        let start = "2026-03-02T06:00:00Z".parse().unwrap();
        let beside = |name: &str| match name {
            "load.csv" => Ok("0,4\n1m,9\n".to_owned()),
            _ => Err(format!("there is no {name}")),
        };
        let load = Load::new(&shapes, 1, start, &beside).unwrap();
        times.iter().map(|&t| (load.at(t) * 1000.0).round() / 1000.0).collect()
    }

    #[test]
    fn shapes_add_up() {
        assert_eq!(
            at("[{shape: constant, value: 5}, {shape: step, at: 1m, value: 3}]", &[0.0, 59.9, 60.0]),
            [5.0, 5.0, 8.0]
        );
        assert_eq!(
            at("[{shape: spike, at: 10, length: 5s, value: 7}]", &[9.0, 10.0, 14.9, 15.0]),
            [0.0, 7.0, 7.0, 0.0]
        );
        assert_eq!(
            at("[{shape: ramp, at: 10, length: 20, from: 2, to: 6}]", &[0.0, 20.0, 99.0]),
            [2.0, 4.0, 6.0]
        );
        assert_eq!(at("[{shape: ramp, at: 10, length: 0, to: 6}]", &[9.0, 10.0]), [0.0, 6.0]);
        // It starts at 6:00, a quarter of a day before the peak at noon.
        assert_eq!(
            at("[{shape: wave, low: 10, high: 30, peak: 12h}]", &[0.0, 21_600.0, 64_800.0]),
            [20.0, 30.0, 10.0]
        );
        assert_eq!(
            at("[{shape: trace, csv: \"time,load\\n0,4\\n1m,9\\n\"}]", &[0.0, 59.0, 60.0, 1e6]),
            [4.0, 4.0, 9.0, 9.0]
        );
        assert_eq!(at("[{shape: trace, file: load.csv}]", &[59.0, 60.0]), [4.0, 9.0]);
        assert_eq!(at("[{shape: constant, value: -5}]", &[0.0]), [0.0]);
        let noise = at(
            "[{shape: constant, value: 50}, {shape: noise, amplitude: 10, every: 1}]",
            &[0.0, 1.0, 1.5, 2.0],
        );
        assert!(noise.iter().all(|value| (40.0..=60.0).contains(value)) && noise[0] != noise[1]);
        assert!((noise[2] - (noise[1] + noise[3]) / 2.0).abs() < 0.01);
    }

    #[test]
    fn bad_traces_name_the_line() {
        let error = |csv: &str| trace(csv).unwrap_err();
        assert_eq!(error(""), "expected rows of \"time,value\", found none");
        assert_eq!(error("t,v\n0,1\nx,2"), "line 3: expected \"time,value\", found \"x,2\"");
        assert_eq!(error("5,1\n4,2"), "line 2: expected times in order, found 4 after a later one");
        assert_eq!(error("5,inf"), "line 1: expected a finite value, found inf");
    }
}
