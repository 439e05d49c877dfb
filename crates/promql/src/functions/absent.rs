//! `absent` and `absent_over_time`: one series of ones where there is nothing.

use crate::error::Result;
use crate::eval::Evaluator;
use crate::eval::block::{ABSENT, Block, Row};
use crate::eval::grid::Grid;
use crate::labels::{Labels, METRIC_NAME};
use crate::plan::Node;
use crate::source::MatchOp;

pub(super) fn absent(block: &Block, node: &Node) -> Block {
    ones_where_not(&block.occupied(), node, false)
}

pub(super) fn absent_over_time(ev: &Evaluator<'_>, node: &Node, grid: Grid) -> Result<Block> {
    let mut occupied = vec![false; grid.len];
    let mut out = vec![ABSENT; grid.len];
    ev.budget.row(2 * grid.len)?;
    ev.select_ranges(node, grid, |series, windows| {
        ev.budget.work(grid.len)?;
        windows.run(series.times, series.values, &mut out, |window| {
            occupied[window.step] = true;
            1.0
        });
        Ok(())
    })?;
    Ok(ones_where_not(&occupied, node, true))
}

fn ones_where_not(occupied: &[bool], node: &Node, drop_name: bool) -> Block {
    let mut block = Block::new(occupied.len());
    let cells: Vec<f64> = occupied.iter().map(|&there| if there { ABSENT } else { 1.0 }).collect();
    block.push(Row { labels: implied_labels(node), drop_name }, &cells);
    block
}

/// The labels that a missing series would surely have: those that one matcher sets, and none other touches.
fn implied_labels(node: &Node) -> Labels {
    let (Node::Select(select) | Node::Window { select, .. }) = node.unwrapped() else {
        return Labels::empty();
    };
    let matchers = || select.matchers.iter().filter(|m| m.name != METRIC_NAME);
    let alone = |name: &str| matchers().filter(|m| m.name == name).count() == 1;
    Labels::from_pairs(
        matchers()
            .filter(|m| m.op == MatchOp::Equal && alone(&m.name))
            .map(|m| (m.name.as_str(), m.value.as_str())),
    )
}
