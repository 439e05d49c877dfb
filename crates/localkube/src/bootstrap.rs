//! What every cluster has from the start.

use serde_json::{Value, json};

use crate::{
    ApiServer,
    call::Call,
    error::{ApiError, Result},
    prepare, rbac,
    verbs::{Created, create_object},
};

pub const NAMESPACES: &[&str] = &["default", "kube-system", "kube-public", "kube-node-lease"];

pub async fn run(server: &ApiServer) -> Result<()> {
    for name in NAMESPACES {
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        ensure(server, ("", "namespaces"), "", namespace).await?;
    }
    let kubernetes = json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": "kubernetes",
            "namespace": "default",
            "labels": {"component": "apiserver", "provider": "kubernetes"},
        },
        "spec": {
            "clusterIP": "10.96.0.1",
            "ports": [{"name": "https", "port": 443, "protocol": "TCP", "targetPort": 6443}],
            "type": "ClusterIP",
            "sessionAffinity": "None",
        },
    });
    ensure(server, ("", "services"), "default", kubernetes).await?;
    for object in rbac::defaults().map_err(ApiError::internal)? {
        let resource = match object["kind"].as_str() {
            Some("ClusterRole") => "clusterroles",
            _ => "clusterrolebindings",
        };
        ensure(server, (rbac::GROUP, resource), "", object).await?;
    }
    for class in prepare::system_priority_classes() {
        ensure(server, ("scheduling.k8s.io", "priorityclasses"), "", class).await?;
    }
    Ok(())
}

async fn ensure(server: &ApiServer, resource: (&str, &str), namespace: &str, object: Value) -> Result<()> {
    let registry = server.registry();
    let Some(kind) = registry.resource(resource.0, resource.1) else { return Ok(()) };
    let name = crate::object::name(&object);
    if server.store().get(kind.table, &kind.key(namespace, name)).is_some() {
        return Ok(());
    }
    let call = Call::internal(server, kind, namespace, "");
    match create_object(&call, object, false, "CreateOptions", false).await? {
        Created::Stored(_) | Created::Imagined(_) => Ok(()),
    }
}
