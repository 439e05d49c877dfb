//! OpenAPI v3 documents: what `kubectl explain` prints and `kubectl apply` looks at before it sends anything.

pub mod v2;

use serde_json::{Map, Value, json};

use crate::{Scope, builtin};

const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
const REFERENCE: &str = "#/components/schemas/";

/// A kind of a group version, as its document describes it.
pub struct KindDoc<'a> {
    pub kind: &'a str,
    /// The resource in paths: `deployments`.
    pub plural: &'a str,
    pub scope: Scope,
    /// The `openAPIV3Schema` of a custom kind; built-in kinds bring their own.
    pub schema: Option<&'a Value>,
    /// `status`, `scale` …
    pub subresources: &'a [&'a str],
}

/// The document of one group version (`group` is empty for the core): schemas of its kinds, and the requests on them.
/// It is made anew on each call, because it is large and seldom asked for.
pub fn document(group: &str, version: &str, kinds: &[KindDoc<'_>]) -> Value {
    let mut schemas = Map::new();
    let mut paths = Map::new();
    for doc in kinds {
        let name = match (doc.schema, builtin::find(group, version, doc.kind)) {
            (None, Some(row)) => {
                builtin::describe(row, &mut schemas);
                row.definition.to_owned()
            }
            (schema, _) => {
                if !schemas.contains_key(OBJECT_META) {
                    builtin::describe_metadata(&mut schemas);
                }
                let name = custom_name(group, version, doc.kind);
                schemas.insert(name.clone(), custom(schema.unwrap_or(&Value::Null)));
                name
            }
        };
        let gvk = json!([{ "group": group, "version": version, "kind": doc.kind }]);
        if let Some(schema) = schemas.get_mut(&name).and_then(Value::as_object_mut) {
            schema.insert("x-kubernetes-group-version-kind".to_owned(), gvk);
        }
        requests(group, version, doc, &name, &mut paths);
    }
    json!({
        "openapi": "3.0.0",
        "info": info(),
        "paths": paths,
        "components": { "schemas": schemas },
    })
}

fn info() -> Value {
    json!({ "title": "Kubernetes", "version": "v1.36.3" })
}

/// `com.example.v1.Widget` for `example.com/v1 Widget`.
fn custom_name(group: &str, version: &str, kind: &str) -> String {
    let mut parts: Vec<&str> = group.split('.').rev().collect();
    parts.extend([version, kind]);
    parts.join(".")
}

/// A CRD's schema with the fields every resource has.
fn custom(schema: &Value) -> Value {
    const ABOUT_VERSION: &str = "The version of the schema this object is written in, with its group.";
    const ABOUT_KIND: &str = "What this object is, in CamelCase. It cannot be changed.";
    let mut schema = match schema {
        Value::Object(_) => schema.clone(),
        _ => json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true }),
    };
    if let Some(map) = schema.as_object_mut() {
        map.entry("type").or_insert_with(|| "object".into());
        let properties = map.entry("properties").or_insert_with(|| json!({}));
        if let Some(properties) = properties.as_object_mut() {
            for (name, about) in [("apiVersion", ABOUT_VERSION), ("kind", ABOUT_KIND)] {
                properties.entry(name).or_insert_with(|| json!({ "type": "string", "description": about }));
            }
            properties.insert(
                "metadata".to_owned(),
                json!({
                    "description": "Name, labels and other standard data of the object.",
                    "allOf": [{ "$ref": format!("{REFERENCE}{OBJECT_META}") }],
                }),
            );
        }
    }
    schema
}

/// The requests on a kind. Clients look here for the parameters a server takes, `fieldValidation` above all.
fn requests(group: &str, version: &str, doc: &KindDoc<'_>, name: &str, paths: &mut Map<String, Value>) {
    let prefix = match group {
        "" => format!("/api/{version}"),
        group => format!("/apis/{group}/{version}"),
    };
    let namespaced = match doc.scope {
        Scope::Namespaced => format!("{prefix}/namespaces/{{namespace}}/{}", doc.plural),
        Scope::Cluster => format!("{prefix}/{}", doc.plural),
    };
    let operation = |action: &str, writes: bool| {
        let body = json!({ "application/json": { "schema": { "$ref": format!("{REFERENCE}{name}") } } });
        let mut operation = json!({
            "x-kubernetes-action": action,
            "x-kubernetes-group-version-kind": { "group": group, "version": version, "kind": doc.kind },
            "responses": { "200": { "description": "OK", "content": body } },
        });
        if writes {
            let query = |name: &str| json!({ "name": name, "in": "query", "schema": { "type": "string", "uniqueItems": true } });
            operation["parameters"] =
                json!([query("dryRun"), query("fieldManager"), query("fieldValidation")]);
            // Custom kinds have no merge keys; a client that reads otherwise sends patches that are refused.
            let strategic = doc.schema.is_none().then_some("strategic-merge-patch+json");
            let patch =
                ["apply-patch+yaml", "json-patch+json", "merge-patch+json"].into_iter().chain(strategic);
            operation["requestBody"] = match action {
                "patch" => {
                    let content = patch.map(|kind| (format!("application/{kind}"), json!({})));
                    json!({ "content": Map::from_iter(content), "required": true })
                }
                _ => json!({ "content": body, "required": true }),
            };
        }
        operation
    };
    paths.insert(
        namespaced.clone(),
        json!({ "get": operation("list", false), "post": operation("post", true) }),
    );
    let subresources = doc.subresources.iter().map(|name| format!("{namespaced}/{{name}}/{name}"));
    for path in [format!("{namespaced}/{{name}}")].into_iter().chain(subresources) {
        let item = json!({
            "get": operation("get", false),
            "put": operation("put", true),
            "patch": operation("patch", true),
            "delete": operation("delete", false),
        });
        paths.insert(path, item);
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    pub(super) fn deployment() -> KindDoc<'static> {
        KindDoc {
            kind: "Deployment",
            plural: "deployments",
            scope: Scope::Namespaced,
            schema: None,
            subresources: &["status"],
        }
    }

    #[test]
    fn every_reference_leads_somewhere() {
        let document = document("apps", "v1", &[deployment()]);
        let text = document.to_string();
        let schemas = &document["components"]["schemas"];
        let mut n_references = 0;
        for piece in text.split(&format!("\"{REFERENCE}")).skip(1) {
            let name = piece.split('"').next().unwrap();
            assert!(schemas.get(name).is_some(), "{name} is not described");
            n_references += 1;
        }
        assert!(n_references > 100);
    }

    #[test]
    fn built_in_fields_carry_what_clients_need() {
        let document = document("apps", "v1", &[deployment()]);
        let schemas = &document["components"]["schemas"];
        let mut spec = schemas["io.k8s.api.apps.v1.DeploymentSpec"]["properties"]["strategy"].clone();
        spec["description"] = "…".into();
        let mut ports = schemas["io.k8s.api.core.v1.Container"]["properties"]["ports"].clone();
        ports["description"] = "…".into();
        expect![[r##"
            {"allOf":[{"$ref":"#/components/schemas/io.k8s.api.apps.v1.DeploymentStrategy"}],"default":{},"description":"…","x-kubernetes-patch-strategy":"retainKeys"}
            {"description":"…","items":{"$ref":"#/components/schemas/io.k8s.api.core.v1.ContainerPort"},"type":"array","x-kubernetes-list-map-keys":["containerPort","protocol"],"x-kubernetes-list-type":"map","x-kubernetes-patch-merge-key":"containerPort","x-kubernetes-patch-strategy":"merge"}
            [{"group":"apps","kind":"Deployment","version":"v1"}]
            {"allOf":[{"$ref":"#/components/schemas/io.k8s.apimachinery.pkg.util.intstr.IntOrString"}],"description":"Name or number of the port to access on the container. Number must be in the range 1 to 65535. Name must be an IANA_SVC_NAME."}
        "##]].assert_eq(&format!(
            "{spec}\n{ports}\n{}\n{}\n",
            schemas["io.k8s.api.apps.v1.Deployment"]["x-kubernetes-group-version-kind"],
            schemas["io.k8s.api.core.v1.HTTPGetAction"]["properties"]["port"],
        ));
        let patch = &document["paths"]["/apis/apps/v1/namespaces/{namespace}/deployments/{name}"]["patch"];
        assert!(patch["parameters"].as_array().unwrap().iter().any(|p| p["name"] == "fieldValidation"));
    }

    #[test]
    fn custom_kinds_get_what_every_resource_has() {
        let schema = json!({ "type": "object", "properties": { "spec": { "type": "object" } } });
        let kind = KindDoc {
            kind: "Widget",
            plural: "widgets",
            scope: Scope::Cluster,
            schema: Some(&schema),
            subresources: &[],
        };
        let document = document("example.com", "v1", &[kind]);
        let widget = &document["components"]["schemas"]["com.example.v1.Widget"];
        let fields: Vec<&String> = widget["properties"].as_object().unwrap().keys().collect();
        assert_eq!(fields, ["apiVersion", "kind", "metadata", "spec"]);
        assert_eq!(widget["x-kubernetes-group-version-kind"][0]["kind"], "Widget");
        let patch = &document["paths"]["/apis/example.com/v1/widgets/{name}"]["patch"];
        let formats: Vec<&String> = patch["requestBody"]["content"].as_object().unwrap().keys().collect();
        assert_eq!(
            formats,
            ["application/apply-patch+yaml", "application/json-patch+json", "application/merge-patch+json"]
        );
        assert!(document["components"]["schemas"].get(OBJECT_META).is_some());
    }
}
