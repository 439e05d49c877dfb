use std::sync::Arc;

use api::numaflow::{BufferConfig, EmbeddedConfig};
use engine::testing::{at, from_json, lines, merge, seconds};
use expect_test::expect;
use k8s_openapi::api::core::v1::{Pod, Service};
use serde_json::{Value, json};

use super::{
    Worker,
    plan::{Observed, plan},
    pod::{Template, services},
};
use crate::pipelines::{Options, isbsvc::NoBuffers};

fn options() -> Options {
    Options {
        namespace: None,
        image: "ballast:test".into(),
        command: vec!["ballast".into(), "vertex".into()],
        embedded_buffers: Some("127.0.0.1:7000".into()),
        loopback_pods: true,
    }
}

fn config() -> BufferConfig {
    BufferConfig { jetstream: None, embedded: Some(EmbeddedConfig { address: "127.0.0.1:7000".into() }) }
}

fn vertex(over: Value) -> Worker {
    let mut vertex = json!({
        "apiVersion": "numaflow.numaproj.io/v1alpha1", "kind": "Vertex",
        "metadata": {"name": "simple-cat", "namespace": "shop", "uid": "v1", "generation": 1,
                     "creationTimestamp": seconds(0)},
        "spec": {
            "name": "cat", "pipelineName": "simple", "replicas": 2,
            "udf": {"container": {"image": "cat:1"}},
            "limits": {"bufferMaxLength": 100},
        },
    });
    merge(&mut vertex, over);
    Worker::Vertex(Arc::new(from_json(vertex)))
}

/// A small world: what plans ask for happens.
struct World {
    worker: Value,
    which: &'static str,
    pods: Vec<Value>,
    services: Vec<Value>,
    now: i64,
}

impl World {
    fn new(worker: &Worker) -> Self {
        let (which, worker) = match worker {
            Worker::Vertex(vertex) => ("Vertex", json!(vertex)),
            Worker::MonoVertex(mono) => ("MonoVertex", json!(mono)),
        };
        Self { worker, which, pods: Vec::new(), services: Vec::new(), now: 10 }
    }

    fn worker(&self) -> Worker {
        match self.which {
            "Vertex" => Worker::Vertex(Arc::new(from_json(self.worker.clone()))),
            _ => Worker::MonoVertex(Arc::new(from_json(self.worker.clone()))),
        }
    }

    /// One turn; the lines are what it did.
    fn turn(&mut self) -> String {
        use engine::effect::Effect;
        let options = options();
        let observed = Observed {
            worker: self.worker(),
            pods: self.pods.iter().map(|pod| Arc::new(from_json::<Pod>(pod.clone()))).collect(),
            services: self.services.iter().map(|one| Arc::new(from_json::<Service>(one.clone()))).collect(),
            buffers: Ok((self.which == "Vertex").then(config)),
            failure: None,
            options: &options,
        };
        let plan = plan(&observed, at(self.now));
        let mut text = String::new();
        for effect in &plan.effects {
            match effect {
                Effect::Create { body, .. } => {
                    let mut pod = body.clone();
                    let number = self.pods.len();
                    merge(
                        &mut pod,
                        json!({"metadata": {"uid": format!("p{number}"), "namespace": "shop",
                        "creationTimestamp": seconds(self.now)}}),
                    );
                    text += &format!("create {}\n", pod["metadata"]["name"].as_str().unwrap());
                    self.pods.push(pod);
                }
                Effect::Delete { target, .. } => {
                    text += &format!("delete {}\n", target.name);
                    self.pods.retain(|pod| pod["metadata"]["name"] != json!(target.name));
                }
                Effect::Apply { target, body, .. } => {
                    text += &format!("apply {target}\n");
                    self.services.push(body.clone());
                }
                Effect::Patch { body, .. } => {
                    merge(&mut self.worker, body.clone());
                    let status = &self.worker["status"];
                    text += &format!(
                        "status {} replicas={} desired={} ready={} updated={}/{}\n",
                        status["phase"].as_str().unwrap(),
                        status["replicas"],
                        status["desiredReplicas"],
                        status["readyReplicas"],
                        status["updatedReadyReplicas"],
                        status["updatedReplicas"],
                    );
                }
                other => text += &format!("{other}\n"),
            }
        }
        self.now += 1;
        text
    }

    fn all_ready(&mut self) {
        for pod in &mut self.pods {
            let ready =
                json!({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}});
            merge(pod, ready);
        }
    }

    fn spec(&mut self, over: Value) {
        merge(&mut self.worker, json!({ "spec": over }));
    }
}

#[test]
fn pods_come_by_index_and_go_from_the_highest() {
    let mut world = World::new(&vertex(json!({})));
    let mut story = String::new();
    story += &world.turn();
    story += "-- not ready: a scale-up waits\n";
    world.spec(json!({"replicas": 4}));
    story += &world.turn();
    story += "-- ready\n";
    world.all_ready();
    story += &world.turn();
    story += "-- ready again, and nothing more to say\n";
    world.all_ready();
    story += &world.turn();
    story += &world.turn();
    story += "-- down to one\n";
    world.spec(json!({"replicas": 1}));
    story += &world.turn();
    story += "-- paused, and on again\n";
    world.spec(json!({"lifecycle": {"desiredPhase": "Paused"}}));
    story += &world.turn();
    world.spec(json!({"lifecycle": {"desiredPhase": "Running"}}));
    story += &world.turn();
    expect![[r#"
        apply Service shop/simple-cat-headless
        create simple-cat-0-96c46
        create simple-cat-1-7fdf1
        event ReplicasScaled "Replicas changed from 0 to 2" on Vertex shop/simple-cat
        status Running replicas=2 desired=2 ready=0 updated=0/2
        -- not ready: a scale-up waits
        status Running replicas=2 desired=4 ready=0 updated=0/2
        -- ready
        create simple-cat-2-ea317
        create simple-cat-3-bb575
        event ReplicasScaled "Replicas changed from 2 to 4" on Vertex shop/simple-cat
        status Running replicas=4 desired=4 ready=2 updated=2/4
        -- ready again, and nothing more to say
        status Running replicas=4 desired=4 ready=4 updated=4/4
        -- down to one
        delete simple-cat-3-bb575
        delete simple-cat-2-ea317
        delete simple-cat-1-7fdf1
        event ReplicasScaled "Replicas changed from 4 to 1" on Vertex shop/simple-cat
        status Running replicas=1 desired=1 ready=1 updated=1/1
        -- paused, and on again
        delete simple-cat-0-96c46
        event ReplicasScaled "Replicas changed from 1 to 0" on Vertex shop/simple-cat
        status Paused replicas=0 desired=0 ready=0 updated=0/0
        create simple-cat-0-96c46
        event ReplicasScaled "Replicas changed from 0 to 1" on Vertex shop/simple-cat
        status Running replicas=1 desired=1 ready=0 updated=0/1
    "#]]
    .assert_eq(&story);
}

#[test]
fn a_changed_template_is_rolled_out_a_few_at_a_time_and_a_changed_scale_is_not() {
    let mut world = World::new(&vertex(json!({"spec": {"replicas": 5}})));
    let settle = |world: &mut World| {
        for _ in 0..3 {
            world.all_ready();
            world.turn();
        }
    };
    world.turn();
    settle(&mut world);
    let before = world.pods.clone();
    world.spec(json!({"scale": {"min": 1, "max": 9, "lookbackSeconds": 60}}));
    world.turn();
    assert_eq!(world.pods, before, "bounds are none of the pods' business");

    world.spec(json!({"udf": {"container": {"image": "cat:2"}}}));
    let mut story = String::new();
    for _ in 0..6 {
        story += &world.turn();
        story += "--\n";
        world.all_ready();
    }
    expect![[r#"
        create simple-cat-0-894b7
        create simple-cat-1-c3546
        delete simple-cat-0-96c46
        delete simple-cat-1-7fdf1
        status Running replicas=5 desired=5 ready=5 updated=0/2
        --
        create simple-cat-2-46bce
        create simple-cat-3-a6b5e
        delete simple-cat-2-ea317
        delete simple-cat-3-bb575
        status Running replicas=5 desired=5 ready=5 updated=2/4
        --
        create simple-cat-4-8898d
        delete simple-cat-4-b4361
        status Running replicas=5 desired=5 ready=5 updated=4/5
        --
        status Running replicas=5 desired=5 ready=5 updated=5/5
        --
        --
        --
    "#]]
    .assert_eq(&story);
    let images: Vec<&Value> =
        world.pods.iter().map(|pod| &pod["spec"]["initContainers"][0]["image"]).collect();
    assert_eq!(images, vec![&json!("cat:2"); 5]);
}

/// Both would be made from the same state, so both have the same name.
#[test]
fn two_leaders_make_one_pod() {
    let (mut one, mut other) = (World::new(&vertex(json!({}))), World::new(&vertex(json!({}))));
    assert_eq!(one.turn(), other.turn());
    // The pod that takes the place of one that failed has a name of its own.
    let first = one.pods[0]["metadata"]["name"].clone();
    one.pods[0]["status"] = json!({"phase": "Failed"});
    one.turn();
    let names: Vec<&Value> = one.pods.iter().map(|pod| &pod["metadata"]["name"]).collect();
    assert_eq!(names.len(), 3);
    assert_ne!(*names[2], first);
    assert!(names[2].as_str().unwrap().starts_with("simple-cat-0-"), "{names:?}");
}

#[test]
fn bounds_hold_unless_somebody_else_scales() {
    let desired = |over: Value| {
        let mut world = World::new(&vertex(over));
        world.turn();
        world.pods.len()
    };
    assert_eq!(desired(json!({"spec": {"replicas": 8, "scale": {"max": 3}}})), 3);
    assert_eq!(desired(json!({"spec": {"replicas": 1, "scale": {"min": 2}}})), 2);
    assert_eq!(desired(json!({"spec": {"replicas": 8, "scale": {"max": 3, "disabled": true}}})), 8);
    assert_eq!(desired(json!({"spec": {"replicas": 0}})), 0);
}

#[test]
fn a_pod_has_what_it_needs() {
    let worker = vertex(json!({"spec": {
        "nodeSelector": {"disk": "ssd"}, "metadata": {"labels": {"team": "a"}},
        "volumes": [{"name": "v", "emptyDir": {}}], "sidecars": [{"name": "log", "image": "l"}],
        "containerTemplate": {"env": [{"name": "DEBUG", "value": "1"}], "resources": {"limits": {"memory": "1Gi"}}},
    }}));
    let config = config();
    let mut pod = Template::new(&worker, Some(&config), &options()).pod(&worker, 3, &[]);
    // base64 of the object; what it says is checked below
    let object = pod["spec"]["containers"][0]["env"][6]["value"].take();
    let _: Pod = from_json(pod.clone());
    expect![[r#"
        {
          "apiVersion": "v1",
          "kind": "Pod",
          "metadata": {
            "annotations": {
              "kubectl.kubernetes.io/default-container": "numa",
              "numaflow.numaproj.io/hash": "47b644c676cd9541856a3705213344c59b49d6f1e192a12efdec52ac8c7077ad",
              "numaflow.numaproj.io/replica": "3"
            },
            "labels": {
              "app.kubernetes.io/component": "vertex",
              "app.kubernetes.io/managed-by": "vertex-controller",
              "app.kubernetes.io/name": "simple-cat",
              "app.kubernetes.io/part-of": "numaflow",
              "numaflow.numaproj.io/pipeline-name": "simple",
              "numaflow.numaproj.io/vertex-name": "cat",
              "team": "a"
            },
            "name": "simple-cat-3-61206",
            "ownerReferences": [
              {
                "apiVersion": "numaflow.numaproj.io/v1alpha1",
                "blockOwnerDeletion": true,
                "controller": true,
                "kind": "Vertex",
                "name": "simple-cat",
                "uid": "v1"
              }
            ]
          },
          "spec": {
            "containers": [
              {
                "command": [
                  "ballast",
                  "vertex"
                ],
                "env": [
                  {
                    "name": "NUMAFLOW_NAMESPACE",
                    "valueFrom": {
                      "fieldRef": {
                        "apiVersion": "v1",
                        "fieldPath": "metadata.namespace"
                      }
                    }
                  },
                  {
                    "name": "NUMAFLOW_POD",
                    "valueFrom": {
                      "fieldRef": {
                        "apiVersion": "v1",
                        "fieldPath": "metadata.name"
                      }
                    }
                  },
                  {
                    "name": "NUMAFLOW_REPLICA",
                    "valueFrom": {
                      "fieldRef": {
                        "apiVersion": "v1",
                        "fieldPath": "metadata.annotations['numaflow.numaproj.io/replica']"
                      }
                    }
                  },
                  {
                    "name": "NUMAFLOW_POD_IP",
                    "valueFrom": {
                      "fieldRef": {
                        "apiVersion": "v1",
                        "fieldPath": "status.podIP"
                      }
                    }
                  },
                  {
                    "name": "NUMAFLOW_PIPELINE_NAME",
                    "value": "simple"
                  },
                  {
                    "name": "NUMAFLOW_VERTEX_NAME",
                    "value": "cat"
                  },
                  {
                    "name": "NUMAFLOW_VERTEX_OBJECT",
                    "value": null
                  },
                  {
                    "name": "NUMAFLOW_ISBSVC_CONFIG",
                    "value": "eyJlbWJlZGRlZCI6eyJhZGRyZXNzIjoiMTI3LjAuMC4xOjcwMDAifX0="
                  },
                  {
                    "name": "NUMAFLOW_ISBSVC_TOKEN",
                    "valueFrom": {
                      "secretKeyRef": {
                        "key": "token",
                        "name": "simple-buffers"
                      }
                    }
                  },
                  {
                    "name": "DEBUG",
                    "value": "1"
                  }
                ],
                "image": "ballast:test",
                "imagePullPolicy": "IfNotPresent",
                "livenessProbe": {
                  "failureThreshold": 5,
                  "httpGet": {
                    "path": "/livez",
                    "port": 2469,
                    "scheme": "HTTPS"
                  },
                  "initialDelaySeconds": 20,
                  "periodSeconds": 60,
                  "timeoutSeconds": 30
                },
                "name": "numa",
                "ports": [
                  {
                    "containerPort": 2469,
                    "name": "metrics"
                  },
                  {
                    "containerPort": 2470,
                    "name": "runtime"
                  }
                ],
                "readinessProbe": {
                  "failureThreshold": 6,
                  "httpGet": {
                    "path": "/readyz",
                    "port": 2469,
                    "scheme": "HTTPS"
                  },
                  "initialDelaySeconds": 1,
                  "periodSeconds": 2,
                  "timeoutSeconds": 30
                },
                "resources": {
                  "limits": {
                    "memory": "1Gi"
                  }
                },
                "volumeMounts": [
                  {
                    "mountPath": "/var/run/numaflow",
                    "name": "var-run-numaflow"
                  }
                ]
              },
              {
                "image": "l",
                "name": "log"
              }
            ],
            "hostname": "simple-cat-3",
            "initContainers": [
              {
                "env": [
                  {
                    "name": "NUMAFLOW_NAMESPACE",
                    "valueFrom": {
                      "fieldRef": {
                        "apiVersion": "v1",
                        "fieldPath": "metadata.namespace"
                      }
                    }
                  },
                  {
                    "name": "NUMAFLOW_POD",
                    "valueFrom": {
                      "fieldRef": {
                        "apiVersion": "v1",
                        "fieldPath": "metadata.name"
                      }
                    }
                  },
                  {
                    "name": "NUMAFLOW_REPLICA",
                    "valueFrom": {
                      "fieldRef": {
                        "apiVersion": "v1",
                        "fieldPath": "metadata.annotations['numaflow.numaproj.io/replica']"
                      }
                    }
                  },
                  {
                    "name": "NUMAFLOW_POD_IP",
                    "valueFrom": {
                      "fieldRef": {
                        "apiVersion": "v1",
                        "fieldPath": "status.podIP"
                      }
                    }
                  },
                  {
                    "name": "NUMAFLOW_PIPELINE_NAME",
                    "value": "simple"
                  },
                  {
                    "name": "NUMAFLOW_VERTEX_NAME",
                    "value": "cat"
                  },
                  {
                    "name": "NUMAFLOW_UD_CONTAINER_TYPE",
                    "value": "udf"
                  }
                ],
                "image": "cat:1",
                "name": "udf",
                "restartPolicy": "Always",
                "volumeMounts": [
                  {
                    "mountPath": "/var/run/numaflow",
                    "name": "var-run-numaflow"
                  }
                ]
              }
            ],
            "nodeSelector": {
              "disk": "ssd"
            },
            "subdomain": "simple-cat-headless",
            "volumes": [
              {
                "emptyDir": {
                  "medium": "Memory"
                },
                "name": "var-run-numaflow"
              },
              {
                "emptyDir": {},
                "name": "v"
              }
            ]
          }
        }"#]]
    .assert_eq(&serde_json::to_string_pretty(&pod).unwrap());
    let object = base64::Engine::decode(&base64::prelude::BASE64_STANDARD, object.as_str().unwrap()).unwrap();
    let object: api::numaflow::Vertex = serde_json::from_slice(&object).unwrap();
    assert_eq!((object.spec.vertex.name.as_str(), object.spec.replicas), ("cat", None));
}

#[test]
fn an_http_source_gets_a_service() {
    let names = |worker: &Worker| -> Vec<String> {
        services(worker).iter().map(|one| one["metadata"]["name"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(names(&vertex(json!({}))), ["simple-cat-headless"]);
    let http = vertex(json!({"spec": {"udf": null, "source": {"http": {"service": true}}}}));
    assert_eq!(names(&http), ["simple-cat-headless", "simple-cat"]);
}

#[test]
fn a_mono_vertex_has_no_buffers_and_says_what_is_wrong() {
    let mono = |spec: Value| {
        Worker::MonoVertex(Arc::new(from_json(json!({
            "apiVersion": "numaflow.numaproj.io/v1alpha1", "kind": "MonoVertex",
            "metadata": {"name": "m", "namespace": "shop", "uid": "m1", "creationTimestamp": seconds(0)},
            "spec": spec,
        }))))
    };
    let mut world =
        World::new(&mono(json!({"source": {"generator": {}}, "sink": {"log": {}}, "replicas": 1})));
    let mut story = world.turn();
    let mut wrong = World::new(&mono(json!({"source": {"kafka": {}}, "sink": {"log": {}}})));
    story += &wrong.turn();
    story += wrong.worker["status"]["message"].as_str().unwrap();
    expect![[r#"
        apply Service shop/m-mv-headless
        create m-mv-0-1301f
        event ReplicasScaled "Replicas changed from 0 to 1" on MonoVertex shop/m
        status Running replicas=1 desired=1 ready=0 updated=0/1
        status Failed replicas=0 desired=0 ready=0 updated=0/0
        source.kafka: is not supported: use generator, http, jetstream or udsource"#]]
    .assert_eq(&story);
}

#[test]
fn what_is_missing_or_broken_is_said() {
    let options = options();
    let no_buffers = NoBuffers { reason: "ISBSvcNotFound", message: "there is none".into() };
    let mut observed = Observed {
        worker: vertex(json!({})),
        pods: Vec::new(),
        services: Vec::new(),
        buffers: Err(no_buffers),
        failure: None,
        options: &options,
    };
    let mut all = lines(&plan(&observed, at(10)));
    observed.buffers = Ok(Some(config()));
    let broken: Pod = from_json(json!({
        "metadata": {"name": "simple-cat-0-abcde", "uid": "p", "annotations": {"numaflow.numaproj.io/replica": "0"}},
        "status": {"phase": "Pending", "containerStatuses": [{"name": "udf", "image": "", "imageID": "", "ready": false,
            "restartCount": 3, "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 40s"}}}]},
    }));
    observed.pods = vec![Arc::new(broken)];
    all += &lines(&plan(&observed, at(10)));
    expect![[r#"
        status Vertex shop/simple-cat {"conditions":[{"lastTransitionTime":"2026-01-01T00:00:10Z","message":"there is none","reason":"ISBSvcNotFound","status":"False","type":"Deployed"},{"lastTransitionTime":"2026-01-01T00:00:10Z","message":"no pod is in trouble","reason":"Running","status":"True","type":"PodsHealthy"}],"desiredReplicas":0,"lastScaledAt":"2026-01-01T00:00:00Z","message":"there is none","observedGeneration":1,"phase":"Failed","readyReplicas":0,"reason":"ISBSvcNotFound","replicas":0,"selector":"numaflow.numaproj.io/pipeline-name=simple,numaflow.numaproj.io/vertex-name=cat","updatedReadyReplicas":0,"updatedReplicas":0}
        apply Service shop/simple-cat-headless {"apiVersion":"v1","kind":"Service","metadata":{"annotations":{"numaflow.numaproj.io/hash":"71b1510a438c1b1efcd51b227fd18bdc398a1db743ea74f836366839720fd509"},"labels":{"app.kubernetes.io/component":"vertex","app.kubernetes.io/managed-by":"vertex-controller","app.kubernetes.io/name":"simple-cat","app.kubernetes.io/part-of":"numaflow","numaflow.numaproj.io/pipeline-name":"simple","numaflow.numaproj.io/vertex-name":"cat"},"name":"simple-cat-headless","ownerReferences":[{"apiVersion":"numaflow.numaproj.io/v1alpha1","blockOwnerDeletion":true,"controller":true,"kind":"Vertex","name":"simple-cat","uid":"v1"}]},"spec":{"clusterIP":"None","ports":[{"name":"metrics","port":2469,"protocol":"TCP","targetPort":2469},{"name":"runtime","port":2470,"protocol":"TCP","targetPort":2470}],"publishNotReadyAddresses":true,"selector":{"numaflow.numaproj.io/pipeline-name":"simple","numaflow.numaproj.io/vertex-name":"cat"}}}
        create Pod shop/simple-cat-0-b6c44
        create Pod shop/simple-cat-1-7fdf1
        delete Pod simple-cat-0-abcde
        event ReplicasScaled "Replicas changed from 0 to 2" on Vertex shop/simple-cat
        status Vertex shop/simple-cat {"conditions":[{"lastTransitionTime":"2026-01-01T00:00:10Z","message":"pods and Services are as they should be","reason":"Successful","status":"True","type":"Deployed"},{"lastTransitionTime":"2026-01-01T00:00:10Z","message":"container udf of pod simple-cat-0-abcde: CrashLoopBackOff (back-off 40s)","reason":"PodsUnhealthy","status":"False","type":"PodsHealthy"}],"currentHash":"1f2ed0c3006562c4d11288788469af8edaa451b000dd7ee2a5d93706749d870c","desiredReplicas":2,"lastScaledAt":"2026-01-01T00:00:10Z","message":"Degraded: container udf of pod simple-cat-0-abcde: CrashLoopBackOff (back-off 40s)","observedGeneration":1,"phase":"Running","readyReplicas":0,"reason":"CrashLoopBackOff","replicas":2,"selector":"numaflow.numaproj.io/pipeline-name=simple,numaflow.numaproj.io/vertex-name=cat","updateHash":"1f2ed0c3006562c4d11288788469af8edaa451b000dd7ee2a5d93706749d870c","updatedReadyReplicas":0,"updatedReplicas":2}
    "#]].assert_eq(&all);
}

/// `kubectl delete -f` may take the service of the buffers before the pipeline, which goes only when its pods are gone.
#[test]
fn a_paused_vertex_lets_its_pods_go_without_a_service_too() {
    let options = options();
    let pod: Pod = from_json(json!({
        "metadata": {"name": "simple-cat-0-abcde", "uid": "p", "annotations": {"numaflow.numaproj.io/replica": "0"}},
        "status": {"phase": "Running"},
    }));
    let mut observed = Observed {
        worker: vertex(json!({})),
        pods: vec![Arc::new(pod)],
        services: Vec::new(),
        buffers: Err(NoBuffers { reason: "ISBSvcNotFound", message: "there is none".into() }),
        failure: None,
        options: &options,
    };
    let deletes =
        |observed: &Observed<'_>| lines(&plan(observed, at(10))).contains("delete Pod simple-cat-0-abcde");
    assert!(!deletes(&observed), "what runs goes on");
    observed.worker = vertex(json!({"spec": {"lifecycle": {"desiredPhase": "Paused"}}}));
    assert!(deletes(&observed));
}
