//! Built-in kinds with their published schemas: what the managers of a fresh object own, as a real kube-apiserver
//! 1.36.3 recorded it for the same requests.

use std::collections::BTreeMap;

use expect_test::expect;
use merge::apply::{
    Updater,
    ownership::{Reset, SameObject},
    typed::zero_value,
};
use schema::Schema;
use serde_json::{Value, json};

use crate::{module, read, types};

#[test]
fn a_created_deployment() {
    let schema = deployment();
    // as it is after defaulting
    let new = json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "web", "labels": {"app": "web"}},
        "spec": {
            "replicas": 2, "progressDeadlineSeconds": 600, "revisionHistoryLimit": 10,
            "selector": {"matchLabels": {"app": "web"}},
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {
                    "containers": [{
                        "name": "c", "image": "nginx:1", "ports": [{"containerPort": 80, "protocol": "TCP"}],
                        "imagePullPolicy": "IfNotPresent", "resources": {},
                        "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
                    }],
                    "dnsPolicy": "ClusterFirst", "restartPolicy": "Always", "schedulerName": "default-scheduler",
                    "securityContext": {}, "terminationGracePeriodSeconds": 30,
                },
            },
        },
        "status": {},
    });
    let created = with_updater(&schema, |updater| {
        updater.update(None, new, "tester", "2026-01-02T03:04:05.6Z".parse().unwrap())
    });
    expect![[r#"
        [
          {
            "apiVersion": "apps/v1",
            "fieldsType": "FieldsV1",
            "fieldsV1": {
              "f:metadata": {
                "f:labels": {
                  ".": {},
                  "f:app": {}
                }
              },
              "f:spec": {
                "f:progressDeadlineSeconds": {},
                "f:replicas": {},
                "f:revisionHistoryLimit": {},
                "f:selector": {},
                "f:strategy": {
                  "f:rollingUpdate": {
                    ".": {},
                    "f:maxSurge": {},
                    "f:maxUnavailable": {}
                  },
                  "f:type": {}
                },
                "f:template": {
                  "f:metadata": {
                    "f:labels": {
                      ".": {},
                      "f:app": {}
                    }
                  },
                  "f:spec": {
                    "f:containers": {
                      "k:{\"name\":\"c\"}": {
                        ".": {},
                        "f:image": {},
                        "f:imagePullPolicy": {},
                        "f:name": {},
                        "f:ports": {
                          ".": {},
                          "k:{\"containerPort\":80,\"protocol\":\"TCP\"}": {
                            ".": {},
                            "f:containerPort": {},
                            "f:protocol": {}
                          }
                        },
                        "f:resources": {},
                        "f:terminationMessagePath": {},
                        "f:terminationMessagePolicy": {}
                      }
                    },
                    "f:dnsPolicy": {},
                    "f:restartPolicy": {},
                    "f:schedulerName": {},
                    "f:securityContext": {},
                    "f:terminationGracePeriodSeconds": {}
                  }
                }
              }
            },
            "manager": "tester",
            "operation": "Update",
            "time": "2026-01-02T03:04:05Z"
          }
        ]"#]]
    .assert_eq(&entries(&created));
}

#[test]
fn an_applied_deployment() {
    let schema = deployment();
    let config = json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "web", "labels": {"app": "web"}},
        "spec": {
            "replicas": 3,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "c", "image": "nginx:2", "ports": [{"containerPort": 80}]}]},
            },
        },
    });
    let applied = with_updater(&schema, |updater| {
        updater.apply(None, &config, "ssa", false, "2026-01-02T03:04:05Z".parse().unwrap()).unwrap()
    });
    expect![[r#"
        [
          {
            "apiVersion": "apps/v1",
            "fieldsType": "FieldsV1",
            "fieldsV1": {
              "f:metadata": {
                "f:labels": {
                  "f:app": {}
                }
              },
              "f:spec": {
                "f:replicas": {},
                "f:selector": {},
                "f:template": {
                  "f:metadata": {
                    "f:labels": {
                      "f:app": {}
                    }
                  },
                  "f:spec": {
                    "f:containers": {
                      "k:{\"name\":\"c\"}": {
                        ".": {},
                        "f:image": {},
                        "f:name": {},
                        "f:ports": {
                          "k:{\"containerPort\":80,\"protocol\":\"TCP\"}": {
                            ".": {},
                            "f:containerPort": {}
                          }
                        }
                      }
                    }
                  }
                }
              }
            },
            "manager": "ssa",
            "operation": "Apply",
            "time": "2026-01-02T03:04:05Z"
          }
        ]"#]]
    .assert_eq(&entries(&applied.object));
    let mut expected = config;
    expected["spec"]["strategy"] = json!({});
    expected["spec"]["template"]["spec"]["containers"][0] =
        json!({"name": "c", "image": "nginx:2", "ports": [{"containerPort": 80}]});
    expected["status"] = json!({});
    let mut object = applied.object;
    object["metadata"].as_object_mut().unwrap().remove("managedFields");
    assert_eq!(object, expected);
}

fn deployment() -> Schema {
    let folder = module("k8s.io/kubernetes@v1.36.3").join("api/openapi-spec/v3");
    let document = serde_json::from_str(&read(folder.join("apis__apps__v1_openapi.json"))).unwrap();
    // to the port of a probe it is 8 of them
    types::openapi(&document, "io.k8s.api.apps.v1.Deployment", 10)
}

fn with_updater<T>(schema: &Schema, f: impl FnOnce(&Updater<'_>) -> T) -> T {
    f(&Updater {
        api_version: "apps/v1",
        kind: "Deployment",
        subresource: "",
        versions: &SameObject { schemas: BTreeMap::from([("apps/v1", Some(schema))]) },
        reset: &Reset::fields([&["status"][..]]),
        empty: &zero_value(schema),
    })
}

fn entries(object: &Value) -> String {
    serde_json::to_string_pretty(&object["metadata"]["managedFields"]).unwrap()
}
