//! Schemas that tell all: every field has a description, every whole number its bounds, every field that may be left out its
//! default, and every policy an example.

use jiff::Timestamp;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::{Map, Value, json};

use super::words;
use crate::hvpa::ContainerSize;

/// Fills in what the types leave unsaid, and puts the example in.
pub(super) fn complete(schema: Schema, example: &str) -> Schema {
    let mut value = schema.to_value();
    walk("", &mut value);
    if let (Value::Object(fields), Ok(example)) = (&mut value, serde_json::from_str::<Value>(example)) {
        fields.insert("examples".to_owned(), json!([example]));
    }
    Schema::try_from(value).unwrap_or_default()
}

/// The schema of an answer.
pub(super) fn answer(mut schema: Schema) -> Schema {
    schema.insert("title".to_owned(), json!("Answer"));
    let mut value = schema.to_value();
    walk("", &mut value);
    Schema::try_from(value).unwrap_or_default()
}

/// `type_name` is that of the definition that `value` stands in.
fn walk(type_name: &str, value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| walk(type_name, item)),
        Value::Object(fields) => {
            let required: Vec<String> = fields
                .get("required")
                .and_then(Value::as_array)
                .map(|names| names.iter().filter_map(Value::as_str).map(str::to_owned).collect())
                .unwrap_or_default();
            if let Some(Value::Object(properties)) = fields.get_mut("properties") {
                for (name, property) in properties.iter_mut() {
                    if let Value::Object(property) = property {
                        describe(type_name, name, property, required.contains(name));
                    }
                }
            }
            for (key, value) in fields.iter_mut() {
                match (key.as_str(), value) {
                    ("$defs", Value::Object(definitions)) => {
                        definitions.iter_mut().for_each(|(name, definition)| walk(name, definition));
                    }
                    (_, value) => walk(type_name, value),
                }
            }
        }
        _ => {}
    }
}

fn describe(type_name: &str, name: &str, property: &mut Map<String, Value>, is_required: bool) {
    if !property.contains_key("description")
        && let Some(words) = words::of(type_name, name)
    {
        property.insert("description".to_owned(), json!(words));
    }
    if !is_required && !property.contains_key("default") {
        property.insert("default".to_owned(), Value::Null);
    }
    let bounds = match property.get("format").and_then(Value::as_str) {
        Some("int32") => Some((json!(i32::MIN), json!(i32::MAX))),
        Some("uint32") => Some((json!(0), json!(u32::MAX))),
        Some("int64") => Some((json!(i64::MIN), json!(i64::MAX))),
        Some("uint64" | "uint") => Some((json!(0), json!(u64::MAX))),
        _ => None,
    };
    if let Some((least, most)) = bounds {
        property.entry("minimum").or_insert(least);
        property.entry("maximum").or_insert(most);
    }
}

/// What every decision looks like.
#[derive(JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[expect(dead_code, reason = "only its schema is used")]
pub struct Answer<V, M> {
    /// What there is.
    current: V,
    /// What there should be.
    desired: V,
    /// The step that settled the matter.
    reason: ReasonForm,
    /// The whole chain in order.
    steps: Vec<StepForm<V>>,
    /// The first moment at which time alone can change the answer; null if only new data can.
    next_check: Option<Timestamp>,
    /// Give it back with the next observation.
    memory: M,
    /// Of several inputs, which this answers, from 1 on.
    #[serde(default)]
    input: Option<u32>,
    /// Of several inputs, the name of what this one is about, if it has one.
    #[serde(default)]
    object: Option<String>,
}

#[derive(JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[expect(dead_code, reason = "only its schema is used")]
struct ReasonForm {
    /// In CamelCase, for conditions, Events and metrics.
    code: String,
    /// The index of the step.
    step: u32,
    /// The sentence for a person.
    words: String,
}

#[derive(JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[expect(dead_code, reason = "only its schema is used")]
struct StepForm<V> {
    /// Which rule.
    rule: String,
    /// The figures that it worked on; each rule has its own.
    #[serde(default)]
    input: Value,
    /// What went in.
    before: V,
    /// What came out.
    after: V,
    /// The sentence for a person.
    words: String,
}

/// Replicas and sizes together.
#[derive(JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[expect(dead_code, reason = "only its schema is used")]
pub struct Sizes {
    /// The count.
    replicas: i32,
    /// The size of each container.
    containers: Vec<ContainerSize>,
}

/// What a Set should do now.
#[derive(JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[expect(dead_code, reason = "only its schema is used")]
pub struct Actions {
    /// Instances to delete, newest first.
    delete: Vec<Target>,
    /// Instances to create.
    create: Vec<NewInstance>,
    /// Instances to update, oldest first.
    update: Vec<Target>,
}

#[derive(JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[expect(dead_code, reason = "only its schema is used")]
struct Target {
    name: String,
    uid: String,
}

#[derive(JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[expect(dead_code, reason = "only its schema is used")]
struct NewInstance {
    name: String,
    /// The Set's running number.
    sequence: u64,
}

/// A recommender decides nothing: it recommends.
pub struct Recommendation;

impl JsonSchema for Recommendation {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Recommendation".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let memory = generator.subschema_for::<crate::recommender::Memory>();
        let resources = generator.subschema_for::<crate::recommender::amount::Resources>();
        json_schema!({
            "type": "object",
            "properties": {
                "containers": {
                    "description": "One entry a container, sorted by name.",
                    "type": "array",
                    "items": {
                        "type": "object",
                        "properties": {
                            "containerName": { "type": "string" },
                            "target": { "description": "What it should request.", "allOf": [resources] },
                            "lowerBound": { "description": "Less than this is too little.", "allOf": [resources] },
                            "upperBound": { "description": "More than this is too much.", "allOf": [resources] },
                            "uncappedTarget": {
                                "description": "The target before the container's policy was applied.",
                                "allOf": [resources],
                            },
                            "confidence": { "description": "1 after a day of samples.", "type": "number" },
                            "estimates": {
                                "description": "How each figure came about, step by step.",
                                "type": "array",
                            },
                        },
                        "required": ["containerName", "target", "lowerBound", "upperBound", "uncappedTarget", "confidence", "estimates"],
                        "additionalProperties": false,
                    },
                },
                "discarded": { "description": "Samples that were not used, and why.", "type": "array" },
                "memory": memory,
                "input": {
                    "description": "Of several inputs, which this answers, from 1 on.",
                    "type": ["integer", "null"], "minimum": 1, "maximum": u32::MAX,
                },
                "object": {
                    "description": "Of several inputs, the name of what this one is about, if it has one.",
                    "type": ["string", "null"],
                },
            },
            "required": ["containers", "discarded", "memory"],
            "additionalProperties": false,
        })
    }
}
