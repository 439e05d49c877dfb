//! The kinds that templates may use: their schemas and scopes, handed in as a value.

use std::{collections::HashMap, sync::Arc};

use schema::{AdditionalProperties, Schema, Scope, Type};
use serde_json::Value;

/// One version of a kind.
#[derive(Clone, Debug)]
pub struct Kind {
    pub schema: Arc<Schema>,
    pub scope: Scope,
}

/// What an API server offers. Built-in kinds are known by themselves; others are added from CRDs or from the server's
/// OpenAPI documents.
#[derive(Clone, Debug, Default)]
pub struct Kinds {
    known: HashMap<(String, String), Kind>,
}

/// Types in a document that contain one another are followed this far.
const DEEPEST: usize = 40;

// === impl Kinds ===

impl Kinds {
    /// `apiVersion` as a manifest has it: `apps/v1`, `v1`.
    pub fn get(&self, api_version: &str, kind: &str) -> Option<Kind> {
        if let Some(known) = self.known.get(&(api_version.to_owned(), kind.to_owned())) {
            return Some(known.clone());
        }
        let (group, version) = split(api_version);
        let builtin = schema::Kind::builtin(group, version, kind)?;
        Some(Kind { schema: builtin.schema().clone(), scope: builtin.scope() })
    }

    pub fn add(&mut self, api_version: &str, kind: &str, schema: Arc<Schema>, scope: Scope) {
        self.known.insert((api_version.to_owned(), kind.to_owned()), Kind { schema, scope });
    }

    /// Every served version of a CustomResourceDefinition.
    pub fn add_crd(&mut self, crd: &Value) {
        let text = |value: &Value, field: &str| {
            value.get(field).and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        let spec = &crd["spec"];
        let scope = if text(spec, "scope") == "Cluster" { Scope::Cluster } else { Scope::Namespaced };
        let kind = text(&spec["names"], "kind");
        for version in spec["versions"].as_array().into_iter().flatten() {
            let name = text(version, "name");
            if version["served"].as_bool() == Some(true)
                && let Some(schema) = schema::crd::schema(crd, &name)
            {
                let api_version = format!("{}/{name}", text(spec, "group"));
                self.add(&api_version, &kind, Arc::new(as_resource(&schema)), scope);
            }
        }
    }

    /// Every kind of one of the server's OpenAPI v3 documents (`/openapi/v3/apis/apps/v1`). A kind is namespaced if
    /// one of its paths has a namespace.
    pub fn add_document(&mut self, document: &Value) {
        let schemas = &document["components"]["schemas"];
        let mut scopes: HashMap<(String, String), Scope> = HashMap::new();
        for (path, requests) in document["paths"].as_object().into_iter().flatten() {
            for request in requests.as_object().into_iter().flat_map(|requests| requests.values()) {
                let Some(key) = group_version_kind(&request["x-kubernetes-group-version-kind"]) else {
                    continue;
                };
                let scope = scopes.entry(key).or_insert(Scope::Cluster);
                if path.contains("/{namespace}/") {
                    *scope = Scope::Namespaced;
                }
            }
        }
        let mut expander = Expander { schemas, done: HashMap::new(), under_way: Vec::new() };
        for definition in schemas.as_object().into_iter().flat_map(|schemas| schemas.values()) {
            let keys = definition["x-kubernetes-group-version-kind"].as_array();
            for key in keys.into_iter().flatten().filter_map(group_version_kind) {
                let Some(scope) = scopes.get(&key) else { continue };
                let schema = expander.expand(definition, 0);
                self.known.insert(key, Kind { schema, scope: *scope });
            }
        }
    }
}

/// `apps/v1` as `("apps", "v1")`; the core group is empty.
pub(crate) fn split(api_version: &str) -> (&str, &str) {
    api_version.split_once('/').unwrap_or(("", api_version))
}

fn group_version_kind(value: &Value) -> Option<(String, String)> {
    let text = |field: &str| value.get(field).and_then(Value::as_str);
    let api_version = match text("group").unwrap_or_default() {
        "" => text("version")?.to_owned(),
        group => format!("{group}/{}", text("version")?),
    };
    Some((api_version, text("kind")?.to_owned()))
}

/// A CRD's schema with what every resource has: metadata is declared there as an object and no more.
pub(crate) fn as_resource(schema: &Schema) -> Schema {
    let mut schema = schema.clone();
    let text = Arc::new(Schema { type_: Some(Type::String), ..Schema::default() });
    schema.properties.insert("apiVersion".to_owned(), text.clone());
    schema.properties.insert("kind".to_owned(), text);
    let metadata = schema::builtin::schema("", "v1", "ConfigMap")
        .and_then(|config_map| config_map.properties.get("metadata").cloned());
    if let Some(metadata) = metadata {
        schema.properties.insert("metadata".to_owned(), metadata);
    }
    schema
}

/// Replaces references by what they refer to, each definition once.
struct Expander<'a> {
    schemas: &'a Value,
    done: HashMap<&'a str, Arc<Schema>>,
    /// Definitions that are being expanded: one that refers to itself is open there.
    under_way: Vec<&'a str>,
}

impl<'a> Expander<'a> {
    fn expand(&mut self, definition: &'a Value, depth: usize) -> Arc<Schema> {
        const REFERENCE: &str = "#/components/schemas/";
        let open = || Arc::new(Schema { preserve_unknown_fields: Some(true), ..Schema::default() });
        if depth > DEEPEST {
            return open();
        }
        // a reference, or one wrapped so that it can have a description
        let reference = definition.get("$ref").or_else(|| definition["allOf"][0].get("$ref"));
        let Some(name) = reference.and_then(Value::as_str).and_then(|name| name.strip_prefix(REFERENCE))
        else {
            return Arc::new(self.node(definition, depth));
        };
        if let Some(done) = self.done.get(name) {
            return done.clone();
        }
        let Some(target) = self.schemas.get(name).filter(|_| !self.under_way.contains(&name)) else {
            return open();
        };
        self.under_way.push(name);
        let mut schema = self.node(target, depth + 1);
        self.under_way.pop();
        schema.title = Some(name.rsplit('.').next().unwrap_or(name).to_owned());
        // described as one of two types
        schema.int_or_string |= name.ends_with(".IntOrString");
        self.done.entry(name).or_insert_with(|| Arc::new(schema)).clone()
    }

    fn node(&mut self, definition: &'a Value, depth: usize) -> Schema {
        let flag = |name: &str| definition.get(name).and_then(Value::as_bool).unwrap_or_default();
        let format = definition.get("format").and_then(Value::as_str);
        let mut schema = Schema {
            type_: definition.get("type").and_then(|kind| serde_json::from_value(kind.clone()).ok()),
            format: format.map(str::to_owned),
            int_or_string: flag("x-kubernetes-int-or-string") || format == Some("int-or-string"),
            preserve_unknown_fields: flag("x-kubernetes-preserve-unknown-fields").then_some(true),
            ..Schema::default()
        };
        for (name, field) in definition["properties"].as_object().into_iter().flatten() {
            schema.properties.insert(name.clone(), self.expand(field, depth + 1));
        }
        schema.items = definition.get("items").map(|items| self.expand(items, depth + 1));
        schema.additional_properties = match definition.get("additionalProperties") {
            Some(Value::Bool(any)) => Some(AdditionalProperties::Any(*any)),
            Some(entry @ Value::Object(_)) => {
                Some(AdditionalProperties::Typed(self.expand(entry, depth + 1)))
            }
            _ => None,
        };
        schema
    }
}

#[cfg(test)]
mod tests {
    use schema::openapi::{KindDoc, document};

    use super::*;

    fn path<'a>(schema: &'a Schema, names: &[&str]) -> &'a Schema {
        names.iter().fold(schema, |schema, name| {
            let inner = schema.items.as_deref().unwrap_or(schema);
            inner.field(name).unwrap_or_else(|| panic!("no {name}"))
        })
    }

    /// What the API server serves describes the same kind as what we know by ourselves.
    #[test]
    fn documents_of_the_server_say_what_the_built_in_schemas_say() {
        let doc = KindDoc {
            kind: "Deployment",
            plural: "deployments",
            scope: Scope::Namespaced,
            schema: None,
            subresources: &["status"],
        };
        let mut read = Kinds::default();
        read.add_document(&document("apps", "v1", &[doc]));
        let known = Kinds::default().get("apps/v1", "Deployment").unwrap();
        let read = read.known.get(&("apps/v1".to_owned(), "Deployment".to_owned())).unwrap();
        assert_eq!(read.scope, Scope::Namespaced);
        for names in [
            &["spec", "replicas"][..],
            &["spec", "template", "spec", "containers", "image"],
            &["spec", "template", "spec", "containers", "livenessProbe", "httpGet", "port"],
            &["metadata", "creationTimestamp"],
            &["spec", "selector", "matchLabels"],
        ] {
            let (one, other) = (path(&read.schema, names), path(&known.schema, names));
            assert_eq!(one.type_, other.type_, "{names:?}");
            assert_eq!(one.format, other.format, "{names:?}");
            assert_eq!(one.int_or_string, other.int_or_string, "{names:?}");
        }
    }

    #[test]
    fn built_in_and_custom_kinds() {
        let mut kinds = Kinds::default();
        assert!(kinds.get("v1", "ConfigMap").is_some());
        assert_eq!(kinds.get("v1", "Namespace").unwrap().scope, Scope::Cluster);
        assert!(kinds.get("example.com/v1", "Widget").is_none());
        kinds.add_crd(&serde_json::json!({
            "spec": {
                "group": "example.com", "scope": "Cluster", "names": { "kind": "Widget" },
                "versions": [{ "name": "v1", "served": true, "schema": { "openAPIV3Schema": {
                    "type": "object", "properties": { "spec": { "type": "object" } },
                }}}],
            },
        }));
        let widget = kinds.get("example.com/v1", "Widget").unwrap();
        assert_eq!(widget.scope, Scope::Cluster);
        assert!(path(&widget.schema, &["metadata", "labels"]).additional_properties.is_some());
    }
}
