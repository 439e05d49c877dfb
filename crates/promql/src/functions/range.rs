//! Functions over windows of samples: which one runs, and over what.

use std::cell::Cell;

use super::over_time::{self, Extreme};
use super::{rate, trend};
use crate::annotations::Annotation;
use crate::error::{Error, Result};
use crate::eval::Evaluator;
use crate::eval::block::{ABSENT, Block, Row};
use crate::eval::grid::{Grid, Window, Windows};
use crate::labels::Labels;
use crate::plan::{Kind, Node};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Range {
    Rate,
    Increase,
    Delta,
    Irate,
    Idelta,
    Resets,
    Changes,
    Deriv,
    PredictLinear,
    DoubleExponentialSmoothing,
    Avg,
    Count,
    First,
    Last,
    Mad,
    Max,
    Min,
    Present,
    Quantile,
    Stddev,
    Stdvar,
    Sum,
    TimeOfFirst,
    TimeOfLast,
    TimeOfMax,
    TimeOfMin,
}

impl Range {
    pub(super) fn by_name(name: &str) -> Option<Self> {
        Some(match name {
            "rate" => Self::Rate,
            "increase" => Self::Increase,
            "delta" => Self::Delta,
            "irate" => Self::Irate,
            "idelta" => Self::Idelta,
            "resets" => Self::Resets,
            "changes" => Self::Changes,
            "deriv" => Self::Deriv,
            "predict_linear" => Self::PredictLinear,
            "double_exponential_smoothing" => Self::DoubleExponentialSmoothing,
            "avg_over_time" => Self::Avg,
            "count_over_time" => Self::Count,
            "first_over_time" => Self::First,
            "last_over_time" => Self::Last,
            "mad_over_time" => Self::Mad,
            "max_over_time" => Self::Max,
            "min_over_time" => Self::Min,
            "present_over_time" => Self::Present,
            "quantile_over_time" => Self::Quantile,
            "stddev_over_time" => Self::Stddev,
            "stdvar_over_time" => Self::Stdvar,
            "sum_over_time" => Self::Sum,
            "ts_of_first_over_time" => Self::TimeOfFirst,
            "ts_of_last_over_time" => Self::TimeOfLast,
            "ts_of_max_over_time" => Self::TimeOfMax,
            "ts_of_min_over_time" => Self::TimeOfMin,
            _ => return None,
        })
    }

    /// Such functions act like an offset: the value still is the metric's.
    fn keeps_name(self) -> bool {
        matches!(self, Self::First | Self::Last)
    }

    /// Looks at every sample of every window, rather than at each sample once.
    fn rereads(self) -> bool {
        matches!(
            self,
            Self::Resets
                | Self::Changes
                | Self::Deriv
                | Self::PredictLinear
                | Self::DoubleExponentialSmoothing
                | Self::Avg
                | Self::Mad
                | Self::Quantile
                | Self::Stddev
                | Self::Stdvar
                | Self::Sum
                | Self::TimeOfMax
                | Self::TimeOfMin
        )
    }
}

pub(super) fn eval(ev: &Evaluator<'_>, function: Range, args: &[Node], grid: Grid) -> Result<Block> {
    let of = args
        .iter()
        .find(|a| a.kind() == Kind::Matrix)
        .ok_or_else(|| Error::Evaluation("a range vector is missing".into()))?;
    let params: Vec<Vec<f64>> = args
        .iter()
        .filter(|a| a.kind() == Kind::Scalar)
        .map(|a| ev.scalar(a, grid))
        .collect::<Result<_>>()?;
    let param = |at: usize, step: usize| params.get(at).map_or(f64::NAN, |p| p[step]);
    let mut block = Block::new(grid.len);
    let mut scratch: Vec<f64> = Vec::new();
    ev.select_ranges(of, grid, |series, windows| {
        ev.budget.spend(grid.len)?;
        ev.budget.row(grid.len)?;
        // A window cannot end the walk along its series, so it is noted why the rest is not worth looking at.
        let stopped: Cell<Option<Error>> = Cell::new(None);
        let proceed = |check: &dyn Fn() -> Result<()>| {
            let checked = stopped.take().map_or_else(check, Err);
            let goes_on = checked.is_ok();
            stopped.set(checked.err());
            goes_on
        };
        let (times, values) = (series.times, series.values);
        let row =
            || Row { labels: series.labels.clone(), drop_name: series.drop_name || !function.keeps_name() };
        let n_rows = block.len();
        block.push_with(row, |out| {
            let mut each = |f: &mut dyn FnMut(Window<'_>) -> f64| {
                windows.run(times, values, out, |w| {
                    if function.rereads() && !proceed(&|| ev.budget.spend(w.values.len())) {
                        return ABSENT;
                    }
                    f(w)
                })
            };
            match function {
                Range::Rate => rate::counter(windows, times, values, out, true),
                Range::Increase => rate::counter(windows, times, values, out, false),
                Range::Delta => rate::gauge(windows, times, values, out),
                Range::Irate => each(&mut |w| rate::instant(&w, true)),
                Range::Idelta => each(&mut |w| rate::instant(&w, false)),
                Range::Max => over_time::extreme(windows, times, values, out, Extreme::Max),
                Range::Min => over_time::extreme(windows, times, values, out, Extreme::Min),
                Range::Resets => each(&mut |w| over_time::resets(&w)),
                Range::Changes => each(&mut |w| over_time::changes(&w)),
                Range::Deriv => each(&mut |w| trend::slope(&w)),
                Range::PredictLinear => {
                    each(&mut |w| trend::predict(&w, grid.time(w.step), param(0, w.step)))
                }
                Range::DoubleExponentialSmoothing => each(&mut |w| {
                    let factors = [param(0, w.step), param(1, w.step)];
                    match proceed(&|| check_factors(factors)) {
                        true => trend::smooth(&w, factors[0], factors[1]),
                        false => ABSENT,
                    }
                }),
                Range::Avg => each(&mut |w| over_time::avg(&w)),
                Range::Count => each(&mut |w| w.values.len() as f64),
                Range::First => each(&mut |w| w.values[0]),
                Range::Last => each(&mut |w| w.values[w.values.len() - 1]),
                Range::Mad => each(&mut |w| over_time::mad(&w, &mut scratch)),
                Range::Present => each(&mut |_| 1.0),
                Range::Quantile => each(&mut |w| over_time::quantile(&w, param(0, w.step), &mut scratch)),
                Range::Stddev => each(&mut |w| over_time::variance(&w).sqrt()),
                Range::Stdvar => each(&mut |w| over_time::variance(&w)),
                Range::Sum => each(&mut |w| over_time::sum(&w)),
                Range::TimeOfFirst => each(&mut |w| w.times[0] as f64 / 1000.0),
                Range::TimeOfLast => each(&mut |w| w.times[w.times.len() - 1] as f64 / 1000.0),
                Range::TimeOfMax => each(&mut |w| over_time::time_of(&w, Extreme::Max)),
                Range::TimeOfMin => each(&mut |w| over_time::time_of(&w, Extreme::Min)),
            }
        });
        if let Some(error) = stopped.take() {
            return Err(error);
        }
        if block.len() > n_rows && matches!(function, Range::Rate | Range::Increase) {
            remark_non_counter(ev, series.labels);
        }
        Ok(())
    })?;
    if function == Range::Quantile && !block.rows.is_empty() {
        let outside = |q: &&f64| !(0.0..=1.0).contains(*q);
        for &got in params.iter().flatten().filter(outside) {
            ev.annotate(Annotation::InvalidQuantile { got });
        }
    }
    Ok(block)
}

/// Checked only where there are samples to smooth, as in Prometheus.
fn check_factors(factors: [f64; 2]) -> Result<()> {
    for (bad, what) in factors.iter().zip(["smoothing", "trend"]) {
        if *bad <= 0.0 || *bad >= 1.0 {
            return Err(Error::Evaluation(format!(
                "invalid {what} factor. Expected: 0 < {}f < 1, got: {bad:.6}",
                &what[..1]
            )));
        }
    }
    Ok(())
}

fn remark_non_counter(ev: &Evaluator<'_>, labels: &Labels) {
    let name = labels.metric_name();
    let counters = ["_total", "_sum", "_count", "_bucket"];
    if !name.is_empty() && !counters.iter().any(|suffix| name.ends_with(suffix)) {
        ev.annotate(Annotation::PossibleNonCounter { metric: name.to_string() });
    }
}

/// The length of the windows in seconds, by which a rate is divided.
pub(super) fn range_seconds(windows: &Windows) -> f64 {
    windows.range as f64 / 1000.0
}
