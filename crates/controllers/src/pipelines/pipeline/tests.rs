use std::sync::Arc;

use api::numaflow::{PIPELINE_FINALIZER, Pipeline, Vertex};
use engine::{
    effect::Effect,
    testing::{at, from_json, merge, seconds},
};
use expect_test::expect;
use serde_json::{Value, json};

use super::plan::{Observed, Problem, plan};

/// A small world: what plans ask for happens.
struct World {
    pipeline: Value,
    vertices: Vec<Value>,
    buffers: Vec<String>,
    drained: Option<bool>,
    problem: Option<Problem>,
    now: i64,
}

impl World {
    fn new(over: Value) -> Self {
        let mut pipeline = json!({
            "apiVersion": "numaflow.numaproj.io/v1alpha1", "kind": "Pipeline",
            "metadata": {"name": "simple", "namespace": "shop", "uid": "pl", "generation": 1,
                         "finalizers": [PIPELINE_FINALIZER]},
            "spec": {
                "vertices": [
                    {"name": "in", "source": {"generator": {}}},
                    {"name": "cat", "udf": {"container": {"image": "cat:1"}}, "scale": {"min": 2}},
                    {"name": "out", "sink": {"log": {}}},
                ],
                "edges": [{"from": "in", "to": "cat"}, {"from": "cat", "to": "out"}],
            },
        });
        merge(&mut pipeline, over);
        let buffers = vec!["shop-simple-cat-0".to_owned(), "shop-simple-out-0".to_owned()];
        Self { pipeline, vertices: Vec::new(), buffers, drained: None, problem: None, now: 0 }
    }

    fn turn(&mut self) -> String {
        let observed = Observed {
            pipeline: Arc::new(from_json::<Pipeline>(self.pipeline.clone())),
            vertices: self.vertices.iter().map(|one| Arc::new(from_json::<Vertex>(one.clone()))).collect(),
            secret: None,
            problem: self.problem.clone(),
            buffers: self.buffers.clone(),
            drained: self.drained,
            token: None,
            failure: None,
        };
        let plan = plan(&observed, at(self.now));
        let mut text = String::new();
        for effect in &plan.effects {
            match effect {
                Effect::Create { body, .. } => {
                    let spec = &body["spec"];
                    text += &format!(
                        "create {} replicas={} {}\n",
                        body["metadata"]["name"].as_str().unwrap(),
                        spec["replicas"],
                        spec["lifecycle"]["desiredPhase"].as_str().unwrap()
                    );
                    self.vertices.push(body.clone());
                }
                Effect::Patch { target, subresource, body } => {
                    let of_pipeline = &*target.kind.kind == "Pipeline";
                    let shown = match (of_pipeline, subresource) {
                        (true, Some(_)) => format!(
                            "status {} {}",
                            body["status"].get("phase").unwrap_or(&json!("as before")),
                            body["status"].get("message").unwrap_or(&Value::Null)
                        ),
                        _ => {
                            let mut body = body.clone();
                            if let Some(hash) =
                                body.pointer_mut("/metadata/annotations/numaflow.numaproj.io~1hash")
                            {
                                *hash = json!("…");
                            }
                            format!("{} {body}", subresource.unwrap_or("patch"))
                        }
                    };
                    text += &format!("{} {}: {shown}\n", target.kind, target.name);
                    match of_pipeline {
                        true => merge(&mut self.pipeline, body.clone()),
                        false => {
                            let found = self
                                .vertices
                                .iter_mut()
                                .find(|one| one["metadata"]["name"] == json!(target.name));
                            merge(found.unwrap(), body.clone());
                        }
                    }
                }
                Effect::Delete { target, .. } => {
                    text += &format!("delete {}\n", target.name);
                    self.vertices.retain(|one| one["metadata"]["name"] != json!(target.name));
                }
                other => text += &format!("{other}\n"),
            }
        }
        if let Some(next) = plan.next {
            text += &format!("look again at {}\n", next.duration_since(at(0)).as_secs());
        }
        text
    }

    /// The vertex controller does its work.
    fn vertices_follow(&mut self) {
        for vertex in &mut self.vertices {
            let is_paused = vertex["spec"]["lifecycle"]["desiredPhase"] == "Paused";
            let replicas = if is_paused { json!(0) } else { vertex["spec"]["replicas"].clone() };
            let phase = if is_paused { "Paused" } else { "Running" };
            merge(
                vertex,
                json!({"status": {"phase": phase, "replicas": replicas, "readyReplicas": replicas}}),
            );
        }
    }

    fn spec(&mut self, over: Value) {
        merge(&mut self.pipeline, json!({ "spec": over }));
    }
}

#[test]
fn a_pipeline_becomes_vertices_and_an_update_keeps_their_counts() {
    let mut world = World::new(json!({}));
    let mut story = world.turn();
    world.vertices_follow();
    story += "-- healthy\n";
    story += &world.turn();
    story += "-- nothing new\n";
    story += &world.turn();
    // somebody scales, and the image changes
    merge(&mut world.vertices[1], json!({"spec": {"replicas": 7}}));
    let mut vertices = world.pipeline["spec"]["vertices"].clone();
    vertices[1]["udf"]["container"]["image"] = json!("cat:2");
    vertices[1]["scale"] = Value::Null;
    vertices[1].as_object_mut().unwrap().remove("scale");
    world.spec(json!({ "vertices": vertices }));
    story += "-- another image, no bounds\n";
    story += &world.turn();
    assert_eq!(world.vertices[1]["spec"]["replicas"], 7);
    assert_eq!(world.vertices[1]["spec"]["scale"], json!({}));
    // a vertex goes
    let without = json!([vertices[0], vertices[2]]);
    world.spec(json!({"vertices": without, "edges": [{"from": "in", "to": "out"}]}));
    story += "-- without cat\n";
    story += &world.turn();
    expect![[r#"
        create simple-in replicas=1 Running
        create simple-cat replicas=2 Running
        create simple-out replicas=1 Running
        Pipeline simple: status "Running" null
        -- healthy
        Pipeline simple: status "as before" null
        -- nothing new
        -- another image, no bounds
        Vertex simple-cat: patch {"metadata":{"annotations":{"numaflow.numaproj.io/hash":"…"}},"spec":{"scale":{"min":null},"udf":{"container":{"image":"cat:2"}}}}
        -- without cat
        Vertex simple-in: patch {"metadata":{"annotations":{"numaflow.numaproj.io/hash":"…"}},"spec":{"toEdges":[{"from":"in","fromVertexLimits":{"bufferMaxLength":30000,"bufferUsageLimit":80,"readBatchSize":500},"fromVertexPartitionCount":1,"fromVertexType":"Source","to":"out","toVertexLimits":{"bufferMaxLength":30000,"bufferUsageLimit":80,"readBatchSize":500},"toVertexPartitionCount":1,"toVertexType":"Sink"}]}}
        Vertex simple-out: patch {"metadata":{"annotations":{"numaflow.numaproj.io/hash":"…"}},"spec":{"fromEdges":[{"from":"in","fromVertexLimits":{"bufferMaxLength":30000,"bufferUsageLimit":80,"readBatchSize":500},"fromVertexPartitionCount":1,"fromVertexType":"Source","to":"out","toVertexLimits":{"bufferMaxLength":30000,"bufferUsageLimit":80,"readBatchSize":500},"toVertexPartitionCount":1,"toVertexType":"Sink"}]}}
        delete simple-cat
        Pipeline simple: status "as before" null
    "#]].assert_eq(&story);
}

#[test]
fn a_pipeline_is_paused_when_its_buffers_are_empty_and_goes_on_as_it_was() {
    let mut world = World::new(json!({}));
    world.turn();
    world.vertices_follow();
    world.turn();
    merge(&mut world.vertices[1], json!({"spec": {"replicas": 7}}));
    let mut story = String::new();
    world.spec(json!({"lifecycle": {"desiredPhase": "Paused"}}));
    world.drained = Some(false);
    for (what, now, drained) in [
        ("told to pause", 0, false),
        ("the time is noted", 0, false),
        ("messages are left", 5, false),
        ("none are left", 9, true),
        ("paused", 10, true),
        ("it stays so, whatever is in the buffers", 60, false),
    ] {
        (world.now, world.drained) = (now, Some(drained));
        story += &format!("-- {what}\n{}", world.turn());
        world.vertices_follow();
    }
    assert_eq!(world.pipeline["status"]["drainedOnPause"], true);
    world.spec(json!({"lifecycle": {"desiredPhase": "Running"}}));
    story += "-- on again\n";
    story += &world.turn();
    story += &world.turn();
    assert_eq!(world.vertices[1]["spec"]["replicas"], 7);
    expect![[r#"
        -- told to pause
        Pipeline simple: patch {"metadata":{"annotations":{"numaflow.numaproj.io/pause-timestamp":"2026-01-01T00:00:00Z"}}}
        -- the time is noted
        Vertex simple-in: patch {"spec":{"lifecycle":{"desiredPhase":"Paused"}}}
        Pipeline simple: status "Pausing" null
        look again at 1
        -- messages are left
        look again at 6
        -- none are left
        Vertex simple-cat: patch {"spec":{"lifecycle":{"desiredPhase":"Paused"}}}
        Vertex simple-out: patch {"spec":{"lifecycle":{"desiredPhase":"Paused"}}}
        Pipeline simple: status "Paused" null
        -- paused
        -- it stays so, whatever is in the buffers
        -- on again
        Pipeline simple: patch {"metadata":{"annotations":{"numaflow.numaproj.io/pause-timestamp":null}}}
        Vertex simple-in: patch {"spec":{"lifecycle":{"desiredPhase":"Running"}}}
        Vertex simple-cat: patch {"spec":{"lifecycle":{"desiredPhase":"Running"}}}
        Vertex simple-out: patch {"spec":{"lifecycle":{"desiredPhase":"Running"}}}
        Pipeline simple: status "Running" null
    "#]].assert_eq(&story);
}

#[test]
fn a_pause_that_takes_too_long_ends_and_a_slow_resume_begins_small() {
    let mut world =
        World::new(json!({"metadata": {"annotations": {"numaflow.numaproj.io/resume-strategy": "slow"}}}));
    world.turn();
    world.vertices_follow();
    world.turn();
    merge(&mut world.vertices[1], json!({"spec": {"replicas": 7}}));
    world.spec(json!({"lifecycle": {"desiredPhase": "Paused", "pauseGracePeriodSeconds": 10}}));
    world.drained = Some(false);
    for now in [0, 0, 9] {
        world.now = now;
        world.turn();
        world.vertices_follow();
    }
    assert_eq!(world.pipeline["status"]["phase"], "Pausing");
    world.now = 11;
    world.turn();
    world.vertices_follow();
    world.turn();
    assert_eq!(world.pipeline["status"]["phase"], "Paused");
    assert_eq!(world.pipeline["status"]["drainedOnPause"], false);
    world.spec(json!({"lifecycle": {"desiredPhase": "Running"}}));
    world.turn();
    world.turn();
    assert_eq!(world.vertices[1]["spec"]["replicas"], 2, "as many as its bounds allow at the beginning");
}

#[test]
fn a_deleted_pipeline_drains_and_takes_its_buffers_along() {
    let mut world = World::new(json!({}));
    world.turn();
    world.vertices_follow();
    world.turn();
    merge(&mut world.pipeline, json!({"metadata": {"deletionTimestamp": seconds(100)}}));
    let mut story = String::new();
    for (what, now, drained) in [
        ("deleted", 100, false),
        ("sources stop", 101, false),
        ("empty", 105, true),
        ("all have stopped, buffers are left", 106, true),
    ] {
        (world.now, world.drained) = (now, Some(drained));
        story += &format!("-- {what}\n{}", world.turn());
        world.vertices_follow();
    }
    world.buffers.clear();
    story += "-- no buffer is left\n";
    story += &world.turn();
    expect![[r#"
        -- deleted
        Vertex simple-in: patch {"spec":{"lifecycle":{"desiredPhase":"Paused"}}}
        Pipeline simple: status "Deleting" null
        look again at 101
        -- sources stop
        look again at 102
        -- empty
        Vertex simple-cat: patch {"spec":{"lifecycle":{"desiredPhase":"Paused"}}}
        Vertex simple-out: patch {"spec":{"lifecycle":{"desiredPhase":"Paused"}}}
        look again at 106
        -- all have stopped, buffers are left
        look again at 107
        -- no buffer is left
        Pipeline simple: patch {"metadata":{"finalizers":[]}}
        look again at 107
    "#]]
    .assert_eq(&story);
}

#[test]
fn what_cannot_be_carried_out_is_said_and_touches_nothing() {
    let mut world = World::new(json!({}));
    world.turn();
    world.vertices_follow();
    world.turn();
    world.problem = Some(Problem::invalid("vertices[0].source.kafka: is not supported".into()));
    let mut story = world.turn();
    world.problem = Some(Problem {
        condition: "Deployed",
        reason: "ISBSvcNotFound",
        message: "there is no InterStepBufferService default in this namespace".into(),
    });
    story += &world.turn();
    world.problem = None;
    story += &world.turn();
    expect![[r#"
        Pipeline simple: status "Failed" "vertices[0].source.kafka: is not supported"
        Pipeline simple: status "as before" "there is no InterStepBufferService default in this namespace"
        Pipeline simple: status "Running" null
    "#]]
    .assert_eq(&story);
    let mut without = World::new(json!({"metadata": {"finalizers": null}}));
    expect![[r#"
        Pipeline simple: patch {"metadata":{"finalizers":["numaflow.numaproj.io/pipeline-controller"]}}
    "#]]
    .assert_eq(&without.turn());
}
