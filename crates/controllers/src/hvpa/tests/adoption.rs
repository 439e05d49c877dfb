//! Autoscalers and recommenders that were there before the Hvpa.

use super::*;
use crate::hvpa::adopted::{adopt, conflict, is_switched_off};

/// Switched off in both directions, on the target itself.
fn autoscaler(name: &str, spec: Value) -> Arc<HorizontalPodAutoscaler> {
    let off = json!({"selectPolicy": "Disabled"});
    let mut whole = json!({
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
        "minReplicas": 2, "maxReplicas": 6,
        "metrics": [{"type": "Resource", "resource":
            {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 60}}}],
        "behavior": {"scaleUp": off, "scaleDown": off},
    });
    merge(&mut whole, spec);
    Arc::new(from_json(json!({"metadata": {"name": name, "namespace": "shop"}, "spec": whole})))
}

#[test]
fn an_autoscaler_that_may_still_write_is_told_from_one_that_does_not() {
    let is_off = |behavior: Value| is_switched_off(&autoscaler("web", json!({"behavior": behavior})));
    assert!(is_off(json!({})));
    for behavior in [
        json!(null),
        json!({"scaleUp": null}),
        json!({"scaleDown": null}),
        json!({"scaleUp": {"selectPolicy": "Max"}}),
        json!({"scaleDown": {"selectPolicy": null, "stabilizationWindowSeconds": 3600}}),
    ] {
        assert!(!is_off(behavior.clone()), "{behavior}");
    }
}

#[test]
fn who_would_write_the_same_count_is_named() {
    let off = || autoscaler("off", json!({}));
    let on = || autoscaler("on", json!({"behavior": null}));
    let told = |direct: &[Arc<HorizontalPodAutoscaler>], of_hvpa: &[Arc<HorizontalPodAutoscaler>]| {
        format!("{}\n", conflict(direct, of_hvpa, "Deployment web", "both").unwrap_or("none".to_owned()))
    };
    let all = [
        told(&[], &[on()]),
        told(&[off()], &[]),
        told(&[off(), on()], &[]),
        told(&[off(), autoscaler("too", json!({}))], &[]),
        told(&[off()], &[on()]),
    ];
    expect![[r#"
        none
        none
        HorizontalPodAutoscaler on scales Deployment web directly: let it scale Hvpa both, or delete it, or set selectPolicy: Disabled in its behavior.scaleUp and behavior.scaleDown to have its metrics read here
        HorizontalPodAutoscaler off scales Deployment web and HorizontalPodAutoscaler too scales Deployment web: delete one of them
        HorizontalPodAutoscaler off scales Deployment web and HorizontalPodAutoscaler on scales Hvpa both: delete one of them
    "#]]
    .assert_eq(&all.concat());
}

#[test]
fn its_metrics_take_the_place_of_the_hvpas_and_its_bounds_narrow_them() {
    let adopted = |spec: Value| {
        let mut resolved = hvpa(json!({})).spec.resolve().unwrap();
        let told = adopt(&mut resolved, &autoscaler("web", spec));
        let form = json!(resolved.horizontal);
        let bounds = (resolved.spec.min_replicas, resolved.spec.max_replicas);
        match told {
            Ok(()) => format!(
                "{bounds:?} {} {} {} {}\n",
                resolved.spec.horizontal.deployed, form["minReplicas"], form["metrics"], form["behavior"]
            ),
            Err(why) => format!("{why}\n"),
        }
    };
    let window = json!({"scaleDown": {"selectPolicy": "Disabled", "stabilizationWindowSeconds": 60}});
    let all = [
        adopted(json!({})),
        adopted(json!({"minReplicas": null, "maxReplicas": 20, "behavior": window})),
        adopted(json!({"minReplicas": 10, "maxReplicas": 20})),
        adopted(json!({"metrics": [{"type": "Resource", "resource":
            {"name": "cpu", "target": {"type": "Sum", "averageUtilization": 60}}}]})),
    ];
    expect![[r#"
        (2, 6) true 2 [{"resource":{"name":"cpu","target":{"averageUtilization":60,"type":"Utilization"}},"type":"Resource"}] {"scaleDown":{},"scaleUp":{}}
        (1, 9) true 1 [{"resource":{"name":"cpu","target":{"averageUtilization":60,"type":"Utilization"}},"type":"Resource"}] {"scaleDown":{"stabilizationWindowSeconds":60},"scaleUp":{}}
        HorizontalPodAutoscaler web keeps 10 to 20 replicas and this Hvpa 1 to 9: let them overlap
        the metrics of HorizontalPodAutoscaler web cannot be read: spec.metrics[0].resource.target.type: expected one of Utilization, Value, AverageValue, found "Sum"
    "#]].assert_eq(&all.concat());
}

#[test]
fn people_are_told_whose_metrics_count() {
    let wants = |desired: i32| HorizontalRecommendation { desired, ..horizontal::from_scale(desired) };
    let with = |answer: Option<Result<HorizontalRecommendation, String>>| {
        let own = hvpa(json!({"replicas": 3, "hpa": {"deploy": true}}));
        let adopted = Some("old".to_owned());
        Seen {
            horizontal: Horizontal::Metrics { adopted, answer },
            ..seen(own, deployment(three("500m"), "500m"), None)
        }
    };
    let mut all = String::new();
    for answer in [None, Some(Ok(wants(5))), Some(Err("no answer".to_owned()))] {
        let seen = with(answer);
        let decision = plan::decide(at(60), &seen, Memory::default(), None, false);
        let steps: Vec<String> = decision.steps.iter().map(|step| step.words().to_string()).collect();
        let told = plan::recommended(&seen, &decision.memory);
        let facts = status::Facts {
            seen: &seen,
            decision: &decision,
            progress: Progress::Done,
            failure: None,
            told,
            held: None,
        };
        let Some(engine::effect::Effect::Patch { body, .. }) = status::write(&facts, at(60)) else {
            panic!("nothing is told")
        };
        let status = &body["status"];
        let conditions = status["conditions"].as_array().unwrap();
        let condition = conditions.iter().find(|one| one["type"] == "HorizontalRecommendation").unwrap();
        all += &format!(
            "{} -> {}\n  {}\n  {} {} {}: {}\n",
            decision.current,
            decision.desired,
            steps.join("\n  "),
            status["adoptedAutoscaler"],
            condition["status"],
            condition["reason"],
            condition["message"]
        );
    }
    expect![[r#"
        3 x app(cpu 500m) -> 3 x app(cpu 500m)
          the horizontal recommendation is missing
          the vertical recommendation is missing
          neither side wants a change that is large enough
          "old" "False" "NotUsable": "the metrics of HorizontalPodAutoscaler old decide: it is switched off; the horizontal recommendation is missing"
        3 x app(cpu 500m) -> 5 x app(cpu 500m)
          the horizontal side, by the metrics of HorizontalPodAutoscaler old, wants 5
          the vertical recommendation is missing
          the replicas change
          "old" "True" "AdoptedAutoscaler": "the metrics of HorizontalPodAutoscaler old decide: it is switched off"
        3 x app(cpu 500m) -> 3 x app(cpu 500m)
          the horizontal recommendation is missing
          the vertical recommendation is missing
          neither side wants a change that is large enough
          "old" "False" "MetricsUnavailable": "no answer"
    "#]].assert_eq(&all);
}

fn labelled(change: Value) -> Arc<DynamicObject> {
    let mut vpa = json!(*vpa("750m"));
    merge(&mut vpa, change);
    Arc::new(from_json(vpa))
}

/// An Hvpa whose selector and labels are those of the public controller's manifests.
fn selecting() -> Arc<Hvpa> {
    hvpa(json!({"replicas": 3, "vpa": {
        "selector": {"matchLabels": {"role": "vpa"}},
        "template": {"metadata": {"labels": {"role": "vpa"}}},
    }}))
}

#[test]
fn a_recommender_that_is_there_already_is_found_by_the_selector() {
    let found = |all: Vec<Arc<DynamicObject>>| {
        let chosen = vertical::choose(&selecting(), all);
        chosen.map_or("none".to_owned(), |vpa| vpa.metadata.name.clone().unwrap())
    };
    let ours = labelled(json!({"metadata": {"labels": {"role": "vpa"}, "name": "web-x7k2p"}}));
    let free = |change: Value| {
        let nobodys = json!({"ownerReferences": null, "name": "older", "labels": {"role": "vpa"}});
        let mut found = json!(*labelled(json!({"metadata": nobodys})));
        merge(&mut found, change);
        Arc::new(from_json::<DynamicObject>(found))
    };
    // its own comes first, under whatever name, and one of nobody's if there is none
    assert_eq!(found(vec![free(json!({})), ours.clone()]), "web-x7k2p");
    assert_eq!(found(vec![free(json!({}))]), "older");
    // not one that the selector does not find, that acts, or that is somebody else's
    assert_eq!(found(vec![labelled(json!({}))]), "none");
    assert_eq!(found(vec![free(json!({"metadata": {"labels": null}}))]), "none");
    assert_eq!(found(vec![free(json!({"spec": {"updatePolicy": {"updateMode": "Recreate"}}}))]), "none");
    let owner = json!([{"apiVersion": "v1", "kind": "Other", "name": "o", "uid": "o", "controller": true}]);
    assert_eq!(found(vec![free(json!({"metadata": {"ownerReferences": owner}}))]), "none");
    // without a selector nobody's is left alone
    assert!(vertical::choose(&hvpa(json!({})), vec![free(json!({}))]).is_none());

    // it becomes the Hvpa's own, once
    let workload = deployment(three("500m"), "500m");
    let written = |found: &DynamicObject| {
        let effects = vertical::child(&selecting(), &workload, Some(found));
        if effects.is_empty() { "nothing\n".to_owned() } else { lines(&Plan { effects, next: None }) }
    };
    let all = [written(&free(json!({}))), written(&ours)].concat();
    expect![[r#"
        confirm Hvpa shop/web
        apply VerticalPodAutoscaler shop/older {"metadata":{"labels":{"role":"vpa"},"ownerReferences":[{"apiVersion":"autoscaling.k8s.io/v1alpha1","blockOwnerDeletion":true,"controller":true,"kind":"Hvpa","name":"web","uid":"h"}]},"spec":{"resourcePolicy":{"containerPolicies":[{"containerName":"*","controlledResources":["cpu"],"maxAllowed":{"cpu":"4"}}]},"targetRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"web"},"updatePolicy":{"updateMode":"Off"}}}
        nothing
    "#]].assert_eq(&all);
    // another label is wanted: the selector has to find it the next time
    let unlabelled = labelled(json!({"metadata": {"name": "web-x7k2p"}}));
    assert_eq!(vertical::child(&selecting(), &workload, Some(&unlabelled)).len(), 1);
}
