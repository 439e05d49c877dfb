//! Descriptions of columns: mostly those of the fields they show, taken from the OpenAPI documents.

use std::{borrow::Cow, sync::OnceLock};

use schema::{
    Scope,
    openapi::{KindDoc, document},
};
use serde_json::Value;

/// The schemas around one kind, as an OpenAPI document has them.
pub struct Docs {
    schemas: Value,
    kind: String,
}

// === impl Docs ===

impl Docs {
    pub fn of(group: &str, version: &str, kind: &str) -> Self {
        // Only the schemas matter here, not the paths.
        let doc = KindDoc { kind, plural: "", scope: Scope::Namespaced, schema: None, subresources: &[] };
        let mut document = document(group, version, &[doc]);
        Self { schemas: document["components"]["schemas"].take(), kind: kind.to_owned() }
    }

    /// Enough for what all objects have.
    pub fn of_metadata() -> &'static Self {
        static DOCS: OnceLock<Docs> = OnceLock::new();
        DOCS.get_or_init(|| Self::of("", "v1", "ConfigMap"))
    }

    /// A text as it is, or the description of the field that `.path.to.it` names.
    pub fn resolve(&self, description: &'static str) -> Cow<'static, str> {
        let Some(path) = description.strip_prefix('.') else { return description.into() };
        self.field(path)
            .and_then(|field| Some(field["description"].as_str()?.to_owned()))
            .unwrap_or_default()
            .into()
    }

    fn field(&self, path: &str) -> Option<&Value> {
        let is_root =
            |schema: &&Value| schema["x-kubernetes-group-version-kind"][0]["kind"] == self.kind.as_str();
        let mut schema = self.schemas.as_object()?.values().find(is_root)?;
        for name in path.split('.') {
            schema = self.follow(schema)["properties"].get(name)?;
        }
        Some(schema)
    }

    /// The schema behind references.
    fn follow<'a>(&'a self, schema: &'a Value) -> &'a Value {
        let reference = schema.get("$ref").or_else(|| schema["allOf"][0].get("$ref"));
        let name = reference.and_then(Value::as_str).and_then(|text| text.rsplit('/').next());
        name.and_then(|name| self.schemas.get(name)).unwrap_or(schema)
    }
}
