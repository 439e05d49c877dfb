//! Volumes of pods.

use std::collections::HashSet;

use serde_json::Value;

use super::{Errors, invalid_each};
use crate::{FieldError, Path, Quantity, json, names};

/// Checks the volumes; answers with the names of the good ones, which containers may mount.
pub(super) fn validate(volumes: &[Value], path: &Path<'_>, errors: &mut Errors) -> HashSet<String> {
    let mut good = HashSet::new();
    for (index, volume) in volumes.iter().enumerate() {
        let at = path.index(index);
        let mut faults = Vec::new();
        source(volume, &at, &mut faults);
        let name = json::text(volume, "name");
        if name.is_empty() {
            faults.push(FieldError::required(at.child("name"), ""));
        } else {
            invalid_each(names::dns1123_label(name), name, &at.child("name"), &mut faults);
        }
        if good.contains(name) {
            faults.push(FieldError::duplicate(at.child("name"), name));
        }
        if faults.is_empty() {
            good.insert(name.to_owned());
        }
        errors.append(&mut faults);
    }
    good
}

fn source(volume: &Value, path: &Path<'_>, errors: &mut Errors) {
    // in the order in which the API looks for them
    const SOURCES: [&str; 30] = [
        "emptyDir",
        "hostPath",
        "gitRepo",
        "gcePersistentDisk",
        "awsElasticBlockStore",
        "secret",
        "nfs",
        "iscsi",
        "glusterfs",
        "flocker",
        "persistentVolumeClaim",
        "rbd",
        "cinder",
        "cephfs",
        "quobyte",
        "downwardAPI",
        "fc",
        "flexVolume",
        "configMap",
        "azureFile",
        "vsphereVolume",
        "photonPersistentDisk",
        "portworxVolume",
        "azureDisk",
        "storageos",
        "projected",
        "scaleIO",
        "csi",
        "ephemeral",
        "image",
    ];
    let mut found = 0;
    for field in SOURCES {
        let Some(source) = json::some(volume, field) else { continue };
        let at = path.child(field);
        found += 1;
        if found > 1 {
            errors.push(FieldError::forbidden(at, "may not specify more than 1 volume type"));
            continue;
        }
        match field {
            "secret" if json::text(source, "secretName").is_empty() => {
                errors.push(FieldError::required(at.child("secretName"), ""));
            }
            "configMap" if json::text(source, "name").is_empty() => {
                errors.push(FieldError::required(at.child("name"), ""));
            }
            "persistentVolumeClaim" if json::text(source, "claimName").is_empty() => {
                errors.push(FieldError::required(at.child("claimName"), ""));
            }
            "hostPath" if json::text(source, "path").is_empty() => {
                errors.push(FieldError::required(at.child("path"), ""));
            }
            "projected" => projected(source, &at, errors),
            _ => {}
        }
        if matches!(field, "secret" | "configMap" | "downwardAPI" | "projected") {
            mode(source, "defaultMode", &at, errors);
            match field {
                "downwardAPI" => downward(json::list(source, "items"), &at, errors),
                _ => items(json::list(source, "items"), &at.child("items"), errors),
            }
        }
    }
    if found == 0 {
        errors.push(FieldError::required(path, "must specify a volume type"));
    }
}

fn mode(source: &Value, field: &str, path: &Path<'_>, errors: &mut Errors) {
    if let Some(mode) = json::int(source, field).filter(|mode| !(0..=0o777).contains(mode)) {
        let detail = "must be a number between 0 and 0777 (octal), both inclusive";
        errors.push(FieldError::invalid(path.child(field), mode, detail));
    }
}

fn items(items: &[Value], path: &Path<'_>, errors: &mut Errors) {
    for (index, item) in items.iter().enumerate() {
        let at = path.index(index);
        if json::text(item, "key").is_empty() {
            errors.push(FieldError::required(at.child("key"), ""));
        }
        file_path(json::text(item, "path"), &at.child("path"), errors);
        mode(item, "mode", &at, errors);
    }
}

/// Files made of the pod's own fields; the API reports all of them at the volume.
fn downward(items: &[Value], path: &Path<'_>, errors: &mut Errors) {
    for item in items {
        file_path(json::text(item, "path"), &path.child("path"), errors);
        let sources = ["fieldRef", "resourceFieldRef"];
        match sources.iter().filter(|source| json::some(item, source).is_some()).count() {
            1 => {}
            0 => {
                let detail = "one of fieldRef and resourceFieldRef is required";
                errors.push(FieldError::required(path, detail));
            }
            _ => {
                let detail = "fieldRef and resourceFieldRef can not be specified simultaneously";
                errors.push(FieldError::invalid(path, "resource", detail));
            }
        }
        mode(item, "mode", path, errors);
    }
}

/// Where in the volume a file goes: below its root, and not where the API keeps its own.
fn file_path(text: &str, path: &Path<'_>, errors: &mut Errors) {
    if text.is_empty() {
        errors.push(FieldError::required(path, ""));
    }
    if text.starts_with('/') {
        errors.push(FieldError::invalid(path, text, "must be a relative path"));
    }
    if text.split('/').any(|part| part == "..") {
        errors.push(FieldError::invalid(path, text, "must not contain '..'"));
    }
    if text.starts_with("..") && !text.starts_with("../") {
        errors.push(FieldError::invalid(path, text, "must not start with '..'"));
    }
}

fn projected(source: &Value, path: &Path<'_>, errors: &mut Errors) {
    let base = path.child("sources");
    for (index, source) in json::list(source, "sources").iter().enumerate() {
        let at = base.index(index);
        let kinds = ["secret", "configMap", "downwardAPI", "serviceAccountToken", "clusterTrustBundle"];
        let found: Vec<&str> = kinds.into_iter().filter(|kind| json::some(source, kind).is_some()).collect();
        for kind in &found {
            let (part, at) = (&source[*kind], at.child(kind));
            match *kind {
                "secret" | "configMap" => {
                    if json::text(part, "name").is_empty() {
                        errors.push(FieldError::required(at.child("name"), ""));
                    }
                    items(json::list(part, "items"), &at.child("items"), errors);
                }
                "downwardAPI" => downward(json::list(part, "items"), &at, errors),
                "serviceAccountToken" => {
                    if let Some(seconds) =
                        json::int(part, "expirationSeconds").filter(|seconds| *seconds < 600)
                    {
                        let detail = "may not specify a duration less than 10 minutes";
                        errors.push(FieldError::invalid(at.child("expirationSeconds"), seconds, detail));
                    }
                    if json::text(part, "path").is_empty() {
                        errors.push(FieldError::required(at.child("path"), ""));
                    }
                }
                _ => {}
            }
        }
        if found.len() > 1 {
            errors.push(FieldError::forbidden(at, "may not specify more than 1 volume type per source"));
        }
    }
}

/// What a claim of storage must say.
pub(crate) fn claim(spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    if json::list(spec, "accessModes").is_empty() {
        errors.push(FieldError::required(path.child("accessModes"), "at least 1 access mode is required"));
    }
    access_modes(spec, path, errors);
    let base = path.child("resources");
    let at = base.key("storage");
    match spec.get("resources").and_then(|resources| resources.get("requests")?.get("storage")) {
        None => errors.push(FieldError::required(at, "")),
        Some(value) => {
            let amount = value.as_str().and_then(|text| Quantity::parse(text).ok());
            if amount.is_some_and(|amount| amount.is_zero() || amount.is_negative()) {
                errors.push(FieldError::invalid(at, value.clone(), "must be greater than zero"));
            }
        }
    }
}

pub(super) fn access_modes(spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    const MODES: [&str; 4] = ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];
    let modes = || json::list(spec, "accessModes").iter().filter_map(Value::as_str);
    for mode in modes().filter(|mode| !MODES.contains(mode)) {
        errors.push(FieldError::not_supported(path.child("accessModes"), mode, &MODES));
    }
    let alone = |mode: &str| mode == "ReadWriteOncePod";
    if modes().any(alone) && modes().any(|mode| !alone(mode) && MODES.contains(&mode)) {
        let detail = "may not use ReadWriteOncePod with other access modes";
        errors.push(FieldError::forbidden(path.child("accessModes"), detail));
    }
}
