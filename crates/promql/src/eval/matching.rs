//! Operators between two vectors: which series meet, and what their result is called.
//!
//! One side is the "one" side: in each match group at most one of its series has a value at any step. Pairs are
//! found once per query, not once per step; the common case, a single "one" series per group, is then a row-wise loop.

use std::sync::Arc;

use super::binary::apply;
use super::block::{ABSENT, Block, Row, present};
use crate::error::{Error, Result};
use crate::labels::{ByHash, Grouper, Labels, METRIC_NAME, Projection};
use crate::limits::Budget;
use crate::plan::{Binary, Cardinality, Matching};

pub(super) fn eval(budget: &Budget<'_>, binary: &Binary, lhs: Block, rhs: Block) -> Result<Block> {
    let width = lhs.width;
    let swapped = binary.matching.cardinality == Cardinality::OneToMany;
    let (many, one) = if swapped { (rhs, lhs) } else { (lhs, rhs) };
    let joined = Join::new(budget, binary, &many, &one, swapped)?.run()?;
    if width > 1 { joined.merged(budget) } else { Ok(joined) }
}

struct Join<'a> {
    budget: &'a Budget<'a>,
    binary: &'a Binary,
    many: &'a Block,
    one: &'a Block,
    /// The "one" side is the left operand.
    swapped: bool,
    many_groups: Vec<usize>,
    one_groups: Vec<usize>,
    /// For each match group the "one" rows in it.
    one_rows: Vec<Vec<usize>>,
    /// Steps at which there is anything to match at all; at others not even an ambiguity is an error.
    active: Vec<bool>,
}

impl<'a> Join<'a> {
    fn new(
        budget: &'a Budget<'a>,
        binary: &'a Binary,
        many: &'a Block,
        one: &'a Block,
        swapped: bool,
    ) -> Result<Self> {
        let mut grouper = Grouper::new(&binary.matching.by, budget);
        let one_groups = grouper.ordinals(&one.rows)?;
        let many_groups = grouper.ordinals(&many.rows)?;
        budget.take_all::<(Vec<usize>, [usize; 4])>(grouper.len())?;
        let mut one_rows = vec![Vec::new(); grouper.len()];
        one_groups.iter().enumerate().for_each(|(row, &group)| one_rows[group].push(row));
        let filled = binary.matching.fill_left.is_some() || binary.matching.fill_right.is_some();
        let active = many
            .occupied()
            .iter()
            .zip(one.occupied())
            .map(|(&m, o)| if filled { m || o } else { m && o })
            .collect();
        Ok(Self { budget, binary, many, one, swapped, many_groups, one_groups, one_rows, active })
    }

    fn matching(&self) -> &'a Matching {
        &self.binary.matching
    }

    fn run(&self) -> Result<Block> {
        self.check_one_side()?;
        let mut out = Block::new(self.many.width);
        let mut matched = Matched::new(self)?;
        for (at, (row, cells)) in self.many.iter().enumerate() {
            let group = self.many_groups[at];
            for &partner in &self.one_rows[group] {
                let other = self.one.row(partner);
                let labels = self.result_labels(&row.labels, &self.one.rows[partner].labels)?;
                let pair = |(&m, &o): (&f64, &f64)| (present(m) && present(o)).then_some((m, o));
                matched.note(self, group, &labels, |step| pair((&cells[step], &other[step])).is_some())?;
                self.push(&mut out, labels, row.drop_name, cells.iter().zip(other).map(pair))?;
            }
            if let Some(fill) = self.matching().fill_right {
                let partners: Vec<&[f64]> = self.one_rows[group].iter().map(|&p| self.one.row(p)).collect();
                let labels = self.result_labels(&row.labels, &self.matching().by.apply(&row.labels))?;
                let alone = |step: usize| present(cells[step]) && !partners.iter().any(|p| present(p[step]));
                matched.note(self, group, &labels, alone)?;
                let pairs = (0..cells.len()).map(|step| alone(step).then(|| (cells[step], fill)));
                self.push(&mut out, labels, row.drop_name, pairs)?;
            }
        }
        if let Some(fill) = self.matching().fill_left {
            for (at, (row, cells)) in self.one.iter().enumerate() {
                let group = self.one_groups[at];
                let labels = self.result_labels(&self.matching().by.apply(&row.labels), &row.labels)?;
                let alone = |step: usize| present(cells[step]) && !matched.any(group, step);
                let pairs = (0..cells.len()).map(|step| alone(step).then(|| (fill, cells[step])));
                self.push(&mut out, labels, row.drop_name, pairs)?;
            }
        }
        Ok(out)
    }

    /// At no step may two series of the "one" side share a group.
    fn check_one_side(&self) -> Result<()> {
        for rows in self.one_rows.iter().filter(|rows| rows.len() > 1) {
            for step in (0..self.one.width).filter(|&s| self.active[s]) {
                self.budget.work(rows.len())?;
                let mut there = rows.iter().filter(|&&r| present(self.one.row(r)[step]));
                if let (Some(&a), Some(&b)) = (there.next(), there.next()) {
                    return Err(self.ambiguous(&self.one.rows[a].labels, &self.one.rows[b].labels));
                }
            }
        }
        Ok(())
    }

    fn ambiguous(&self, a: &Labels, b: &Labels) -> Error {
        let side = if self.swapped { "left" } else { "right" };
        let mut both = [a.shown(), b.shown()];
        both.sort();
        Error::Evaluation(format!(
            "found duplicate series for the match group {} on the {side} hand-side of the operation: [{}, {}];many-to-many \
             matching not allowed: matching labels must be unique on one side",
            self.matching().by.apply(a).shown(),
            both[0],
            both[1]
        ))
    }

    /// Adds a row; `pairs` gives for each step the values of the many and of the "one" side, if they meet there.
    fn push(
        &self,
        out: &mut Block,
        labels: Labels,
        drop_name: bool,
        pairs: impl Iterator<Item = Option<(f64, f64)>>,
    ) -> Result<()> {
        self.budget.work(self.many.width + 1)?;
        let (n_rows, footprint) = (out.len(), labels.footprint());
        let Binary { op, return_bool, .. } = *self.binary;
        let filters = op.is_comparison() && !return_bool;
        let row = || Row { labels, drop_name: drop_name || return_bool };
        out.push_with(row, |cells| {
            let mut any = false;
            for (cell, pair) in cells.iter_mut().zip(pairs) {
                let Some((many, one)) = pair else { continue };
                let (l, r) = if self.swapped { (one, many) } else { (many, one) };
                let value = apply(op, l, r);
                *cell = match filters {
                    true if value == 0.0 => ABSENT,
                    // A comparison keeps the left operand's value.
                    true => l,
                    false => value,
                };
                any |= present(*cell);
            }
            any
        });
        if out.len() > n_rows {
            self.budget.take(footprint)?;
            self.budget.row(self.many.width)?;
        }
        Ok(())
    }

    fn result_labels(&self, many: &Labels, one: &Labels) -> Result<Labels> {
        self.budget.work(many.iter().count() * (1 + self.matching().include.len()))?;
        let arithmetic = !self.binary.op.is_comparison();
        let mut labels = if arithmetic { many.without_metadata() } else { many.clone() };
        if self.matching().cardinality == Cardinality::OneToOne {
            labels = match &self.matching().by {
                Projection::Only(names) => labels.keep(names),
                // A comparison keeps the name, although names do not take part in the match.
                Projection::AllBut(names) => {
                    let ignored: Vec<&Arc<str>> = names.iter().filter(|n| ***n != *METRIC_NAME).collect();
                    if ignored.is_empty() { labels } else { labels.without(&ignored) }
                }
            };
        }
        for name in &self.matching().include {
            labels = labels.with_shared(name, one.find(name));
        }
        Ok(labels)
    }
}

/// Finds pairs that the matching does not make unique, and remembers which groups found a partner.
struct Matched {
    width: usize,
    /// Per group and step; kept for all groups only if unmatched ones are to be filled.
    seen: Vec<bool>,
    /// Groups with several many rows: only there can two results collide.
    crowded: Vec<bool>,
    by_labels: ByHash<(usize, Labels), Vec<bool>>,
}

impl Matched {
    fn new(join: &Join<'_>) -> Result<Self> {
        let n_groups = join.one_rows.len();
        let mut count = vec![0u32; n_groups];
        join.many_groups.iter().for_each(|&g| count[g] += 1);
        let crowded: Vec<bool> = count.iter().map(|&c| c > 1).collect();
        let needed = join.matching().fill_left.is_some()
            || (join.matching().cardinality == Cardinality::OneToOne && crowded.contains(&true));
        let width = if needed { join.many.width } else { 0 };
        join.budget.take_all::<bool>(n_groups.saturating_mul(width))?;
        Ok(Self { width, seen: vec![false; n_groups * width], crowded, by_labels: ByHash::default() })
    }

    fn any(&self, group: usize, step: usize) -> bool {
        self.seen[group * self.width + step]
    }

    fn note(
        &mut self,
        join: &Join<'_>,
        group: usize,
        labels: &Labels,
        meets: impl Fn(usize) -> bool,
    ) -> Result<()> {
        join.budget.work(join.many.width)?;
        let one_to_one = join.matching().cardinality == Cardinality::OneToOne;
        if !one_to_one && self.crowded[group] {
            let width = join.many.width;
            join.budget.take(size_of::<(usize, Labels, Vec<bool>)>() + width)?;
            let steps = self.by_labels.entry((group, labels.clone())).or_insert_with(|| vec![false; width]);
            let clash = (0..width).filter(|&s| meets(s)).any(|s| std::mem::replace(&mut steps[s], true));
            if clash {
                return Err(Error::Evaluation(
                    "multiple matches for labels: grouping labels must ensure unique matches".into(),
                ));
            }
        }
        for step in (0..self.width).filter(|&s| meets(s)) {
            let seen = &mut self.seen[group * self.width + step];
            if one_to_one && *seen {
                return Err(Error::Evaluation(
                    "multiple matches for labels: many-to-one matching must be explicit (group_left/group_right)"
                        .into(),
                ));
            }
            *seen = true;
        }
        Ok(())
    }
}
