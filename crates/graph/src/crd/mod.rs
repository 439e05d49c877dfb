//! The kinds that a definition generates, as CustomResourceDefinitions.

mod compare;
mod ensure;
mod plural;
mod set;

use std::sync::Arc;

use api::kro;
use schema::{Schema, Type};
use serde_json::{Map, Value, json};

pub use self::{
    compare::{Changes, compare},
    ensure::{Ensure, ensure},
};
pub(crate) use self::{plural::plural, set::set};
use crate::{
    error::{Error, Findings},
    labels,
    simple::SpecSchema,
};

/// Of an instance's status: the template of its Set that the status is about. A generation does not tell it, for new labels
/// and annotations are no new generation, and resources may be made of them.
pub const OBSERVED_TEMPLATE_HASH: &str = "observedTemplateHash";

/// Where the scale subresource finds its values: `.spec.replicas`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScalePaths {
    pub spec: Vec<String>,
    pub status: Vec<String>,
    pub selector: Option<Vec<String>>,
}

/// Who a generated kind belongs to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Owner {
    pub name: String,
    pub uid: String,
}

/// The kind whose instances stand for the graph's resources.
pub(crate) fn instance(
    definition: &kro::Schema,
    owner: &Owner,
    spec: &SpecSchema,
    status: &Schema,
    scale: Option<&ScalePaths>,
) -> Value {
    let mut properties = Map::new();
    properties.insert("spec".to_owned(), json!(spec.schema));
    properties.insert("status".to_owned(), json!(status));
    let mut subresources = json!({ "status": {} });
    if let Some(scale) = scale {
        subresources["scale"] = scale_subresource(scale);
    }
    let columns = match definition.additional_printer_columns.as_slice() {
        [] => json!([
            column("State", "string", ".status.state"),
            column("Ready", "string", ".status.conditions[?(@.type==\"Ready\")].status"),
            column("Age", "date", ".metadata.creationTimestamp"),
        ]),
        columns => json!(columns),
    };
    let mut crd = frame(definition, &definition.kind, owner, properties, subresources, columns);
    let names = &mut crd["spec"]["names"];
    if !definition.short_names.is_empty() {
        names["shortNames"] = json!(definition.short_names);
    }
    if !definition.categories.is_empty() {
        names["categories"] = json!(definition.categories);
    }
    crd
}

/// What every generated kind has.
fn frame(
    definition: &kro::Schema,
    kind: &str,
    owner: &Owner,
    properties: Map<String, Value>,
    subresources: Value,
    columns: Value,
) -> Value {
    let plural = plural(&kind.to_lowercase());
    let extra = definition.metadata.clone().unwrap_or_default();
    let mut labels = extra.labels;
    labels.extend(labels::of_generated_kind(owner));
    let mut metadata = json!({ "name": format!("{plural}.{}", definition.group), "labels": labels });
    if !extra.annotations.is_empty() {
        metadata["annotations"] = json!(extra.annotations);
    }
    let mut root = Map::from_iter([
        ("apiVersion".to_owned(), json!({ "type": "string" })),
        ("kind".to_owned(), json!({ "type": "string" })),
        ("metadata".to_owned(), json!({ "type": "object" })),
    ]);
    root.extend(properties);
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": metadata,
        "spec": {
            "group": definition.group,
            "names": {
                "kind": kind,
                "listKind": format!("{kind}List"),
                "plural": plural,
                "singular": kind.to_lowercase(),
            },
            "scope": definition.scope,
            "versions": [{
                "name": definition.api_version,
                "served": true,
                "storage": true,
                "schema": { "openAPIV3Schema": { "type": "object", "properties": root } },
                "subresources": subresources,
                "additionalPrinterColumns": columns,
            }],
        },
    })
}

fn column(name: &str, type_: &str, path: &str) -> Value {
    json!({ "name": name, "type": type_, "jsonPath": path })
}

fn scale_subresource(paths: &ScalePaths) -> Value {
    let path = |root: &str, names: &[String]| format!(".{root}.{}", names.join("."));
    let mut scale = json!({
        "specReplicasPath": path("spec", &paths.spec),
        "statusReplicasPath": path("status", &paths.status),
    });
    if let Some(selector) = &paths.selector {
        scale["labelSelectorPath"] = path("status", selector).into();
    }
    scale
}

/// What every status has beside its own fields, and what instances of a Set have beside that.
pub(crate) fn add_common_status(status: &mut Schema, has_set: bool) {
    let text = || Arc::new(Schema { type_: Some(Type::String), ..Schema::default() });
    status.properties.insert("state".to_owned(), text());
    if has_set {
        status.properties.insert(OBSERVED_TEMPLATE_HASH.to_owned(), text());
    }
    status.properties.insert("conditions".to_owned(), Arc::new(conditions()));
}

fn conditions() -> Schema {
    let leaf = |type_| Arc::new(Schema { type_: Some(type_), ..Schema::default() });
    let mut condition = Schema { type_: Some(Type::Object), ..Schema::default() };
    for name in ["type", "status", "reason", "message", "lastTransitionTime"] {
        condition.properties.insert(name.to_owned(), leaf(Type::String));
    }
    condition.properties.insert("observedGeneration".to_owned(), leaf(Type::Integer));
    Schema { type_: Some(Type::Array), items: Some(Arc::new(condition)), ..Schema::default() }
}

/// What an API server would say to it, in the definition's own paths.
pub(crate) fn validate(crd: &Value, findings: &mut Findings) {
    let mut crd = crd.clone();
    schema::crd::set_defaults(&mut crd);
    for error in schema::crd::validate(&crd, None) {
        let path = in_definition(&error.field);
        let message = error.to_string();
        let message = message.strip_prefix(&format!("{}: ", error.field)).unwrap_or(&message).to_owned();
        // the API names the field once more, by an empty name
        findings.push(Error::at(path, crate::error::shown(&message).replace(":  in body ", ": ")));
    }
}

/// `spec.validation.openAPIV3Schema.properties[spec].properties[a].x` is `spec.schema.spec.a` to who wrote it.
fn in_definition(field: &str) -> String {
    let mut path = String::from("spec.schema");
    let mut rest = field;
    let mut found = false;
    while let Some(start) = rest.find("properties[") {
        let Some((name, tail)) = rest[start + "properties[".len()..].split_once(']') else { break };
        path = crate::error::child(&path, name);
        rest = tail;
        found = true;
    }
    if found { path } else { format!("spec.schema (generated {field})") }
}

#[cfg(test)]
mod tests;
