//! Volumes of pods.

use std::collections::HashSet;

use serde_json::Value;

use super::{Errors, invalid_each};
use crate::{FieldError, Path, json, names};

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
            items(json::list(source, "items"), field == "downwardAPI", &at.child("items"), errors);
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

fn items(items: &[Value], is_downward: bool, path: &Path<'_>, errors: &mut Errors) {
    for (index, item) in items.iter().enumerate() {
        let at = path.index(index);
        if !is_downward && json::text(item, "key").is_empty() {
            errors.push(FieldError::required(at.child("key"), ""));
        }
        file_path(json::text(item, "path"), &at.child("path"), errors);
        mode(item, "mode", &at, errors);
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
                    items(json::list(part, "items"), false, &at.child("items"), errors);
                }
                "downwardAPI" => items(json::list(part, "items"), true, &at.child("items"), errors),
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
