//! The functions of the language, one file per family. A new function is a line in `by_name`, a variant, and a case in
//! its family's file.

mod absent;
mod date;
mod histogram;
pub(crate) mod info;
mod label;
mod math;
mod order;
pub(crate) mod over_time;
pub(crate) mod range;
mod rate;
pub(crate) mod stats;
mod trend;

use crate::error::{Error, Result};
use crate::eval::block::{Block, Row, present};
use crate::eval::grid::Grid;
use crate::eval::{Evaluated, Evaluator};
use crate::labels::Labels;
use crate::plan::Node;

pub(crate) use date::DatePart;
pub(crate) use math::Math;
pub(crate) use range::Range;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Function {
    /// One value in, one value out.
    Math(Math),
    Round,
    Clamp(Clamp),
    /// A part of the date that a value, or the step, stands for.
    Date(DatePart),
    /// Over a window of samples.
    Range(Range),
    /// About the query itself.
    Context(Context),
    Time,
    Pi,
    Scalar,
    Vector,
    MaxOf,
    MinOf,
    Timestamp,
    Absent,
    AbsentOverTime,
    LabelReplace,
    LabelJoin,
    Sort {
        descending: bool,
    },
    SortByLabel {
        descending: bool,
    },
    HistogramQuantile,
    HistogramQuantiles,
    HistogramFraction,
    /// Only native histograms have an answer; of floats it says nothing.
    OfNativeHistogram,
    Info,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Clamp {
    Both,
    Min,
    Max,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Context {
    Start,
    End,
    Range,
    Step,
}

impl Function {
    pub(crate) fn by_name(name: &str) -> Option<Self> {
        Some(match name {
            "round" => Self::Round,
            "clamp" => Self::Clamp(Clamp::Both),
            "clamp_min" => Self::Clamp(Clamp::Min),
            "clamp_max" => Self::Clamp(Clamp::Max),
            "start" => Self::Context(Context::Start),
            "end" => Self::Context(Context::End),
            "range" => Self::Context(Context::Range),
            "step" => Self::Context(Context::Step),
            "time" => Self::Time,
            "pi" => Self::Pi,
            "scalar" => Self::Scalar,
            "vector" => Self::Vector,
            "max_of" => Self::MaxOf,
            "min_of" => Self::MinOf,
            "timestamp" => Self::Timestamp,
            "absent" => Self::Absent,
            "absent_over_time" => Self::AbsentOverTime,
            "label_replace" => Self::LabelReplace,
            "label_join" => Self::LabelJoin,
            "sort" => Self::Sort { descending: false },
            "sort_desc" => Self::Sort { descending: true },
            "sort_by_label" => Self::SortByLabel { descending: false },
            "sort_by_label_desc" => Self::SortByLabel { descending: true },
            "histogram_quantile" => Self::HistogramQuantile,
            "histogram_quantiles" => Self::HistogramQuantiles,
            "histogram_fraction" => Self::HistogramFraction,
            "histogram_avg" | "histogram_count" | "histogram_sum" | "histogram_stddev"
            | "histogram_stdvar" => Self::OfNativeHistogram,
            "info" => Self::Info,
            name => {
                return Math::by_name(name)
                    .map(Self::Math)
                    .or_else(|| DatePart::by_name(name).map(Self::Date))
                    .or_else(|| Range::by_name(name).map(Self::Range));
            }
        })
    }

    pub(crate) fn is_scalar(self) -> bool {
        matches!(self, Self::Context(_) | Self::Time | Self::Pi | Self::Scalar | Self::MaxOf | Self::MinOf)
    }

    /// The result may change from step to step although nothing it reads does.
    pub(crate) fn depends_on_time(self, n_args: usize) -> bool {
        match self {
            Self::Date(_) => n_args == 0,
            Self::Time | Self::Timestamp | Self::Range(Range::PredictLinear) => true,
            _ => false,
        }
    }
}

pub(crate) fn call(ev: &Evaluator<'_>, function: Function, args: &[Node], grid: Grid) -> Result<Evaluated> {
    let vector = |at: usize| ev.vector(arg(args, at)?, grid);
    let scalar = |at: usize| ev.scalar(arg(args, at)?, grid);
    let both = |f: fn(f64, f64) -> f64| -> Result<Evaluated> {
        ev.budget.row(grid.len)?;
        Ok(Evaluated::Scalar(scalar(0)?.iter().zip(scalar(1)?).map(|(&a, b)| f(a, b)).collect()))
    };
    Ok(Evaluated::Vector(match function {
        Function::Math(math) => vector(0)?.map(ev.budget, |v| math.apply(v))?,
        Function::Round => {
            let nearest = if args.len() > 1 { scalar(1)? } else { ev.constant(1.0, grid)? };
            vector(0)?.map_steps(ev.budget, |step, v| math::round_to(v, nearest[step]))?
        }
        Function::Clamp(kind) => {
            let (low, high) = match kind {
                Clamp::Both => (scalar(1)?, scalar(2)?),
                Clamp::Min => (scalar(1)?, ev.constant(f64::INFINITY, grid)?),
                Clamp::Max => (ev.constant(f64::NEG_INFINITY, grid)?, scalar(1)?),
            };
            math::clamp(ev.budget, vector(0)?, &low, &high)?
        }
        Function::Date(part) if args.is_empty() => {
            ev.budget.row(grid.len)?;
            single(grid, grid.times().map(|t| part.of_seconds(t.div_euclid(1000) as f64)).collect())
        }
        Function::Date(part) => vector(0)?.map(ev.budget, |v| part.of_seconds(v))?,
        Function::Range(range) => range::eval(ev, range, args, grid)?,
        Function::Vector => single(grid, scalar(0)?),
        Function::Timestamp => timestamp(ev, arg(args, 0)?, grid)?,
        Function::Absent => absent::absent(&vector(0)?, arg(args, 0)?),
        Function::AbsentOverTime => absent::absent_over_time(ev, arg(args, 0)?, grid)?,
        Function::LabelReplace => label::replace(ev.budget, vector(0)?, args)?,
        Function::LabelJoin => label::join(ev.budget, vector(0)?, args)?,
        Function::Sort { descending } => order::by_value(ev, vector(0)?, descending)?,
        Function::SortByLabel { descending } => order::by_labels(ev, vector(0)?, args, descending)?,
        Function::HistogramQuantile => histogram::quantile(ev, &scalar(0)?, &vector(1)?, grid)?,
        Function::HistogramQuantiles => histogram::quantiles(ev, args, grid)?,
        Function::HistogramFraction => histogram::fraction(ev, &scalar(0)?, &scalar(1)?, &vector(2)?)?,
        Function::OfNativeHistogram => {
            vector(0)?;
            Block::new(grid.len)
        }
        Function::Info => info::eval(ev, args, grid)?,
        Function::Time => {
            ev.budget.row(grid.len)?;
            return Ok(Evaluated::Scalar(grid.times().map(|t| t as f64 / 1000.0).collect()));
        }
        Function::Pi => return Ok(Evaluated::Scalar(ev.constant(std::f64::consts::PI, grid)?)),
        Function::Context(context) => {
            return Ok(Evaluated::Scalar(ev.constant(context_value(ev, context), grid)?));
        }
        Function::MaxOf => return both(math::max),
        Function::MinOf => return both(math::min),
        Function::Scalar => {
            let block = vector(0)?;
            ev.budget.take_all::<[f64; 3]>(block.width)?;
            ev.budget.work(block.cells.len())?;
            return Ok(Evaluated::Scalar(only_value(&block)));
        }
    }))
}

pub(crate) fn arg(args: &[Node], at: usize) -> Result<&Node> {
    args.get(at).ok_or_else(|| Error::Evaluation(format!("argument {} is missing", at + 1)))
}

fn context_value(ev: &Evaluator<'_>, context: Context) -> f64 {
    let query = ev.query;
    (match context {
        Context::Start => query.start,
        Context::End => query.end,
        Context::Range => query.end - query.start,
        Context::Step if query.start == query.end => 0,
        Context::Step => query.step,
    }) as f64
        / 1000.0
}

/// A vector of one series without labels.
pub(crate) fn single(grid: Grid, cells: Vec<f64>) -> Block {
    Block { width: grid.len, rows: vec![Row { labels: Labels::empty(), drop_name: false }], cells }
}

/// Of a vector with exactly one element its value, else NaN.
fn only_value(block: &Block) -> Vec<f64> {
    let mut values: Vec<Option<f64>> = vec![None; block.width];
    for (_, cells) in block.iter() {
        for (value, &cell) in values.iter_mut().zip(cells).filter(|(_, v)| present(**v)) {
            *value = Some(if value.is_none() { cell } else { f64::NAN });
        }
    }
    values.into_iter().map(|v| v.unwrap_or(f64::NAN)).collect()
}

/// The time of the sample itself for a selector; for anything computed, the time of the step.
fn timestamp(ev: &Evaluator<'_>, node: &Node, grid: Grid) -> Result<Block> {
    if let Node::Select(select) = node {
        let mut block = ev.select_latest(select, grid, |time, _| time as f64 / 1000.0)?;
        block.drop_names();
        return Ok(block);
    }
    ev.vector(node, grid)?.map_steps(ev.budget, |step, _| grid.time(step) as f64 / 1000.0)
}
