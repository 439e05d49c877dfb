//! Vertices, MonoVertices and Sets as `ballast status` and the operators' port show them.

use engine::kind::Kind;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Serialize;
use serde_json::Value;

/// Something with a count of its own that is none of Kubernetes' own workloads.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Scaled {
    pub kind: String,
    pub namespace: String,
    pub name: String,
    pub ready: u64,
    pub desired: u64,
    /// How many are as the newest template wants them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub updated: Option<u64>,
    /// What is being done, or waited for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub progress: Option<String>,
    /// Why there are so many: the last decision.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl Scaled {
    /// From what the object's spec and status say.
    pub fn read(kind: &Kind, meta: &ObjectMeta, object: &Value) -> Self {
        let at = |pointer: &str| object.pointer(pointer);
        let count = |pointer: &str| at(pointer).and_then(Value::as_u64);
        let conditions = at("/status/conditions").and_then(Value::as_array);
        let progressing = conditions
            .into_iter()
            .flatten()
            .find(|condition| condition["type"] == "Progressing" && condition["status"] != "False");
        Self {
            kind: kind.kind.to_string(),
            namespace: meta.namespace.clone().unwrap_or_default(),
            name: meta.name.clone().unwrap_or_default(),
            ready: count("/status/readyReplicas").unwrap_or(0),
            desired: count("/spec/replicas").unwrap_or(1),
            updated: count("/status/updatedReplicas"),
            progress: progressing.and_then(|condition| condition["message"].as_str().map(str::to_owned)),
            reason: None,
        }
    }

    pub fn line(&self) -> String {
        let Self { kind, namespace, name, ready, desired, updated, progress, reason } = self;
        let state = match (desired, ready) {
            (0, 0) => "asleep".to_owned(),
            _ => format!("{ready} of {desired} ready"),
        };
        let updated = updated.filter(|updated| updated < desired);
        let updated = updated.map(|updated| format!(", {updated} up to date")).unwrap_or_default();
        let progress = progress.as_ref().map(|progress| format!(" ({progress})")).unwrap_or_default();
        let reason = reason.as_ref().map(|reason| format!("  {reason}")).unwrap_or_default();
        format!("{kind:<12} {namespace}/{name}: {state}{updated}{progress}{reason}")
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_rollout_is_shown_with_its_progress() {
        let kind = Kind::namespaced("kro.run", "v1alpha1", "WebAppSet", "webappsets");
        let shown = |replicas: u64, status: Value| {
            let object = json!({
                "metadata": {"name": "tenants", "namespace": "shop"},
                "spec": {"replicas": replicas}, "status": status,
            });
            let meta = serde_json::from_value(object["metadata"].clone()).expect("test data");
            Scaled::read(&kind, &meta, &object).line()
        };
        let progressing =
            |status: &str| json!({"type": "Progressing", "status": status, "message": "2 to go"});
        let rolling_out =
            json!({"readyReplicas": 2, "updatedReplicas": 1, "conditions": [progressing("True")]});
        let settled = json!({"readyReplicas": 3, "updatedReplicas": 3, "conditions": [progressing("False")]});
        expect![[r#"
            WebAppSet    shop/tenants: 2 of 3 ready, 1 up to date (2 to go)
            WebAppSet    shop/tenants: 3 of 3 ready
            WebAppSet    shop/tenants: asleep"#]]
        .assert_eq(&[shown(3, rolling_out), shown(3, settled), shown(0, json!({}))].join("\n"));
    }
}
