//! Functions, and kinds of which only the scale is known.

use api::kyma::{CONTAINER, Function};
use engine::kind::Kind;

use super::*;
use crate::hvpa::{observe::fit, scale::Scaled, workload::SizesIn};

fn sizes(cpu: &str, limit: &str) -> Value {
    json!({"requests": {"cpu": cpu, "memory": "128Mi"}, "limits": {"cpu": limit, "memory": "256Mi"}})
}

/// Three pods and the Deployment that has them, of these sizes.
fn made(resources: &Value) -> Workload {
    let containers = json!([{"name": CONTAINER, "resources": resources}]);
    let one = |name: &str| pod(name, "1", json!({"spec": {"containers": containers}}));
    let found: Deployment = from_json(json!({
        "metadata": {"name": "web-1", "namespace": "shop", "uid": "d", "resourceVersion": "5", "generation": 1},
        "spec": {
            "replicas": 3,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {"spec": {"containers": containers}},
        },
        "status": {"observedGeneration": 1, "replicas": 3, "updatedReplicas": 3},
    }));
    Workload::deployment(&found, ["web-1", "web-2", "web-3"].map(one).to_vec()).unwrap()
}

fn function(spec: Value, made: Option<Workload>) -> Workload {
    let mut whole = json!({"runtime": "nodejs22", "source": {"inline": {"source": "x"}}, "replicas": 3});
    merge(&mut whole, spec);
    let found: Function = from_json(json!({
        "apiVersion": "serverless.kyma-project.io/v1alpha2", "kind": "Function",
        "metadata": {"name": "web", "namespace": "shop", "uid": "f", "resourceVersion": "9", "generation": 1},
        "spec": whole,
        "status": {"observedGeneration": 1, "replicas": 3, "podSelector": "fn=web"},
    }));
    Workload::function(&found, made)
}

fn profile(name: &str) -> Value {
    json!({"resourceConfiguration": {"function": {"profile": name}}})
}

/// Sees a Function of profile S, which should have 300m of CPU.
fn seen_function(own: Arc<Hvpa>, workload: Workload) -> Seen {
    let mut advice = (*vpa("300m")).clone();
    let one = &mut advice.data["status"]["recommendation"]["containerRecommendations"][0];
    one["containerName"] = json!(CONTAINER);
    advice.data["spec"]["targetRef"] =
        json!({"apiVersion": "serverless.kyma-project.io/v1alpha2", "kind": "Function", "name": "web"});
    let mut seen = seen(own, workload, None);
    seen.vertical = Vertical::Autoscaler { name: "web-hvpa".into(), found: Some(Arc::new(advice)) };
    if let (Ok(resolved), Some(workload)) = (&mut seen.resolved, &seen.workload) {
        fit(resolved, workload);
    }
    seen
}

#[test]
fn a_functions_pods_are_resized_in_place_and_its_count_goes_through_its_scale() {
    let mut memory = Memory { acknowledged: Some((3, at(0))), ..Memory::default() };
    let small = || function(profile("S"), Some(made(&sizes("100m", "200m"))));
    let mut all = turn(&seen_function(hvpa(json!({"replicas": 3})), small()), &mut memory, 60);
    let mut resized = small();
    resized.pods = made(&sizes("300m", "600m")).pods;
    all += &turn(&seen_function(hvpa(json!({"replicas": 5})), resized), &mut memory, 120);
    expect![[r#"
        60 s: 3 x function(cpu 300m, memory 128Mi up to cpu 600m, memory 256Mi) VerticalRecommended
        patch Pod shop/web-1/resize {"spec":{"containers":[{"name":"function","resources":{"limits":{"cpu":"600m"},"requests":{"cpu":"300m"}}}]}}
        patch Pod shop/web-2/resize {"spec":{"containers":[{"name":"function","resources":{"limits":{"cpu":"600m"},"requests":{"cpu":"300m"}}}]}}
        patch Pod shop/web-3/resize {"spec":{"containers":[{"name":"function","resources":{"limits":{"cpu":"600m"},"requests":{"cpu":"300m"}}}]}}
        120 s: 5 x function(cpu 300m, memory 128Mi up to cpu 600m, memory 256Mi) HorizontalRecommended
        patch Function shop/web/scale {"spec":{"replicas":5}}
    "#]].assert_eq(&all);
}

#[test]
fn a_function_takes_both_in_one_write_and_its_deployment_follows() {
    let own = hvpa(json!({"updateMode": "Template", "replicas": 5, "mode": "RatioBased",
        "ratioBasedScalingSpec": {"vToHScalingRatio": 1}}));
    let mut memory = Memory { acknowledged: Some((3, at(0))), ..Memory::default() };
    let small = made(&sizes("100m", "200m"));
    let before = function(profile("S"), Some(small.clone()));
    let mut all = turn(&seen_function(own.clone(), before), &mut memory, 60);
    // the Function has it, and the Deployment has yet to take it over: nothing is written anew
    let resources =
        json!({"replicas": 4, "resourceConfiguration": {"function": {"resources": sizes("200m", "400m")}}});
    let lagging = function(resources.clone(), Some(small));
    assert!(lagging.is_rolling);
    all += &turn(&seen_function(own, lagging), &mut memory, 61);
    expect![[r#"
        60 s: 4 x function(cpu 200m, memory 128Mi up to cpu 400m, memory 256Mi) Weighted
        patch Function shop/web {"spec":{"replicas":4,"resourceConfiguration":{"function":{"profile":null,"resources":{"limits":{"cpu":"400m","memory":"268435456"},"requests":{"cpu":"200m","memory":"134217728"}}}}}}
        61 s: 4 x function(cpu 200m, memory 128Mi up to cpu 400m, memory 256Mi) RecommendationConsumed
    "#]].assert_eq(&all);
    assert!(function(resources, None).is_rolling, "its Deployment has yet to be made");
}

#[test]
fn a_function_says_what_it_takes() {
    let workload = function(
        json!({"scaleConfig": {"minReplicas": 2, "maxReplicas": 2}}),
        Some(made(&sizes("400m", "800m"))),
    );
    let made = workload.made.as_ref().map(|made| made.name.clone());
    let all = format!(
        "{:?} {} least {} {:?} {made:?}",
        workload.sizes_in, workload.selector, workload.least, workload.own_scaling
    );
    expect![[r#"FunctionResources fn=web least cpu 10m, memory 16Mi Some("spec.scaleConfig sets its replicas: remove it") Some("web-1")"#]].assert_eq(&all);
    let large = function(profile("L"), None);
    let size =
        large.sizes.first().map(|size| format!("{} {} up to {}", size.name, size.requests, size.limits));
    expect!["function cpu 400m, memory 512Mi up to cpu 800m, memory 1Gi"].assert_eq(&size.unwrap());
}

#[test]
fn of_a_kind_with_a_scale_replicas_carry_all_of_it_and_people_are_told_why() {
    let scaled = Scaled {
        kind: Kind::namespaced("example.org", "v1", "Stall", "stalls"),
        meta: from_json(json!({"name": "web", "namespace": "shop", "uid": "s", "resourceVersion": "3"})),
        replicas: 3,
        status_replicas: 3,
        selector: "app=web".into(),
        owner: None,
    };
    let workload = Workload::scaled(&scaled, three("500m"));
    assert_eq!(workload.sizes_in, SizesIn::Nowhere);
    let own = hvpa(json!({"replicas": 5, "mode": "RatioBased", "updateMode": "Template",
        "ratioBasedScalingSpec": {"vToHScalingRatio": 1}}));
    let mut seen = seen(own, workload.clone(), None);
    if let Ok(resolved) = &mut seen.resolved {
        fit(resolved, &workload);
        assert!(!resolved.has_vertical);
    }
    seen.vertical = Vertical::Nobody;
    let mut memory = Memory { acknowledged: Some((3, at(0))), ..Memory::default() };
    let mut all = turn(&seen, &mut memory, 60);
    let decision = plan::decide(at(61), &seen, memory, None, false);
    let facts = status::Facts {
        seen: &seen,
        decision: &decision,
        progress: Progress::Done,
        failure: None,
        told: None,
        held: None,
    };
    if let Some(engine::effect::Effect::Patch { body, .. }) = status::write(&facts, at(61)) {
        for condition in body["status"]["conditions"].as_array().unwrap() {
            all += &format!("{} {}: {}\n", condition["type"], condition["reason"], condition["message"]);
        }
    }
    expect![[r#"
        60 s: 5 HorizontalRecommended
        patch Stall shop/web/scale {"spec":{"replicas":5}}
        "Ready" "Scaling": "recommendations are applied as they come"
        "HorizontalRecommendation" "Nobody": "nobody has written the scale of this Hvpa: the count stays"
        "VerticalRecommendation" "NotPossible": "a Stall says how many there are, not how large: only replicas change. To change sizes too, let the Hvpa scale the workload that the Stall makes"
        "Resized" "Done": "pods have the sizes that were decided"
    "#]].assert_eq(&all);
}
