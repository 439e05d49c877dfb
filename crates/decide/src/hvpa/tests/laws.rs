//! What holds of every decision.

use proptest::prelude::*;

use super::*;
use crate::decision::replay;

fn any_mode() -> impl Strategy<Value = Value> {
    let modes = vec![
        json!({"type": "HpaPreferred"}),
        json!({"type": "HpaBiased"}),
        json!({"type": "VpaBiased"}),
        json!({"type": "Mixed", "preference": "vertical", "replicas": 1, "thresholds": {"cpu": {"percentage": 20}}}),
        json!({"type": "Ratio", "vToHScalingRatio": 1}),
        json!({"type": "Ratio", "vpaWeight": 70, "combination": "Multiplicative"}),
        json!({"type": "Ratio", "vpaWeight": 30, "startReplicaCount": 3, "finishReplicaCount": 4,
            "initialScaling": "vertical", "finalScaling": "horizontal"}),
    ];
    prop::sample::select(modes)
}

fn any_spec() -> impl Strategy<Value = Spec> {
    (any_mode(), 0..2i64, any::<bool>(), 1..400u64, 0..4000u64).prop_map(|(mode, stable, only, min, more)| {
        let values = if only { "RequestsOnly" } else { "RequestsAndLimits" };
        spec(
            mode,
            json!({
                "vertical": {
                    "scaleUp": {"stabilizationSeconds": stable * 60},
                    "containerPolicies": [{
                        "containerName": "app",
                        "controlledValues": values,
                        "minAllowed": {"cpu": format!("{min}m")},
                        "maxAllowed": {"cpu": format!("{}m", min + more)},
                    }],
                },
            }),
        )
    })
}

fn any_amount() -> impl Strategy<Value = Option<u64>> {
    prop_oneof![
        6 => (1..5000u64).prop_map(Some),
        1 => Just(None),
        1 => prop::sample::select(vec![Some(0), Some(u64::MAX), Some(i64::MAX as u64)]),
    ]
}

fn any_observed() -> impl Strategy<Value = Observed> {
    let resources = || {
        (any_amount(), any_amount())
            .prop_map(|(cpu, memory)| Resources { cpu, memory: memory.map(|m| m.saturating_mul(MI)) })
    };
    let horizontal = prop::option::of(
        (
            prop_oneof![8 => 1..8i32, 1 => prop::sample::select(vec![i32::MIN, -1, 0, i32::MAX])],
            any::<bool>(),
        )
            .prop_map(|(desired, active)| HorizontalRecommendation {
                desired,
                by: None,
                active,
                limited: false,
                sampled_at: Some(at(-10)),
                metric: None,
            }),
    );
    let vertical = prop::option::of((resources(), resources(), any::<bool>()).prop_map(
        |(target, lower, low_confidence)| VerticalRecommendation {
            provided: true,
            low_confidence,
            config_unsupported: false,
            sampled_at: Some(at(-10)),
            containers: vec![ContainerRecommendation {
                container_name: "app".to_owned(),
                target,
                lower_bound: lower,
                ..ContainerRecommendation::default()
            }],
        },
    ));
    let sizes = (resources(), resources()).prop_map(|(requests, mut limits)| {
        for resource in Resource::ALL {
            let request = requests.get(resource);
            limits.set(resource, limits.get(resource).map(|limit| limit.max(request.unwrap_or(0))));
        }
        vec![ContainerSize { name: "app".to_owned(), requests, limits }]
    });
    (0..7i32, sizes, horizontal, vertical, any::<bool>(), any::<bool>()).prop_map(
        |(replicas, containers, horizontal, vertical, rollout_in_progress, killed)| Observed {
            replicas,
            containers,
            horizontal,
            vertical,
            rollout_in_progress,
            settled_at: None,
            out_of_memory: killed
                .then_some(OutOfMemory { at: at(-5), container: None })
                .into_iter()
                .collect(),
        },
    )
}

fn applied(observed: &Observed, plan: &Plan) -> Observed {
    Observed { replicas: plan.replicas, containers: plan.containers.clone(), ..observed.clone() }
}

proptest! {
    #![proptest_config(repeatable::cases(2000))]

    #[test]
    fn plans_stay_within_bounds_and_never_pass_their_recommendation(spec in any_spec(), observed in any_observed()) {
        let decision = decide(at(0), &spec, &observed, &Memory::default());
        let (before, after) = (&decision.current, &decision.desired);
        if before.replicas != after.replicas {
            prop_assert!((2..=5).contains(&after.replicas));
        }
        prop_assert_eq!(before.replicas == 0, after.replicas == 0);
        if (2..=5).contains(&before.replicas) {
            let wanted = observed.horizontal.map_or(before.replicas, |h| h.desired.clamp(2, 5));
            let (low, high) = (before.replicas.min(wanted), before.replicas.max(wanted));
            prop_assert!((low..=high).contains(&after.replicas));
        }
        let (old, new) = (&before.containers[0], &after.containers[0]);
        let policy = &spec.vertical.container_policies[0];
        for resource in Resource::ALL {
            let (q, q2) = (vertical::current_request(old, resource), new.requests.get(resource));
            if old.requests.get(resource) == q2 {
                prop_assert_eq!(old.limits.get(resource), new.limits.get(resource));
                continue;
            }
            let q2 = q2.unwrap();
            if let Some(limit) = new.limits.get(resource) {
                prop_assert!(q2 <= limit);
            }
            prop_assert_eq!(old.limits.get(resource).is_some(), new.limits.get(resource).is_some());
            if resource == Resource::Cpu {
                let (min, max) = (policy.min_allowed.cpu.unwrap(), policy.max_allowed.cpu.unwrap());
                // A share may stop short of the bounds, but never leaves them.
                prop_assert!(q2 <= max.max(q) && q2 >= min.min(q));
            }
        }
    }

    #[test]
    fn the_same_input_again_changes_nothing(spec in any_spec(), observed in any_observed()) {
        let first = decide(at(0), &spec, &observed, &Memory::default());
        prop_assert_eq!(&replay(first.current.clone(), &first.steps), &Ok(first.desired.clone()));
        let stored = serde_json::to_string(&first.memory).unwrap();
        let memory: Memory = serde_json::from_str(&stored).unwrap();
        prop_assert_eq!(&memory, &first.memory);
        let next = applied(&observed, &first.desired);
        let killed = !observed.out_of_memory.is_empty();
        for later in [0, 1, 60] {
            let second = decide(at(later), &spec, &next, &memory);
            // Kills are answered beside the mode, so a change on one axis may leave the answer to the next pass.
            if !(killed || first.current == first.desired) {
                prop_assert_eq!(second.desired.to_string(), next_plan(&next), "{}", second.explain());
            }
        }
    }

    #[test]
    fn order_of_containers_does_not_matter(spec in any_spec(), observed in any_observed(), other in any_observed()) {
        let named = |mut observed: Observed, name: &str| {
            observed.containers[0].name = name.to_owned();
            if let Some(vertical) = &mut observed.vertical {
                vertical.containers[0].container_name = name.to_owned();
            }
            observed
        };
        let (mut both, other) = (named(observed, "app"), named(other, "proxy"));
        both.containers.extend(other.containers);
        if let (Some(ours), Some(theirs)) = (&mut both.vertical, other.vertical) {
            ours.containers.extend(theirs.containers);
        }
        let mut reversed = both.clone();
        reversed.containers.reverse();
        if let Some(vertical) = &mut reversed.vertical {
            vertical.containers.reverse();
        }
        let plan = decide(at(0), &spec, &both, &Memory::default()).desired;
        let mut other_way = decide(at(0), &spec, &reversed, &Memory::default()).desired;
        other_way.containers.reverse();
        prop_assert_eq!(plan, other_way);
    }

    #[test]
    fn more_demand_never_gives_fewer_replicas(spec in any_spec(), observed in any_observed(), more in 0..5i32) {
        let with = |extra: i32| {
            let mut observed = observed.clone();
            if let Some(horizontal) = &mut observed.horizontal {
                horizontal.desired = horizontal.desired.clamp(1, 8) + extra;
                horizontal.active = true;
            }
            decide(at(0), &spec, &observed, &Memory::default()).desired.replicas
        };
        // Where sizes are preferred, a wish for replicas that comes up beside them waits, and a wish for fewer too: only
        // the modes that listen to the replicas whenever they speak promise this.
        if matches!(spec.mode, Mode::HpaPreferred { .. } | Mode::HpaBiased) {
            prop_assert!(with(0) <= with(more));
        }
    }

    #[test]
    fn no_data_never_shrinks(spec in any_spec(), observed in any_observed()) {
        let blind = Observed { horizontal: None, vertical: None, ..observed.clone() };
        let decision = decide(at(0), &spec, &blind, &Memory::default());
        let unchanged = decision.current == decision.desired;
        prop_assert!(unchanged || !(2..=5).contains(&observed.replicas));
        let half_blind = Observed { horizontal: None, ..observed };
        let decision = decide(at(0), &spec, &half_blind, &Memory::default());
        if (2..=5).contains(&half_blind.replicas) {
            prop_assert_eq!(decision.current.replicas, decision.desired.replicas);
            let (old, new) = (&decision.current.containers[0].requests, &decision.desired.containers[0].requests);
            prop_assert!(new.cpu >= old.cpu && new.memory >= old.memory);
        }
    }
}

fn next_plan(observed: &Observed) -> String {
    Plan { replicas: observed.replicas, containers: observed.containers.clone() }.to_string()
}
