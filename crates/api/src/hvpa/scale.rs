//! Directions, thresholds and bounds.

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

/// How one direction of one side is applied.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ScaleType {
    #[serde(default)]
    pub update_policy: UpdatePolicy,
    /// What a change must come to.
    #[serde(default)]
    pub min_change: ScaleParams,
    /// How long after the last change, such as 3m.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "optional_duration")]
    pub stabilization_duration: Option<String>,
}

#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct UpdatePolicy {
    /// Auto if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["Auto", "Off", "MaintenanceWindow"]))]
    pub update_mode: Option<String>,
}

#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ScaleParams {
    #[serde(default)]
    pub cpu: ChangeParams,
    #[serde(default)]
    pub memory: ChangeParams,
    /// Part of the public type, and not used there either.
    #[serde(default)]
    pub replicas: ChangeParams,
}

/// A value, a percentage of what is there, or the smaller of both.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ChangeParams {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "optional_quantity")]
    pub value: Option<Quantity>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub percentage: Option<i32>,
}

/// Both ends belong to it; an end before the beginning lies on the next day.
#[derive(JsonSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MaintenanceTimeWindow {
    /// HHMMSS+ZONE, such as 220000+0100.
    #[schemars(regex(pattern = r"^([01][0-9]|2[0-3])[0-5][0-9][0-5][0-9][+-](0[0-9]|1[0-4])[0-5][0-9]$"))]
    pub begin: String,
    #[schemars(regex(pattern = r"^([01][0-9]|2[0-3])[0-5][0-9][0-5][0-9][+-](0[0-9]|1[0-4])[0-5][0-9]$"))]
    pub end: String,
}

#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ResourcePolicy {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 50))]
    pub container_policies: Vec<ContainerPolicy>,
}

#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ContainerPolicy {
    /// A container's name, or * for all that are not named.
    pub container_name: String,
    /// Auto if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["Auto", "Off"]))]
    pub mode: Option<String>,
    #[serde(default)]
    pub min_allowed: ResourceAmounts,
    #[serde(default)]
    pub max_allowed: ResourceAmounts,
    /// cpu and memory if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(inner(regex(pattern = "^(cpu|memory)$")))]
    pub controlled_resources: Option<Vec<String>>,
    /// RequestsAndLimits if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["RequestsAndLimits", "RequestsOnly"]))]
    pub controlled_values: Option<String>,
}

#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ResourceAmounts {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "optional_quantity")]
    pub cpu: Option<Quantity>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "optional_quantity")]
    pub memory: Option<Quantity>,
}

/// A quantity of 0 or more, as kubectl users write it. The API server compares numbers with no pattern.
pub(super) fn optional_quantity(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "x-kubernetes-int-or-string": true,
        "anyOf": [{"type": "integer"}, {"type": "string"}],
        "pattern": r"^\+?([0-9]+(\.[0-9]*)?|\.[0-9]+)(([KMGTPE]i)|[numkMGTPE]|[eE][+-]?[0-9]+)?$",
        "nullable": true,
    })
}

/// A length of time as Go writes it.
pub(crate) fn optional_duration(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "string",
        "pattern": r"^([0-9]+(\.[0-9]+)?(ns|us|ms|s|m|h))+$",
        "nullable": true,
    })
}
