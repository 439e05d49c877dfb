//! The table against the OpenAPI documents it was read from.

use std::{collections::BTreeSet, path::PathBuf, process::Command};

use serde_json::Value;

use super::*;
use crate::{AdditionalProperties, json};

/// The OpenAPI documents in the pinned Kubernetes module.
fn openapi_dir() -> PathBuf {
    let module = Command::new("go")
        .args(["list", "-m", "-f", "{{.Dir}}", "k8s.io/kubernetes"])
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tools/kubernetes"))
        .output()
        .expect("go is needed to find the pinned Kubernetes module");
    let dir = String::from_utf8_lossy(&module.stdout).trim().to_owned();
    assert!(!dir.is_empty(), "the Kubernetes module is missing: run `go mod download` in tools/kubernetes");
    PathBuf::from(dir).join("api/openapi-spec/v3")
}

/// The definitions of all our groups together: a subresource's kind is described where it is used.
fn definitions() -> Value {
    let dir = openapi_dir();
    let mut all = Map::new();
    let groups: BTreeSet<(&str, &str)> = ROWS.iter().map(|row| (row.group, row.version)).collect();
    for (group, version) in groups {
        let name = match group {
            "" => format!("api__{version}_openapi.json"),
            group => format!("apis__{group}__{version}_openapi.json"),
        };
        let path = dir.join(name);
        let text =
            std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let document: Value = serde_json::from_str(&text).unwrap();
        all.extend(document["components"]["schemas"].as_object().unwrap().clone());
    }
    Value::Object(all)
}

/// What the document says of the fields that our schema does not.
fn compare(
    real: &Value,
    ours: &Schema,
    definitions: &Value,
    path: &str,
    seen: &mut BTreeSet<String>,
    faults: &mut Vec<String>,
) {
    let reference = real.get("$ref").or_else(|| real["allOf"].get(0).and_then(|first| first.get("$ref")));
    let mut real_node = real.clone();
    if let Some(name) = reference.and_then(Value::as_str).and_then(|path| path.rsplit('/').next()) {
        if !seen.insert(name.to_owned()) {
            // the type was looked at elsewhere; what the field adds to it is compared below
            real_node = serde_json::json!({ "x-kubernetes-map-type": definitions[name].get("x-kubernetes-map-type") });
        } else {
            real_node = definitions[name].clone();
        }
    }
    let mut check = |what: &str, real: Option<&Value>, ours: Value| {
        if let Some(real) = real.filter(|value| !value.is_null())
            && *real != ours
        {
            faults.push(format!("{path}: {what} is {real}, not {ours}"));
        }
    };
    let of = |value: &Option<String>| serde_json::to_value(value).unwrap();
    for extension in [
        "x-kubernetes-list-type",
        "x-kubernetes-list-map-keys",
        "x-kubernetes-patch-strategy",
        "x-kubernetes-patch-merge-key",
        "default",
    ] {
        let our_value = match extension {
            "x-kubernetes-list-type" => serde_json::to_value(ours.list_type).unwrap(),
            "x-kubernetes-list-map-keys" => serde_json::to_value(&ours.list_map_keys).unwrap(),
            "x-kubernetes-patch-strategy" => of(&ours.patch_strategy),
            "x-kubernetes-patch-merge-key" => of(&ours.patch_merge_key),
            _ => ours.default.clone().unwrap_or_default(),
        };
        check(extension, real.get(extension), our_value);
    }
    let map_type = real.get("x-kubernetes-map-type").or(real_node.get("x-kubernetes-map-type"));
    check("x-kubernetes-map-type", map_type, serde_json::to_value(ours.map_type).unwrap());
    check(
        "type",
        real.get("type").filter(|_| !ours.int_or_string),
        serde_json::to_value(ours.type_).unwrap(),
    );
    if ours.preserve_unknown_fields == Some(true) {
        return;
    }
    let required: BTreeSet<&str> =
        json::list(&real_node, "required").iter().filter_map(Value::as_str).collect();
    for name in required.into_iter().filter(|name| !ours.required.iter().any(|ours| ours == name)) {
        faults.push(format!("{path}: {name} is required"));
    }
    for (name, field) in json::object(&real_node, "properties").into_iter().flatten() {
        match ours.properties.get(name) {
            Some(ours) => compare(field, ours, definitions, &format!("{path}.{name}"), seen, faults),
            None => faults.push(format!("{path}.{name} is missing")),
        }
    }
    if let (Some(items), Some(ours)) = (real_node.get("items"), &ours.items) {
        compare(items, ours, definitions, &format!("{path}[]"), seen, faults);
    }
    if let (Some(entry), Some(AdditionalProperties::Typed(ours))) =
        (real_node.get("additionalProperties"), &ours.additional_properties)
    {
        compare(entry, ours, definitions, &format!("{path}{{}}"), seen, faults);
    }
}

#[test]
fn schemas_say_what_the_openapi_documents_say() {
    let mut faults = Vec::new();
    let mut n_types = 0;
    let definitions = &definitions();
    for row in ROWS.iter() {
        let real = &definitions[row.definition];
        assert!(real.is_object(), "{} is in no document", row.definition);
        let mut seen = BTreeSet::from([row.definition.to_owned()]);
        let schema = row.schema().unwrap();
        compare(real, &schema, definitions, row.kind, &mut seen, &mut faults);
        n_types += seen.len();
    }
    faults.sort();
    faults.dedup();
    assert!(faults.is_empty(), "{} faults in {n_types} types:\n{}", faults.len(), faults.join("\n"));
    assert!(n_types > 500, "only {n_types} types were compared");
}
