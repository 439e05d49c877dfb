//! What can be told of a query by its text, for those who check queries before they are used.

use crate::{
    functions::Function,
    plan::{AggregateOp, Node, Plan},
};

impl Plan {
    /// How far back it looks, in milliseconds, beyond the look-back of a single sample.
    pub fn reach(&self) -> i64 {
        reach(&self.root)
    }

    /// Whether it asks for a quantile: a figure that does not grow with the number of pods.
    pub fn has_quantile(&self) -> bool {
        has_quantile(&self.root)
    }
}

fn reach(node: &Node) -> i64 {
    let inner = node.children().into_iter().map(reach).max().unwrap_or(0);
    match node {
        Node::Select(select) => select.anchor.offset.max(0),
        Node::Window { select, range } => range.saturating_add(select.anchor.offset.max(0)),
        Node::Subquery(subquery) => {
            inner.saturating_add(subquery.range).saturating_add(subquery.anchor.offset.max(0))
        }
        _ => inner,
    }
}

fn has_quantile(node: &Node) -> bool {
    let is_one = match node {
        Node::Call { function, .. } => {
            matches!(function, Function::HistogramQuantile | Function::HistogramQuantiles)
        }
        Node::Aggregate(aggregate) => aggregate.op == AggregateOp::Quantile,
        _ => false,
    };
    is_one || node.children().into_iter().any(has_quantile)
}

#[cfg(test)]
mod tests {
    use crate::parse;

    #[test]
    fn reach_and_quantiles() {
        for (query, reach, has_quantile) in [
            ("up", 0, false),
            ("up offset 5m", 300_000, false),
            ("sum(rate(calls_total[2m])) / 3", 120_000, false),
            ("max_over_time(sum(rate(calls_total[1m] offset 1m))[10m:30s])", 720_000, false),
            ("histogram_quantile(0.99, sum by (le) (rate(seconds_bucket[5m])))", 300_000, true),
            ("quantile(0.9, depth)", 0, true),
        ] {
            let plan = parse(query).unwrap();
            assert_eq!((plan.reach(), plan.has_quantile()), (reach, has_quantile), "{query}");
        }
    }
}
