//! End-to-end suites, each run on the embedded API and on a real one: the words that tests are written in.

pub mod git_http;

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use cluster::Cluster;
pub use cluster::eventually;
use k8s_openapi::{NamespaceResourceScope, api::core::v1::Pod};
use kube::{
    Api, Resource, ResourceExt,
    api::{DynamicObject, ListParams},
};
use serde_json::Value;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

/// A namespace of its own on one of the clusters.
pub struct Place<'a> {
    pub cluster: &'a Cluster,
    pub namespace: String,
}

impl<'a> Place<'a> {
    pub async fn new(cluster: &'a Cluster, name: &str) -> Result<Self> {
        Ok(Self { cluster, namespace: cluster.namespace(name).await? })
    }

    pub fn api<K>(&self) -> Api<K>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
    {
        Api::namespaced(self.cluster.client(), &self.namespace)
    }

    /// `kubectl -n <this namespace> …`, the arguments separated by spaces.
    pub async fn kubectl(&self, arguments: &str) -> Result<String> {
        let all = ["-n", self.namespace.as_str()].into_iter().chain(arguments.split_whitespace());
        self.cluster.kubectl(all).await
    }

    /// `kubectl apply -f -`
    pub async fn apply(&self, manifest: &str) -> Result<String> {
        let arguments = ["-n", self.namespace.as_str(), "apply", "-f", "-"];
        self.cluster.kubectl_with_input(arguments, manifest).await
    }

    pub async fn pods(&self, selector: &str) -> Result<Vec<Pod>> {
        Ok(self.api::<Pod>().list(&ListParams::default().labels(selector)).await?.items)
    }

    /// The pods of `selector`, once there are `count` of them, all ready and none leaving.
    pub async fn ready_pods(&self, selector: &str, count: usize) -> Result<Vec<Pod>> {
        eventually(format!("{count} ready pods of {selector}"), || async {
            let pods = self.pods(selector).await?;
            let ready = pods.len() == count && pods.iter().all(is_ready);
            Ok(if ready { Ok(pods) } else { Err(pods.iter().map(summary).collect::<Vec<_>>()) })
        })
        .await
    }

    /// The object as JSON, once `holds` of it.
    pub async fn until(&self, kind: &str, name: &str, holds: impl Fn(&Value) -> bool) -> Result<Value> {
        eventually(format!("{kind}/{name}"), || async {
            let text = self.kubectl(&format!("get {kind} {name} -o json")).await?;
            let object: Value = serde_json::from_str(&text)?;
            Ok(if holds(&object) { Ok(object) } else { Err(object) })
        })
        .await
    }

    /// Until `kubectl get` finds no such object.
    pub async fn until_gone(&self, kind: &str, name: &str) -> Result<()> {
        eventually(format!("{kind}/{name} to be gone"), || async {
            let text = self.kubectl(&format!("get {kind} {name} --ignore-not-found -o name")).await?;
            Ok(if text.trim().is_empty() { Ok(()) } else { Err(text) })
        })
        .await
    }
}

pub fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_ref());
    pod.metadata.deletion_timestamp.is_none()
        && conditions.is_some_and(|all| all.iter().any(|one| one.type_ == "Ready" && one.status == "True"))
}

fn summary(pod: &Pod) -> String {
    let status = serde_json::to_string(&pod.status).unwrap_or_default();
    format!("{} {status}", pod.name_any())
}

pub fn pod_ip(pod: &Pod) -> Result<String> {
    let ip = pod.status.as_ref().and_then(|status| status.pod_ip.clone());
    ip.with_context(|| format!("pod {} has no address", pod.name_any()))
}

/// The status line and body of a plain GET.
pub async fn http_get(ip: &str, port: u16, path: &str) -> Result<String> {
    let mut stream =
        TcpStream::connect((ip, port)).await.with_context(|| format!("failed to connect to {ip}:{port}"))?;
    stream.write_all(format!("GET {path} HTTP/1.0\r\nHost: {ip}\r\n\r\n").as_bytes()).await?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

/// What a server answered.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    /// Names in lower case.
    pub headers: BTreeMap<String, String>,
    pub body: String,
}

/// One call with a body, on a connection of its own.
pub async fn http_call(
    ip: &str,
    port: u16,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> Result<Answer> {
    let mut stream =
        TcpStream::connect((ip, port)).await.with_context(|| format!("failed to connect to {ip}:{port}"))?;
    let mut request = format!("{method} {path} HTTP/1.1\r\nHost: {ip}\r\nConnection: close\r\n");
    for (name, value) in headers {
        request.push_str(&format!("{name}: {value}\r\n"));
    }
    request.push_str(&format!("Content-Length: {}\r\n\r\n{body}", body.len()));
    stream.write_all(request.as_bytes()).await?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await?;
    let text = String::from_utf8_lossy(&answer).into_owned();
    let (head, body) = text.split_once("\r\n\r\n").with_context(|| format!("no answer: {text:?}"))?;
    let mut lines = head.lines();
    let status = lines.next().and_then(|line| line.split(' ').nth(1)).and_then(|code| code.parse().ok());
    let headers = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
        .collect();
    Ok(Answer {
        status: status.with_context(|| format!("no status: {head:?}"))?,
        headers,
        body: body.to_owned(),
    })
}

/// A field by JSON pointer; null when it is not there.
pub fn at<'a>(object: &'a Value, pointer: &str) -> &'a Value {
    object.pointer(pointer).unwrap_or(&Value::Null)
}

pub fn dynamic(
    place: &Place<'_>,
    group: &str,
    version: &str,
    kind: &str,
    plural: &str,
) -> Api<DynamicObject> {
    let resource = kube::core::ApiResource {
        group: group.to_owned(),
        version: version.to_owned(),
        api_version: format!("{group}/{version}"),
        kind: kind.to_owned(),
        plural: plural.to_owned(),
    };
    Api::namespaced_with(place.cluster.client(), &place.namespace, &resource)
}
