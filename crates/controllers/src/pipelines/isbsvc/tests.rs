use engine::testing::{at, from_json, lines, merge, seconds};
use expect_test::expect;
use serde_json::{Value, json};

use super::{FINALIZER, plan::plan};

fn service(spec: Value) -> Value {
    json!({
        "apiVersion": "numaflow.numaproj.io/v1alpha1", "kind": "InterStepBufferService",
        "metadata": {"name": "default", "namespace": "shop", "uid": "u", "generation": 2, "finalizers": [FINALIZER]},
        "spec": spec,
    })
}

fn planned(spec: Value, embedded: Option<&str>) -> String {
    lines(&plan(&from_json(service(spec)), embedded, true, at(0)))
}

#[test]
fn a_service_goes_with_the_last_pipeline_that_names_it() {
    let turn = |finalizers: Value, deleted: Value, is_used: bool| {
        let mut service = service(json!({"embedded": {}}));
        merge(&mut service, json!({"metadata": {"finalizers": finalizers, "deletionTimestamp": deleted}}));
        lines(&plan(&from_json(service), Some("127.0.0.1:7000"), is_used, at(0)))
    };
    let ours = json!([FINALIZER]);
    assert_eq!(turn(ours.clone(), json!(seconds(0)), true), "", "a pipeline still needs it");
    assert_eq!(turn(json!(null), json!(seconds(0)), false), "", "others hold it");
    let (new, unused) = (turn(json!(null), json!(null), false), turn(ours, json!(seconds(0)), false));
    expect![[r#"
        patch InterStepBufferService shop/default {"metadata":{"finalizers":["numaflow.numaproj.io/isbsvc-controller"]}}
        patch InterStepBufferService shop/default {"metadata":{"finalizers":[]}}
    "#]].assert_eq(&(new + &unused));
}

#[test]
fn a_service_says_how_it_is_reached_or_why_not() {
    let all = [
        planned(json!({"embedded": {}}), Some("127.0.0.1:7000")),
        planned(json!({"embedded": {}}), None),
        planned(json!({"jetstream": {"url": "nats://nats:4222", "streamReplicas": 3}}), None),
        planned(json!({"jetstream": {"version": "latest"}}), None),
    ];
    expect![[r#"
        status InterStepBufferService shop/default {"conditions":[{"lastTransitionTime":"2026-01-01T00:00:00Z","message":"the spec is valid","reason":"Successful","status":"True","type":"Configured"}],"config":{"embedded":{"address":"127.0.0.1:7000"}},"observedGeneration":2,"phase":"Running","type":"embedded"}
        status InterStepBufferService shop/default {"conditions":[{"lastTransitionTime":"2026-01-01T00:00:00Z","message":"embedded: these buffers are kept by `ballast up` alone: use jetstream","reason":"InvalidSpec","status":"False","type":"Configured"}],"message":"embedded: these buffers are kept by `ballast up` alone: use jetstream","observedGeneration":2,"phase":"Failed","type":"embedded"}
        status InterStepBufferService shop/default {"conditions":[{"lastTransitionTime":"2026-01-01T00:00:00Z","message":"the spec is valid","reason":"Successful","status":"True","type":"Configured"}],"config":{"jetstream":{"streamReplicas":3,"url":"nats://nats:4222"}},"observedGeneration":2,"phase":"Running","type":"jetstream"}
        status InterStepBufferService shop/default {"conditions":[{"lastTransitionTime":"2026-01-01T00:00:00Z","message":"jetstream.version: is not supported: no NATS server is deployed here: set url to one that is there","reason":"InvalidSpec","status":"False","type":"Configured"}],"message":"jetstream.version: is not supported: no NATS server is deployed here: set url to one that is there","observedGeneration":2,"phase":"Failed","type":"jetstream"}
    "#]].assert_eq(&all.join(""));
}
