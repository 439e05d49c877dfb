use kube::CustomResourceExt;
use serde_json::{Value, json};

use super::*;

fn crd() -> Value {
    json!(Function::crd())
}

fn spec_schema() -> Value {
    crd()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"].clone()
}

#[test]
fn the_kind_is_known_by_its_names() {
    let crd = crd();
    assert_eq!(crd["metadata"]["name"], "functions.serverless.kyma-project.io");
    assert_eq!(crd["spec"]["names"]["shortNames"], json!(["fn", "fns"]));
    assert_eq!(crd["spec"]["names"]["categories"], json!(["all"]));
    let version = &crd["spec"]["versions"][0];
    assert_eq!(
        version["subresources"],
        json!({"status": {}, "scale": {
            "specReplicasPath": ".spec.replicas",
            "statusReplicasPath": ".status.replicas",
            "labelSelectorPath": ".status.podSelector",
        }})
    );
    let columns: Vec<&str> = version["additionalPrinterColumns"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|column| column["name"].as_str())
        .collect();
    assert_eq!(columns, ["Configured", "Running", "Replicas", "Runtime", "Version", "Age"]);
}

#[test]
fn what_the_schema_alone_decides() {
    let schema = spec_schema();
    assert_eq!(schema["required"], json!(["runtime", "source"]));
    let of = |field: &str| schema["properties"][field].clone();
    assert_eq!(of("replicas")["default"], 1);
    assert_eq!(of("replicas")["minimum"], 0.0);
    assert_eq!(of("runtime")["enum"], json!(["nodejs20", "nodejs22", "nodejs24", "python312"]));
    let scale = of("scaleConfig");
    assert_eq!(scale["required"], json!(["maxReplicas", "minReplicas"]));
    assert_eq!(scale["properties"]["minReplicas"]["minimum"], 1.0);
    assert_eq!(scale["x-kubernetes-validations"][0]["rule"], "self.minReplicas <= self.maxReplicas");
    let mounts = of("secretMounts");
    assert_eq!(mounts["x-kubernetes-list-map-keys"], json!(["secretName"]));
    assert_eq!(mounts["items"]["properties"]["secretName"]["maxLength"], 253);
    let resources = &of("resourceConfiguration")["properties"]["function"];
    assert_eq!(resources["properties"]["profile"]["enum"], json!(["XS", "S", "M", "L", "XL"]));
    assert!(resources["x-kubernetes-validations"][0]["rule"].as_str().unwrap().contains("profile"));
}

/// The rule has to spell the names out; the controller checks them too.
#[test]
fn the_rule_about_variables_names_all_that_are_reserved() {
    let rules = spec_schema()["properties"]["env"]["x-kubernetes-validations"].clone();
    for name in RESERVED_ENV {
        assert!(rules[0]["rule"].as_str().unwrap().contains(&format!("'{name}'")), "{name}: {rules}");
        assert!(rules[0]["message"].as_str().unwrap().contains(name), "{name}: {rules}");
    }
}
