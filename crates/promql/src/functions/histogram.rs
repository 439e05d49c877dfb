//! `histogram_quantile`, `histogram_quantiles`, `histogram_fraction` over classic buckets.
//!
//! Which rows make up a histogram, and the order of their bounds, is the same at every step, so it is worked out once.

use super::arg;
use crate::annotations::{Annotation, Fix};
use crate::error::Result;
use crate::eval::block::{Block, Row, present};
use crate::eval::grid::Grid;
use crate::eval::{Evaluator, text_of};
use crate::format;
use crate::histogram::{Bucket, bucket_fraction, bucket_quantile};
use crate::labels::{BUCKET, Grouper, Labels, Projection};
use crate::plan::Node;

pub(super) fn quantile(ev: &Evaluator<'_>, q: &[f64], block: &Block, grid: Grid) -> Result<Block> {
    remark_quantiles(ev, q);
    let mut quantiles = Quantiles::new(ev, block, grid);
    for histogram in &Histogram::find(ev, block)? {
        quantiles.push(histogram, histogram.labels.clone(), |step| Some(q[step]))?;
    }
    Ok(quantiles.out)
}

/// `histogram_quantiles(v, label, q…)`: several quantiles at once, told apart by a label.
pub(super) fn quantiles(ev: &Evaluator<'_>, args: &[Node], grid: Grid) -> Result<Block> {
    let block = ev.vector(arg(args, 0)?, grid)?;
    let label = text_of(args.get(1))?;
    let wanted: Vec<Vec<f64>> = args.iter().skip(2).map(|q| ev.scalar(q, grid)).collect::<Result<_>>()?;
    let histograms = Histogram::find(ev, &block)?;
    let mut quantiles = Quantiles::new(ev, &block, grid);
    for q in &wanted {
        remark_quantiles(ev, q);
        // The quantile may differ from step to step, and with it the label.
        ev.budget.row(q.len())?;
        let mut distinct = q.clone();
        distinct.sort_unstable_by(f64::total_cmp);
        distinct.dedup_by(|a, b| a.to_bits() == b.to_bits());
        for value in distinct {
            for histogram in &histograms {
                let labels = histogram.labels.with(label, &format::open_metrics_float(value));
                ev.budget.take(labels.footprint() + 32)?;
                quantiles.push(histogram, labels, |step| {
                    (q[step].to_bits() == value.to_bits()).then_some(value)
                })?;
            }
        }
    }
    if grid.len > 1 { quantiles.out.merged(ev.budget) } else { Ok(quantiles.out) }
}

/// The share of observations between two bounds.
pub(super) fn fraction(ev: &Evaluator<'_>, lower: &[f64], upper: &[f64], block: &Block) -> Result<Block> {
    let mut out = Block::new(block.width);
    let mut buckets = Vec::new();
    for histogram in Histogram::find(ev, block)? {
        ev.budget.row(block.width)?;
        ev.budget.work(histogram.buckets.len().saturating_mul(block.width))?;
        out.push_with(
            || Row { labels: histogram.labels.clone(), drop_name: true },
            |cells| {
                let mut any = false;
                for (step, cell) in cells.iter_mut().enumerate() {
                    if histogram.collect(block, step, &mut buckets) {
                        *cell = bucket_fraction(lower[step], upper[step], &mut buckets);
                        any = true;
                    }
                }
                any
            },
        );
    }
    Ok(out)
}

fn remark_quantiles(ev: &Evaluator<'_>, q: &[f64]) {
    for &got in q.iter().filter(|q| !(0.0..=1.0).contains(*q)) {
        ev.annotate(Annotation::InvalidQuantile { got });
    }
}

struct Histogram {
    labels: Labels,
    /// Upper bound and row of each bucket, by rising bound.
    buckets: Vec<(f64, usize)>,
}

impl Histogram {
    fn find(ev: &Evaluator<'_>, block: &Block) -> Result<Vec<Self>> {
        ev.budget.take_all::<(f64, usize)>(2 * block.len())?;
        let all_but_bound = Projection::AllBut(vec![BUCKET.into()]);
        let mut grouper = Grouper::new(&all_but_bound, ev.budget);
        let mut buckets: Vec<Vec<(f64, usize)>> = Vec::new();
        for (at, row) in block.rows.iter().enumerate() {
            let bound = row.labels.get(BUCKET);
            let Some(upper) = parse_bound(bound) else {
                let metric = row.labels.metric_name().to_string();
                ev.annotate(Annotation::BadBucketLabel { value: bound.to_string(), metric });
                continue;
            };
            let group = grouper.ordinal(&row.labels)?;
            buckets.resize(grouper.len().max(buckets.len()), Vec::new());
            buckets[group].push((upper, at));
        }
        let first = grouper.into_first();
        let histogram = |(labels, mut buckets): (&Labels, Vec<(f64, usize)>)| {
            ev.budget.work(8 * buckets.len())?;
            buckets.sort_by(|a, b| a.0.total_cmp(&b.0));
            Ok(Self { labels: ev.budget.labels(labels.without(&[BUCKET]))?, buckets })
        };
        first.iter().zip(buckets).map(histogram).collect()
    }

    /// Gathers the buckets that have a count at this step; false if there are none.
    fn collect(&self, block: &Block, step: usize, into: &mut Vec<Bucket>) -> bool {
        into.clear();
        for &(upper, row) in &self.buckets {
            let count = block.cells[row * block.width + step];
            if present(count) {
                into.push(Bucket { upper, count });
            }
        }
        !into.is_empty()
    }
}

/// Where rows of quantiles are collected.
struct Quantiles<'a> {
    ev: &'a Evaluator<'a>,
    block: &'a Block,
    grid: Grid,
    out: Block,
    buckets: Vec<Bucket>,
}

impl<'a> Quantiles<'a> {
    fn new(ev: &'a Evaluator<'a>, block: &'a Block, grid: Grid) -> Self {
        Self { ev, block, grid, out: Block::new(block.width), buckets: Vec::new() }
    }

    /// Adds the row of one histogram; `wanted` says which quantile, if any, is asked for at a step.
    fn push(
        &mut self,
        histogram: &Histogram,
        labels: Labels,
        wanted: impl Fn(usize) -> Option<f64>,
    ) -> Result<()> {
        self.ev.budget.row(self.block.width)?;
        self.ev.budget.work(histogram.buckets.len().saturating_mul(self.block.width))?;
        let Self { ev, block, grid, out, buckets } = self;
        let row = || Row { labels, drop_name: true };
        out.push_with(row, |cells| {
            let mut any = false;
            for (step, cell) in cells.iter_mut().enumerate() {
                let Some(q) = wanted(step).filter(|_| histogram.collect(block, step, buckets)) else {
                    continue;
                };
                let (value, lifted) = bucket_quantile(q, buckets);
                *cell = value;
                any = true;
                if let Some(lifted) = lifted {
                    let metric = histogram.labels.metric_name().to_string();
                    let fix = Fix::at(grid.time(step), lifted);
                    ev.annotate(Annotation::ForcedMonotonicity { metric, fix });
                }
            }
            any
        });
        Ok(())
    }
}

/// Bounds are written `0.5`, `+Inf`, `1e3`; NaN bounds nothing.
fn parse_bound(text: &str) -> Option<f64> {
    text.parse::<f64>().ok().filter(|b| !b.is_nan())
}
