use jiff::Timestamp;
use proptest::prelude::*;

use crate::{
    testing::start,
    window::{Changes, Direction, Edge, Policy, PolicyType, Rates, Recommendations, Select, after, before},
};

proptest! {
    #![proptest_config(repeatable::cases(1000))]

    /// What is forgotten early never mattered: a list of everything gives the same answers.
    #[test]
    fn recommendations_forget_nothing_that_counts(
        ticks in prop::collection::vec((0..90i64, 0..8i32), 1..40),
        windows in prop::collection::vec(0..400i64, 1..4),
    ) {
        let keep = windows.iter().copied().max().unwrap_or(0);
        let (mut short, mut all) = (Recommendations::default(), Vec::<(Timestamp, i32)>::new());
        let mut now = start();
        for (pause, replicas) in ticks {
            now = after(now, pause);
            for &window in &windows {
                let cutoff = before(now, window);
                for edge in [Edge::Inside, Edge::Outside] {
                    let seen = all.iter().filter(|(at, _)| *at > cutoff || (edge == Edge::Inside && *at == cutoff));
                    let seen: Vec<i32> = seen.map(|(_, replicas)| *replicas).chain([replicas]).collect();
                    prop_assert_eq!(Some(&short.lowest(now, window, edge, replicas)), seen.iter().min());
                    prop_assert_eq!(Some(&short.highest(now, window, edge, replicas)), seen.iter().max());
                }
            }
            short.record(now, replicas, keep);
            all.push((now, replicas));
        }
    }

    /// Memory is bounded by how many values there are, not by how long it runs, and a clock that jumps does no harm.
    #[test]
    fn recommendations_stay_few(ticks in prop::collection::vec((-600..600i64, 0..5i32), 1..300)) {
        let mut memory = Recommendations::default();
        let mut now = start();
        for (pause, replicas) in ticks {
            now = after(now, pause);
            memory.record(now, replicas, 3600);
        }
        let length = serde_json::to_value(&memory).unwrap().as_array().unwrap().len();
        prop_assert!(length <= 5, "{length}");
    }

    /// In no rolling period is more applied than the policy allows, however often one asks.
    #[test]
    fn a_budget_is_kept_over_every_rolling_period(
        value in 1..6i32,
        period in 1..120i32,
        up: bool,
        ticks in prop::collection::vec((0..40i64, 0..30i32, any::<bool>()), 1..60),
    ) {
        let direction = if up { Direction::Up } else { Direction::Down };
        let policy = Policy { kind: PolicyType::Pods, value, period_seconds: period };
        let (mut now, mut current, mut changes) = (start(), 50, Changes::default());
        let mut applied: Vec<(Timestamp, i32)> = Vec::new();
        for (pause, wish, write_fails) in ticks {
            now = after(now, pause);
            changes.settle(now, current, period.into());
            let rates = Rates { direction, select: Select::Max, policies: &[policy] };
            let budget = rates.budget(now, current, &changes);
            let desired = budget.apply(if up { current + wish } else { current - wish });
            changes.decided(now, current, desired);
            if !write_fails {
                applied.push((now, desired - current));
                current = desired;
            }
            let cutoff = before(now, period.into());
            let net: i32 = applied.iter().filter(|(at, _)| *at > cutoff).map(|(_, by)| by).sum();
            prop_assert!(net.abs() <= value, "{net} in {period} s with {value} allowed");
        }
    }

    #[test]
    fn no_clock_or_number_panics(
        at in any::<i32>(), pause in any::<i64>(), current: i32, value: i32, period: i32, percent: bool,
    ) {
        let then = after(Timestamp::UNIX_EPOCH, at.into());
        let now = after(then, pause);
        let kind = if percent { PolicyType::Percent } else { PolicyType::Pods };
        let policy = Policy { kind, value, period_seconds: period };
        let mut changes = Changes::default();
        changes.decided(then, 0, i32::MAX);
        changes.settle(now, current, i64::from(period).max(0));
        for direction in [Direction::Up, Direction::Down] {
            for select in [Select::Max, Select::Min, Select::Disabled] {
                let rates = Rates { direction, select, policies: &[policy, policy] };
                let budget = rates.budget(now, current, &changes);
                let _ = (budget.apply(value), rates.released(now, current, budget.limit, &changes));
            }
        }
    }

    /// A budget that holds something back says when it will allow more: not a moment before, and really then. The
    /// moment is found by trying every second: all the times here are whole ones.
    #[test]
    fn a_budget_is_released_at_the_first_moment_that_allows_more(
        policies in prop::collection::vec((any::<bool>(), 1..60i32, 0..40i32), 1..4),
        past in prop::collection::vec((0..40i64, -4..5i32), 0..6),
        up: bool,
        most_generous: bool,
    ) {
        let policies: Vec<Policy> = policies
            .into_iter()
            .map(|(percent, value, period_seconds)| Policy {
                kind: if percent { PolicyType::Percent } else { PolicyType::Pods },
                value,
                period_seconds,
            })
            .collect();
        let direction = if up { Direction::Up } else { Direction::Down };
        let select = if most_generous { Select::Max } else { Select::Min };
        let rates = Rates { direction, select, policies: &policies };
        let (mut now, mut current, mut changes) = (start(), 40, Changes::default());
        for (pause, by) in past {
            changes.settle(now, current, 100);
            changes.decided(now, current, current + by);
            current += by;
            now = after(now, pause);
        }
        changes.settle(now, current, 100);
        let decided = rates.budget(now, current, &changes).limit;
        let released = rates.released(now, current, decided, &changes);
        changes.decided(now, current, decided);
        changes.settle(now, decided, 100);
        let allows_more = |at: Timestamp| rates.budget(at, decided, &changes).limit != decided;
        let seconds = (1..=100).map(|seconds| after(now, seconds));
        prop_assert_eq!(released, seconds.into_iter().find(|at| allows_more(*at)));
    }
}
