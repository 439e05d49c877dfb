//! Which metrics a query reads, so that a store can keep just those.

use std::collections::BTreeSet;

use crate::functions::Function;
use crate::labels::METRIC_NAME;
use crate::plan::{Node, Plan};
use crate::source::Matcher;

/// The metric names of one query.
#[derive(Debug, Clone, Default)]
pub struct MetricNames {
    /// Names that the query spells out, `a` and `{__name__=~"a|b"}` alike.
    pub exact: BTreeSet<String>,
    /// For each selector that describes names by patterns: all its conditions on the name.
    pub patterns: Vec<Vec<Matcher>>,
    /// Some selector does not say anything about the name, so that any metric may be read.
    pub any: bool,
}

impl MetricNames {
    /// Whether the query may read a metric of this name.
    pub fn contains(&self, name: &str) -> bool {
        self.any
            || self.exact.contains(name)
            || self.patterns.iter().any(|p| p.iter().all(|m| m.matches(name)))
    }
}

impl Plan {
    pub fn metric_names(&self) -> MetricNames {
        let mut names = MetricNames::default();
        collect(&self.root, &mut names);
        names
    }
}

fn collect(node: &Node, names: &mut MetricNames) {
    match node {
        Node::Select(select) | Node::Window { select, .. } => add(&select.matchers, names),
        Node::Call { function: Function::Info, args } => {
            args.iter().take(1).for_each(|base| collect(base, names));
            match args.get(1) {
                Some(Node::Select(select)) if select.matchers.iter().any(|m| m.name == METRIC_NAME) => {
                    add(&select.matchers, names);
                }
                _ => drop(names.exact.insert("target_info".into())),
            }
        }
        other => other.children().into_iter().for_each(|child| collect(child, names)),
    }
}

fn add(matchers: &[Matcher], names: &mut MetricNames) {
    let on_name: Vec<&Matcher> = matchers.iter().filter(|m| m.name == METRIC_NAME).collect();
    if on_name.is_empty() {
        names.any = true;
        return;
    }
    match on_name.iter().find_map(|m| m.exact_values()) {
        Some(values) => {
            let allowed = values.iter().filter(|v| on_name.iter().all(|m| m.matches(v)));
            names.exact.extend(allowed.cloned());
        }
        None => names.patterns.push(on_name.into_iter().cloned().collect()),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn names_are_read_off_the_tree() {
        let cases: [(&str, &[&str], &[&str]); 7] = [
            ("sum(rate(http_requests_total[1m])) / count(up)", &["http_requests_total", "up"], &["x"]),
            (r#"{__name__=~"a|b",job="x"}"#, &["a", "b"], &["c"]),
            (r#"{__name__=~"queue_.*"}"#, &["queue_len"], &["xqueue_len"]),
            (r#"{__name__!~"queue_.*", job="x"}"#, &["anything"], &["queue_len"]),
            (r#"{job="x"}"#, &["anything"], &[]),
            ("max_over_time(sum(a @ 5)[5m:]) or vector(0)", &["a"], &["b"]),
            ("info(a)", &["a", "target_info"], &["b"]),
        ];
        for (query, read, unread) in cases {
            let names = crate::parse(query).unwrap().metric_names();
            read.iter().for_each(|n| assert!(names.contains(n), "{query} reads {n}"));
            unread.iter().for_each(|n| assert!(!names.contains(n), "{query} does not read {n}"));
        }
    }
}
