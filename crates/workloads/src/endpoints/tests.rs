use engine::{
    effect::Effect,
    testing::{from_json, lines, merge, seconds},
};
use expect_test::expect;
use serde_json::{Value, json};

use super::*;

fn service(spec: Value) -> Arc<Service> {
    let mut object = json!({
        "metadata": { "namespace": "default", "name": "web", "uid": "svc", "labels": { "team": "shop" } },
        "spec": { "selector": { "app": "web" }, "ports": [{ "name": "http", "port": 80, "targetPort": "http" }] },
    });
    merge(&mut object["spec"], spec);
    Arc::new(from_json(object))
}

fn pod(number: u32, more: Value) -> Arc<Pod> {
    let name = format!("p{number:03}");
    let mut object = json!({
        "metadata": { "namespace": "default", "name": name, "uid": name, "labels": { "app": "web" } },
        "spec": {
            "nodeName": "n1",
            "containers": [{ "name": "c", "ports": [{ "name": "http", "containerPort": 8080 }] }],
        },
        "status": {
            "phase": "Running", "podIP": format!("127.0.1.{number}"),
            "conditions": [{ "type": "Ready", "status": "True" }],
        },
    });
    merge(&mut object, more);
    Arc::new(from_json(object))
}

fn unready() -> Value {
    json!({ "status": { "conditions": [{ "type": "Ready", "status": "False" }] } })
}

struct World {
    service: Arc<Service>,
    pods: Vec<Arc<Pod>>,
    endpoints: Option<Value>,
    slices: Vec<Value>,
}

impl World {
    fn new(service: Arc<Service>, pods: Vec<Arc<Pod>>) -> Self {
        Self { service, pods, endpoints: None, slices: vec![] }
    }

    /// Plans once and applies; tells what was done to slices.
    fn turn(&mut self) -> String {
        let observed = Observed {
            service: self.service.clone(),
            pods: self.pods.clone(),
            endpoints: self.endpoints.clone().map(|object| Arc::new(from_json(object))),
            slices: self.slices.iter().map(|object| Arc::new(from_json(object.clone()))).collect(),
        };
        let plan = plan(&observed);
        let mut done = Vec::new();
        for effect in &plan.effects {
            match effect {
                Effect::Create { kind, body, .. } if *kind == engine::kind::ENDPOINT_SLICE => {
                    let mut body = body.clone();
                    let name = format!("web-{}", self.slices.len());
                    body["metadata"]["name"] = json!(name);
                    done.push(format!("+{name}[{}]", body["endpoints"].as_array().unwrap().len()));
                    self.slices.push(body);
                }
                Effect::Create { body, .. } => self.endpoints = Some(body.clone()),
                Effect::Patch { target, body, .. } if target.kind == engine::kind::ENDPOINT_SLICE => {
                    let slice = self
                        .slices
                        .iter_mut()
                        .find(|slice| slice["metadata"]["name"] == target.name)
                        .unwrap();
                    done.push(format!("{}[{}]", target.name, body["endpoints"].as_array().unwrap().len()));
                    merge(slice, body.clone());
                }
                Effect::Patch { body, .. } => merge(self.endpoints.as_mut().unwrap(), body.clone()),
                Effect::Delete { target, .. } => {
                    done.push(format!("-{}", target.name));
                    self.slices.retain(|slice| slice["metadata"]["name"] != target.name);
                }
                other => panic!("{other}"),
            }
        }
        if plan.effects.is_empty() { "nothing".into() } else { done.join(" ") }
    }
}

#[test]
fn ready_unready_and_leaving_pods() {
    let leaving = json!({ "metadata": { "deletionTimestamp": seconds(0) } });
    let finished = json!({ "status": { "phase": "Succeeded" } });
    let no_address = json!({ "status": { "podIP": null } });
    let pods =
        vec![pod(1, json!({})), pod(2, unready()), pod(3, leaving), pod(4, finished), pod(5, no_address)];
    let mut world = World::new(service(json!({})), pods);
    assert_eq!(world.turn(), "+web-0[3]");
    expect![[r#"{"addressType":"IPv4","apiVersion":"discovery.k8s.io/v1","endpoints":[{"addresses":["127.0.1.1"],"conditions":{"ready":true,"serving":true,"terminating":false},"nodeName":"n1","targetRef":{"kind":"Pod","name":"p001","namespace":"default","uid":"p001"}},{"addresses":["127.0.1.2"],"conditions":{"ready":false,"serving":false,"terminating":false},"nodeName":"n1","targetRef":{"kind":"Pod","name":"p002","namespace":"default","uid":"p002"}},{"addresses":["127.0.1.3"],"conditions":{"ready":false,"serving":true,"terminating":true},"nodeName":"n1","targetRef":{"kind":"Pod","name":"p003","namespace":"default","uid":"p003"}}],"kind":"EndpointSlice","metadata":{"generateName":"web-","labels":{"endpointslice.kubernetes.io/managed-by":"endpointslice-controller.k8s.io","kubernetes.io/service-name":"web","team":"shop"},"name":"web-0","namespace":"default","ownerReferences":[{"apiVersion":"v1","blockOwnerDeletion":true,"controller":true,"kind":"Service","name":"web","uid":"svc"}]},"ports":[{"name":"http","port":8080,"protocol":"TCP"}]}"#]]
        .assert_eq(&world.slices[0].to_string());
    expect![[r#"{"apiVersion":"v1","kind":"Endpoints","metadata":{"labels":{"endpoints.kubernetes.io/managed-by":"endpoint-controller","team":"shop"},"name":"web","namespace":"default"},"subsets":[{"addresses":[{"ip":"127.0.1.1","nodeName":"n1","targetRef":{"kind":"Pod","name":"p001","namespace":"default","uid":"p001"}}],"notReadyAddresses":[{"ip":"127.0.1.2","nodeName":"n1","targetRef":{"kind":"Pod","name":"p002","namespace":"default","uid":"p002"}}],"ports":[{"name":"http","port":8080,"protocol":"TCP"}]}]}"#]]
        .assert_eq(&world.endpoints.clone().unwrap().to_string());
    assert_eq!(world.turn(), "nothing");
}

#[test]
fn many_pods_move_between_slices_as_little_as_possible() {
    let mut world = World::new(service(json!({})), (0..150).map(|n| pod(n, json!({}))).collect());
    assert_eq!(world.turn(), "+web-0[100] +web-1[50]");
    world.pods.remove(3);
    assert_eq!(world.turn(), "web-0[99]");
    world.pods.push(pod(200, json!({})));
    assert_eq!(world.turn(), "web-0[100]");
    world.pods.clear();
    assert_eq!(world.turn(), "web-0[0] -web-1", "one empty slice stays");
    assert_eq!(world.turn(), "nothing");
}

#[test]
fn a_named_port_may_differ_by_pod() {
    let other_port = json!({ "spec": { "containers": [{ "name": "c", "ports": [{ "name": "http", "containerPort": 9090 }] }] } });
    let mut world = World::new(service(json!({})), vec![pod(1, json!({})), pod(2, other_port)]);
    assert_eq!(world.turn(), "+web-0[1] +web-1[1]");
    assert_eq!(world.endpoints.as_ref().unwrap()["subsets"].as_array().unwrap().len(), 2);
}

#[test]
fn unready_addresses_can_be_asked_for() {
    let mut world = World::new(service(json!({ "publishNotReadyAddresses": true })), vec![pod(1, unready())]);
    world.turn();
    assert_eq!(world.slices[0]["endpoints"][0]["conditions"]["ready"], true);
}

#[test]
fn a_service_that_is_being_deleted_is_left_alone() {
    let mut object = json!(*service(json!({})));
    object["metadata"]["deletionTimestamp"] = json!(seconds(0));
    let observed = Observed {
        service: Arc::new(from_json(object)),
        pods: vec![pod(1, json!({}))],
        endpoints: None,
        slices: vec![],
    };
    assert_eq!(lines(&plan(&observed)), "");
}
