use std::sync::Arc;

use proptest::prelude::*;

use super::{bad_f64, rotated, wild_f64, wild_i64};
use crate::{
    testing::{assert_survives, start},
    vertex::*,
    window::after,
};

fn spec(hybrid: bool) -> BoxedStrategy<Spec> {
    let kind = prop_oneof![Just(Kind::Source), Just(Kind::Udf), Just(Kind::Sink), Just(Kind::MonoVertex)];
    let seconds = prop::option::of(0..200u32);
    let targets = (prop::option::of(0..100u32), prop::option::of(0..120u32));
    let steps = (prop::option::of(0..10u32), prop::option::of(0..10u32));
    let limits = (0..100_000u64, 0..120u32, prop::option::weighted(0.2, 0..100_000u64));
    (kind, 0..5i32, 0..40i32, (seconds.clone(), seconds), targets, steps, limits)
        .prop_map(
            move |(
                kind,
                min,
                above,
                (up, down),
                (processing, availability),
                (step_up, step_down),
                limits,
            )| {
                let (buffer_max_length, buffer_usage_limit, rate) = limits;
                let source = matches!(kind, Kind::Source | Kind::MonoVertex);
                Spec {
                    kind,
                    scale: Scale {
                        min: Some(min),
                        max: Some(min + above),
                        scale_up_cooldown_seconds: up,
                        scale_down_cooldown_seconds: down,
                        target_processing_seconds: processing.filter(|_| source || hybrid),
                        target_buffer_availability: availability,
                        replicas_per_scale_up: step_up,
                        replicas_per_scale_down: step_down,
                        ..Scale::default()
                    },
                    limits: Limits {
                        buffer_max_length,
                        buffer_usage_limit,
                        rate_limit: rate.map(|max| RateLimit { max }),
                        ..Limits::default()
                    },
                    back_pressure_threshold: 0.9,
                    model: VertexModel::Learned,
                    target_saturation: 0.85,
                }
            },
        )
        .boxed()
}

fn partition() -> BoxedStrategy<Partition> {
    let at = prop::option::of((-200..10i64).prop_map(|at| after(start(), at)));
    (
        prop::option::weighted(0.95, wild_i64()),
        prop_oneof![9 => 0..100i64, 1 => wild_i64()],
        prop::option::weighted(0.95, wild_f64()),
        at,
    )
        .prop_map(|(pending, ack_pending, rate, at)| Partition {
            name: "p".into(),
            pending,
            ack_pending,
            rate,
            at,
        })
        .boxed()
}

fn observed() -> BoxedStrategy<Observed> {
    let buffer =
        (prop::option::of(wild_i64()), wild_i64(), any::<bool>()).prop_map(|(pending, usable, direct)| {
            Downstream { vertex: "next".into(), direct, buffers: vec![Buffer { pending, usable, at: None }] }
        });
    let scaled = prop::option::of((-400..50i64).prop_map(|at| after(start(), at)));
    let ready = 0..50i32;
    let partitions = prop::collection::vec(partition(), 0..4);
    let since = scaled.clone();
    (0..50i32, ready, (scaled, since), partitions, prop::collection::vec(buffer, 0..2), samples())
        .prop_map(|(current, ready, (last_scaled_at, ready_since), partitions, downstream, samples)| {
            Observed {
                current,
                desired: current,
                ready: ready.min(current),
                phase: "Running".into(),
                rolling_update: false,
                last_scaled_at,
                ready_since,
                partitions,
                downstream,
                samples,
                template: None,
            }
        })
        .boxed()
}

/// Looks every 10 s, most of them of a vertex that works, some of one that cannot be.
fn samples() -> BoxedStrategy<Vec<Sample>> {
    let pending = prop_oneof![3 => 0..50i64, 3 => 0..100_000i64, 1 => wild_i64()];
    let look = (pending, 0..50i32, prop_oneof![9 => 0.0..20_000.0f64, 1 => wild_f64()], 0.0..1.5f64);
    prop::collection::vec(look, 0..16)
        .prop_map(|looks| {
            let n = looks.len() as i64;
            let mut processed = 0.0;
            let look = |(idx, (pending, ready, grown, downstream_usage)): (usize, (i64, i32, f64, f64))| {
                processed += grown;
                let at = after(start(), (idx as i64 - n) * 10);
                Sample { at, pending, ack_pending: 0, processed, ready, downstream_usage }
            };
            looks.into_iter().enumerate().map(look).collect()
        })
        .boxed()
}

fn memory() -> BoxedStrategy<Memory> {
    let figure = || prop::option::of(prop_oneof![8 => 0.1..10_000.0f64, 1 => Just(0.0), 1 => Just(f64::MAX)]);
    (figure(), figure())
        .prop_map(|(capacity, arrival)| Memory {
            capacity: capacity.map(|per_pod| Capacity { per_pod, at: after(start(), -600) }),
            arrival,
            ..Memory::default()
        })
        .boxed()
}

fn bounds(spec: &Spec) -> (i32, i32) {
    (spec.scale.min.unwrap_or(0), spec.scale.max.unwrap_or(50))
}

proptest! {
    #![proptest_config(repeatable::cases(1000))]

    #[test]
    fn stays_within_bounds_and_survives_the_record(spec in spec(true), observed in observed(), memory in memory()) {
        let decision = decide(start(), &spec, &observed, &memory);
        assert_survives(&decision);
        let (min, max) = bounds(&spec);
        prop_assert!((min..=max).contains(&decision.desired), "{}", decision.explain());
        prop_assert!(decision.next_check.is_none_or(|at| at > start()), "{:?}", decision.next_check);
    }

    /// What was decided is not decided again once it is done, while the cooldowns last.
    #[test]
    fn a_step_is_taken_once(spec in spec(true), observed in observed(), memory in memory()) {
        let mut spec = spec;
        spec.scale.scale_up_cooldown_seconds = None;
        spec.scale.scale_down_cooldown_seconds = None;
        let first = decide(start(), &spec, &observed, &memory);
        let again = decide(start(), &spec, &observed, &memory);
        prop_assert_eq!(first.desired, again.desired);
        let done = Observed {
            current: first.desired,
            desired: first.desired,
            ready: first.desired,
            last_scaled_at: Some(start()),
            ..observed
        };
        prop_assert_eq!(decide(start(), &spec, &done, &memory).desired, first.desired);
    }

    #[test]
    fn an_unknown_figure_never_shrinks(
        spec in spec(true), observed in observed(), bad in any::<prop::sample::Index>(), rate in bad_f64(), how in 0..5usize, memory in memory(),
    ) {
        prop_assume!(!observed.partitions.is_empty());
        let (min, max) = bounds(&spec);
        let mut observed = observed;
        observed.current = observed.current.clamp(min, max);
        observed.desired = observed.current;
        let idx = bad.index(observed.partitions.len());
        let partition = &mut observed.partitions[idx];
        match how {
            0 => partition.pending = None,
            1 => partition.pending = Some(-1),
            2 => partition.rate = None,
            3 => partition.rate = Some(rate),
            _ => partition.at = Some(after(start(), -121)),
        }
        let decision = decide(start(), &spec, &observed, &memory);
        prop_assert!(decision.desired >= observed.current, "{}", decision.explain());
    }

    /// Promised by both models of the source document, not by the hybrid one, which jumps where it changes over.
    #[test]
    fn more_pending_is_never_fewer_replicas(
        spec in spec(false), observed in observed(), low in 0..1_000_000i64, extra in 0..1_000_000i64, rate in 0.001..1e5f64, memory in memory(),
    ) {
        let with = |pending: i64| {
            let partition =
                Partition { name: Arc::from("p"), pending: Some(pending), ack_pending: 0, rate: Some(rate), at: None };
            Observed { partitions: vec![partition], downstream: Vec::new(), ..observed.clone() }
        };
        let less = decide(start(), &spec, &with(low), &memory);
        let more = decide(start(), &spec, &with(low + extra), &memory);
        prop_assert!(less.desired <= more.desired, "{}\n{}", less.explain(), more.explain());
    }

    #[test]
    fn order_does_not_matter(spec in spec(true), observed in observed(), by: usize, memory in memory()) {
        let turned = Observed {
            partitions: rotated(&observed.partitions, by),
            downstream: rotated(&observed.downstream, by),
            ..observed.clone()
        };
        prop_assert_eq!(decide(start(), &spec, &observed, &memory).desired, decide(start(), &spec, &turned, &memory).desired);
    }
}
