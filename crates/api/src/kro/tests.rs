use kube::CustomResourceExt;
use serde_json::{Value, json};

use super::*;

fn version() -> Value {
    json!(ResourceGraphDefinition::crd())["spec"]["versions"][0].clone()
}

#[test]
fn the_kind_is_known_by_its_names() {
    let crd = json!(ResourceGraphDefinition::crd());
    assert_eq!(crd["metadata"]["name"], "resourcegraphdefinitions.kro.run");
    assert_eq!(crd["spec"]["scope"], "Cluster");
    assert_eq!(crd["spec"]["names"]["shortNames"], json!(["rgd"]));
    let version = version();
    assert_eq!(version["subresources"], json!({"status": {}}));
    let columns: Vec<&str> = version["additionalPrinterColumns"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|column| column["name"].as_str())
        .collect();
    assert_eq!(columns, ["APIVERSION", "KIND", "STATE", "READY", "TOPOLOGICALORDER", "AGE"]);
}

#[test]
fn what_the_schema_alone_decides() {
    let spec = version()["schema"]["openAPIV3Schema"]["properties"]["spec"].clone();
    assert_eq!(spec["required"], json!(["schema"]));
    let schema = &spec["properties"]["schema"];
    assert_eq!(schema["required"], json!(["apiVersion", "kind"]));
    let of = |field: &str| schema["properties"][field].clone();
    assert_eq!(of("group")["default"], "kro.run");
    assert_eq!(of("scope")["default"], "Namespaced");
    assert_eq!(of("scope")["enum"], json!(["Namespaced", "Cluster"]));
    for immutable in ["kind", "apiVersion", "group", "scope"] {
        assert_eq!(of(immutable)["x-kubernetes-validations"][0]["rule"], "self == oldSelf", "{immutable}");
    }
    for raw in ["spec", "types", "status"] {
        assert_eq!(of(raw)["x-kubernetes-preserve-unknown-fields"], true, "{raw}");
    }
    assert_eq!(of("shortNames")["x-kubernetes-list-type"], "set");
    assert_eq!(of("shortNames")["maxItems"], 32);
    assert_eq!(of("shortNames")["items"]["maxLength"], 63);
    let resource = &spec["properties"]["resources"]["items"];
    assert_eq!(
        resource["x-kubernetes-validations"][0]["rule"],
        "has(self.template) != has(self.externalRef)"
    );
    let scaling = &spec["properties"]["scaling"];
    assert_eq!(scaling["properties"]["method"]["enum"], json!(["replicas"]));
    assert_eq!(scaling["properties"]["method"]["default"], "replicas");
}

#[test]
fn a_definition_as_people_write_it() {
    let definition: ResourceGraphDefinition = serde_json::from_value(json!({
        "apiVersion": "kro.run/v1alpha1",
        "kind": "ResourceGraphDefinition",
        "metadata": { "name": "webapp" },
        "spec": {
            "schema": { "apiVersion": "v1alpha1", "kind": "WebApp", "spec": { "name": "string" } },
            "resources": [{ "id": "config", "template": { "kind": "ConfigMap" } }],
        },
    }))
    .unwrap();
    assert_eq!(definition.spec.schema.group, "kro.run");
    assert_eq!(definition.spec.schema.scope, Scope::Namespaced);
    assert_eq!(definition.spec.resources[0].template.as_ref().unwrap().0["kind"], "ConfigMap");
    assert!(definition.spec.scaling.is_none());
}
