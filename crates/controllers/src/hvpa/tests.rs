mod adoption;
mod targets;

use std::sync::Arc;

use api::hvpa::Hvpa;
use decide::hvpa::HorizontalRecommendation;
use engine::{
    effect::{Plan, Target},
    testing::{at, from_json, lines, merge, seconds},
};
use expect_test::expect;
use k8s_openapi::api::{apps::v1::Deployment, autoscaling::v2::HorizontalPodAutoscaler, core::v1::Pod};
use kube::api::DynamicObject;
use serde_json::{Value, json};

use super::{
    apply::{Progress, Refused},
    horizontal,
    memory::Memory,
    observe::{Horizontal, Seen, Trouble, Vertical},
    plan::{self, Decision},
    pods, status, vertical,
    workload::Workload,
};

/// Half a core each, in place, replicas as somebody writes them.
fn hvpa(spec: Value) -> Arc<Hvpa> {
    let mut whole = json!({
        "targetRef": {"kind": "Deployment", "name": "web"},
        "mode": "HpaBiased",
        "hpa": {"deploy": false, "template": {"spec": {"minReplicas": 1, "maxReplicas": 9}}},
        "vpa": {"template": {"spec": {"resourcePolicy": {"containerPolicies": [
            {"containerName": "*", "controlledResources": ["cpu"], "maxAllowed": {"cpu": "4"}},
        ]}}}},
    });
    merge(&mut whole, spec);
    let meta = json!({
        "name": "web", "namespace": "shop", "uid": "h", "resourceVersion": "1", "generation": 1,
        "creationTimestamp": seconds(0),
    });
    Arc::new(from_json(json!({"metadata": meta, "spec": whole})))
}

fn resources(cpu: &str) -> Value {
    json!({"requests": {"cpu": cpu}})
}

fn pod(name: &str, cpu: &str, change: Value) -> Arc<Pod> {
    let mut pod = json!({
        "metadata": {"name": name, "namespace": "shop", "uid": name, "resourceVersion": "1"},
        "spec": {"nodeName": "n", "containers": [{"name": "app", "resources": resources(cpu)}]},
        "status": {
            "phase": "Running",
            "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": seconds(0)}],
        },
    });
    merge(&mut pod, change);
    Arc::new(from_json(pod))
}

/// A Deployment of pods with so much CPU each, all as they should be.
fn deployment(pods: Vec<Arc<Pod>>, template: &str) -> Workload {
    let n = pods.len();
    let found: Deployment = from_json(json!({
        "metadata": {"name": "web", "namespace": "shop", "uid": "d", "resourceVersion": "5", "generation": 1},
        "spec": {
            "replicas": n,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {"spec": {"containers": [{"name": "app", "resources": resources(template)}]}},
        },
        "status": {"observedGeneration": 1, "replicas": n, "updatedReplicas": n},
    }));
    Workload::deployment(&found, pods).unwrap()
}

fn vpa(target: &str) -> Arc<DynamicObject> {
    Arc::new(from_json(json!({
        "apiVersion": "autoscaling.k8s.io/v1", "kind": "VerticalPodAutoscaler",
        "metadata": {"name": "web-hvpa", "namespace": "shop", "uid": "v", "resourceVersion": "7",
            "ownerReferences": [{"apiVersion": "autoscaling.k8s.io/v1alpha1", "kind": "Hvpa", "name": "web",
                "uid": "h", "controller": true}]},
        "spec": {
            "targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
            "updatePolicy": {"updateMode": "Off", "minReplicas": 2},
            "resourcePolicy": {"containerPolicies": [
                {"containerName": "*", "controlledResources": ["cpu"], "maxAllowed": {"cpu": "4"}}]},
        },
        "status": {
            "conditions": [{"type": "RecommendationProvided", "status": "True"}],
            "recommendation": {"containerRecommendations": [{"containerName": "app",
                "target": {"cpu": target}, "lowerBound": {"cpu": "100m"}, "upperBound": {"cpu": "4"}}]},
        },
    })))
}

fn seen(hvpa: Arc<Hvpa>, workload: Workload, cpu: Option<&str>) -> Seen {
    let found = cpu.map(vpa);
    Seen {
        resolved: Ok(hvpa.spec.resolve().unwrap()),
        hvpa,
        workload: Some(workload),
        horizontal: Horizontal::Scale,
        vertical: Vertical::Autoscaler { name: "web-hvpa".into(), found },
    }
}

fn three(cpu: &str) -> Vec<Arc<Pod>> {
    ["web-1", "web-2", "web-3"].map(|name| pod(name, cpu, json!({}))).to_vec()
}

/// One turn: what is decided, then all that is done.
fn turn(seen: &Seen, memory: &mut Memory, now: i64) -> String {
    turn_after(seen, memory, now, None)
}

fn turn_after(seen: &Seen, memory: &mut Memory, now: i64, refused: Option<&Refused>) -> String {
    let decision = plan::decide(at(now), seen, memory.clone(), refused, false);
    *memory = decision.memory.clone();
    shown(seen, &decision, refused, now)
}

fn shown(seen: &Seen, decision: &Decision, refused: Option<&Refused>, now: i64) -> String {
    let target = Target::of(&engine::kind::DEPLOYMENT, &Default::default());
    let target = seen.workload.as_ref().map_or(target, |workload| workload.target.clone());
    let mut plan = Plan::default();
    if decision.changes() {
        plan.effects = plan::write(&target, seen, decision);
    }
    let Plan { effects, next } = plan::follow_up(seen, decision, refused, false, at(now));
    plan.effects.extend(effects);
    plan.next = next;
    format!("{now} s: {} {}\n{}", decision.desired, decision.reason.code, lines(&plan))
}

#[test]
fn a_recommended_size_reaches_running_pods_in_place_and_new_ones_too() {
    let own = hvpa(json!({"replicas": 3}));
    let mut memory = Memory { acknowledged: Some((3, at(0))), ..Memory::default() };
    let mut all = turn(&seen(own.clone(), deployment(three("500m"), "500m"), Some("900m")), &mut memory, 60);
    // the node has done one of them, one is under way, and a new pod came with the template's size
    let mut pods = three("900m");
    pods[1] = pod(
        "web-2",
        "900m",
        json!({"status": {"conditions": [
            {"type": "Ready", "status": "True", "lastTransitionTime": seconds(0)},
            {"type": "PodResizeInProgress", "status": "True", "lastTransitionTime": seconds(60)},
        ]}}),
    );
    pods[2] = pod("web-4", "500m", json!({}));
    all += &turn(&seen(own.clone(), deployment(pods, "500m"), Some("900m")), &mut memory, 61);
    all += &turn(&seen(own.clone(), deployment(three("900m"), "500m"), Some("900m")), &mut memory, 62);
    // another template: its sizes are what counts
    all += &turn(&seen(own, deployment(three("600m"), "600m"), Some("600m")), &mut memory, 63);
    expect![[r#"
        60 s: 3 x app(cpu 900m) VerticalRecommended
        patch Pod shop/web-1/resize {"spec":{"containers":[{"name":"app","resources":{"requests":{"cpu":"900m"}}}]}}
        patch Pod shop/web-2/resize {"spec":{"containers":[{"name":"app","resources":{"requests":{"cpu":"900m"}}}]}}
        patch Pod shop/web-3/resize {"spec":{"containers":[{"name":"app","resources":{"requests":{"cpu":"900m"}}}]}}
        61 s: 3 x app(cpu 900m) NothingRecommended
        patch Pod shop/web-4/resize {"spec":{"containers":[{"name":"app","resources":{"requests":{"cpu":"900m"}}}]}}
        62 s: 3 x app(cpu 900m) NothingRecommended
        63 s: 3 x app(cpu 600m) NothingRecommended
    "#]].assert_eq(&all);
    assert_eq!(memory.sizes, None);
}

#[test]
fn the_template_takes_both_in_one_write() {
    let own = hvpa(json!({"updateMode": "Template", "replicas": 5, "mode": "RatioBased",
        "ratioBasedScalingSpec": {"vToHScalingRatio": 1}}));
    let mut memory = Memory { acknowledged: Some((3, at(0))), ..Memory::default() };
    let all = turn(&seen(own, deployment(three("500m"), "500m"), Some("900m")), &mut memory, 60);
    expect![[r#"
        60 s: 4 x app(cpu 700m) Weighted
        patch Deployment shop/web {"spec":{"replicas":4,"template":{"spec":{"containers":[{"name":"app","resources":{"requests":{"cpu":"700m"}}}]}}}}
    "#]].assert_eq(&all);
}

#[test]
fn a_change_that_was_never_made_is_decided_again_and_one_that_was_made_is_not() {
    let own = hvpa(json!({"replicas": 5}));
    let before = seen(own.clone(), deployment(three("500m"), "500m"), Some("500m"));
    let mut memory = Memory { acknowledged: Some((3, at(0))), ..Memory::default() };
    let first = turn(&before, &mut memory, 60);
    // a crash: it is remembered, and the Deployment is as before
    let again = turn(&before, &mut memory, 61);
    assert_eq!(first.replace("60 s", ""), again.replace("61 s", ""));
    let five = ["a", "b", "c", "d", "e"].map(|name| pod(name, "500m", json!({}))).to_vec();
    let after = turn(&seen(own, deployment(five, "500m"), Some("500m")), &mut memory, 62);
    expect![[r#"
        60 s: 5 x app(cpu 500m) HorizontalRecommended
        patch Deployment shop/web/scale {"spec":{"replicas":5}}
        62 s: 5 x app(cpu 500m) NothingRecommended
    "#]]
    .assert_eq(&(first + &after));
}

#[test]
fn what_cannot_be_resized_is_recreated_one_at_a_time() {
    let stuck = |name: &str, reason: &str, since: i64| {
        pod(
            name,
            "900m",
            json!({"status": {"conditions": [
                {"type": "Ready", "status": "True", "lastTransitionTime": seconds(0)},
                {"type": "PodResizePending", "status": "True", "reason": reason, "message": "no room",
                    "lastTransitionTime": seconds(since)},
            ]}}),
        )
    };
    let unready = |name: &str| {
        pod(name, "900m", json!({"status": {"conditions": [{"type": "Ready", "status": "False"}]}}))
    };
    let own = hvpa(json!({"replicas": 3}));
    let in_place = hvpa(json!({"replicas": 3, "updateMode": "InPlace"}));
    let decided = || {
        let mut memory = Memory { acknowledged: Some((3, at(0))), ..Memory::default() };
        turn(&seen(own.clone(), deployment(three("500m"), "500m"), Some("900m")), &mut memory, 0);
        memory
    };
    let ok = || pod("web-2", "900m", json!({}));
    let rows = [
        ("deferred just now", own.clone(), vec![ok(), stuck("web-1", "Deferred", 60)], 120),
        ("deferred for five minutes", own.clone(), vec![ok(), stuck("web-1", "Deferred", 60)], 360),
        ("infeasible", own.clone(), vec![ok(), stuck("web-1", "Infeasible", 60)], 61),
        ("infeasible, only in place", in_place, vec![ok(), stuck("web-1", "Infeasible", 60)], 61),
        (
            "infeasible, another is not ready",
            own.clone(),
            vec![unready("web-2"), stuck("web-1", "Infeasible", 60)],
            61,
        ),
        ("infeasible, the only pod", own.clone(), vec![stuck("web-1", "Infeasible", 60)], 61),
    ];
    let mut all = String::new();
    for (what, own, pods, now) in rows {
        let mut memory = decided();
        let seen = seen(own, deployment(pods, "500m"), Some("900m"));
        all += &format!("{what}\n{}", turn(&seen, &mut memory, now));
    }
    // the pod that came in its place does not fit either: the next attempt waits
    let mut memory = decided();
    let again = |name: &str| {
        seen(own.clone(), deployment(vec![ok(), stuck(name, "Infeasible", 60)], "500m"), Some("900m"))
    };
    turn(&again("web-1"), &mut memory, 100);
    all += &format!(
        "again\n{}{}",
        turn(&again("web-9"), &mut memory, 200),
        turn(&again("web-9"), &mut memory, 400)
    );
    expect![[r#"
        deferred just now
        120 s: 2 x app(cpu 900m) NothingRecommended
        look again after 360s
        deferred for five minutes
        360 s: 2 x app(cpu 900m) NothingRecommended
        event RecreatePod "Recreate pod web-1: it cannot be resized where it runs" on Hvpa shop/web
        evict Pod shop/web-1
        look again after 660s
        infeasible
        61 s: 2 x app(cpu 900m) NothingRecommended
        event RecreatePod "Recreate pod web-1: it cannot be resized where it runs" on Hvpa shop/web
        evict Pod shop/web-1
        look again after 361s
        infeasible, only in place
        61 s: 2 x app(cpu 900m) NothingRecommended
        infeasible, another is not ready
        61 s: 2 x app(cpu 900m) NothingRecommended
        infeasible, the only pod
        61 s: 1 x app(cpu 900m) NothingRecommended
        again
        200 s: 2 x app(cpu 900m) NothingRecommended
        look again after 400s
        400 s: 2 x app(cpu 900m) NothingRecommended
        event RecreatePod "Recreate pod web-9: it cannot be resized where it runs" on Hvpa shop/web
        evict Pod shop/web-9
        look again after 1000s
    "#]]
    .assert_eq(&all);
}

#[test]
fn a_pod_that_the_api_refuses_to_resize_keeps_no_other_from_it() {
    let own = hvpa(json!({"replicas": 3}));
    let mut memory = Memory { acknowledged: Some((3, at(0))), ..Memory::default() };
    turn(&seen(own.clone(), deployment(three("500m"), "500m"), Some("900m")), &mut memory, 60);
    let refused = Refused { pod: "web-1".into(), message: "no".into() };
    let seen = seen(own, deployment(three("500m"), "500m"), Some("900m"));
    let all = turn_after(&seen, &mut memory, 61, Some(&refused));
    expect![[r#"
        61 s: 3 x app(cpu 900m) NothingRecommended
        patch Pod shop/web-2/resize {"spec":{"containers":[{"name":"app","resources":{"requests":{"cpu":"900m"}}}]}}
        patch Pod shop/web-3/resize {"spec":{"containers":[{"name":"app","resources":{"requests":{"cpu":"900m"}}}]}}
    "#]].assert_eq(&all);
}

#[test]
fn containers_that_restart_for_it_are_resized_one_by_one() {
    let restarting = |name: &str, cpu: &str| {
        let container = json!({"name": "app", "resources": resources(cpu),
            "resizePolicy": [{"resourceName": "cpu", "restartPolicy": "RestartContainer"}]});
        pod(name, cpu, json!({"spec": {"containers": [container]}}))
    };
    let own = hvpa(json!({"replicas": 2}));
    let mut memory = Memory { acknowledged: Some((2, at(0))), ..Memory::default() };
    let pods = vec![restarting("web-1", "500m"), restarting("web-2", "500m")];
    let all = turn(&seen(own, deployment(pods, "500m"), Some("900m")), &mut memory, 60);
    expect![[r#"
        60 s: 2 x app(cpu 900m) VerticalRecommended
        patch Pod shop/web-1/resize {"spec":{"containers":[{"name":"app","resources":{"requests":{"cpu":"900m"}}}]}}
    "#]].assert_eq(&all);
}

#[test]
fn the_scale_is_seeded_once_and_an_autoscaler_hears_what_was_applied() {
    let mut memory = Memory::default();
    let mut all = turn(&seen(hvpa(json!({})), deployment(three("500m"), "500m"), None), &mut memory, 0);
    // its own word is nobody's recommendation
    let seeded = hvpa(json!({"replicas": 3}));
    all += &turn(&seen(seeded, deployment(three("500m"), "500m"), None), &mut memory, 1);
    let told = |replicas: i32, desired: i32| {
        let recommendation = HorizontalRecommendation { desired, ..horizontal::from_scale(desired) };
        Seen {
            horizontal: Horizontal::Autoscaler { name: "web".into(), recommendation: Some(recommendation) },
            ..seen(hvpa(json!({"replicas": replicas})), deployment(three("500m"), "500m"), None)
        }
    };
    // the autoscaler wrote 2 and is content by now: left at 2, it would stay content with 2
    all += &turn(&told(2, 3), &mut memory, 61);
    all += &turn(&told(2, 3), &mut memory, 62);
    expect![[r#"
        0 s: 3 x app(cpu 500m) NothingRecommended
        patch Hvpa shop/web {"spec":{"replicas":3}}
        apply VerticalPodAutoscaler shop/web-hvpa {"metadata":{"ownerReferences":[{"apiVersion":"autoscaling.k8s.io/v1alpha1","blockOwnerDeletion":true,"controller":true,"kind":"Hvpa","name":"web","uid":"h"}]},"spec":{"resourcePolicy":{"containerPolicies":[{"containerName":"*","controlledResources":["cpu"],"maxAllowed":{"cpu":"4"}}]},"targetRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"web"},"updatePolicy":{"updateMode":"Off"}}}
        1 s: 3 x app(cpu 500m) NothingRecommended
        apply VerticalPodAutoscaler shop/web-hvpa {"metadata":{"ownerReferences":[{"apiVersion":"autoscaling.k8s.io/v1alpha1","blockOwnerDeletion":true,"controller":true,"kind":"Hvpa","name":"web","uid":"h"}]},"spec":{"resourcePolicy":{"containerPolicies":[{"containerName":"*","controlledResources":["cpu"],"maxAllowed":{"cpu":"4"}}]},"targetRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"web"},"updatePolicy":{"updateMode":"Off"}}}
        61 s: 3 x app(cpu 500m) NothingRecommended
        patch Hvpa shop/web {"spec":{"replicas":3}}
        apply VerticalPodAutoscaler shop/web-hvpa {"metadata":{"ownerReferences":[{"apiVersion":"autoscaling.k8s.io/v1alpha1","blockOwnerDeletion":true,"controller":true,"kind":"Hvpa","name":"web","uid":"h"}]},"spec":{"resourcePolicy":{"containerPolicies":[{"containerName":"*","controlledResources":["cpu"],"maxAllowed":{"cpu":"4"}}]},"targetRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"web"},"updatePolicy":{"updateMode":"Off"}}}
        62 s: 3 x app(cpu 500m) NothingRecommended
        apply VerticalPodAutoscaler shop/web-hvpa {"metadata":{"ownerReferences":[{"apiVersion":"autoscaling.k8s.io/v1alpha1","blockOwnerDeletion":true,"controller":true,"kind":"Hvpa","name":"web","uid":"h"}]},"spec":{"resourcePolicy":{"containerPolicies":[{"containerName":"*","controlledResources":["cpu"],"maxAllowed":{"cpu":"4"}}]},"targetRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"web"},"updatePolicy":{"updateMode":"Off"}}}
    "#]].assert_eq(&all);
}

#[test]
fn what_an_autoscaler_says_couples_both_sides() {
    let hpa = |change: Value| -> HorizontalPodAutoscaler {
        let mut hpa = json!({
            "metadata": {"name": "web"},
            "spec": {"scaleTargetRef": {"kind": "Hvpa", "name": "web"}, "maxReplicas": 9, "metrics": [
                {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}}},
                {"type": "Resource", "resource": {"name": "memory", "target": {"type": "AverageValue", "averageValue": "100Mi"}}}]},
            "status": {"currentReplicas": 3, "desiredReplicas": 5,
                "conditions": [{"type": "AbleToScale", "status": "True"}, {"type": "ScalingActive", "status": "True"}],
                "currentMetrics": [
                    {"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": 120, "averageValue": "600m"}}},
                    {"type": "Resource", "resource": {"name": "memory", "current": {"averageValue": "50Mi"}}}]},
        });
        merge(&mut hpa, change);
        from_json(hpa)
    };
    let shown = |change: Value| {
        let told = horizontal::from_autoscaler(&hpa(change), 3).unwrap();
        let metric =
            told.metric.map(|metric| format!("{} {:?} {:?}", metric.resource, metric.target, metric.usage));
        format!("{} active {} {metric:?}\n", told.desired, told.active)
    };
    let mut all = shown(json!({}));
    all += &shown(json!({"status": {"conditions": [{"type": "AbleToScale", "status": "True"}]}}));
    all += &shown(json!({"spec": {"metrics": [{"type": "External", "external":
        {"metric": {"name": "queue"}, "target": {"type": "Value", "value": "1"}}}]}}));
    all += &shown(json!({"spec": {"minReplicas": 4}, "status": null}));
    expect![[r#"
        5 active true Some("cpu AverageUtilization(80) Some(Quantity(1800))")
        5 active false Some("cpu AverageUtilization(80) Some(Quantity(1800))")
        5 active true None
        4 active true None
    "#]]
    .assert_eq(&all);
}

#[test]
fn kills_for_memory_are_found_in_every_form() {
    let killed = pod(
        "web-1",
        "500m",
        json!({"status": {"containerStatuses": [{
            "name": "app", "image": "i", "imageID": "", "ready": true, "restartCount": 1,
            "lastState": {"terminated": {"exitCode": 137, "reason": "OOMKilled", "finishedAt": seconds(30)}},
        }]}}),
    );
    let evicted = pod(
        "web-2",
        "500m",
        json!({"status": {
            "phase": "Failed", "reason": "Evicted", "startTime": seconds(40), "conditions": null,
            "message": "The node was low on resource: memory.",
        }}),
    );
    let crashed = pod(
        "web-3",
        "500m",
        json!({"status": {"containerStatuses": [{
            "name": "app", "image": "i", "imageID": "", "ready": true, "restartCount": 1,
            "lastState": {"terminated": {"exitCode": 1, "reason": "Error", "finishedAt": seconds(30)}},
        }]}}),
    );
    let all = [killed, evicted, crashed].map(|pod| format!("{:?}", pods::kills(&pod))).join("\n");
    expect![[r#"
        [Kill { at: 2026-01-01T00:00:30Z, container: Some("app") }]
        [Kill { at: 2026-01-01T00:00:40Z, container: None }]
        []"#]]
    .assert_eq(&all);
}

#[test]
fn a_kill_gets_more_memory_whatever_the_mode() {
    let own =
        hvpa(json!({"mode": "HpaPreferred", "replicas": 3, "vpa": {"template": {"spec": {"resourcePolicy":
        {"containerPolicies": [{"containerName": "*"}]}}}}}));
    let memory_of = |amount: &str| json!({"requests": {"memory": amount}});
    let pods: Vec<Arc<Pod>> = ["web-1", "web-2", "web-3"]
        .map(|name| {
            let killed = (name == "web-1").then(|| json!({"terminated":
                {"exitCode": 137, "reason": "OOMKilled", "finishedAt": seconds(30)}}));
            pod(name, "1", json!({
                "spec": {"containers": [{"name": "app", "resources": memory_of("256Mi")}]},
                "status": {"containerStatuses": [{"name": "app", "image": "i", "imageID": "", "ready": true,
                    "restartCount": 1, "lastState": killed}]},
            }))
        })
        .to_vec();
    let mut workload = deployment(pods, "1");
    workload.sizes = pods::pod_sizes(&workload.pods[1]);
    let mut advice = (*vpa("1")).clone();
    let one = &mut advice.data["status"]["recommendation"]["containerRecommendations"][0];
    *one = json!({"containerName": "app", "target": {"memory": "356Mi"}, "lowerBound": {"memory": "300Mi"},
        "upperBound": {"memory": "1Gi"}});
    let mut seen = seen(own, workload, None);
    seen.vertical = Vertical::Autoscaler { name: "web-hvpa".into(), found: Some(Arc::new(advice)) };
    seen.horizontal =
        Horizontal::Autoscaler { name: "web".into(), recommendation: Some(horizontal::from_scale(3)) };
    let mut memory = Memory { acknowledged: Some((3, at(0))), ..Memory::default() };
    // between the fewest and the most replicas this mode changes no size but for a kill
    let text = turn(&seen, &mut memory, 60);
    assert!(text.contains("OutOfMemory") && text.contains("373293056"), "{text}");
}

#[test]
fn a_recommender_exists_once_and_never_acts() {
    let own = hvpa(json!({}));
    let workload = deployment(three("500m"), "500m");
    let shown = |found: Option<&DynamicObject>| {
        let effects = vertical::child(&own, &workload, found);
        effects.first().map_or("-".to_owned(), ToString::to_string)
    };
    let there = vpa("500m");
    let mut changed = (*there).clone();
    changed.data["spec"]["updatePolicy"]["updateMode"] = json!("Recreate");
    let all = [shown(None), shown(Some(&there)), shown(Some(&changed))].join("\n");
    expect![[r#"
        apply VerticalPodAutoscaler shop/web-hvpa {"metadata":{"ownerReferences":[{"apiVersion":"autoscaling.k8s.io/v1alpha1","blockOwnerDeletion":true,"controller":true,"kind":"Hvpa","name":"web","uid":"h"}]},"spec":{"resourcePolicy":{"containerPolicies":[{"containerName":"*","controlledResources":["cpu"],"maxAllowed":{"cpu":"4"}}]},"targetRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"web"},"updatePolicy":{"updateMode":"Off"}}}
        -
        apply VerticalPodAutoscaler shop/web-hvpa {"metadata":{"ownerReferences":[{"apiVersion":"autoscaling.k8s.io/v1alpha1","blockOwnerDeletion":true,"controller":true,"kind":"Hvpa","name":"web","uid":"h"}]},"spec":{"resourcePolicy":{"containerPolicies":[{"containerName":"*","controlledResources":["cpu"],"maxAllowed":{"cpu":"4"}}]},"targetRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"web"},"updatePolicy":{"updateMode":"Off"}}}"#]].assert_eq(&all);
    assert!(vertical::acts_on(&changed, &workload.target) && !vertical::acts_on(&there, &workload.target));
}

#[test]
fn people_are_told_once_and_not_with_every_sample() {
    let mut own = hvpa(json!({"replicas": 3}));
    let memory = Memory { acknowledged: Some((3, at(0))), ..Memory::default() };
    let mut all = String::new();
    for (now, cpu) in [(60, "500m"), (120, "510m"), (180, "510m")] {
        let seen = seen(own.clone(), deployment(three("500m"), "500m"), Some(cpu));
        let decision = plan::decide(at(now), &seen, memory.clone(), None, false);
        let told = plan::recommended(&seen, &decision.memory);
        let facts = status::Facts {
            seen: &seen,
            decision: &decision,
            progress: Progress::Done,
            failure: None,
            told,
            held: None,
        };
        let effect = status::write(&facts, at(now));
        all += &format!("{now} s: {}\n", effect.as_ref().map_or("-".to_owned(), |effect| effect.to_string()));
        if let Some(engine::effect::Effect::Patch { body, .. }) = effect {
            let mut next = (*own).clone();
            let mut stored = json!(next.status);
            merge(&mut stored, body["status"].clone());
            next.status = from_json(stored);
            own = Arc::new(next);
        }
    }
    expect![[r#"
        60 s: status Hvpa shop/web {"conditions":[{"lastTransitionTime":"2026-01-01T00:01:00Z","message":"recommendations are applied as they come","observedGeneration":1,"reason":"Scaling","status":"True","type":"Ready"},{"lastTransitionTime":"2026-01-01T00:01:00Z","message":"nobody has written the scale of this Hvpa: the count stays","observedGeneration":1,"reason":"Nobody","status":"True","type":"HorizontalRecommendation"},{"lastTransitionTime":"2026-01-01T00:01:00Z","message":"VerticalPodAutoscaler web-hvpa recommends","observedGeneration":1,"reason":"VerticalPodAutoscaler","status":"True","type":"VerticalRecommendation"},{"lastTransitionTime":"2026-01-01T00:01:00Z","message":"pods have the sizes that were decided","observedGeneration":1,"reason":"Done","status":"True","type":"Resized"}],"observedGeneration":1,"replicas":3,"targetSelector":"app=web","vertical":{"containers":[{"containerName":"app","lowerBound":{"cpu":"100m"},"target":{"cpu":"500m"},"total":{},"upperBound":{"cpu":"4"}}]}}
        120 s: -
        180 s: -
    "#]].assert_eq(&all);
}

#[test]
fn without_a_target_nothing_is_decided_and_everything_is_told() {
    let own = hvpa(json!({}));
    let trouble = Trouble { reason: "TargetNotFound", message: "there is no Deployment web".into() };
    let seen = Seen {
        hvpa: own,
        workload: None,
        resolved: Err(trouble),
        horizontal: Horizontal::Nobody,
        vertical: Vertical::Nobody,
    };
    let decision = plan::decide(at(0), &seen, Memory::default(), None, false);
    assert_eq!((decision.reason.code, decision.why().as_str()), ("NotScaled", "there is no Deployment web"));
    assert!(!decision.changes());
}

/// The API refused the count, since it was decided about an old one; the sizes that were to go with it are forgotten too.
#[test]
fn what_was_decided_about_an_old_count_is_forgotten() {
    use super::memory::{Pending, Sizes};
    use decide::hvpa::Plan;

    let plan = |replicas| Plan { replicas, containers: Vec::new() };
    let before = Some(Sizes::default());
    let decided = Memory {
        sizes: None,
        pending: Some(Pending {
            from: plan(1),
            to_replicas: Some(3),
            before: decide::hvpa::Memory::default(),
            sizes_before: before.clone(),
            applied_before: None,
        }),
        ..Memory::default()
    };
    for (replicas, was_outdated, is_forgotten) in
        [(1, false, false), (3, false, false), (2, false, true), (1, true, true), (3, true, true)]
    {
        let mut memory = decided.clone();
        memory.forget_outdated(replicas, was_outdated);
        let expected = if is_forgotten { before.clone() } else { None };
        assert_eq!(memory.sizes, expected, "{replicas} {was_outdated}");
        assert_eq!(memory.pending.is_none(), is_forgotten, "{replicas} {was_outdated}");
    }
}
