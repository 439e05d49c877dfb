//! Sorting. Range queries are always sorted by labels, so there it has no effect but a remark.

use std::cmp::Ordering;

use crate::annotations::Annotation;
use crate::error::Result;
use crate::eval::Evaluator;
use crate::eval::block::{Block, Row};
use crate::eval::text_of;
use crate::plan::Node;

/// By value; NaN goes to the end either way.
pub(super) fn by_value(ev: &Evaluator<'_>, block: Block, descending: bool) -> Result<Block> {
    sorted(ev, block, |block, a, b| {
        let (x, y) = (block.cells[a], block.cells[b]);
        match (x.is_nan(), y.is_nan()) {
            (false, false) if descending => y.total_cmp(&x),
            (false, false) => x.total_cmp(&y),
            (x_nan, y_nan) => x_nan.cmp(&y_nan),
        }
    })
}

/// By the given labels in natural order, then by all labels.
pub(super) fn by_labels(ev: &Evaluator<'_>, block: Block, args: &[Node], descending: bool) -> Result<Block> {
    let names: Vec<&str> = args.iter().skip(1).map(|a| text_of(Some(a))).collect::<Result<_>>()?;
    sorted(ev, block, |block, a, b| {
        let (x, y) = (&block.rows[a].labels, &block.rows[b].labels);
        let by_names = names.iter().map(|n| natural(x.get(n), y.get(n))).find(|o| o.is_ne());
        let ascending = by_names.unwrap_or_else(|| x.cmp(y));
        if descending { ascending.reverse() } else { ascending }
    })
}

fn sorted(
    ev: &Evaluator<'_>,
    block: Block,
    compare: impl Fn(&Block, usize, usize) -> Ordering,
) -> Result<Block> {
    if block.width > 1 {
        ev.annotate(Annotation::SortInRangeQuery);
        return Ok(block);
    }
    ev.budget.take_all::<(Row, [usize; 3])>(block.len())?;
    let mut order: Vec<usize> = (0..block.len()).collect();
    // Label values may be long, and a sort cannot be left: once the time is over all are equal.
    let mut in_time = Ok(());
    order.sort_by(|&a, &b| {
        in_time = in_time.clone().and_then(|()| ev.budget.work(200));
        if in_time.is_ok() { compare(&block, a, b) } else { Ordering::Equal }
    });
    in_time?;
    let rows = order.iter().map(|&at| block.rows[at].clone()).collect();
    let cells = order.iter().map(|&at| block.cells[at]).collect();
    Ok(Block { width: 1, rows, cells })
}

/// Runs of digits compare as numbers: `cpu2` comes before `cpu10`.
fn natural(a: &str, b: &str) -> Ordering {
    let (mut a, mut b) = (Chunks(a), Chunks(b));
    loop {
        let by_chunk = match (a.next(), b.next()) {
            (None, None) => return Ordering::Equal,
            (None, Some(_)) => return Ordering::Less,
            (Some(_), None) => return Ordering::Greater,
            (Some(x), Some(y)) => match (x.parse::<i64>(), y.parse::<i64>()) {
                (Ok(x), Ok(y)) => x.cmp(&y),
                _ => x.cmp(y),
            },
        };
        if by_chunk.is_ne() {
            return by_chunk;
        }
    }
}

/// Alternating runs of digits and of anything else.
struct Chunks<'a>(&'a str);

impl<'a> Iterator for Chunks<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        let digits = self.0.chars().next()?.is_ascii_digit();
        let end = self.0.find(|c: char| c.is_ascii_digit() != digits).unwrap_or(self.0.len());
        let (chunk, rest) = self.0.split_at(end);
        self.0 = rest;
        Some(chunk)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn natural_order() {
        let mut names = vec!["cpu10", "cpu2", "cpu", "2", "10", "1.10", "1.9", "node2.1", "node2"];
        names.sort_by(|a, b| natural(a, b));
        assert_eq!(names, ["1.9", "1.10", "2", "10", "cpu", "cpu2", "cpu10", "node2", "node2.1"]);
    }
}
