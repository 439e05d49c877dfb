//! A schema as a tree: the OpenAPI v3 subset that Kubernetes calls structural, with its extensions.

use std::{collections::BTreeMap, sync::Arc};

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// One node of a schema. Built-in kinds and custom resources are described by the same tree, so that validation,
/// defaulting, pruning, strategic merge and server-side apply each exist once.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Schema {
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub type_: Option<Type>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub format: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub example: Option<Value>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub nullable: bool,

    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub properties: BTreeMap<String, Arc<Schema>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub additional_properties: Option<AdditionalProperties>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub items: Option<Arc<Schema>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub required: Vec<String>,

    #[serde(rename = "enum", skip_serializing_if = "Option::is_none")]
    pub enum_: Option<Vec<Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub minimum: Option<f64>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub exclusive_minimum: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub maximum: Option<f64>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub exclusive_maximum: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub multiple_of: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_length: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_length: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pattern: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_items: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_items: Option<u64>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub unique_items: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_properties: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_properties: Option<u64>,

    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub all_of: Vec<Arc<Schema>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub any_of: Vec<Arc<Schema>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub one_of: Vec<Arc<Schema>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not: Option<Arc<Schema>>,

    #[serde(rename = "x-kubernetes-preserve-unknown-fields", skip_serializing_if = "Option::is_none")]
    pub preserve_unknown_fields: Option<bool>,
    #[serde(rename = "x-kubernetes-embedded-resource", skip_serializing_if = "std::ops::Not::not")]
    pub embedded_resource: bool,
    #[serde(rename = "x-kubernetes-int-or-string", skip_serializing_if = "std::ops::Not::not")]
    pub int_or_string: bool,
    #[serde(rename = "x-kubernetes-list-type", skip_serializing_if = "Option::is_none")]
    pub list_type: Option<ListType>,
    #[serde(rename = "x-kubernetes-list-map-keys", skip_serializing_if = "Vec::is_empty")]
    pub list_map_keys: Vec<String>,
    #[serde(rename = "x-kubernetes-map-type", skip_serializing_if = "Option::is_none")]
    pub map_type: Option<MapType>,
    #[serde(rename = "x-kubernetes-validations", skip_serializing_if = "Vec::is_empty")]
    pub validations: Vec<Value>,
    /// Comma-separated: `merge`, `replace`, `retainKeys`. Only built-in kinds have it (strategic merge patch).
    #[serde(rename = "x-kubernetes-patch-strategy", skip_serializing_if = "Option::is_none")]
    pub patch_strategy: Option<String>,
    #[serde(rename = "x-kubernetes-patch-merge-key", skip_serializing_if = "Option::is_none")]
    pub patch_merge_key: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Type {
    Object,
    Array,
    String,
    Integer,
    Number,
    Boolean,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum AdditionalProperties {
    Any(bool),
    Typed(Arc<Schema>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ListType {
    Atomic,
    Set,
    Map,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MapType {
    Atomic,
    Granular,
}

// === impl Schema ===

impl Schema {
    /// The schema of field `name`, be it declared or a value of a map.
    pub fn field(&self, name: &str) -> Option<&Arc<Schema>> {
        self.properties.get(name).or(match &self.additional_properties {
            Some(AdditionalProperties::Typed(schema)) => Some(schema),
            _ => None,
        })
    }

    pub fn preserves_unknown_fields(&self) -> bool {
        self.preserve_unknown_fields == Some(true)
            || self.additional_properties == Some(AdditionalProperties::Any(true))
    }
}

// === impl Type ===

impl Type {
    /// As written in a schema.
    pub fn name(self) -> &'static str {
        match self {
            Self::Object => "object",
            Self::Array => "array",
            Self::String => "string",
            Self::Integer => "integer",
            Self::Number => "number",
            Self::Boolean => "boolean",
        }
    }
}
