//! What is made: definitions, instances and Sets of them.

use std::{fs, path::Path};

use anyhow::{Context, Result};
use futures::{StreamExt, TryStreamExt, stream};
use kube::{
    Api, Client,
    api::{ApiResource, DynamicObject, Patch, PatchParams, PostParams},
    runtime::wait::await_condition,
};
use serde_json::{Value, json};

const AT_ONCE: usize = 32;
const GROUP: &str = "kro.run";
const VERSION: &str = "v1alpha1";

/// A definition with so many resources: Deployments, Services and ConfigMaps in turn, none of which needs another one. With
/// the name of a Set's kind, a Set of its instances can be made too; only Ballast knows that field.
pub fn definition(kind: &str, n_resources: usize, set: Option<&str>) -> Value {
    let mut definition = json!({
        "apiVersion": format!("{GROUP}/{VERSION}"), "kind": "ResourceGraphDefinition",
        "metadata": {"name": kind.to_lowercase()},
        "spec": {
            "schema": {
                "apiVersion": VERSION, "kind": kind,
                "spec": {"text": "string | default=hello", "replicas": "integer | default=1"},
                "status": {"address": "${r1.spec.clusterIP}"},
            },
            "resources": (0..n_resources).map(resource).collect::<Vec<_>>(),
        },
    });
    if let Some(set) = set {
        definition["spec"]["scaling"] = json!({"kind": set, "method": "replicas"});
    }
    definition
}

fn resource(n: usize) -> Value {
    let name = format!("${{schema.metadata.name}}-{n}");
    let labels = json!({"app": name});
    let template = match n % 3 {
        0 => json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name},
            "spec": {
                "replicas": "${schema.spec.replicas}",
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": {"containers": [{
                    "name": "app", "image": "none", "env": [{"name": "TEXT", "value": "${schema.spec.text}"}],
                }]}},
            },
        }),
        1 => json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": name},
            "spec": {"selector": labels, "ports": [{"port": 80, "targetPort": 8080}]},
        }),
        _ => json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name},
            "data": {"text": "${schema.spec.text}"},
        }),
    };
    json!({"id": format!("r{n}"), "template": template})
}

/// Of a kind that is generated; its plural is regular.
pub fn api(client: &Client, kind: &str) -> Api<DynamicObject> {
    Api::default_namespaced_with(client.clone(), &resource_of(kind))
}

fn resource_of(kind: &str) -> ApiResource {
    ApiResource {
        group: GROUP.to_owned(),
        version: VERSION.to_owned(),
        api_version: format!("{GROUP}/{VERSION}"),
        kind: kind.to_owned(),
        plural: format!("{}s", kind.to_lowercase()),
    }
}

pub fn object(kind: &str, name: &str, spec: Value) -> Result<DynamicObject> {
    let object = json!({
        "apiVersion": format!("{GROUP}/{VERSION}"), "kind": kind, "metadata": {"name": name}, "spec": spec,
    });
    Ok(serde_json::from_value(object)?)
}

/// Creates a definition and waits until its kinds are served.
pub async fn define(client: &Client, definition: Value) -> Result<()> {
    let definitions = Api::all_with(client.clone(), &resource_of("ResourceGraphDefinition"));
    let definition: DynamicObject = serde_json::from_value(definition)?;
    let name = definition.metadata.name.clone().context("it has a name")?;
    definitions.create(&PostParams::default(), &definition).await?;
    let is_active = |found: Option<&DynamicObject>| {
        found.is_some_and(|found: &DynamicObject| found.data["status"]["state"] == "Active")
    };
    await_condition(definitions, &name, is_active).await?;
    Ok(())
}

pub async fn create_all(instances: &Api<DynamicObject>, kind: &str, n_instances: usize) -> Result<()> {
    stream::iter(0..n_instances)
        .map(|number| async move {
            let instance = object(kind, &format!("i{number:05}"), json!({}))?;
            instances.create(&PostParams::default(), &instance).await?;
            anyhow::Ok(())
        })
        .buffer_unordered(AT_ONCE)
        .try_collect()
        .await
}

pub async fn patch(objects: &Api<DynamicObject>, name: &str, spec: Value) -> Result<()> {
    let patch = Patch::Merge(json!({"spec": spec}));
    objects.patch(name, &PatchParams::default(), &patch).await?;
    Ok(())
}

/// The CustomResourceDefinitions in a folder.
pub async fn install(client: &Client, folder: &Path) -> Result<()> {
    let mut crds = Vec::new();
    for file in fs::read_dir(folder)? {
        let path = file?.path();
        if path.extension().is_some_and(|extension| extension == "yaml") {
            crds.push(serde_saphyr::from_str(&fs::read_to_string(path)?)?);
        }
    }
    Ok(controllers::crds::install_these(client, &crds).await?)
}
