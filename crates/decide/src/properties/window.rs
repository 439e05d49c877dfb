use jiff::Timestamp;
use proptest::prelude::*;

use crate::{
    testing::start,
    window::{Budget, Changes, Direction, Edge, Policy, PolicyType, Recommendations, Select, after, before},
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
            let budget = Budget::new(now, current, direction, &[policy], Select::Max, &changes);
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
                let budget = Budget::new(now, current, direction, &[policy, policy], select, &changes);
                let _ = (budget.apply(value), budget.released(now, &changes));
            }
        }
    }
}
