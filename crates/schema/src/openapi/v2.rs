//! One document of the older form, Swagger 2.0, for everything that is served. kubectl reads it when it looks for a kind that
//! has no document in the newer form, so without it a kind that is missing is no clear error.

use serde_json::{Map, Value, json};

use super::REFERENCE;

const DEFINITION: &str = "#/definitions/";
/// Swagger has no words for these.
const UNKNOWN: [&str; 5] = ["allOf", "anyOf", "nullable", "not", "oneOf"];

/// What the documents of all group versions say.
pub fn document(documents: impl IntoIterator<Item = Value>) -> Value {
    let (mut definitions, mut paths) = (Map::new(), Map::new());
    for mut document in documents {
        if let Value::Object(schemas) = document["components"]["schemas"].take() {
            definitions.extend(schemas.into_iter().map(|(name, one)| (name, schema(one))));
        }
        if let Value::Object(all) = document["paths"].take() {
            paths.extend(all.into_iter().map(|(path, item)| {
                let item = each(item, operation);
                (path, item)
            }));
        }
    }
    json!({
        "swagger": "2.0",
        "info": super::info(),
        "paths": paths,
        "definitions": definitions,
    })
}

fn each(value: Value, change: impl Fn(Value) -> Value) -> Value {
    match value {
        Value::Object(map) => map.into_iter().map(|(name, value)| (name, change(value))).collect(),
        other => other,
    }
}

fn schema(value: Value) -> Value {
    let Value::Object(mut old) = value else { return value };
    let mut new = Map::new();
    // A reference with something beside it stands alone in an `allOf` there, and beside it here.
    let alone = old.get("allOf").and_then(|all| all.as_array()?.first()?.get("$ref").cloned());
    let reference = alone.or_else(|| old.remove("$ref"));
    if let Some(name) = reference.as_ref().and_then(|one| one.as_str()?.strip_prefix(REFERENCE)) {
        old.remove("default");
        new.insert("$ref".to_owned(), format!("{DEFINITION}{name}").into());
    }
    // Numbers or text, such as quantities: text is what they are written as.
    let alternatives = old.get("oneOf").and_then(Value::as_array);
    let may_be = |kind: &str| alternatives.is_some_and(|all| all.iter().any(|one| one["type"] == kind));
    if may_be("string") {
        new.insert("type".to_owned(), "string".into());
    }
    if may_be("string") && may_be("integer") {
        new.insert("format".to_owned(), "int-or-string".into());
    }
    for (name, value) in old.into_iter().filter(|(name, _)| !UNKNOWN.contains(&name.as_str())) {
        let value = match name.as_str() {
            "properties" => each(value, schema),
            "items" | "additionalProperties" => schema(value),
            _ => value,
        };
        new.insert(name, value);
    }
    new.into()
}

fn operation(mut value: Value) -> Value {
    let mut parameters: Vec<Value> = match value["parameters"].take() {
        Value::Array(all) => all.into_iter().map(parameter).collect(),
        _ => Vec::new(),
    };
    let Value::Object(operation) = &mut value else { return value };
    if let Some(mut body) = operation.remove("requestBody") {
        let content = body["content"].take();
        let formats: Vec<&String> = content.as_object().into_iter().flat_map(Map::keys).collect();
        operation.insert("consumes".to_owned(), json!(formats));
        let described = schema(content["application/json"]["schema"].clone());
        let described = if described.is_null() { json!({"type": "object"}) } else { described };
        parameters.push(json!({"name": "body", "in": "body", "required": true, "schema": described}));
    }
    operation.insert("parameters".to_owned(), parameters.into());
    operation.insert("produces".to_owned(), json!(["application/json"]));
    if let Some(responses) = operation.remove("responses") {
        let response = |mut response: Value| {
            let described = schema(response["content"]["application/json"]["schema"].take());
            json!({"description": response["description"], "schema": described})
        };
        operation.insert("responses".to_owned(), each(responses, response));
    }
    value
}

/// The schema of a parameter is part of it.
fn parameter(mut value: Value) -> Value {
    let described = value.as_object_mut().and_then(|parameter| parameter.remove("schema"));
    if let (Value::Object(parameter), Some(Value::Object(described))) = (&mut value, described) {
        parameter.extend(described);
    }
    value
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::{super::tests::deployment, *};

    #[test]
    fn every_reference_leads_somewhere_and_nothing_newer_is_left() {
        let document = document([super::super::document("apps", "v1", &[deployment()])]);
        let text = document.to_string();
        let names: Vec<&str> = text
            .split(&format!("\"{DEFINITION}"))
            .skip(1)
            .filter_map(|piece| piece.split('"').next())
            .collect();
        assert!(names.len() > 100);
        for name in names {
            assert!(document["definitions"].get(name).is_some(), "{name} is not described");
        }
        for newer in UNKNOWN.iter().chain(&["components", "requestBody"]) {
            assert!(!text.contains(&format!("\"{newer}\":")), "{newer}");
        }
    }

    #[test]
    fn what_is_said_in_the_newer_form_is_said_in_the_older() {
        let document = document([super::super::document("apps", "v1", &[deployment()])]);
        let definitions = &document["definitions"];
        let brief = |mut value: Value| {
            value["description"] = "…".into();
            value
        };
        let strategy =
            brief(definitions["io.k8s.api.apps.v1.DeploymentSpec"]["properties"]["strategy"].clone());
        let port = brief(definitions["io.k8s.apimachinery.pkg.util.intstr.IntOrString"].clone());
        let create = &document["paths"]["/apis/apps/v1/namespaces/{namespace}/deployments"]["post"];
        expect![[r##"
            {"$ref":"#/definitions/io.k8s.api.apps.v1.DeploymentStrategy","description":"…","x-kubernetes-patch-strategy":"retainKeys"}
            {"description":"…","format":"int-or-string","type":"string"}
            {"consumes":["application/json"],"parameters":[{"in":"query","name":"dryRun","type":"string","uniqueItems":true},{"in":"query","name":"fieldManager","type":"string","uniqueItems":true},{"in":"query","name":"fieldValidation","type":"string","uniqueItems":true},{"in":"body","name":"body","required":true,"schema":{"$ref":"#/definitions/io.k8s.api.apps.v1.Deployment"}}],"produces":["application/json"],"responses":{"200":{"description":"OK","schema":{"$ref":"#/definitions/io.k8s.api.apps.v1.Deployment"}}},"x-kubernetes-action":"post","x-kubernetes-group-version-kind":{"group":"apps","kind":"Deployment","version":"v1"}}
        "##]].assert_eq(&format!("{strategy}\n{port}\n{create}\n"));
    }
}
