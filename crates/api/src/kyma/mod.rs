//! `Function` (`serverless.kyma-project.io/v1alpha2`): source code and how much of it runs.
//!
//! What an API server can check by itself stands here as schema and CEL rules; the rest is for the controller.

pub mod resources;
mod source;
mod status;

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{EnvVar, PodSecurityContext, ResourceRequirements, SecurityContext};
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use source::{Auth, AuthType, GitRepository, Inline, Source};
pub use status::{GitStatus, Status};

/// Labels, annotations and variables of ours begin with it; a Function may not set such labels and annotations.
pub const GROUP: &str = "serverless.kyma-project.io";

/// The container of a Function's pods that runs its code.
pub const CONTAINER: &str = "function";

/// Variables that the runtime sets itself.
pub const RESERVED_ENV: [&str; 8] = [
    "FUNC_RUNTIME",
    "FUNC_HANDLER",
    "FUNC_PORT",
    "FUNC_HANDLER_SOURCE",
    "FUNC_HANDLER_DEPENDENCIES",
    "MOD_NAME",
    "NODE_PATH",
    "PYTHONPATH",
];

/// What runs, from which source, and how many of it.
#[derive(CustomResource, KubeSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "serverless.kyma-project.io",
    version = "v1alpha2",
    kind = "Function",
    plural = "functions",
    shortname = "fn",
    shortname = "fns",
    category = "all",
    namespaced,
    status = "Status",
    derive = "PartialEq",
    doc = "A Function: source code that runs as pods and answers HTTP calls.",
    scale(
        spec_replicas_path = ".spec.replicas",
        status_replicas_path = ".status.replicas",
        label_selector_path = ".status.podSelector"
    ),
    printcolumn = r#"{"name": "Configured", "type": "string", "jsonPath": ".status.conditions[?(@.type=='ConfigurationReady')].status"}"#,
    printcolumn = r#"{"name": "Running", "type": "string", "jsonPath": ".status.conditions[?(@.type=='Running')].status"}"#,
    printcolumn = r#"{"name": "Replicas", "type": "integer", "jsonPath": ".status.replicas"}"#,
    printcolumn = r#"{"name": "Runtime", "type": "string", "jsonPath": ".spec.runtime"}"#,
    printcolumn = r#"{"name": "Version", "type": "integer", "jsonPath": ".metadata.generation"}"#,
    printcolumn = r#"{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}"#
)]
#[serde(rename_all = "camelCase")]
pub struct Spec {
    /// The language and its version: nodejs20 (deprecated), nodejs22, nodejs24 or python312.
    #[schemars(extend("enum" = ["nodejs20", "nodejs22", "nodejs24", "python312"]))]
    pub runtime: String,

    /// An image to run instead of the runtime's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runtime_image_override: Option<String>,

    /// Where the code comes from.
    #[x_kube(
        validation = Rule::new("has(self.inline) != has(self.gitRepository)")
            .message("give exactly one of inline and gitRepository")
    )]
    pub source: Source,

    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod_security_context: Option<PodSecurityContext>,

    #[serde(skip_serializing_if = "Option::is_none")]
    pub container_security_context: Option<SecurityContext>,

    /// Variables for the code.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(
        validation = Rule::new(
            "self.all(e, !(e.name in ['FUNC_RUNTIME', 'FUNC_HANDLER', 'FUNC_PORT', 'FUNC_HANDLER_SOURCE', \
             'FUNC_HANDLER_DEPENDENCIES', 'MOD_NAME', 'NODE_PATH', 'PYTHONPATH']))"
        )
        .message(
            "these names are reserved: FUNC_RUNTIME, FUNC_HANDLER, FUNC_PORT, FUNC_HANDLER_SOURCE, \
             FUNC_HANDLER_DEPENDENCIES, MOD_NAME, NODE_PATH, PYTHONPATH"
        )
    )]
    pub env: Vec<EnvVar>,

    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource_configuration: Option<ResourceConfiguration>,

    /// Built-in scaling: with min below max an autoscaler of ours sets `replicas` by CPU use.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[x_kube(
        validation = Rule::new("self.minReplicas <= self.maxReplicas")
            .message("minReplicas must not be above maxReplicas")
    )]
    pub scale_config: Option<ScaleConfig>,

    /// How many pods run. The only truth about it, whoever sets it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0), extend("default" = 1))]
    pub replicas: Option<i32>,

    /// Not supported: use labels and annotations.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[x_kube(
        validation = Rule::new("!has(self.labels) && !has(self.annotations)")
            .message("not supported: use spec.labels and spec.annotations for the Function's pods")
    )]
    pub template: Option<Template>,

    /// Secrets that the code finds as files.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["secretName"]))]
    pub secret_mounts: Vec<SecretMount>,

    /// Labels of the Function's pods.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[x_kube(
        validation = Rule::new("!self.exists(key, key.startsWith('serverless.kyma-project.io/'))")
            .message("a label may not begin with serverless.kyma-project.io/"),
        validation = Rule::new("self.all(key, size(key) < 64)")
            .message("the key of a label may have at most 63 characters")
    )]
    pub labels: BTreeMap<String, String>,

    /// Annotations of the Function's pods.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[x_kube(
        validation = Rule::new("!self.exists(key, key.startsWith('serverless.kyma-project.io/'))")
            .message("an annotation may not begin with serverless.kyma-project.io/"),
        validation = Rule::new("!self.exists(key, key == 'proxy.istio.io/config')")
            .message("the annotation proxy.istio.io/config is not allowed")
    )]
    pub annotations: BTreeMap<String, String>,
}

#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ResourceConfiguration {
    /// Deprecated: nothing is built.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub build: Option<BuildResources>,

    #[serde(skip_serializing_if = "Option::is_none")]
    pub function: Option<FunctionResources>,
}

/// What each pod asks for and may use, by profile or in full.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[x_kube(
    validation = Rule::new("!(has(self.profile) && has(self.resources))")
        .message("give profile or resources, not both")
)]
#[serde(rename_all = "camelCase")]
pub struct FunctionResources {
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["XS", "S", "M", "L", "XL"]))]
    pub profile: Option<String>,

    #[serde(skip_serializing_if = "Option::is_none")]
    pub resources: Option<ResourceRequirements>,
}

#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[x_kube(
    validation = Rule::new("!(has(self.profile) && has(self.resources))")
        .message("give profile or resources, not both")
)]
#[serde(rename_all = "camelCase")]
pub struct BuildResources {
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["local-dev", "slow", "normal", "fast"]))]
    pub profile: Option<String>,

    #[serde(skip_serializing_if = "Option::is_none")]
    pub resources: Option<ResourceRequirements>,
}

#[derive(JsonSchema, Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ScaleConfig {
    #[schemars(range(min = 1))]
    pub min_replicas: i32,
    #[schemars(range(min = 1))]
    pub max_replicas: i32,
}

#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Template {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub labels: Option<BTreeMap<String, String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub annotations: Option<BTreeMap<String, String>>,
}

#[derive(JsonSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SecretMount {
    /// A Secret of the Function's namespace.
    #[schemars(
        length(min = 1, max = 253),
        regex(pattern = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$")
    )]
    pub secret_name: String,
    /// The directory in which its keys are files.
    #[schemars(length(min = 1))]
    pub mount_path: String,
}

impl Spec {
    /// What the API fills in where nothing is written.
    pub fn replicas(&self) -> i32 {
        self.replicas.unwrap_or(1)
    }
}

#[cfg(test)]
mod tests;
