use std::collections::BTreeMap;

use decide::vertex::{Bounds, Kind};
use expect_test::expect;
use kube::{CustomResourceExt, ResourceExt};
use serde_json::{Value, json};

use super::*;

fn pipeline(over: &[(&str, Value)]) -> Pipeline {
    let mut object = json!({
        "apiVersion": "numaflow.numaproj.io/v1alpha1",
        "kind": "Pipeline",
        "metadata": {"name": "simple", "namespace": "shop"},
        "spec": {
            "vertices": [
                {"name": "in", "source": {"generator": {"rpu": 5, "duration": "1s"}}},
                {"name": "cat", "udf": {"container": {"image": "cat:1"}}, "partitions": 2,
                 "scale": {"min": 1, "max": 9}, "limits": {"bufferMaxLength": 50000}},
                {"name": "out", "sink": {"log": {}}},
            ],
            "edges": [{"from": "in", "to": "cat"}, {"from": "cat", "to": "out", "onFull": "discardLatest"}],
        },
    });
    for (path, value) in over {
        let (parent, field) = path.rsplit_once('/').unwrap();
        let parent = object["spec"].pointer_mut(parent).unwrap_or_else(|| panic!("{path}"));
        match (parent, value) {
            (Value::Array(list), value) if field == "-" => list.push(value.clone()),
            (Value::Array(list), value) => list[field.parse::<usize>().unwrap()] = value.clone(),
            (parent, Value::Null) => drop(parent.as_object_mut().unwrap().remove(field)),
            (parent, value) => parent[field] = value.clone(),
        }
    }
    serde_json::from_value(object).unwrap()
}

#[test]
fn the_kinds_are_known_by_their_names() {
    let crds = [Pipeline::crd(), Vertex::crd(), MonoVertex::crd(), InterStepBufferService::crd()];
    let shown: Vec<String> = crds
        .iter()
        .map(|crd| {
            let version = &json!(crd)["spec"]["versions"][0];
            let columns = version["additionalPrinterColumns"].as_array().unwrap();
            let columns: Vec<&str> = columns.iter().filter_map(|column| column["name"].as_str()).collect();
            let names = crd.spec.names.short_names.clone().unwrap_or_default();
            let scale = version["subresources"].get("scale").map(|scale| {
                ["specReplicasPath", "statusReplicasPath", "labelSelectorPath"]
                    .map(|path| scale[path].as_str().unwrap_or_default())
                    .join(" ")
            });
            format!(
                "{} {names:?} {} scale: {}",
                crd.name_any(),
                columns.join(","),
                scale.unwrap_or("none".into())
            )
        })
        .collect();
    expect![[r#"
        pipelines.numaflow.numaproj.io ["pl"] Phase,Vertices,Sources,Sinks,UDFs,Age,Message scale: none
        vertices.numaflow.numaproj.io ["vtx"] Phase,Desired,Current,Ready,Age,Reason,Message scale: .spec.replicas .status.replicas .status.selector
        monovertices.numaflow.numaproj.io ["mvtx"] Phase,Desired,Current,Ready,Age,Reason,Message scale: .spec.replicas .status.replicas .status.selector
        interstepbufferservices.numaflow.numaproj.io ["isbsvc"] Type,Phase,Age,Message scale: none"#]].assert_eq(&shown.join("\n"));
}

/// What an API server says of the definitions.
#[test]
fn an_api_server_takes_the_kinds() {
    for crd in [Pipeline::crd(), Vertex::crd(), MonoVertex::crd(), InterStepBufferService::crd()] {
        let mut crd = json!(crd);
        schema::crd::set_defaults(&mut crd);
        let wrong: Vec<String> = schema::crd::validate(&crd, None).iter().map(ToString::to_string).collect();
        assert!(wrong.is_empty(), "{}: {}", crd["metadata"]["name"], wrong.join("\n"));
        let size = crd.to_string().len();
        assert!(
            size < 400_000,
            "{} has {size} bytes: an API server takes about a megabyte",
            crd["metadata"]["name"]
        );
    }
}

fn through_the_api(mut object: Value, crd: Value) -> (Value, String) {
    let mut crd = crd;
    schema::crd::set_defaults(&mut crd);
    let kind = schema::Kind::custom(&crd, "v1alpha1").unwrap();
    let unknown = kind.decode(&mut object).unwrap();
    kind.set_defaults(&mut object);
    kind.prepare_create(&mut object);
    let errors = kind.validate_create(&object);
    let words: Vec<String> = unknown.into_iter().chain(errors.iter().map(ToString::to_string)).collect();
    (object, words.join("; "))
}

#[test]
fn an_api_server_fills_in_what_is_left_out_and_refuses_numbers_that_cannot_be() {
    let (object, words) = through_the_api(json!(pipeline(&[])), json!(Pipeline::crd()));
    assert_eq!(words, "");
    assert_eq!(
        object["spec"]["lifecycle"],
        json!({"deleteGracePeriodSeconds": 30, "desiredPhase": "Running", "pauseGracePeriodSeconds": 30})
    );
    assert_eq!(
        object["spec"]["limits"],
        json!({"readBatchSize": 500, "bufferMaxLength": 30000, "bufferUsageLimit": 80})
    );
    assert_eq!(object["spec"]["watermark"], json!({"disabled": false}));
    let vertex = json!({
        "apiVersion": "numaflow.numaproj.io/v1alpha1", "kind": "Vertex", "metadata": {"name": "v", "namespace": "shop"},
        "spec": {"name": "v", "pipelineName": "p", "sink": {"log": {}}},
    });
    let (object, words) = through_the_api(vertex, json!(Vertex::crd()));
    assert_eq!(words, "");
    assert_eq!(
        (&object["spec"]["replicas"], &object["spec"]["lifecycle"]["desiredPhase"]),
        (&json!(1), &json!("Running"))
    );
    let refused: Vec<String> = [
        ("/vertices/1/scale/min", json!(-1)),
        ("/vertices/1/scale/targetProcessingSeconds", json!(0)),
        ("/vertices/1/scale/max", json!(5_000_000_000_i64)),
        ("/limits", json!({"bufferUsageLimit": 101})),
        ("/lifecycle", json!({"desiredPhase": "Stopped"})),
        ("/edges/0/onFull", json!("dropAll")),
    ]
    .into_iter()
    .map(|(path, value)| {
        let mut object = json!(pipeline(&[]));
        let (parent, field) = path.rsplit_once('/').unwrap();
        object["spec"].pointer_mut(parent).unwrap()[field] = value;
        through_the_api(object, json!(Pipeline::crd())).1
    })
    .collect();
    expect![[r#"
        spec.vertices[1].scale.min: Invalid value: -1: spec.vertices[1].scale.min in body should be greater than or equal to 0
        spec.vertices[1].scale.targetProcessingSeconds: Invalid value: 0: spec.vertices[1].scale.targetProcessingSeconds in body should be greater than or equal to 1
        <nil>: Invalid value: "": Checked value must be of type integer with format int32 in spec.vertices[1].scale.max
        spec.limits.bufferUsageLimit: Invalid value: 101: spec.limits.bufferUsageLimit in body should be less than or equal to 100
        spec.lifecycle.desiredPhase: Unsupported value: "Stopped": supported values: "Running", "Paused"
        spec.edges[0].onFull: Unsupported value: "dropAll": supported values: "retryUntilSuccess", "discardLatest", "null""#]].assert_eq(&refused.join("\n"));
}

#[test]
fn what_cannot_work_or_is_not_supported_is_refused_by_name() {
    let vertex = |name: &str, what: Value| {
        let mut vertex = json!({"name": name});
        vertex.as_object_mut().unwrap().extend(what.as_object().unwrap().clone());
        vertex
    };
    let log = json!({"sink": {"log": {}}});
    let cases: Vec<Vec<(&str, Value)>> = vec![
        vec![],
        vec![("/vertices", json!([]))],
        vec![("/vertices/0/source", json!({"kafka": {"topic": "t"}}))],
        vec![("/vertices/0/source", json!({}))],
        vec![("/vertices/0/source", json!({"generator": {}, "http": {}}))],
        vec![("/vertices/0/partitions", json!(2))],
        vec![("/vertices/1/udf", json!({"container": {"image": "r"}, "groupBy": {"window": {}}}))],
        vec![("/vertices/1/udf", json!({"container": {}}))],
        vec![("/vertices/1/sink", json!({"log": {}}))],
        vec![("/vertices/1/scale/max", json!(0))],
        vec![("/vertices/1/scale/cron", json!({"schedules": []}))],
        vec![("/vertices/0/scale", json!({"cron": {"timezone": "Mars/Olympus", "schedules": []}}))],
        vec![(
            "/vertices/0/scale",
            json!({"cron": {"schedules": [{"start": "0 8 * * *", "end": "0 0 18 * * *", "min": 1, "max": 2}]}}),
        )],
        vec![("/vertices/1/updateStrategy", json!({"rollingUpdate": {"maxUnavailable": "many"}}))],
        vec![("/vertices/1/sideInputs", json!(["s"]))],
        vec![("/vertices/1/sidecars", json!([{"name": "udf", "image": "x"}]))],
        vec![("/vertices/1/limits", json!({"rateLimit": {"max": 5}}))],
        vec![("/vertices/2/sink", json!({"kafka": {}}))],
        vec![("/vertices/2/sink", json!({"udsink": {"container": {"image": "x"}}, "fallback": {"log": {}}}))],
        vec![("/vertices/2/name", json!("Out"))],
        vec![("/vertices/2/name", json!("cat"))],
        vec![("/vertices/2/name", json!("o".repeat(60)))],
        vec![("/edges/-", json!({"from": "in", "to": "cat"}))],
        vec![("/edges/-", json!({"from": "out", "to": "cat"}))],
        vec![("/edges/-", json!({"from": "cat", "to": "in"}))],
        vec![("/edges/-", json!({"from": "cat", "to": "nowhere"}))],
        vec![("/edges/0/conditions", json!({"tags": {"values": []}}))],
        vec![("/edges", json!([{"from": "in", "to": "out"}]))],
        vec![("/vertices/-", vertex("spare", log.clone()))],
        vec![
            ("/vertices/-", vertex("in2", json!({"source": {"http": {}}}))),
            ("/vertices/-", vertex("out2", log)),
            ("/edges/-", json!({"from": "in2", "to": "out2"})),
        ],
        // a cycle is a pipeline like any other
        vec![("/edges/-", json!({"from": "cat", "to": "cat"}))],
        vec![("/sideInputs", json!([{"name": "s"}]))],
        vec![("/ordered", json!({"enabled": true}))],
        vec![("/watermark", json!({"maxDelay": "5s"}))],
        vec![("/templates", json!({"daemon": {"replicas": 1}}))],
        vec![("/interStepBuffer", json!({"compression": {"type": "gzip"}}))],
    ];
    let answers: Vec<String> = cases
        .iter()
        .map(|case| match validate_pipeline("simple", &pipeline(case).spec) {
            Ok(()) => format!("taken: {}", json!(case)),
            Err(error) => error.to_string(),
        })
        .collect();
    expect![[r#"
        taken: []
        vertices: expected at least one source and one sink
        vertices[0].source.kafka: is not supported: use generator, http, jetstream or udsource
        vertices[0].source: expected one of generator, http, jetstream and udsource, found none
        vertices[0].source: expected one of generator, http, jetstream and udsource, found several
        vertices[0].partitions: a source reads no buffer: expected 1
        vertices[1].udf.groupBy: is not supported: reduce is left to Numaflow
        vertices[1].udf.container.image: expected an image
        vertices[1]: expected one of source, udf and sink, found several
        vertices[1].scale.max: expected a number from 1 to 2147483647, found 0
        vertices[1].scale.cron: only sources and MonoVertices can have cron windows
        vertices[0].scale.cron.timezone: expected an IANA time zone such as Europe/Paris, found "Mars/Olympus" at line 1 column 34
        vertices[0].scale.cron.schedules[0].start: expected six fields (second minute hour day month weekday), found 5 in "0 8 * * *" at line 1 column 42
        vertices[1].updateStrategy.rollingUpdate.maxUnavailable: expected a number of 0 or more, or a percentage such as 25%
        vertices[1].sideInputs: is not supported: remove it
        vertices[1].sidecars[0].name: expected a name that is none of init, numa, udf, udsink, fb-udsink, ons-udsink, udsource, transformer, udsi, init-side-inputs, side-inputs-synchronizer, found "udf"
        vertices[1].limits.rateLimit: is not supported: remove it
        vertices[2].sink.kafka: is not supported: use log, blackhole or udsink
        vertices[2].sink.fallback: is not supported: remove it
        vertices[2].name: expected lower case letters, digits and -, beginning with a letter, found "Out"
        vertices[2].name: "cat" comes twice
        vertices[2].name: simple-oooooooooooooooooooooooooooooooooooooooooooooooooooooooooooo-headless has more than 63 characters: shorten one of the names
        edges[2]: comes twice
        edges[2].from: "out" is a sink: nothing comes out of it
        edges[2].to: "in" is a source: nothing goes into it
        edges[2].to: there is no vertex "nowhere"
        edges[0].conditions.tags.values: expected at least one tag
        vertices[1]: "cat": no edge leads to it
        vertices[3]: "spare": no edge leads to it
        vertices[3]: no edges connect "in2" with "in": make two pipelines of them
        taken: [["/edges/-",{"from":"cat","to":"cat"}]]
        sideInputs: is not supported: remove it
        ordered: is not supported: remove it
        watermark.maxDelay: is not supported: watermarks are not kept
        templates.daemon: is not supported: there is no daemon
        interStepBuffer.compression.type: is not supported: use none"#]].assert_eq(&answers.join("\n"));
}

#[test]
fn mono_vertices_and_buffer_services_are_checked_too() {
    let mono = |spec: Value| {
        let spec: MonoVertexSpec = serde_json::from_value(spec).unwrap();
        validate_mono_vertex("m", &spec).map_or_else(|error| error.to_string(), |()| "taken".to_owned())
    };
    let isb = |spec: Value| {
        let spec: IsbServiceSpec = serde_json::from_value(spec).unwrap();
        validate_isb_service(&spec).map_or_else(|error| error.to_string(), |()| "taken".to_owned())
    };
    let source = json!({"generator": {}});
    let answers = [
        mono(json!({"source": source, "sink": {"log": {}}})),
        mono(json!({"source": source})),
        mono(json!({"source": source, "sink": {"log": {}}, "udf": {"container": {}}})),
        mono(json!({"source": source, "sink": {"log": {}}, "bypass": {}})),
        mono(json!({"source": source, "sink": {"log": {}}, "scale": {"min": 3, "max": 2}})),
        isb(json!({"embedded": {}})),
        isb(json!({"jetstream": {"url": "nats://a:4222,nats://b:4222"}})),
        isb(json!({"jetstream": {"version": "latest"}})),
        isb(json!({"jetstream": {"url": "http://a"}})),
        isb(json!({})),
        isb(json!({"redis": {}})),
    ];
    expect![[r#"
        taken
        sink: expected a sink
        udf.container.image: expected an image
        bypass: is not supported: remove it
        scale.max: expected a number from 3 to 2147483647, found 2
        taken
        taken
        jetstream.version: is not supported: no NATS server is deployed here: set url to one that is there
        jetstream.url: expected addresses such as nats://nats.nats:4222, found "http://a"; no NATS server is deployed here: set url to one that is there
        jetstream: expected jetstream or embedded, found neither
        redis: is not supported: use jetstream or embedded"#]].assert_eq(&answers.join("\n"));
}

#[test]
fn a_pipeline_becomes_vertices() {
    let pipeline = pipeline(&[
        (
            "/templates",
            json!({"vertex": {"nodeSelector": {"disk": "ssd"}, "metadata": {"labels": {"team": "a"}}}}),
        ),
        ("/vertices/1/nodeSelector", json!({"disk": "any"})),
        ("/vertices/1/metadata", json!({"labels": {"app": "cat"}})),
        ("/limits", json!({"readBatchSize": 100, "bufferUsageLimit": 90})),
    ]);
    let vertices = vertices(&pipeline);
    let cat = json!(vertices[1]);
    assert_eq!(
        cat["limits"],
        json!({"readBatchSize": 100, "bufferMaxLength": 50000, "bufferUsageLimit": 90})
    );
    assert_eq!(cat["nodeSelector"], json!({"disk": "any"}));
    assert_eq!(cat["metadata"]["labels"], json!({"app": "cat", "team": "a"}));
    assert_eq!((&cat["pipelineName"], cat.get("replicas")), (&json!("simple"), None));
    expect![[r#"
        [
          [
            {
              "from": "in",
              "fromVertexLimits": {
                "bufferMaxLength": 30000,
                "bufferUsageLimit": 90,
                "readBatchSize": 100
              },
              "fromVertexPartitionCount": 1,
              "fromVertexType": "Source",
              "to": "cat",
              "toVertexLimits": {
                "bufferMaxLength": 50000,
                "bufferUsageLimit": 90,
                "readBatchSize": 100
              },
              "toVertexPartitionCount": 2,
              "toVertexType": "MapUDF"
            }
          ],
          [
            {
              "from": "cat",
              "fromVertexLimits": {
                "bufferMaxLength": 50000,
                "bufferUsageLimit": 90,
                "readBatchSize": 100
              },
              "fromVertexPartitionCount": 2,
              "fromVertexType": "MapUDF",
              "onFull": "discardLatest",
              "to": "out",
              "toVertexLimits": {
                "bufferMaxLength": 30000,
                "bufferUsageLimit": 90,
                "readBatchSize": 100
              },
              "toVertexPartitionCount": 1,
              "toVertexType": "Sink"
            }
          ]
        ]"#]]
    .assert_eq(&serde_json::to_string_pretty(&json!([cat["fromEdges"], cat["toEdges"]])).unwrap());
    let names = |idx: usize| buffer_names("shop", "simple", &vertices[idx].vertex);
    assert_eq!(names(0), Vec::<String>::new());
    assert_eq!(names(1), ["shop-simple-cat-0", "shop-simple-cat-1"]);
    assert_eq!(names(2), ["shop-simple-out-0"]);
    assert_eq!(vertices[1].vertex.limits.clone().unwrap().buffer(), (50_000, 45_000));
    // and back again
    let again: VertexSpec = serde_json::from_value(cat).unwrap();
    assert_eq!(again, vertices[1]);
}

#[test]
fn a_manifest_becomes_a_policy() {
    let vertices = vertices(&pipeline(&[]));
    let annotations = BTreeMap::from([("ballast.dev/target-saturation".to_owned(), "0.5".to_owned())]);
    let policy = vertex_policy(&vertices[1], &annotations).unwrap();
    assert_eq!((policy.kind, policy.usable_length(), policy.target_saturation), (Kind::Udf, 40_000, 0.5));
    let now = "2026-03-01T12:00:00Z".parse().unwrap();
    assert_eq!(policy.bounds(now), Bounds { min: 1, max: 9, window: None });
    let wrong = BTreeMap::from([("ballast.dev/vertex-model".to_owned(), "Magic".to_owned())]);
    let refused = vertex_policy(&vertices[1], &wrong).unwrap_err();
    assert_eq!(refused.path, "annotations[ballast.dev/vertex-model]");
    let mono: MonoVertexSpec = serde_json::from_value(
        json!({"source": {"http": {}}, "sink": {"log": {}}, "limits": {"readBatchSize": 7}}),
    )
    .unwrap();
    let policy = mono_vertex_policy("m", &mono, &BTreeMap::new()).unwrap();
    assert_eq!((policy.kind, policy.limits.read_batch_size), (Kind::MonoVertex, 7));
}

#[test]
fn pods_are_replaced_a_few_at_a_time() {
    let at_once = |given: Value, replicas: i32| {
        let strategy: UpdateStrategy =
            serde_json::from_value(json!({"rollingUpdate": {"maxUnavailable": given}})).unwrap();
        strategy.at_once(replicas)
    };
    assert_eq!(UpdateStrategy::default().at_once(10), Some(3));
    assert_eq!(at_once(json!(2), 10), Some(2));
    assert_eq!(at_once(json!(0), 10), Some(1), "else nothing would ever change");
    assert_eq!(at_once(json!("50%"), 3), Some(2));
    assert_eq!(at_once(json!("4000000000%"), i32::MAX), Some(i32::MAX));
    assert_eq!(at_once(json!(-1), 10), None);
    assert_eq!(at_once(json!("-5%"), 10), None);
}
