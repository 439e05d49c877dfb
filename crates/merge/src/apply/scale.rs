//! Managers of the `scale` subresource. A Scale is an object of its own (`autoscaling/v1`), made from another one:
//! who writes its `.spec.replicas` owns the replicas field of that other object.
//!
//! A write of a Scale: [`entries_of_scale`] gives the live Scale its managers, an [`Updater`](super::Updater) for
//! `autoscaling/v1` and the subresource `scale` works out the next ones, [`entries_of_parent`] brings them home.
//! The new manager has no time there, as in the real server. Other than there, who owned the replicas by update keeps
//! them in its own entry when a Scale is written without a change; the real server splits that entry in two.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{
    fieldpath::{Path, Set},
    managed_fields::Managed,
    ownership::Owned,
};

const SCALE_VERSION: &str = "autoscaling/v1";

/// Where the replicas stand in each version of the scaled kind; `None` for a version without a scale subresource.
pub type ReplicasPaths = BTreeMap<String, Option<Path>>;

/// The `managedFields` of the Scale, from those of the object that it scales.
pub fn entries_of_scale(parent: &[Value], paths: &ReplicasPaths) -> Result<Vec<Value>, String> {
    let parent = Managed::decode(parent)?;
    let mut scale = Managed::default();
    for (manager, owned) in parent.owners {
        let Some(Some(path)) = paths.get(&owned.api_version) else { continue };
        if !owned.set.contains(path) {
            continue;
        }
        if let Some(time) = parent.times.get(&manager) {
            scale.times.insert(manager.clone(), *time);
        }
        scale.owners.insert(manager, Owned { set: scale_replicas(), api_version: SCALE_VERSION.into() });
    }
    Ok(scale.encode())
}

/// The `managedFields` of the object, after its Scale was written and has the entries `scale`. `api_version` is the
/// version of the object in that request.
pub fn entries_of_parent(
    parent: &[Value],
    scale: &[Value],
    api_version: &str,
    paths: &ReplicasPaths,
) -> Result<Vec<Value>, String> {
    let parent = Managed::decode(parent)?;
    let mut scale = Managed::decode(scale)?.owners;
    let mut result = Managed { times: parent.times, ..Managed::default() };
    for (manager, mut owned) in parent.owners {
        // versions that are gone take their entries with them
        let Some(path) = paths.get(&owned.api_version) else { continue };
        // an entry that came from here went into the Scale under the Scale's version
        let mut in_scale = manager.clone();
        if !in_scale.api_version.is_empty() {
            in_scale.api_version = SCALE_VERSION.into();
        }
        match path {
            Some(path) if owned.set.contains(path) && scale.remove(&in_scale).is_none() => {
                owned.set = owned.set.difference(&Set::from_iter([path.clone()]));
            }
            _ => {}
        }
        if !owned.set.is_empty() {
            result.owners.insert(manager, owned);
        }
    }
    let Some(Some(path)) = paths.get(api_version) else { return Ok(result.encode()) };
    for (mut manager, owned) in scale {
        if !owned.set.contains(&Path::fields(["spec", "replicas"])) {
            continue;
        }
        if !manager.api_version.is_empty() {
            manager.api_version = api_version.to_owned();
        }
        let set = Set::from_iter([path.clone()]);
        result.owners.insert(manager, Owned { set, api_version: api_version.to_owned() });
    }
    Ok(result.encode())
}

fn scale_replicas() -> Set {
    Set::from_iter([Path::fields(["spec", "replicas"])])
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn entry(manager: &str, operation: &str, version: &str, fields: Value, subresource: &str) -> Value {
        let mut entry = json!({
            "manager": manager, "operation": operation, "apiVersion": version,
            "fieldsType": "FieldsV1", "fieldsV1": fields,
        });
        if !subresource.is_empty() {
            entry["subresource"] = subresource.into();
        }
        entry
    }

    #[test]
    fn the_replicas_change_hands() {
        let paths = ReplicasPaths::from([
            ("apps/v1".to_owned(), Some(Path::fields(["spec", "replicas"]))),
            ("x.io/v1".to_owned(), Some(Path::fields(["spec", "size"]))),
            ("x.io/v0".to_owned(), None),
        ]);
        let replicas = json!({"f:spec": {"f:replicas": {}}});
        let size_and_more = json!({"f:spec": {"f:color": {}, "f:size": {}}});
        let parent = [
            entry("ssa", "Apply", "x.io/v1", size_and_more.clone(), ""),
            entry("edit", "Update", "x.io/v0", json!({"f:spec": {"f:old": {}}}), ""),
            entry("gone", "Update", "x.io/v7", size_and_more, ""),
        ];
        let scale = entries_of_scale(&parent, &paths).unwrap();
        assert_eq!(scale, [entry("ssa", "Apply", "autoscaling/v1", replicas.clone(), "")]);

        // nobody took them
        let kept = entries_of_parent(&parent, &scale, "x.io/v1", &paths).unwrap();
        assert_eq!(kept, parent[..2]);

        let taken = [entry("kubectl", "Update", "autoscaling/v1", replicas, "scale")];
        assert_eq!(
            entries_of_parent(&parent, &taken, "x.io/v1", &paths).unwrap(),
            [
                entry("ssa", "Apply", "x.io/v1", json!({"f:spec": {"f:color": {}}}), ""),
                entry("edit", "Update", "x.io/v0", json!({"f:spec": {"f:old": {}}}), ""),
                entry("kubectl", "Update", "x.io/v1", json!({"f:spec": {"f:size": {}}}), "scale"),
            ]
        );
        // and then scales again
        let parent = [entry("kubectl", "Update", "apps/v1", json!({"f:spec": {"f:replicas": {}}}), "scale")];
        let scale = entries_of_scale(&parent, &paths).unwrap();
        assert_eq!(entries_of_parent(&parent, &scale, "apps/v1", &paths).unwrap(), parent);
    }
}
