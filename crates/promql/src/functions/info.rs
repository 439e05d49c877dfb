//! `info`: adds the labels of info metrics (such as `target_info`) that share `instance` and `job`.

use std::collections::{BTreeMap, BTreeSet};

use crate::error::{Error, Result};
use crate::eval::Evaluator;
use crate::eval::block::{ABSENT, Block, Row, present};
use crate::eval::grid::Grid;
use crate::labels::{ByHash, Labels, METRIC_NAME};
use crate::limits::Budget;
use crate::plan::{Anchor, Kind, Node, Selector};
use crate::source::{MatchOp, Matcher};

use super::{Function, arg};

const IDENTITY: [&str; 2] = ["instance", "job"];

pub(super) fn eval(ev: &Evaluator<'_>, args: &[Node], grid: Grid) -> Result<Block> {
    let base_node = arg(args, 0)?;
    let base = ev.vector(base_node, grid)?;
    let wanted = match args.get(1) {
        Some(Node::Select(selector)) => selector.matchers.clone(),
        _ => vec![],
    };
    let (name_matchers, data): (Vec<Matcher>, Vec<Matcher>) =
        wanted.into_iter().partition(|m| m.name == METRIC_NAME);
    let names = effective_names(name_matchers)?;
    let is_info = |labels: &Labels| names.iter().all(|m| m.matches(labels.metric_name()));

    let mut info = Block::new(grid.len);
    let anchor = shared_anchor(base_node).unwrap_or(Anchor { at: None, offset: 0 });
    for identity in identities(base.rows.iter().map(|r| &r.labels).filter(|l| !is_info(l))) {
        let matchers = identity.into_iter().chain(data.clone()).chain(names.clone()).collect();
        // In place of the value, which is always 1, the time of the sample: the newest wins.
        let found = ev.select_latest(&Selector { matchers, anchor }, grid, |time, _| time as f64)?;
        ev.budget.take_all::<Row>(found.rows.len())?;
        ev.budget.take_all::<f64>(found.cells.len())?;
        info.rows.extend(found.rows);
        info.cells.extend(found.cells);
    }
    Enrichment::new(ev.budget, &info, &data)?.enrich(&base, is_info)
}

/// Without a positive matcher on the name: anything that ends in `_info`; without any: `target_info`.
fn effective_names(mut matchers: Vec<Matcher>) -> Result<Vec<Matcher>> {
    if matchers.is_empty() {
        return Ok(vec![Matcher::equal(METRIC_NAME, "target_info")]);
    }
    if !matchers.iter().any(Matcher::is_positive) {
        matchers.insert(0, Matcher::new(METRIC_NAME, MatchOp::Regex, ".+_info")?);
    }
    Ok(matchers)
}

/// Matchers that find the info series of these series, one set for each combination of labels that are there.
fn identities<'l>(series: impl Iterator<Item = &'l Labels>) -> Vec<[Matcher; 2]> {
    let mut by_presence: BTreeMap<[bool; 2], [BTreeSet<String>; 2]> = BTreeMap::new();
    for labels in series {
        let values = IDENTITY.map(|name| labels.get(name));
        let there = values.map(|v| !v.is_empty());
        if there.contains(&true) {
            let sets = by_presence.entry(there).or_default();
            for (set, value) in sets.iter_mut().zip(values).filter(|(_, v)| !v.is_empty()) {
                set.insert(value.to_string());
            }
        }
    }
    let matcher = |name: &str, values: BTreeSet<String>| match values.is_empty() {
        true => Matcher::equal(name, ""),
        false => Matcher::one_of(name, values),
    };
    by_presence
        .into_values()
        .map(|[instance, job]| [matcher(IDENTITY[0], instance), matcher(IDENTITY[1], job)])
        .collect()
}

struct Enrichment<'a> {
    budget: &'a Budget<'a>,
    info: &'a Block,
    data: &'a [Matcher],
    /// Rows of info series by the identity they share with others, then by metric name.
    rows: ByHash<Labels, BTreeMap<&'a str, Vec<usize>>>,
}

impl<'a> Enrichment<'a> {
    fn new(budget: &'a Budget<'a>, info: &'a Block, data: &'a [Matcher]) -> Result<Self> {
        let mut rows: ByHash<Labels, BTreeMap<&str, Vec<usize>>> = ByHash::default();
        for (at, row) in info.rows.iter().enumerate() {
            budget.work(8)?;
            budget.take(128)?;
            let by_name = rows.entry(budget.labels(row.labels.keep(&IDENTITY))?).or_default();
            by_name.entry(row.labels.metric_name()).or_default().push(at);
        }
        Ok(Self { budget, info, data, rows })
    }

    fn enrich(&self, base: &Block, is_info: impl Fn(&Labels) -> bool) -> Result<Block> {
        let mut out = Block::new(base.width);
        for (row, cells) in base.iter() {
            self.budget.row(base.width)?;
            if is_info(&row.labels) {
                out.push(row.clone(), cells);
                continue;
            }
            // Mostly one set of info series for all steps; a row for each set that occurs.
            let mut results: BTreeMap<Vec<usize>, Vec<f64>> = BTreeMap::new();
            for (step, &value) in cells.iter().enumerate().filter(|(_, v)| present(**v)) {
                let found = self.newest(&row.labels, step)?;
                self.budget.work(4 + found.len())?;
                if found.is_empty() && !self.data.iter().all(|m| m.matches("")) {
                    continue;
                }
                if !results.contains_key(&found) {
                    self.budget.take_all::<usize>(found.len())?;
                    self.budget.row(base.width)?;
                }
                results.entry(found).or_insert_with(|| vec![ABSENT; base.width])[step] = value;
            }
            for (found, values) in results {
                self.budget.row(base.width)?;
                let labels = self.with_data(&row.labels, &found)?;
                out.push(Row { labels, drop_name: row.drop_name }, &values);
            }
        }
        out.merged(self.budget)
    }

    /// For each info metric the row with the newest sample at this step.
    fn newest(&self, base: &Labels, step: usize) -> Result<Vec<usize>> {
        let mut found = Vec::new();
        let Some(by_name) = self.rows.get(&base.keep(&IDENTITY)) else { return Ok(found) };
        for rows in by_name.values() {
            let time = |row: usize| self.info.row(row)[step];
            let mut newest: Option<usize> = None;
            self.budget.work(rows.len())?;
            for &row in rows.iter().filter(|&&r| present(time(r))) {
                match newest {
                    Some(other) if time(other) > time(row) => {}
                    Some(other) if time(other) == time(row) => {
                        let [a, b] = [other, row].map(|r| &self.info.rows[r].labels);
                        let at = time(row);
                        return Err(Error::Evaluation(format!(
                            "found duplicate series for info metric: existing {} @ {at}, new {} @ {at}",
                            a.shown(),
                            b.shown(),
                        )));
                    }
                    _ => newest = Some(row),
                }
            }
            found.extend(newest);
        }
        Ok(found)
    }

    /// Takes over the asked labels that the series does not have itself.
    fn with_data(&self, base: &Labels, found: &[usize]) -> Result<Labels> {
        let mut added: BTreeMap<&str, &str> = BTreeMap::new();
        for &row in found {
            for (name, value) in self.info.rows[row].labels.iter() {
                let asked = self.data.is_empty() || self.data.iter().any(|m| m.name == name);
                if name == METRIC_NAME || !asked {
                    continue;
                }
                if added.get(name).is_some_and(|have| *have != value) {
                    return Err(Error::Evaluation(format!("conflicting label: {name}")));
                }
                if base.get(name).is_empty() {
                    added.insert(name, value);
                }
            }
        }
        let mut labels = base.clone();
        for (name, value) in added {
            self.budget.label_value(value.len())?;
            labels = self.budget.labels(labels.with(name, value))?;
        }
        Ok(labels)
    }
}

/// The time that all selectors of an expression look at, if it is one and the same: then the info series are read as of
/// that time too.
pub(crate) fn shared_anchor(node: &Node) -> Option<Anchor> {
    let mut found = Anchors { first: None, uniform: true };
    found.inspect(node, &mut Vec::new());
    found.first.filter(|_| found.uniform)
}

struct Anchors {
    first: Option<Anchor>,
    uniform: bool,
}

impl Anchors {
    /// `around` holds the anchors of the subqueries around the node, the outermost first.
    fn inspect(&mut self, node: &Node, around: &mut Vec<Anchor>) -> bool {
        let node = node.unwrapped();
        if !matches!(node.kind(), Kind::Vector | Kind::Matrix) {
            return false;
        }
        if let Node::Select(select) | Node::Window { select, .. } = node {
            let mut anchor = select.anchor;
            for outer in around.iter().rev() {
                if anchor.at.is_some() {
                    break;
                }
                anchor = Anchor { at: outer.at, offset: anchor.offset + outer.offset };
            }
            self.uniform &= self.first.is_none_or(|first| same_time(first, anchor));
            self.first.get_or_insert(anchor);
            return true;
        }
        let children = match node {
            Node::Call { function: Function::Info, args } => args.iter().take(1).collect(),
            node => node.children(),
        };
        if let Node::Subquery(subquery) = node {
            around.push(subquery.anchor);
        }
        let mut any = false;
        for child in children {
            any |= self.inspect(child, around);
        }
        if matches!(node, Node::Subquery(_)) {
            around.pop();
        }
        // A vector without a selector, like vector(1), belongs to the step.
        self.uniform &= any;
        any
    }
}

fn same_time(a: Anchor, b: Anchor) -> bool {
    use crate::plan::At::Time;
    match (a.at, b.at) {
        (Some(Time(x)), Some(Time(y))) => x - a.offset == y - b.offset,
        (x, y) => x == y && a.offset == b.offset,
    }
}
