//! Claims of storage, volumes, and the classes that say how to get one.

use serde_json::Value;

use super::{Checks, Errors, invalid_each, selector, spec, volume};
use crate::{FieldError, Path, Quantity, json, meta, names};

pub(crate) const CLAIM: Checks = Checks { object: claim, change: claim_change, ..super::NONE };
pub(crate) const VOLUME: Checks = Checks { object: persistent_volume, change: volume_change, ..super::NONE };
pub(crate) const STORAGE_CLASS: Checks =
    Checks { object: storage_class, change: storage_class_change, ..super::NONE };

const MODES: [&str; 2] = ["Block", "Filesystem"];
/// In the order in which the API looks for them.
const SOURCES: [&str; 22] = [
    "hostPath",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "glusterfs",
    "flocker",
    "nfs",
    "rbd",
    "quobyte",
    "cephfs",
    "iscsi",
    "cinder",
    "fc",
    "flexVolume",
    "azureFile",
    "vsphereVolume",
    "photonPersistentDisk",
    "portworxVolume",
    "azureDisk",
    "scaleIO",
    "local",
    "storageos",
    "csi",
];

fn claim(object: &Value, errors: &mut Errors) {
    let spec = spec(object);
    let path = Path::ROOT.child("spec");
    volume::claim(spec, &path, errors);
    if let Some(wanted) = json::some(spec, "selector") {
        selector::validate(wanted, &path.child("selector"), errors);
    }
    class_and_mode(spec, &path, errors);
}

fn class_and_mode(spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    let class = json::text(spec, "storageClassName");
    if !class.is_empty() {
        invalid_each(names::dns1123_subdomain(class), class, &path.child("storageClassName"), errors);
    }
    let mode = json::text(spec, "volumeMode");
    if !mode.is_empty() && !MODES.contains(&mode) {
        errors.push(FieldError::not_supported(path.child("volumeMode"), mode, &MODES));
    }
}

fn storage(object: &Value, pointer: &str) -> Option<Quantity> {
    Quantity::parse(object.pointer(pointer)?.as_str()?).ok()
}

/// A claim is a promise: only its volume is filled in, and a bound one may grow.
fn claim_change(new: &Value, old: &Value, errors: &mut Errors) {
    let bound = new["status"]["phase"] == "Bound";
    let (mut before, after) = (spec(old).clone(), spec(new));
    let unset = |value: &Value, field: &str| json::text(value, field).is_empty();
    let mut allowed = Vec::new();
    if unset(&before, "volumeName") {
        allowed.push("volumeName");
    }
    if json::some(&before, "storageClassName").is_none() {
        allowed.push("storageClassName");
    }
    if bound {
        allowed.push("volumeAttributesClassName");
    }
    if let Some(map) = before.as_object_mut() {
        for field in allowed {
            match after.get(field) {
                Some(value) => drop(map.insert(field.to_owned(), value.clone())),
                None => drop(map.remove(field)),
            }
        }
        if bound && after.pointer("/resources/requests").is_some() {
            map.insert("resources".to_owned(), after["resources"].clone());
        }
    }
    if before != *after {
        let detail = "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims";
        errors.push(FieldError::forbidden("spec", detail));
    }
    let at = "/spec/resources/requests/storage";
    let (size, previous) = (storage(new, at), storage(old, at));
    if size < previous && size <= storage(old, "/status/capacity/storage") {
        let detail = "field can not be less than status.capacity";
        errors.push(FieldError::forbidden("spec.resources.requests.storage", detail));
    }
    meta::immutable(after, spec(old), "volumeMode", &Path::ROOT, errors);
}

fn persistent_volume(object: &Value, errors: &mut Errors) {
    let spec = spec(object);
    let path = Path::ROOT.child("spec");
    if json::list(spec, "accessModes").is_empty() {
        errors.push(FieldError::required(path.child("accessModes"), ""));
    }
    volume::access_modes(spec, &path, errors);
    let (capacity, at) = (json::object(spec, "capacity"), path.child("capacity"));
    if capacity.is_none_or(serde_json::Map::is_empty) {
        errors.push(FieldError::required(at, ""));
    }
    if capacity.is_none_or(|amounts| !amounts.contains_key("storage") || amounts.len() > 1) {
        errors.push(FieldError::not_supported(
            at,
            spec.get("capacity").cloned().unwrap_or_default(),
            &["storage"],
        ));
    }
    for (name, amount) in capacity.into_iter().flatten() {
        let parsed = amount.as_str().and_then(|text| Quantity::parse(text).ok());
        if parsed.is_some_and(|amount| amount.is_zero() || amount.is_negative()) {
            errors.push(FieldError::invalid(at.key(name), amount.clone(), "must be greater than zero"));
        }
    }
    let policy = json::text(spec, "persistentVolumeReclaimPolicy");
    let policies = ["Delete", "Recycle", "Retain"];
    if !policies.contains(&policy) {
        errors.push(FieldError::not_supported(
            path.child("persistentVolumeReclaimPolicy"),
            policy,
            &policies,
        ));
    }
    sources(spec, &path, errors);
    class_and_mode(spec, &path, errors);
}

fn sources(spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    let mut found = 0;
    for field in SOURCES {
        let Some(source) = json::some(spec, field) else { continue };
        found += 1;
        let at = path.child(field);
        if found > 1 {
            errors.push(FieldError::forbidden(at, "may not specify more than 1 volume type"));
            continue;
        }
        if !matches!(field, "hostPath" | "local") {
            continue;
        }
        let text = json::text(source, "path");
        if text.is_empty() {
            errors.push(FieldError::required(at.child("path"), ""));
        } else if text.split('/').any(|part| part == "..") {
            errors.push(FieldError::invalid(at.child("path"), text, "must not contain '..'"));
        }
        if field == "local" && json::some(&spec["nodeAffinity"], "required").is_none() {
            let detail = "Local volume requires node affinity";
            errors.push(FieldError::required(path.child("nodeAffinity"), detail));
        }
    }
    if found == 0 {
        errors.push(FieldError::required(path, "must specify a volume type"));
    }
}

fn volume_change(new: &Value, old: &Value, errors: &mut Errors) {
    let (new, old) = (spec(new), spec(old));
    if SOURCES.iter().any(|field| json::some(new, field) != json::some(old, field)) {
        let detail = "spec.persistentvolumesource is immutable after creation";
        errors.push(FieldError::forbidden("spec.persistentvolumesource", detail));
    }
    meta::immutable(new, old, "volumeMode", &Path::ROOT, errors);
}

fn storage_class(object: &Value, errors: &mut Errors) {
    let (provisioner, at) = (json::text(object, "provisioner"), Path::ROOT.child("provisioner"));
    if provisioner.is_empty() {
        errors.push(FieldError::required(at, ""));
    } else {
        let lower = provisioner.to_lowercase();
        invalid_each(names::qualified_name(&lower), lower.as_str(), &at, errors);
    }
    for (field, allowed) in [
        ("reclaimPolicy", &["Delete", "Retain"]),
        ("volumeBindingMode", &["Immediate", "WaitForFirstConsumer"]),
    ] {
        let text = json::text(object, field);
        if !allowed.contains(&text) {
            errors.push(FieldError::not_supported(Path::ROOT.child(field), text, allowed));
        }
    }
}

fn storage_class_change(new: &Value, old: &Value, errors: &mut Errors) {
    for field in ["parameters", "provisioner", "reclaimPolicy", "volumeBindingMode"] {
        meta::immutable(new, old, field, &Path::ROOT, errors);
    }
}
