use jiff::Timestamp;
use proptest::prelude::*;

use super::{rotated, wild_i64};
use crate::{
    hpa::*,
    quantity::{Figure, Quantity},
    testing::{assert_survives, start},
    window::{Policy, PolicyType, Select, after},
};

const RESOURCES: [&str; 2] = ["cpu", "memory"];

fn target() -> BoxedStrategy<Quantity> {
    prop_oneof![9 => (1..500_000i64).prop_map(Quantity), 1 => Just(Quantity(i64::MAX))].boxed()
}

fn total_target() -> BoxedStrategy<TotalTarget> {
    (target(), any::<bool>())
        .prop_map(|(target, average)| match average {
            true => TotalTarget::AverageValue(target),
            false => TotalTarget::Value(target),
        })
        .boxed()
}

fn metric() -> BoxedStrategy<Metric> {
    let resource =
        (0..2usize, target(), 1..200i32, any::<bool>()).prop_map(|(name, target, percent, average)| {
            let target = if average {
                ResourceTarget::AverageValue(target)
            } else {
                ResourceTarget::Utilization(percent)
            };
            Source::Resource { resource: RESOURCES[name].into(), container: None, target }
        });
    prop_oneof![
        3 => resource,
        1 => target().prop_map(|target| Source::Pods { target }),
        1 => total_target().prop_map(|target| Source::Object { target }),
        1 => total_target().prop_map(|target| Source::External { target }),
    ]
    .prop_map(|source| Metric { label: "m".into(), source })
    .boxed()
}

fn rules() -> BoxedStrategy<Rules> {
    let policy = (any::<bool>(), 1..200i32, 1..200i32).prop_map(|(percent, value, period_seconds)| Policy {
        kind: if percent { PolicyType::Percent } else { PolicyType::Pods },
        value,
        period_seconds,
    });
    let select = prop_oneof![Just(Select::Max), Just(Select::Min), Just(Select::Disabled)];
    (0..400i64, prop::collection::vec(policy, 1..3), select, prop::option::of(0.0..0.5f64))
        .prop_map(|(window_seconds, policies, select, tolerance)| Rules {
            window_seconds,
            policies,
            select,
            tolerance,
        })
        .boxed()
}

fn spec(metrics: impl Strategy<Value = Vec<Metric>> + 'static) -> BoxedStrategy<Spec> {
    let behavior = prop::option::of((rules(), rules()).prop_map(|(up, down)| Behavior { up, down }));
    (0..5i32, 1..60i32, metrics, behavior)
        .prop_map(|(min, above, metrics, behavior)| Spec {
            min,
            max: min + above,
            metrics,
            behavior,
            settings: Settings::default(),
        })
        .boxed()
}

fn pod() -> BoxedStrategy<Pod> {
    let phase = prop_oneof![
        6 => Just(Phase::Running),
        1 => Just(Phase::Pending),
        1 => Just(Phase::Failed),
        1 => Just(Phase::Succeeded),
    ];
    let status =
        prop_oneof![6 => Just(Condition::True), 1 => Just(Condition::False), 1 => Just(Condition::Unknown)];
    let ready = prop::option::weighted(0.9, (status, -4000..100i64))
        .prop_map(|ready| ready.map(|(status, since)| Ready { status, since: after(start(), since) }));
    let began = prop::option::weighted(0.9, -4000..100i64).prop_map(|at| at.map(|at| after(start(), at)));
    (phase, prop::bool::weighted(0.1), began, ready)
        .prop_map(|(phase, deleting, start, ready)| Pod { phase, deleting, start, ready })
        .boxed()
}

fn sample() -> BoxedStrategy<Option<Sample>> {
    let at = prop::option::of((-400..10i64).prop_map(|at| after(start(), at)));
    prop::option::weighted(
        0.85,
        (wild_i64(), at, 0..60i64).prop_map(|(value, at, window_seconds)| Sample {
            value,
            at,
            window_seconds,
        }),
    )
    .boxed()
}

fn requests(pods: usize) -> BoxedStrategy<Requests> {
    prop_oneof![
        9 => prop::collection::vec(wild_i64(), pods).prop_map(Requests::Known),
        1 => Just(Requests::Missing { pod: "p".into(), container: None }),
    ]
    .boxed()
}

fn answer(metric: &Metric, pods: usize) -> BoxedStrategy<Answer> {
    let failed = Just(Answer::Failed("no".into()));
    match metric.source {
        Source::Resource { .. } | Source::Pods { .. } => {
            let samples = prop::collection::vec(sample(), pods);
            let good =
                (samples, requests(pods)).prop_map(|(samples, requests)| Answer::Pods { samples, requests });
            prop_oneof![9 => good, 1 => failed].boxed()
        }
        Source::Object { .. } | Source::External { .. } => {
            let value = prop::option::weighted(0.95, wild_i64().prop_map(Quantity)).prop_map(Figure);
            let at = prop::option::of((-400..10i64).prop_map(|at| after(start(), at)));
            let good = (prop::collection::vec(value, 0..4), at)
                .prop_map(|(values, at)| Answer::Total { values, at });
            prop_oneof![9 => good, 1 => failed].boxed()
        }
    }
}

fn observed(spec: &Spec) -> BoxedStrategy<Observed> {
    let metrics = spec.metrics.clone();
    let max = spec.max;
    (prop::collection::vec(pod(), 0..8), 0..max + 5, 0..max + 5, any::<bool>())
        .prop_flat_map(move |(pods, current, status_replicas, scaled_to_zero)| {
            let answers: Vec<_> = metrics.iter().map(|metric| answer(metric, pods.len())).collect();
            answers.prop_map(move |answers| Observed {
                current,
                status_replicas,
                scaled_to_zero,
                pods: pods.clone(),
                answers,
            })
        })
        .boxed()
}

fn any_case() -> BoxedStrategy<(Spec, Observed)> {
    spec(prop::collection::vec(metric(), 1..4))
        .prop_flat_map(|spec| (Just(spec.clone()), observed(&spec)))
        .boxed()
}

/// A memory that a real past has left.
fn memory(spec: &Spec, past: &[(i64, Observed)]) -> (Timestamp, Memory) {
    past.iter().fold((after(start(), -1000), Memory::default()), |(now, memory), (pause, observed)| {
        let now = after(now, *pause);
        (now, decide(now, spec, observed, memory).memory)
    })
}

fn case_with_past() -> BoxedStrategy<(Spec, Observed, Memory)> {
    spec(prop::collection::vec(metric(), 1..4))
        .prop_flat_map(|spec| {
            let past = prop::collection::vec((0..200i64, observed(&spec)), 0..4);
            (Just(spec.clone()), observed(&spec), past)
        })
        .prop_map(|(spec, observed, past)| {
            let (_, memory) = memory(&spec, &past);
            (spec, observed, memory)
        })
        .boxed()
}

/// Metrics whose model promises that more is never less, on as many healthy pods as there are replicas.
fn monotone_case() -> BoxedStrategy<(Spec, i32, Vec<i64>, Vec<i64>)> {
    let metric = prop_oneof![
        (1..200i32).prop_map(ResourceTarget::Utilization),
        target().prop_map(ResourceTarget::AverageValue),
    ]
    .prop_map(|target| Metric {
        label: "cpu".into(),
        source: Source::Resource { resource: "cpu".into(), container: None, target },
    });
    (spec(metric.prop_map(|metric| vec![metric])), 1..20i32)
        .prop_flat_map(|(spec, current)| {
            let current = current.clamp(spec.min.max(1), spec.max);
            let less = prop::collection::vec(0..1_000_000i64, current as usize);
            let more = prop::collection::vec(0..1_000_000i64, current as usize);
            (Just(spec), Just(current), less, more)
        })
        .boxed()
}

fn healthy(current: i32, usage: &[i64]) -> Observed {
    let long_ago = after(start(), -4000);
    let pod = Pod {
        phase: Phase::Running,
        deleting: false,
        start: Some(long_ago),
        ready: Some(Ready { status: Condition::True, since: long_ago }),
    };
    let samples =
        usage.iter().map(|value| Some(Sample { value: *value, at: None, window_seconds: 30 })).collect();
    Observed {
        current,
        status_replicas: current,
        scaled_to_zero: false,
        pods: vec![pod; usage.len()],
        answers: vec![Answer::Pods { samples, requests: Requests::Known(vec![1000; usage.len()]) }],
    }
}

proptest! {
    #![proptest_config(repeatable::cases(1000))]

    #[test]
    fn stays_within_bounds_and_survives_the_record((spec, observed, memory) in case_with_past()) {
        let decision = decide(start(), &spec, &observed, memory);
        assert_survives(&decision);
        if observed.current > 0 {
            prop_assert!((spec.min..=spec.max).contains(&decision.desired), "{}", decision.explain());
        } else {
            prop_assert!((0..=spec.max).contains(&decision.desired), "{}", decision.explain());
        }
        prop_assert!(decision.next_check.is_none_or(|at| at > start()), "{:?}", decision.next_check);
    }

    #[test]
    fn a_second_pass_changes_nothing((spec, observed, memory) in case_with_past()) {
        let first = decide(start(), &spec, &observed, memory);
        let second = decide(start(), &spec, &observed, first.memory.clone());
        prop_assert_eq!(first.desired, second.desired);
        prop_assert_eq!(first.memory, second.memory);
    }

    #[test]
    fn a_metric_without_usable_data_never_shrinks(
        (spec, observed, memory) in case_with_past(), bad in any::<prop::sample::Index>(), how in 0..4usize,
    ) {
        let mut observed = observed;
        observed.current = observed.current.clamp(spec.min.max(1), spec.max);
        let stale = Some(after(start(), -301));
        let broken = &mut observed.answers[bad.index(spec.metrics.len())];
        match broken {
            Answer::Pods { samples, .. } => for sample in samples.iter_mut() {
                *sample = match how {
                    0 => None,
                    1 => Some(Sample { value: -1, at: None, window_seconds: 0 }),
                    2 => Some(Sample { value: i64::MIN, at: None, window_seconds: 0 }),
                    _ => sample.map(|sample| Sample { at: stale, ..sample }),
                };
            },
            Answer::Total { values, at } => match how {
                0 => values.clear(),
                1 => values.push(Figure(None)),
                2 => values.push(Figure(Some(Quantity(-1)))),
                _ => *at = stale,
            },
            Answer::Failed(_) => {}
        }
        let decision = decide(start(), &spec, &observed, memory);
        prop_assert!(decision.desired >= observed.current, "{}", decision.explain());
    }

    #[test]
    fn order_does_not_matter((spec, observed) in any_case(), metrics_by: usize, pods_by: usize) {
        let straight = decide(start(), &spec, &observed, Memory::default());
        let other_spec = Spec { metrics: rotated(&spec.metrics, metrics_by), ..spec.clone() };
        let mut other = Observed {
            pods: rotated(&observed.pods, pods_by),
            answers: rotated(&observed.answers, metrics_by),
            ..observed.clone()
        };
        for answer in &mut other.answers {
            if let Answer::Pods { samples, requests } = answer {
                *samples = rotated(samples, pods_by);
                if let Requests::Known(requests) = requests {
                    *requests = rotated(requests, pods_by);
                }
            }
        }
        let turned = decide(start(), &other_spec, &other, Memory::default());
        prop_assert_eq!(straight.desired, turned.desired, "{}\n{}", straight.explain(), turned.explain());
    }

    #[test]
    fn more_load_is_never_fewer_replicas((spec, current, some, extra) in monotone_case()) {
        let more: Vec<i64> = some.iter().zip(&extra).map(|(some, extra)| some + extra).collect();
        let less = decide(start(), &spec, &healthy(current, &some), Memory::default());
        let more = decide(start(), &spec, &healthy(current, &more), Memory::default());
        prop_assert!(less.desired <= more.desired, "{}\n{}", less.explain(), more.explain());
    }
}
