//! Pods from templates.

use k8s_openapi::{
    api::core::v1::{Pod, PodTemplateSpec},
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference},
};
use serde_json::Value;

/// A pod as the template describes it, without a name.
pub(crate) fn pod(template: &PodTemplateSpec, namespace: &str, owner: OwnerReference) -> Pod {
    let described = template.metadata.clone().unwrap_or_default();
    Pod {
        metadata: ObjectMeta {
            namespace: Some(namespace.to_owned()),
            labels: described.labels,
            annotations: described.annotations,
            finalizers: described.finalizers,
            owner_references: Some(vec![owner]),
            ..Default::default()
        },
        spec: template.spec.clone(),
        status: None,
    }
}

/// Whether two templates mean the same, apart from the labels in `ignore`.
pub(crate) fn same(a: &PodTemplateSpec, b: &PodTemplateSpec, ignore: &str) -> bool {
    let without = |template: &PodTemplateSpec| {
        let mut template = template.clone();
        if let Some(labels) = template.metadata.as_mut().and_then(|meta| meta.labels.as_mut()) {
            labels.remove(ignore);
        }
        template
    };
    let (a, b) = (without(a), without(b));
    a == b || meaning(&a) == meaning(&b)
}

/// The template as JSON without empty values: absent, null, `{}` and `[]` mean the same in a template.
fn meaning(template: &PodTemplateSpec) -> Value {
    let mut value = serde_json::to_value(template).unwrap_or_default();
    drop_empty(&mut value);
    value
}

fn drop_empty(value: &mut Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(fields) => {
            // an emptyDir is something although it has no fields
            fields.retain(|name, field| !drop_empty(field) || name == "emptyDir");
            fields.is_empty()
        }
        Value::Array(items) => {
            for item in items.iter_mut() {
                drop_empty(item);
            }
            items.is_empty()
        }
        _ => false,
    }
}
