//! Schemas of built-in types, made from the JSON schemas of `k8s-openapi` and the table when first asked for.

use std::{
    collections::HashMap,
    sync::{Arc, LazyLock, RwLock},
};

use schemars::{JsonSchema, generate::SchemaSettings};
use serde_json::{Map, Value};

use super::table;
use crate::{AdditionalProperties, Schema, Type, json};

/// Definitions by their full name (`io.k8s.api.core.v1.Pod`), among them that of `T`.
pub(super) fn definitions<T: JsonSchema>() -> Map<String, Value> {
    let mut settings = SchemaSettings::draft07();
    settings.meta_schema = None;
    let mut generator = settings.into_generator();
    let reference = generator.subschema_for::<T>();
    debug_assert!(reference.as_object().is_some());
    generator.take_definitions(true)
}

/// `io.k8s.api.core.v1.Pod` as `core.v1.Pod`: how types are called here, in the table and in `Schema::title`.
pub(super) fn short(name: &str) -> &str {
    const PREFIXES: [&str; 4] = [
        "io.k8s.apimachinery.pkg.apis.",
        "io.k8s.apiextensions-apiserver.pkg.apis.",
        "io.k8s.apimachinery.pkg.",
        "io.k8s.api.",
    ];
    PREFIXES.iter().find_map(|prefix| name.strip_prefix(prefix)).unwrap_or(name)
}

/// The schema of the type `name`; `definitions` is asked for only if it is not known yet.
pub(super) fn schema(name: &str, definitions: impl FnOnce() -> Map<String, Value>) -> Option<Arc<Schema>> {
    type Cache = RwLock<HashMap<String, Arc<Schema>>>;
    static CACHE: LazyLock<Cache> = LazyLock::new(Default::default);
    if let Some(found) = CACHE.read().ok().and_then(|cache| cache.get(short(name)).cloned()) {
        return Some(found);
    }
    let mut cache = CACHE.write().ok()?;
    let mut builder = Builder { definitions: definitions(), known: &mut cache, building: Vec::new() };
    builder.definition(name)
}

struct Builder<'a> {
    definitions: Map<String, Value>,
    known: &'a mut HashMap<String, Arc<Schema>>,
    /// Types under construction: one that refers to itself is cut off there.
    building: Vec<String>,
}

// === impl Builder ===

impl Builder<'_> {
    fn definition(&mut self, name: &str) -> Option<Arc<Schema>> {
        let title = short(name);
        if let Some(known) = self.known.get(title) {
            return Some(known.clone());
        }
        let definition = self.definitions.get(name)?.clone();
        let mut schema = if self.building.iter().any(|building| building == title) || is_open(title) {
            Schema { preserve_unknown_fields: Some(true), ..Schema::default() }
        } else {
            self.building.push(title.to_owned());
            let schema = self.node(&definition, table::find(title));
            self.building.pop();
            schema
        };
        schema.title = Some(title.to_owned());
        schema.map_type = table::find(title).and_then(|row| row.map_type);
        let schema = Arc::new(schema);
        self.known.insert(title.to_owned(), schema.clone());
        Some(schema)
    }

    /// A schema without descriptions: they are served from the source when somebody asks.
    fn node(&mut self, source: &Value, row: Option<&table::Type>) -> Schema {
        let mut schema = Schema {
            type_: source.get("type").and_then(|kind| serde_json::from_value::<Type>(kind.clone()).ok()),
            format: source.get("format").and_then(Value::as_str).map(str::to_owned),
            int_or_string: json::flag(source, "x-kubernetes-int-or-string"),
            required: json::list(source, "required")
                .iter()
                .filter_map(|name| name.as_str().map(str::to_owned))
                .collect(),
            ..Schema::default()
        };
        for (name, field) in json::object(source, "properties").into_iter().flatten() {
            let row = row.and_then(|row| row.field(name));
            if row.is_some_and(|row| row.required) {
                schema.required.push(name.clone());
            }
            let field = self.field(field, row);
            schema.properties.insert(name.clone(), field);
        }
        if let Some(items) = source.get("items") {
            schema.items = Some(self.field(items, None));
        }
        if let Some(entry) = source.get("additionalProperties").filter(|entry| entry.is_object()) {
            schema.additional_properties = Some(AdditionalProperties::Typed(self.field(entry, None)));
        }
        schema
    }

    fn field(&mut self, source: &Value, row: Option<&table::Field>) -> Arc<Schema> {
        let reference = source.get("$ref").or_else(|| {
            // a reference with a description of its own
            json::list(source, "allOf").first().and_then(|first| first.get("$ref"))
        });
        let target = reference.and_then(Value::as_str).and_then(|path| path.rsplit('/').next());
        let shared = match target {
            Some(name) => {
                let name = name.replace("~1", "/");
                self.definition(&name).unwrap_or_default()
            }
            None => {
                let node = self.node(source, None);
                self.shared(node)
            }
        };
        let Some(row) = row else { return shared };
        let plain = row.default.is_none()
            && row.item_default.is_none()
            && row.inner_default.is_none()
            && row.list_type.is_none()
            && row.patch_strategy.is_none()
            && row.map_type.is_none();
        if plain {
            return shared;
        }
        let mut schema = Schema::clone(&shared);
        schema.default = row.default.clone();
        schema.list_type = row.list_type;
        schema.list_map_keys = row.list_map_keys.iter().map(|key| (*key).to_owned()).collect();
        schema.patch_strategy = row.patch_strategy.map(str::to_owned);
        schema.patch_merge_key = row.patch_merge_key.map(str::to_owned);
        schema.map_type = row.map_type.or(schema.map_type);
        if let Some(default) = &row.item_default {
            of_elements(&mut schema, &|element| element.default = Some(default.clone()));
        }
        if let Some(default) = &row.inner_default {
            of_elements(&mut schema, &|element| {
                of_elements(element, &|inner| inner.default = Some(default.clone()));
            });
        }
        self.shared(schema)
    }

    /// Thousands of fields are one of a few dozen leaves (`type: string` …): keep one of each.
    fn shared(&mut self, schema: Schema) -> Arc<Schema> {
        if !schema.properties.is_empty() || schema.items.is_some() || schema.additional_properties.is_some() {
            return Arc::new(schema);
        }
        let key = format!(
            "leaf {:?} {:?} {:?} {:?} {:?} {}",
            schema.type_, schema.format, schema.title, schema.default, schema.map_type, schema.int_or_string
        );
        self.known.entry(key).or_insert_with(|| Arc::new(schema)).clone()
    }
}

/// Types that may hold anything.
fn is_open(title: &str) -> bool {
    matches!(
        title,
        "runtime.RawExtension"
            | "meta.v1.FieldsV1"
            | "apiextensions.v1.JSONSchemaProps"
            | "apiextensions.v1.JSON"
    ) || title.starts_with("apiextensions.v1.JSONSchemaPropsOr")
}

/// Changes the schema of the elements of a list or map.
fn of_elements(schema: &mut Schema, change: &dyn Fn(&mut Schema)) {
    let changed = |element: &Arc<Schema>| {
        let mut element = Schema::clone(element);
        change(&mut element);
        Arc::new(element)
    };
    schema.items = schema.items.as_ref().map(changed);
    if let Some(AdditionalProperties::Typed(entry)) = &schema.additional_properties {
        schema.additional_properties = Some(AdditionalProperties::Typed(changed(entry)));
    }
}
