//! Where a Function's code comes from.

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Source {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inline: Option<Inline>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub git_repository: Option<GitRepository>,
}

#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Inline {
    /// The code itself.
    #[schemars(length(min = 1))]
    pub source: String,
    /// What it needs: the text of a package.json or of a requirements.txt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dependencies: Option<String>,
}

#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GitRepository {
    pub url: String,
    /// The directory of the code in the repository; the repository itself if left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[x_kube(validation = Rule::new("self.trim().size() != 0").message("baseDir must not be blank"))]
    pub base_dir: Option<String>,
    /// A branch, a tag or a commit.
    #[x_kube(validation = Rule::new("self.trim().size() != 0").message("reference must not be blank"))]
    pub reference: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auth: Option<Auth>,
}

#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Auth {
    #[serde(rename = "type")]
    pub type_: AuthType,
    /// A Secret of the Function's namespace: `username` and `password`, or `key`.
    #[x_kube(validation = Rule::new("self.trim().size() != 0").message("secretName must not be blank"))]
    pub secret_name: String,
}

#[derive(JsonSchema, Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum AuthType {
    Basic,
    Key,
}
