//! ConfigMaps and Secrets.

use base64::Engine;
use serde_json::Value;

use super::{Checks, Errors, invalid_each};
use crate::{FieldError, Path, json, meta, names};

pub(crate) const CONFIG_MAP: Checks = Checks { object: config_map, change: config_map_change, ..super::NONE };
pub(crate) const SECRET: Checks = Checks { object: secret, change: secret_change, ..super::NONE };

const LIMIT: usize = 1024 * 1024;

/// The size of base64 text once decoded.
fn decoded_size(text: &str) -> usize {
    base64::engine::general_purpose::STANDARD.decode(text).map_or(text.len(), |bytes| bytes.len())
}

fn config_map(object: &Value, errors: &mut Errors) {
    let mut size = 0;
    for list in ["data", "binaryData"] {
        let base = Path::ROOT.child(list);
        for (key, value) in json::object(object, list).into_iter().flatten() {
            let at = base.key(key);
            invalid_each(names::config_key(key), key.as_str(), &at, errors);
            let text = value.as_str().unwrap_or_default();
            if list == "data" {
                if json::object(object, "binaryData").is_some_and(|binary| binary.contains_key(key)) {
                    let detail = "duplicate of key present in binaryData";
                    errors.push(FieldError::invalid(at, key.as_str(), detail));
                }
                size += text.len();
            } else {
                size += decoded_size(text);
            }
        }
    }
    if size > LIMIT {
        errors.push(FieldError::too_long("", LIMIT as u64));
    }
}

fn config_map_change(new: &Value, old: &Value, errors: &mut Errors) {
    stays_immutable(new, old, &["data", "binaryData"], errors);
}

fn stays_immutable(new: &Value, old: &Value, fields: &[&str], errors: &mut Errors) {
    if !json::flag(old, "immutable") {
        return;
    }
    let detail = "field is immutable when `immutable` is set";
    if !json::flag(new, "immutable") {
        errors.push(FieldError::forbidden(Path::ROOT.child("immutable"), detail));
    }
    for field in fields.iter().filter(|field| json::some(new, field) != json::some(old, field)) {
        errors.push(FieldError::forbidden(Path::ROOT.child(field), detail));
    }
}

fn secret(object: &Value, errors: &mut Errors) {
    let data = json::object(object, "data");
    let base = Path::ROOT.child("data");
    let mut size = 0;
    for (key, value) in data.into_iter().flatten() {
        invalid_each(names::config_key(key), key.as_str(), &base.key(key), errors);
        size += decoded_size(value.as_str().unwrap_or_default());
    }
    if size > LIMIT {
        errors.push(FieldError::too_long(base, LIMIT as u64));
    }
    let has = |key: &str| data.is_some_and(|data| data.contains_key(key));
    let required: &[&str] = match json::text(object, "type") {
        "kubernetes.io/service-account-token" => {
            let key = "kubernetes.io/service-account.name";
            if json::text(&object["metadata"]["annotations"], key).is_empty() {
                let base = Path::ROOT.child("metadata");
                let base = base.child("annotations");
                errors.push(FieldError::required(base.key(key), ""));
            }
            &[]
        }
        "kubernetes.io/dockercfg" => &[".dockercfg"],
        "kubernetes.io/dockerconfigjson" => &[".dockerconfigjson"],
        "kubernetes.io/basic-auth" if !has("username") && !has("password") => &["username", "password"],
        "kubernetes.io/ssh-auth" => &["ssh-privatekey"],
        "kubernetes.io/tls" => &["tls.crt", "tls.key"],
        _ => &[],
    };
    for key in required.iter().filter(|key| !has(key)) {
        errors.push(FieldError::required(base.key(key), ""));
    }
    for key in [".dockercfg", ".dockerconfigjson"].into_iter().filter(|key| required.contains(key)) {
        let Some(text) = data.and_then(|data| data.get(key)).and_then(Value::as_str) else { continue };
        let bytes = base64::engine::general_purpose::STANDARD.decode(text).unwrap_or_default();
        if let Err(error) = serde_json::from_slice::<serde_json::Map<String, Value>>(&bytes) {
            errors.push(FieldError::invalid(base.key(key), "<secret contents redacted>", error.to_string()));
        }
    }
}

fn secret_change(new: &Value, old: &Value, errors: &mut Errors) {
    meta::immutable(new, old, "type", &Path::ROOT, errors);
    stays_immutable(new, old, &["data"], errors);
}
