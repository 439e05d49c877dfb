//! The kind that keeps a number of instances: `spec.scaling`.

use api::kro;
use schema::Schema;
use serde_json::{Map, Value, json};

use super::{Owner, ScalePaths, column, conditions, frame, scale_subresource};

/// The Set of a kind: how many instances, made of which template, changed how many at a time.
pub(crate) fn set(definition: &kro::Schema, scaling: &kro::Scaling, owner: &Owner, spec: &Schema) -> Value {
    let count =
        |about: &str| json!({ "type": "integer", "format": "int32", "minimum": 0, "description": about });
    let texts = json!({ "type": "object", "additionalProperties": { "type": "string" } });
    let mut replicas = count("How many instances there are to be.");
    replicas["default"] = json!(1);
    let mut concurrency = count("How many instances may be not ready because of a change.");
    concurrency["minimum"] = json!(1);
    concurrency["default"] = json!(1);
    let properties = Map::from_iter([
        (
            "spec".to_owned(),
            json!({
                "type": "object",
                "required": ["template"],
                "properties": {
                    "replicas": replicas,
                    "rollingUpdate": {
                        "type": "object",
                        "default": {},
                        "properties": { "maxConcurrentUpdated": concurrency },
                    },
                    "template": {
                        "type": "object",
                        "description": "What each instance is made of.",
                        "required": if spec.required.is_empty() { json!([]) } else { json!(["spec"]) },
                        "properties": {
                            "metadata": {
                                "type": "object",
                                "properties": { "labels": texts, "annotations": texts },
                            },
                            "spec": json!(spec),
                        },
                    },
                },
            }),
        ),
        (
            "status".to_owned(),
            json!({
                "type": "object",
                "properties": {
                    "replicas": count("Instances that are not being deleted."),
                    "readyReplicas": count("Those of them that are ready."),
                    "updatedReplicas": count("Those of them that have the newest template."),
                    "updatedReadyReplicas": count("Those of them that have the newest template and are ready."),
                    "terminatingReplicas": count("Instances that are being deleted."),
                    "selector": { "type": "string", "description": "Selects the instances, not their pods." },
                    "observedGeneration": { "type": "integer", "format": "int64" },
                    "updateRevision": { "type": "string", "description": "The hash of the newest template." },
                    "conditions": json!(conditions()),
                },
            }),
        ),
    ]);
    let names = |name: &str| vec![name.to_owned()];
    let scale =
        ScalePaths { spec: names("replicas"), status: names("replicas"), selector: Some(names("selector")) };
    let subresources = json!({ "status": {}, "scale": scale_subresource(&scale) });
    let columns = json!([
        column("Desired", "integer", ".spec.replicas"),
        column("Current", "integer", ".status.replicas"),
        column("Ready", "integer", ".status.readyReplicas"),
        column("Up-to-date", "integer", ".status.updatedReplicas"),
        column("Age", "date", ".metadata.creationTimestamp"),
    ]);
    let mut crd = frame(definition, &scaling.kind, owner, properties, subresources, columns);
    if spec.required.is_empty() {
        // an empty list of required fields is not what the API writes back
        if let Some(template) = crd
            .pointer_mut("/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/template")
            .and_then(Value::as_object_mut)
        {
            template.remove("required");
        }
    }
    crd
}
