use jiff::Timestamp;
use proptest::prelude::*;

use super::{bad_f64, rotated, wild_f64};
use crate::{
    demand::*,
    testing::{assert_survives, start},
    window::{PolicyType, after},
};

fn trigger() -> BoxedStrategy<Trigger> {
    let threshold = prop_oneof![9 => 0.001..10_000.0f64, 1 => wild_f64()];
    (any::<bool>(), any::<bool>(), threshold)
        .prop_map(|(value, pod, threshold)| Trigger {
            metric_type: if value { MetricType::Value } else { MetricType::AverageValue },
            metric_name: "m".to_owned(),
            query: "q".to_owned(),
            threshold,
            per: Some(if pod { Per::Pod } else { Per::Total }),
            tolerance: 0.0,
        })
        .boxed()
}

fn policies() -> BoxedStrategy<Vec<Policy>> {
    let policy = (any::<bool>(), 0..200i32, 0..200i32).prop_map(|(percent, value, period_seconds)| Policy {
        kind: if percent { PolicyType::Percent } else { PolicyType::Pods },
        value,
        period_seconds,
    });
    prop::collection::vec(policy, 0..3).boxed()
}

fn spec() -> BoxedStrategy<Spec> {
    let behavior =
        (0..300u32, policies(), 0..300u32, policies()).prop_map(|(up, ups, down, downs)| Behavior {
            scale_up: ScaleUp { stabilization_window_seconds: up, policies: ups },
            scale_down: ScaleDown {
                stabilization_window_seconds: down,
                policies: downs,
                flap_guard: FlapGuard::default(),
            },
        });
    let scale = (prop::option::of(1..40i32), prop::collection::vec(trigger(), 0..4), behavior)
        .prop_map(|(replica_max, triggers, behavior)| Scale { replica_max, triggers, behavior });
    (0..4i32, 0..6i32, 0..600u32, prop::option::weighted(0.9, scale))
        .prop_map(|(min, at_start, timeout, scale)| Spec {
            min,
            at_start,
            timeout_seconds: timeout,
            schedule: Schedule::default(),
            // A ceiling below the floor is refused at the edge, or wins; here it only blurs what a bound is.
            scale: scale
                .map(|scale| Scale { replica_max: scale.replica_max.map(|max| max.max(min)), ..scale }),
        })
        .boxed()
}

fn answer() -> BoxedStrategy<Answer> {
    prop_oneof![
        6 => wild_f64().prop_map(|value| Answer::Value { value, per: None }),
        1 => Just(Answer::Quiet),
        1 => Just(Answer::Failed("no".into())),
    ]
    .boxed()
}

fn observed() -> BoxedStrategy<Observed> {
    let activity = prop::option::of((-1000..50i64).prop_map(|at| Activity {
        at: after(start(), at),
        source: ActivitySource::Call,
        of: None,
    }));
    let full = prop::option::weighted(0.1, Just("full".into()));
    let autoscaler = prop::option::weighted(0.2, Just("web".into()));
    (0..45i32, activity, prop::bool::weighted(0.1), full, autoscaler, prop::collection::vec(answer(), 4))
        .prop_map(|(current, activity, waits, unschedulable, autoscaler, readings)| Observed {
            current,
            activity,
            next_wake_up: None,
            dependencies: Dependencies {
                waiting_for: if waits { vec!["db".into()] } else { Vec::new() },
                ..Dependencies::default()
            },
            unschedulable,
            autoscaler,
            readings,
        })
        .boxed()
}

fn case() -> BoxedStrategy<(Spec, Observed, Memory)> {
    (spec(), observed(), prop::collection::vec((0..200i64, observed()), 0..4))
        .prop_map(|(spec, observed, past)| {
            let begin: (Timestamp, Memory) = (after(start(), -1000), Memory::default());
            let (_, memory) = past.iter().fold(begin, |(now, memory), (pause, observed)| {
                let now = after(now, *pause);
                (now, decide(now, &spec, observed, memory).memory)
            });
            (spec, observed, memory)
        })
        .boxed()
}

fn is_idle(decision: &Decision) -> bool {
    decision.steps.iter().any(|step| matches!(step.rule, Rule::Activity { idle: true, .. }))
}

proptest! {
    #![proptest_config(repeatable::cases(1000))]

    #[test]
    fn stays_within_bounds_and_survives_the_record((spec, observed, memory) in case()) {
        let decision = decide(start(), &spec, &observed, memory);
        assert_survives(&decision);
        prop_assert!(decision.desired <= spec.max() || decision.desired == observed.current);
        // Below the floor only where it cannot be helped: dependencies, no room, or not ours to decide.
        let stuck = observed.unschedulable.is_some()
            || !observed.dependencies.waiting_for.is_empty()
            || observed.autoscaler.is_some();
        prop_assert!(decision.desired >= spec.min || stuck, "{}", decision.explain());
        prop_assert!(decision.next_check.is_none_or(|at| at > start()), "{:?}", decision.next_check);
        // A moment before that, time has changed nothing.
        if let Some(early) = decision.next_check.map(|at| after(at, -1)).filter(|at| *at > start()) {
            let again = decide(early, &spec, &observed, decision.memory.clone());
            prop_assert_eq!(again.desired, decision.desired, "{}\n{}", decision.explain(), again.explain());
        }
    }

    #[test]
    fn beside_an_autoscaler_nothing_but_zero_is_written((spec, observed, memory) in case()) {
        let decision = decide(start(), &spec, &observed, memory);
        if observed.autoscaler.is_some() && observed.current > 0 {
            prop_assert!([0, observed.current].contains(&decision.desired), "{}", decision.explain());
        }
    }

    #[test]
    fn a_second_pass_changes_nothing((spec, observed, memory) in case()) {
        let first = decide(start(), &spec, &observed, memory);
        let second = decide(start(), &spec, &observed, first.memory.clone());
        prop_assert_eq!(first.desired, second.desired);
        prop_assert_eq!(first.memory, second.memory);
    }

    #[test]
    fn zero_needs_idleness_and_only_activity_ends_it((spec, observed, memory) in case()) {
        let decision = decide(start(), &spec, &observed, memory);
        let idle = is_idle(&decision);
        if decision.desired == 0 && observed.current > 0 {
            prop_assert!(idle, "{}", decision.explain());
        }
        if observed.current == 0 && decision.desired > spec.min {
            prop_assert!(!idle, "{}", decision.explain());
        }
    }

    #[test]
    fn a_trigger_without_usable_data_never_shrinks(
        (spec, observed, memory) in case(), bad in any::<prop::sample::Index>(), value in bad_f64(), absent: bool,
    ) {
        let triggers = spec.scale.as_ref().map_or(0, |scale| scale.triggers.len());
        prop_assume!(triggers > 0);
        let mut observed = observed;
        observed.current = observed.current.clamp(spec.min.max(1), spec.max());
        observed.readings[bad.index(triggers)] =
            if absent { Answer::Failed("gone".into()) } else { Answer::Value { value, per: None } };
        let decision = decide(start(), &spec, &observed, memory);
        prop_assert!(decision.desired >= observed.current, "{}", decision.explain());
    }

    #[test]
    fn more_demand_is_never_fewer_replicas(
        (spec, observed, memory) in case(), which in any::<prop::sample::Index>(), low in 0.0..1e6f64, extra in 0.0..1e6f64,
        call: bool,
    ) {
        let mut more = observed.clone();
        let which = which.index(observed.readings.len());
        let mut less = observed;
        less.readings[which] = Answer::Value { value: low, per: None };
        more.readings[which] = Answer::Value { value: low + extra, per: None };
        if call {
            more.activity = Some(Activity { at: start(), source: ActivitySource::Call, of: None });
        }
        let less = decide(start(), &spec, &less, memory.clone());
        let more = decide(start(), &spec, &more, memory);
        // A call to a function below its floor starts the wake-up, which waits for dependencies; idleness does not.
        prop_assume!(!more.steps.iter().any(|step| matches!(step.rule, Rule::Waiting { .. })));
        prop_assert!(less.desired <= more.desired, "{}\n{}", less.explain(), more.explain());
    }

    #[test]
    fn order_does_not_matter((spec, observed, memory) in case(), by: usize) {
        let straight = decide(start(), &spec, &observed, memory.clone());
        let mut turned_spec = spec.clone();
        let mut turned = observed.clone();
        if let Some(scale) = &mut turned_spec.scale {
            turned.readings.truncate(scale.triggers.len());
            scale.triggers = rotated(&scale.triggers, by);
            turned.readings = rotated(&turned.readings, by);
        }
        prop_assert_eq!(straight.desired, decide(start(), &turned_spec, &turned, memory).desired);
    }
}
