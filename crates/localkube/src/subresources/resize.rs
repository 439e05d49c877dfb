//! `pods/resize`: new requests and limits for containers that run.

use serde_json::Value;

use crate::object;

/// Keeps from `live` all but the resources of containers and who set them. Where the containers are not those of the live
/// pod, the proposal stays as it is, for validation to refuse.
pub fn keep_the_rest(live: &Value, object: &mut Value) {
    let count = |pod: &Value, list: &str| pod["spec"][list].as_array().map_or(0, Vec::len);
    let lists = ["containers", "initContainers"];
    if lists.iter().any(|list| count(object, list) != count(live, list)) {
        return;
    }
    let mut kept = live.clone();
    for list in lists {
        let old = kept["spec"].get_mut(list).and_then(Value::as_array_mut);
        if let (Some(old), Some(new)) = (old, object["spec"][list].as_array()) {
            if old.iter().zip(new).all(|(old, new)| old["name"] == new["name"]) {
                for (old, new) in old.iter_mut().zip(new) {
                    take_sizes(old, new);
                }
            } else {
                old.clone_from(new);
            }
        }
    }
    for key in ["resourceVersion", "managedFields"] {
        if let Some(value) = object["metadata"].get(key) {
            object::meta(&mut kept).insert(key.to_owned(), value.clone());
        }
    }
    *object = kept;
}

fn take_sizes(container: &mut Value, from: &Value) {
    let Some(container) = container.as_object_mut() else { return };
    for key in ["resources", "resizePolicy"] {
        match from.get(key) {
            Some(value) => container.insert(key.to_owned(), value.clone()),
            None => container.remove(key),
        };
    }
}
