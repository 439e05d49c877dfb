//! The writes of a decision: of a count, of a count together with sizes, of the sizes of a pod that runs.

use decide::{
    Decision, Rule,
    hvpa::{self, ContainerSize},
    recommender::amount::{Resource, Resources},
};
use engine::effect::{Effect, Target};
use serde_json::{Map, Value, json};

use crate::capacity::Capacity;

/// What carries out the count of a decision; nothing if it changes none.
pub fn rescale<M, R: Rule<Value: Capacity>>(target: &Target, decision: &Decision<M, R>) -> Option<Effect> {
    let (current, desired) = (decision.current.replicas(), decision.desired.replicas());
    let body = json!({ "spec": { "replicas": desired } });
    let write = || Effect::Patch { target: target.clone(), subresource: Some("scale"), body };
    (desired != current).then(write)
}

/// Tells whoever recommends through the scale of `target` how many there are to be by a decision about another object.
pub fn acknowledge<M, R: Rule<Value: Capacity>>(target: &Target, decision: &Decision<M, R>) -> Effect {
    Effect::patch(target.clone(), json!({ "spec": { "replicas": decision.desired.replicas() } }))
}

/// What carries out a count and sizes in one write of the workload: its pods are replaced as its strategy says.
pub fn resize_template<M, R: Rule<Value = hvpa::Plan>>(
    target: &Target,
    decision: &Decision<M, R>,
) -> Option<Effect> {
    let (current, desired) = (&decision.current, &decision.desired);
    let containers = changed(&current.containers, &desired.containers);
    if containers.is_empty() {
        return rescale(target, decision);
    }
    let mut spec = json!({ "template": { "spec": { "containers": containers } } });
    if desired.replicas != current.replicas {
        spec["replicas"] = json!(desired.replicas);
    }
    Some(Effect::StrategicPatch { target: target.clone(), subresource: None, body: json!({ "spec": spec }) })
}

/// The same for a workload that has the sizes of one container in fields of its own. `place` says where in its spec; what it
/// is given is complete, as an amount that is left out may mean another one there.
pub fn resize_fields<M, R: Rule<Value = hvpa::Plan>>(
    target: &Target,
    container: &str,
    place: fn(Value) -> Value,
    decision: &Decision<M, R>,
) -> Option<Effect> {
    let (current, desired) = (&decision.current, &decision.desired);
    let is_it = |size: &&ContainerSize| size.name == container;
    let (before, after) = (current.containers.iter().find(is_it), desired.containers.iter().find(is_it));
    let Some(after) = after.filter(|_| before != after) else { return rescale(target, decision) };
    let mut resources = Map::new();
    for (name, sizes) in [("requests", &after.requests), ("limits", &after.limits)] {
        let amounts = amounts(&Resources::default(), sizes);
        if !amounts.is_empty() {
            resources.insert(name.to_owned(), Value::Object(amounts));
        }
    }
    let mut spec = place(Value::Object(resources));
    if desired.replicas != current.replicas {
        spec["replicas"] = json!(desired.replicas);
    }
    Some(Effect::patch(target.clone(), json!({ "spec": spec })))
}

/// What makes a pod that runs as large as was decided; nothing if it is. `found` are the sizes in its spec.
pub fn resize_pod<M, R: Rule<Value = hvpa::Plan>>(
    pod: &Target,
    found: &[ContainerSize],
    decision: &Decision<M, R>,
) -> Option<Effect> {
    let containers = changed(found, &decision.desired.containers);
    let body = json!({ "spec": { "containers": containers } });
    let write = || Effect::StrategicPatch { target: pod.clone(), subresource: Some("resize"), body };
    (!containers.is_empty()).then(write)
}

/// Containers that are to get other sizes, with the amounts that differ.
fn changed(found: &[ContainerSize], desired: &[ContainerSize]) -> Vec<Value> {
    let mut all = Vec::new();
    for container in desired {
        let Some(held) = found.iter().find(|held| held.name == container.name) else { continue };
        let requests = amounts(&held.requests, &container.requests);
        let limits = amounts(&held.limits, &container.limits);
        let mut resources = Map::new();
        for (name, amounts) in [("requests", requests), ("limits", limits)] {
            if !amounts.is_empty() {
                resources.insert(name.to_owned(), Value::Object(amounts));
            }
        }
        if !resources.is_empty() {
            all.push(json!({ "name": container.name, "resources": resources }));
        }
    }
    all
}

/// An amount that is no longer there is left as it is: a pod that runs cannot lose one.
fn amounts(found: &Resources, desired: &Resources) -> Map<String, Value> {
    let differs = |one: &Resource| desired.get(*one).is_some() && desired.get(*one) != found.get(*one);
    Resource::ALL
        .into_iter()
        .filter(differs)
        .filter_map(|one| Some((one.name().to_owned(), json!(one.quantity(desired.get(one)?)))))
        .collect()
}

#[cfg(test)]
mod tests {
    use decide::Chain;
    use engine::kind::{DEPLOYMENT, POD};
    use expect_test::expect;

    use super::*;

    fn container(name: &str, cpu: u64, memory: u64, limit: Option<u64>) -> ContainerSize {
        ContainerSize {
            name: name.to_owned(),
            requests: Resources { cpu: Some(cpu), memory: Some(memory << 20) },
            limits: Resources { cpu: limit, memory: None },
        }
    }

    fn decision(current: hvpa::Plan, desired: hvpa::Plan) -> Decision<(), hvpa::Rule> {
        let mut chain = Chain::new(current);
        chain.push(hvpa::Rule::Choice { verdict: hvpa::Verdict::HorizontalRecommended, plan: desired });
        chain.finish((), None)
    }

    #[test]
    fn one_write_carries_the_count_and_only_what_changes() {
        let target = Target::absent(&DEPLOYMENT, Some("shop"), "web");
        let pod = Target::absent(&POD, Some("shop"), "web-1");
        let plan = |replicas, app: ContainerSize| hvpa::Plan {
            replicas,
            containers: vec![app, container("log", 50, 64, None)],
        };
        let now = plan(2, container("app", 500, 256, Some(1000)));
        let rows = [
            ("nothing", now.clone()),
            ("count", plan(3, container("app", 500, 256, Some(1000)))),
            ("size", plan(2, container("app", 750, 256, Some(1500)))),
            ("both", plan(3, container("app", 750, 512, Some(1500)))),
        ];
        let mut all = String::new();
        for (what, desired) in rows {
            let decision = decision(now.clone(), desired);
            let shown = |effect: Option<Effect>| effect.map_or("-".to_owned(), |effect| effect.to_string());
            let found = [container("log", 50, 64, None), container("app", 500, 256, Some(1000))];
            all += &format!(
                "{what}\n  {}\n  {}\n  {}\n",
                shown(resize_template(&target, &decision)),
                shown(resize_fields(&target, "app", |sizes| json!({ "sizes": sizes }), &decision)),
                shown(resize_pod(&pod, &found, &decision))
            );
        }
        expect![[r#"
            nothing
              -
              -
              -
            count
              patch Deployment shop/web/scale {"spec":{"replicas":3}}
              patch Deployment shop/web/scale {"spec":{"replicas":3}}
              -
            size
              patch Deployment shop/web {"spec":{"template":{"spec":{"containers":[{"name":"app","resources":{"limits":{"cpu":"1500m"},"requests":{"cpu":"750m"}}}]}}}}
              patch Deployment shop/web {"spec":{"sizes":{"limits":{"cpu":"1500m"},"requests":{"cpu":"750m","memory":"268435456"}}}}
              patch Pod shop/web-1/resize {"spec":{"containers":[{"name":"app","resources":{"limits":{"cpu":"1500m"},"requests":{"cpu":"750m"}}}]}}
            both
              patch Deployment shop/web {"spec":{"replicas":3,"template":{"spec":{"containers":[{"name":"app","resources":{"limits":{"cpu":"1500m"},"requests":{"cpu":"750m","memory":"536870912"}}}]}}}}
              patch Deployment shop/web {"spec":{"replicas":3,"sizes":{"limits":{"cpu":"1500m"},"requests":{"cpu":"750m","memory":"536870912"}}}}
              patch Pod shop/web-1/resize {"spec":{"containers":[{"name":"app","resources":{"limits":{"cpu":"1500m"},"requests":{"cpu":"750m","memory":"536870912"}}}]}}
        "#]].assert_eq(&all);
    }
}
