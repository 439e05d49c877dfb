//! `ResourceGraphDefinition` (`kro.run/v1alpha1`): a kind made of other kinds, as people write it.
//!
//! What an API server can check by itself stands here as schema and CEL rules. Everything that needs the whole
//! definition (simple schema, expressions, order) is for the crate `graph`.

mod status;

use std::collections::BTreeMap;

use k8s_openapi::{
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceColumnDefinition,
    apimachinery::pkg::apis::meta::v1::LabelSelector,
};
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

pub use status::{Condition, Dependency, ResourceStatus, State, Status};

/// Labels and annotations of ours begin with it; a template may not set them.
pub const GROUP: &str = "kro.run";
/// The same, for what is not meant to be read by people.
pub const INTERNAL_GROUP: &str = "internal.kro.run";

/// A kind and the resources that each of its instances stands for.
#[derive(CustomResource, KubeSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "kro.run",
    version = "v1alpha1",
    kind = "ResourceGraphDefinition",
    plural = "resourcegraphdefinitions",
    shortname = "rgd",
    status = "Status",
    derive = "PartialEq",
    doc = "A kind of your own, and the resources that each instance of it stands for.",
    printcolumn = r#"{"name": "APIVERSION", "type": "string", "jsonPath": ".spec.schema.apiVersion"}"#,
    printcolumn = r#"{"name": "KIND", "type": "string", "jsonPath": ".spec.schema.kind"}"#,
    printcolumn = r#"{"name": "STATE", "type": "string", "jsonPath": ".status.state"}"#,
    printcolumn = r#"{"name": "READY", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"Ready\")].status"}"#,
    printcolumn = r#"{"name": "TOPOLOGICALORDER", "type": "string", "jsonPath": ".status.topologicalOrder", "priority": 1}"#,
    printcolumn = r#"{"name": "AGE", "type": "date", "jsonPath": ".metadata.creationTimestamp"}"#
)]
#[serde(rename_all = "camelCase")]
pub struct Spec {
    /// The kind that is generated.
    pub schema: Schema,

    /// What each instance stands for.
    #[serde(default)]
    pub resources: Vec<Resource>,

    /// Generates a second kind, which keeps a number of instances and rolls changes out over them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scaling: Option<Scaling>,
}

/// An object whose fields this API does not know: simple schema, or a manifest with expressions in it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Raw(pub Map<String, Value>);

/// The kind that is generated.
#[derive(KubeSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Schema {
    #[schemars(regex(pattern = r"^[A-Z][a-zA-Z0-9]{0,62}$"))]
    #[x_kube(validation = Rule::new("self == oldSelf").message("kind is immutable"))]
    pub kind: String,

    /// The version alone, without the group: v1alpha1.
    #[schemars(regex(pattern = r"^v[0-9]+(alpha[0-9]+|beta[0-9]+)?$"))]
    #[x_kube(validation = Rule::new("self == oldSelf").message("apiVersion is immutable"))]
    pub api_version: String,

    #[serde(default = "kro_run")]
    #[x_kube(validation = Rule::new("self == oldSelf").message("group is immutable"))]
    pub group: String,

    #[serde(default)]
    #[schemars(with = "String", extend("enum" = ["Namespaced", "Cluster"]))]
    #[x_kube(validation = Rule::new("self == oldSelf").message("scope is immutable"))]
    pub scope: Scope,

    /// Fields of an instance, in simple schema: `replicas: integer | default=1`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spec: Option<Raw>,

    /// Types that `spec` may use by name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub types: Option<Raw>,

    /// Fields of an instance's status, each an expression: `address: ${service.spec.clusterIP}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<Raw>,

    /// Columns of `kubectl get`, instead of State, Ready and Age.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub additional_printer_columns: Vec<CustomResourceColumnDefinition>,

    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 32),
        inner(length(max = 63), regex(pattern = r"^[a-z]([-a-z0-9]*[a-z0-9])?$")),
        extend("x-kubernetes-list-type" = "set")
    )]
    pub short_names: Vec<String>,

    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 32),
        inner(length(max = 63), regex(pattern = r"^[a-z]([-a-z0-9]*[a-z0-9])?$")),
        extend("x-kubernetes-list-type" = "set")
    )]
    pub categories: Vec<String>,

    /// Labels and annotations of the generated CustomResourceDefinition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Metadata>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Scope {
    #[default]
    Namespaced,
    Cluster,
}

#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Metadata {
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
}

/// One node of the graph.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[x_kube(
    validation = Rule::new("has(self.template) != has(self.externalRef)")
        .message("give exactly one of template and externalRef")
)]
#[serde(rename_all = "camelCase")]
pub struct Resource {
    /// How expressions call it, in lower camel case.
    pub id: String,

    /// A manifest with expressions in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub template: Option<Raw>,

    /// Something that exists already: it is read, never written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub external_ref: Option<ExternalRef>,

    /// Conditions, all of which hold once the resource is ready.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ready_when: Vec<String>,

    /// Conditions, all of which hold if the resource is wanted at all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub include_when: Vec<String>,

    /// One resource for each combination: `- zone: ${schema.spec.zones}`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub for_each: Vec<BTreeMap<String, String>>,
}

#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExternalRef {
    pub api_version: String,
    pub kind: String,
    pub metadata: ExternalMetadata,
}

/// One object by its name, or all that a selector matches.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[x_kube(
    validation = Rule::new("has(self.name) != has(self.selector)")
        .message("give exactly one of name and selector")
)]
#[serde(rename_all = "camelCase")]
pub struct ExternalMetadata {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<LabelSelector>,
}

/// The kind that keeps a number of instances.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Scaling {
    #[schemars(regex(pattern = r"^[A-Z][a-zA-Z0-9]{0,62}$"))]
    #[x_kube(validation = Rule::new("self == oldSelf").message("kind is immutable"))]
    pub kind: String,

    /// What decides how many instances there are: `spec.replicas` of the generated kind.
    #[serde(default)]
    #[schemars(with = "String", extend("enum" = ["replicas"]))]
    pub method: Method,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Method {
    #[default]
    Replicas,
}

fn kro_run() -> String {
    GROUP.to_owned()
}

// === impl Raw ===

impl JsonSchema for Raw {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Raw".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true })
    }
}

#[cfg(test)]
mod tests;
