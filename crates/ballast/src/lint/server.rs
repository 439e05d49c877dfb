//! What an API server says of the manifests: an embedded one that nobody else sees is asked with a dry run.

use std::collections::BTreeSet;

use anyhow::{Context, Result};
use http::Request;
use kube::{
    Api, Client,
    api::{DynamicObject, PostParams},
    client::Body,
    core::{GroupVersionKind, Status},
    discovery::{self, Scope},
};
use localkube::ApiServer;
use serde_json::{Value, json};

use super::{Finding, Severity, manifest::Document};

/// `generated` are kinds that resource graphs among the documents define.
pub async fn check(documents: &[Document], generated: &[Value], findings: &mut Vec<Finding>) -> Result<()> {
    let server = ApiServer::open(localkube::Options::default()).await?;
    let client = server.client("default");
    for crd in api::crds() {
        make(&client, &serde_json::to_value(crd)?).await.context("a kind of Ballast's own")?;
    }
    let namespaces: BTreeSet<&str> = documents.iter().map(Document::namespace).collect();
    for name in namespaces.into_iter().filter(|name| *name != "default") {
        // A bad name is told of the object that has it.
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        let _ = make(&client, &namespace).await;
    }
    // What other documents may be of: kinds that they bring along.
    for document in documents.iter().filter(|document| document.kind() == "CustomResourceDefinition") {
        let _ = make(&client, &document.value).await;
    }
    for crd in generated {
        let _ = make(&client, crd).await;
    }
    for document in documents {
        if let Err(finding) = ask(&client, document).await {
            findings.extend(finding);
        }
    }
    Ok(())
}

async fn make(client: &Client, value: &Value) -> Result<()> {
    let object: DynamicObject = serde_json::from_value(value.clone())?;
    let api = api_of(client, &object).await?;
    api.create(&PostParams::default(), &object).await?;
    Ok(())
}

async fn api_of(client: &Client, object: &DynamicObject) -> Result<Api<DynamicObject>> {
    let types = object.types.clone().unwrap_or_default();
    let (resource, capabilities) =
        discovery::pinned_kind(client, &GroupVersionKind::try_from(&types)?).await?;
    let namespace = object.metadata.namespace.as_deref().unwrap_or("default");
    Ok(match capabilities.scope {
        Scope::Cluster => Api::all_with(client.clone(), &resource),
        Scope::Namespaced => Api::namespaced_with(client.clone(), namespace, &resource),
    })
}

async fn ask(client: &Client, document: &Document) -> Result<(), Vec<Finding>> {
    let found =
        |rule, path: &str, message: String| vec![Finding::at(document, Severity::Error, rule, path, message)];
    for field in ["apiVersion", "kind"] {
        if document.value[field].as_str().is_none_or(str::is_empty) {
            return Err(found("api", field, format!("{field} is missing: every manifest has one")));
        }
    }
    let object: DynamicObject = serde_json::from_value(document.value.clone())
        .map_err(|error| found("api", "metadata", error.to_string()))?;
    let api = api_of(client, &object).await.map_err(|_| {
        let message = format!(
            "{} {} is no kind that is known here: it is not checked",
            document.text("/apiVersion"),
            document.kind()
        );
        vec![Finding::at(document, Severity::Warning, "unknown-kind", "kind", message)]
    })?;
    let status = create(client, &api, document, "Strict").await.map_err(|why| found("api", "", why))?;
    let Some(status) = status else { return Ok(()) };
    let Some((_, unknown)) = status.message.split_once("strict decoding error: ") else {
        return Err(findings(document, status));
    };
    // Fields that are not known hide the rest.
    let mut all: Vec<Finding> =
        unknown.split(", ").flat_map(|one| found("api", &path_in(one), one.to_owned())).collect();
    if let Ok(Some(status)) = create(client, &api, document, "Ignore").await {
        all.extend(findings(document, status));
    }
    Err(all)
}

/// What is answered if it is refused.
async fn create(
    client: &Client,
    api: &Api<DynamicObject>,
    document: &Document,
    validation: &str,
) -> Result<Option<Status>, String> {
    let body = document.value.to_string();
    let uri = format!("{}?dryRun=All&fieldValidation={validation}", api.resource_url());
    let request =
        Request::post(uri).header("content-type", "application/json").body(Body::from(body.into_bytes()));
    let answer = async { client.send(request?).await.map_err(anyhow::Error::from) };
    let answer = answer.await.map_err(|error| error.to_string())?;
    if answer.status().is_success() {
        return Ok(None);
    }
    let bytes = answer.into_body().collect_bytes().await.unwrap_or_default();
    Ok(Some(serde_json::from_slice(&bytes).unwrap_or_default()))
}

fn findings(document: &Document, status: Status) -> Vec<Finding> {
    let causes = status.details.map(|details| details.causes).unwrap_or_default();
    if causes.is_empty() {
        let path = path_in(&status.message);
        return vec![Finding::at(document, Severity::Error, "api", &path, status.message)];
    }
    let finding = |cause: kube::core::response::StatusCause| {
        Finding::at(document, Severity::Error, "api", &cause.field, cause.message)
    };
    causes.into_iter().map(finding).collect()
}

/// `unknown field "spec.x"`: the first path that is quoted.
fn path_in(message: &str) -> String {
    let quoted = message.split('"').nth(1).unwrap_or_default();
    let is_path = |text: &&str| text.contains('.') && !text.contains(' ');
    Some(quoted).filter(is_path).unwrap_or_default().to_owned()
}
