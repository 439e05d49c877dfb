use engine::testing::{at, from_json, lines};
use expect_test::expect;
use serde_json::{Value, json};

use super::plan::plan;

fn planned(spec: Value, embedded: Option<&str>) -> String {
    let service = from_json(json!({
        "apiVersion": "numaflow.numaproj.io/v1alpha1", "kind": "InterStepBufferService",
        "metadata": {"name": "default", "namespace": "shop", "uid": "u", "generation": 2},
        "spec": spec,
    }));
    lines(&plan(&service, embedded, at(0)))
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
