//! CustomResourceDefinitions: their own defaults and validation, and the schemas they bring.

mod openapi;
mod paths;
mod structural;
mod version;

use std::{collections::HashSet, sync::Arc};

use serde_json::{Map, Value, json};

use crate::{FieldError, Path, Schema, json, meta, names};

/// Fills in what a CRD may leave out: `singular`, `listKind`, `conversion`, `storedVersions`.
pub fn set_defaults(crd: &mut Value) {
    let Some(root) = crd.as_object_mut() else { return };
    let spec = json::object_mut(root, "spec");
    let storage = spec.get("versions").and_then(Value::as_array).and_then(|versions| {
        versions
            .iter()
            .find(|version| json::flag(version, "storage"))
            .map(|v| json::text(v, "name").to_owned())
    });
    let names = json::object_mut(spec, "names");
    let kind = names.get("kind").and_then(Value::as_str).unwrap_or_default().to_owned();
    let is_empty = |map: &Map<String, Value>, field: &str| {
        map.get(field).and_then(Value::as_str).unwrap_or_default().is_empty()
    };
    if is_empty(names, "singular") {
        names.insert("singular".into(), kind.to_lowercase().into());
    }
    if is_empty(names, "listKind") && !kind.is_empty() {
        names.insert("listKind".into(), format!("{kind}List").into());
    }
    if spec.get("conversion").is_none_or(Value::is_null) {
        spec.insert("conversion".into(), json!({ "strategy": "None" }));
    }
    let status = json::object_mut(root, "status");
    let stored = status.get("storedVersions").and_then(Value::as_array).is_some_and(|v| !v.is_empty());
    if let (false, Some(storage)) = (stored, storage) {
        status.insert("storedVersions".into(), json!([storage]));
    }
}

/// Checks a CRD after [`set_defaults`]; `old` is given on update.
pub fn validate(crd: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let metadata = crd.get("metadata").unwrap_or(&Value::Null);
    let meta_path = Path::ROOT.child("metadata");
    match old {
        None => {
            meta::validate(metadata, meta::Scope::Cluster, |_, _| Vec::new(), &meta_path, &mut errors);
            name(crd, &meta_path, &mut errors);
        }
        Some(old) => meta::validate_update(metadata, &old["metadata"], &meta_path, &mut errors),
    }
    let path = Path::ROOT.child("spec");
    let spec = crd.get("spec").unwrap_or(&Value::Null);
    self::spec(spec, &path, &mut errors);
    if let Some(old) = old {
        update(spec, old, &path, &mut errors);
    }
    stored_versions(crd, &mut errors);
    approval(crd, old, &mut errors);
    if json::flag(spec, "preserveUnknownFields") {
        let detail = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead";
        errors.push(FieldError::invalid(path.child("preserveUnknownFields"), true, detail));
    }
    errors
}

/// The schema of one version of a CRD; `None` if it has no such version or the schema cannot be read.
pub fn schema(crd: &Value, version: &str) -> Option<Arc<Schema>> {
    let version = json::list(&crd["spec"], "versions")
        .iter()
        .find(|candidate| json::text(candidate, "name") == version)?;
    parse(version.get("schema")?.get("openAPIV3Schema")?)
}

fn parse(schema: &Value) -> Option<Arc<Schema>> {
    serde_json::from_value(schema.clone()).ok().map(Arc::new)
}

fn name(crd: &Value, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    let name = json::text(&crd["metadata"], "name");
    if name.is_empty() {
        return;
    }
    let spec = &crd["spec"];
    let wanted = format!("{}.{}", json::text(&spec["names"], "plural"), json::text(spec, "group"));
    let mut faults = names::dns1123_subdomain(name);
    if name != wanted {
        faults.push(r#"must be spec.names.plural+"."+spec.group"#.into());
    }
    errors.extend(faults.into_iter().map(|fault| FieldError::invalid(path.child("name"), name, fault)));
}

fn spec(spec: &Value, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    let group = json::text(spec, "group");
    let at = path.child("group");
    let faults = names::dns1123_subdomain(group);
    if group.is_empty() {
        errors.push(FieldError::required(at, ""));
    } else if !faults.is_empty() {
        errors.push(FieldError::invalid(at, group, faults.join(",")));
    } else if !group.contains('.') {
        errors.push(FieldError::invalid(at, group, "should be a domain with at least one dot"));
    }
    let at = path.child("scope");
    match json::text(spec, "scope") {
        "" => errors.push(FieldError::required(at, "")),
        "Cluster" | "Namespaced" => {}
        other => errors.push(FieldError::not_supported(at, other, &["Cluster", "Namespaced"])),
    }
    versions(spec, path, errors);
    names_of(spec, path, errors);
    conversion(spec, path, errors);
}

/// Whether all versions say the same for `field`: the API then speaks of the field of the spec, not of each version's.
fn is_shared(versions: &[Value], field: &str) -> bool {
    versions.iter().all(|version| version.get(field) == versions[0].get(field))
}

fn versions(spec: &Value, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    let versions = json::list(spec, "versions");
    let base = path.child("versions");
    let mut seen = HashSet::new();
    let mut unique = true;
    let shared_schema = !versions.is_empty() && is_shared(versions, "schema");
    let shared_subresources = !versions.is_empty() && is_shared(versions, "subresources");
    let shared_columns = !versions.is_empty() && is_shared(versions, "additionalPrinterColumns");
    let shared_selectable = !versions.is_empty() && is_shared(versions, "selectableFields");
    let shown = || spec.get("versions").cloned().unwrap_or_default();
    for (index, version) in versions.iter().enumerate() {
        let at = base.index(index);
        if version.get("schema").and_then(|schema| json::some(schema, "openAPIV3Schema")).is_none() {
            errors.push(FieldError::required(at.child("schema").child("openAPIV3Schema"), ""));
        }
    }
    for (index, version) in versions.iter().enumerate() {
        let at = base.index(index);
        let name = json::text(version, "name");
        unique &= seen.insert(name);
        let faults = names::dns1035_label(name);
        if !faults.is_empty() {
            errors.push(FieldError::invalid(at.child("name"), name, faults.join(",")));
        }
        version::deprecation(version, &at, errors);
        if !shared_schema {
            version::schema(version, &at.child("schema"), errors);
        }
        if !shared_subresources {
            version::subresources(version, &at.child("subresources"), errors);
        }
        if !shared_columns {
            version::columns(version, &at.child("additionalPrinterColumns"), errors);
        }
        if !shared_selectable {
            version::selectable_fields(version, &at.child("selectableFields"), errors);
        }
    }
    if !unique {
        errors.push(FieldError::invalid(base, shown(), "must contain unique version names"));
    }
    if versions.iter().filter(|version| json::flag(version, "storage")).count() != 1 {
        let detail = "must have exactly one version marked as storage version";
        errors.push(FieldError::invalid(base, shown(), detail));
    }
    if let Some(version) = versions.first() {
        // the first version is also `spec.version`
        let name = json::text(version, "name");
        let faults = names::dns1035_label(name);
        if !name.is_empty() && !faults.is_empty() {
            errors.push(FieldError::invalid(path.child("version"), name, faults.join(",")));
        }
        if shared_selectable {
            version::selectable_fields(version, &path.child("selectableFields"), errors);
        }
        if shared_schema {
            version::schema(version, &path.child("validation"), errors);
        }
        if shared_subresources {
            version::subresources(version, &path.child("subresources"), errors);
        }
        if shared_columns {
            version::columns(version, &path.child("additionalPrinterColumns"), errors);
        }
    }
}

fn names_of(spec: &Value, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    let names = spec.get("names").unwrap_or(&Value::Null);
    let path = path.child("names");
    let value = |field: &str| json::text(names, field).to_owned();
    for field in ["plural", "singular", "kind", "listKind"] {
        if value(field).is_empty() {
            errors.push(FieldError::required(path.child(field), ""));
        }
    }
    for field in ["plural", "singular", "kind", "listKind"] {
        let text = value(field);
        let mixed_case = field.ends_with("ind");
        let faults = names::dns1035_label(&if mixed_case { text.to_lowercase() } else { text.clone() });
        if !text.is_empty() && !faults.is_empty() {
            let hint = if mixed_case { "may have mixed case, but should otherwise match: " } else { "" };
            errors.push(FieldError::invalid(
                path.child(field),
                text.as_str(),
                format!("{hint}{}", faults.join(",")),
            ));
        }
    }
    let list = |field: &str, errors: &mut Vec<FieldError>| {
        let base = path.child(field);
        for (index, text) in json::list(names, field).iter().enumerate() {
            let text = text.as_str().unwrap_or_default();
            let faults = names::dns1035_label(text);
            if !faults.is_empty() {
                errors.push(FieldError::invalid(base.index(index), text, faults.join(",")));
            }
        }
    };
    list("shortNames", errors);
    if !value("kind").is_empty() && value("kind") == value("listKind") {
        let detail = "kind and listKind may not be the same";
        errors.push(FieldError::invalid(path.child("listKind"), value("listKind"), detail));
    }
    list("categories", errors);
}

fn conversion(spec: &Value, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    let Some(conversion) = json::some(spec, "conversion") else { return };
    let base = path.child("conversion");
    match json::text(conversion, "strategy") {
        "" => errors.push(FieldError::required(base.child("strategy"), "")),
        "None" => {
            if json::some(conversion, "webhook").is_some() {
                for field in ["webhookClientConfig", "conversionReviewVersions"] {
                    let detail = "should not be set when strategy is not set to Webhook";
                    errors.push(FieldError::forbidden(base.child(field), detail));
                }
            }
        }
        // Nothing here calls out to webhooks: versions differ in name only.
        "Webhook" => errors.push(FieldError::not_supported(base.child("strategy"), "Webhook", &["None"])),
        other => errors.push(FieldError::not_supported(base.child("strategy"), other, &["None", "Webhook"])),
    }
}

fn update(spec: &Value, old: &Value, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    let old_spec = &old["spec"];
    let established = json::list(&old["status"], "conditions")
        .iter()
        .any(|c| json::text(c, "type") == "Established" && json::text(c, "status") == "True");
    let names_path = path.child("names");
    if established {
        meta::immutable(spec, old_spec, "scope", path, errors);
        meta::immutable(&spec["names"], &old_spec["names"], "kind", &names_path, errors);
    }
    meta::immutable(spec, old_spec, "group", path, errors);
    meta::immutable(&spec["names"], &old_spec["names"], "plural", &names_path, errors);
}

fn stored_versions(crd: &Value, errors: &mut Vec<FieldError>) {
    let base = Path::ROOT.child("status");
    let path = base.child("storedVersions");
    let status = crd.get("status").unwrap_or(&Value::Null);
    let stored = json::list(status, "storedVersions");
    let versions = json::list(&crd["spec"], "versions");
    if stored.is_empty() {
        errors.push(FieldError::invalid(path, Value::Null, "must have at least one stored version"));
        return;
    }
    for version in versions.iter().filter(|version| json::flag(version, "storage")) {
        if !stored.contains(&version["name"]) {
            let detail = format!("must have the storage version {}", json::text(version, "name"));
            errors.push(FieldError::invalid(path, stored.to_vec(), detail));
        }
    }
    for (index, name) in stored.iter().enumerate() {
        if !versions.iter().any(|version| version["name"] == *name) {
            let name = name.as_str().unwrap_or_default();
            let detail = format!(
                "missing from spec.versions; {name} was previously a storage version, and must remain in spec.versions until a storage migration ensures no data remains persisted in {name} and removes {name} from status.storedVersions"
            );
            errors.push(FieldError::invalid(path.index(index), name, detail));
        }
    }
}

/// Groups of the Kubernetes community need a link to their review.
fn approval(crd: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
    const ANNOTATION: &str = "api-approved.kubernetes.io";
    const SEE: &str = "see https://github.com/kubernetes/enhancements/pull/1111";
    let group = json::text(&crd["spec"], "group");
    let is_protected = ["k8s.io", "kubernetes.io"]
        .iter()
        .any(|domain| group == *domain || group.ends_with(&format!(".{domain}")));
    let annotation = |crd: &Value| crd["metadata"]["annotations"].get(ANNOTATION).cloned();
    if !is_protected || old.is_some_and(|old| annotation(old) == annotation(crd)) {
        return;
    }
    let base = Path::ROOT.child("metadata");
    let base = base.child("annotations");
    let at = base.key(ANNOTATION);
    match annotation(crd).as_ref().and_then(Value::as_str) {
        None | Some("") => errors.push(FieldError::required(
            at,
            format!("protected groups must have approval annotation \"{ANNOTATION}\", {SEE}"),
        )),
        Some(text) if text.starts_with("unapproved") || text.contains("://") => {}
        Some(text) => errors.push(FieldError::invalid(
            at,
            text,
            format!(
                "protected groups must have approval annotation \"{ANNOTATION}\" with either a URL or a reason starting with \"unapproved\", {SEE}"
            ),
        )),
    }
}
