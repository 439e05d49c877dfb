//! Fields that an autoscaler writes are not ours to write.

use serde_json::{Map, Value};

/// Leaves out of `desired` what another manager has set through the scale subresource of the live object: whoever
/// scales it owns the count, and a forced apply would take it back every time.
pub fn without_scaled_fields(mut desired: Value, live: Option<&Value>) -> Value {
    let managers = live.and_then(|live| live["metadata"]["managedFields"].as_array());
    for entry in managers.into_iter().flatten() {
        if entry["subresource"] == "scale"
            && let Some(fields) = entry["fieldsV1"].as_object()
        {
            remove(&mut desired, fields);
        }
    }
    desired
}

/// `fields` as `managedFields` has them: `{"f:spec": {"f:replicas": {}}}`.
fn remove(value: &mut Value, fields: &Map<String, Value>) {
    let Some(object) = value.as_object_mut() else { return };
    for (key, inner) in fields {
        let Some(name) = key.strip_prefix("f:") else { continue };
        match inner.as_object().filter(|inner| !inner.is_empty()) {
            None => {
                object.remove(name);
            }
            Some(inner) => {
                if let Some(field) = object.get_mut(name) {
                    remove(field, inner);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_what_was_scaled_is_left_out() {
        let desired = json!({ "spec": { "replicas": 3, "paused": false } });
        let live = |subresource: &str| {
            json!({ "metadata": { "managedFields": [{
                "manager": "kube-controller-manager", "operation": "Update", "subresource": subresource,
                "fieldsV1": { "f:spec": { "f:replicas": {} } },
            }]}})
        };
        let kept = without_scaled_fields(desired.clone(), Some(&live("scale")));
        assert_eq!(kept, json!({ "spec": { "paused": false } }));
        assert_eq!(without_scaled_fields(desired.clone(), Some(&live(""))), desired);
        assert_eq!(without_scaled_fields(desired.clone(), None), desired);
    }
}
