//! CustomResourceDefinitions: their own defaults and validation, and the schemas they bring.

mod openapi;
mod paths;
mod structural;

use std::{collections::HashSet, sync::Arc};

use serde_json::{Map, Value, json};

use crate::{FieldError, Path, Schema, json, meta, names, prune::prune, rules, validate::validate as check};

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
        deprecation(version, &at, errors);
        if !shared_schema {
            version_schema(version, &at.child("schema"), errors);
        }
        if !shared_subresources {
            subresources(version, &at.child("subresources"), errors);
        }
        if !shared_columns {
            columns(version, &at.child("additionalPrinterColumns"), errors);
        }
        if !shared_selectable {
            selectable_fields(version, &at.child("selectableFields"), errors);
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
            selectable_fields(version, &path.child("selectableFields"), errors);
        }
        if shared_schema {
            version_schema(version, &path.child("validation"), errors);
        }
        if shared_subresources {
            subresources(version, &path.child("subresources"), errors);
        }
        if shared_columns {
            columns(version, &path.child("additionalPrinterColumns"), errors);
        }
    }
}

fn deprecation(version: &Value, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    let Some(warning) = version.get("deprecationWarning").and_then(Value::as_str) else { return };
    let fault = if !json::flag(version, "deprecated") {
        Some("can only be set for deprecated versions")
    } else if warning.len() > 256 {
        Some("must be <= 256 characters long")
    } else if warning.is_empty() {
        Some("must not be an empty string")
    } else {
        None
    };
    if let Some(fault) = fault {
        errors.push(FieldError::invalid(path.child("deprecationWarning"), warning, fault));
    }
}

fn version_schema(version: &Value, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    let Some(schema) = version.get("schema").and_then(|schema| json::some(schema, "openAPIV3Schema")) else {
        return;
    };
    let at = path.child("openAPIV3Schema");
    let has_status = version.get("subresources").is_some_and(|s| json::some(s, "status").is_some());
    if has_status {
        root_fields(schema, &at, errors);
    }
    if json::flag(schema, "nullable") {
        errors.push(FieldError::forbidden(at.child("nullable"), "nullable cannot be true at the root"));
    }
    let typed = parse(schema);
    let before = errors.len();
    errors.extend(structural::validate(schema, &at));
    if errors.len() == before
        && let Some(typed) = &typed
    {
        defaults(typed, true, false, &at, errors);
    }
    let sound = errors.len() == before;
    let mut rule_errors = Vec::new();
    let typed_if_sound = typed.as_ref().filter(|_| sound);
    openapi::validate(
        schema,
        typed_if_sound,
        true,
        &openapi::Context::default(),
        &at,
        errors,
        &mut rule_errors,
    );
    errors.append(&mut rule_errors);
    if typed.is_none() && errors.len() == before {
        let why = serde_json::from_value::<Schema>(schema.clone()).err().map(|e| e.to_string());
        errors.push(FieldError::invalid(at, "", why.unwrap_or_default()));
    }
}

/// With a status subresource the root may only have what is not lost when status is looked at alone.
fn root_fields(schema: &Value, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    const ALLOWED: &str = "[Description Type Format Title Maximum ExclusiveMaximum Minimum ExclusiveMinimum MaxLength MinLength Pattern MaxItems MinItems UniqueItems MultipleOf Required Items Properties ExternalDocs Example XPreserveUnknownFields XValidations]";
    let kind = json::text(schema, "type");
    if !kind.is_empty() && kind != "object" {
        let detail = r#"only "object" is allowed as the type at the root of the schema if the status subresource is enabled"#;
        errors.push(FieldError::invalid(path.child("type"), kind, detail));
    }
    let go_name = |name: &str| match name {
        "x-kubernetes-preserve-unknown-fields" => "XPreserveUnknownFields".to_owned(),
        "x-kubernetes-validations" => "XValidations".to_owned(),
        name => name[..1].to_uppercase() + &name[1..],
    };
    let refused = schema.as_object().into_iter().flatten().any(|(name, value)| {
        let known = name.is_ascii()
            && !name.is_empty()
            && ALLOWED[1..ALLOWED.len() - 1].split(' ').any(|allowed| allowed == go_name(name));
        !known && structural::is_set(value)
    });
    if refused {
        let detail = format!(
            "only {ALLOWED} fields are allowed at the root of the schema if the status subresource is enabled"
        );
        errors.push(FieldError::invalid(path, schema.clone(), detail));
    }
}

/// Defaults must be values the schema accepts and would not prune.
fn defaults(
    schema: &Schema,
    is_resource: bool,
    in_meta: bool,
    path: &Path<'_>,
    errors: &mut Vec<FieldError>,
) {
    if let Some(default) = schema.default.as_ref().filter(|_| !in_meta) {
        let at = path.child("default");
        let mut pruned = default.clone();
        let wrapper =
            Schema { properties: [("v".to_owned(), Arc::new(schema.clone()))].into(), ..Schema::default() };
        let mut wrapped = json!({ "v": pruned });
        prune(&mut wrapped, &wrapper);
        pruned = wrapped["v"].take();
        if pruned != *default {
            errors.push(FieldError::invalid(at, default.clone(), "must not have unknown fields"));
        }
        errors.extend(check(default, None, schema, &at));
        if let Some(rules) = rules::Rules::compile(&Arc::new(schema.clone())) {
            errors.extend(rules.validate(default, Some(default), &at));
        }
    }
    if let Some(items) = &schema.items {
        defaults(items, items.embedded_resource, in_meta, &path.child("items"), errors);
    }
    let base = path.child("properties");
    for (name, field) in &schema.properties {
        let in_meta = in_meta || (is_resource && crate::prune::META.contains(&name.as_str()));
        defaults(field, field.embedded_resource, in_meta, &base.key(name), errors);
    }
}

fn subresources(version: &Value, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    let Some(scale) = version.get("subresources").and_then(|s| json::some(s, "scale")) else { return };
    for (field, roots, required, where_) in [
        ("specReplicasPath", &[".spec."][..], true, ".spec"),
        ("statusReplicasPath", &[".status."][..], true, ".status"),
        ("labelSelectorPath", &[".spec.", ".status."][..], false, "either .spec or .status"),
    ] {
        let scale_path = path.child("scale");
        let at = scale_path.child(field);
        let text = json::text(scale, field);
        if text.is_empty() {
            if required {
                errors.push(FieldError::required(at, ""));
            }
        } else if let Some(error) = paths::simple(text, &at) {
            errors.push(error);
        } else if !roots.iter().any(|root| text.starts_with(root)) {
            errors.push(FieldError::invalid(at, text, format!("should be a json path under {where_}")));
        }
    }
}

fn columns(version: &Value, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    const TYPES: [&str; 5] = ["boolean", "date", "integer", "number", "string"];
    const FORMATS: [&str; 8] = ["byte", "date", "date-time", "double", "float", "int32", "int64", "password"];
    for (index, column) in json::list(version, "additionalPrinterColumns").iter().enumerate() {
        let at = path.index(index);
        if json::text(column, "name").is_empty() {
            errors.push(FieldError::required(at.child("name"), ""));
        }
        let one_of = |allowed: &[&str]| format!("must be one of {}", allowed.join(","));
        match json::text(column, "type") {
            "" => errors.push(FieldError::required(at.child("type"), one_of(&TYPES))),
            kind if !TYPES.contains(&kind) => {
                errors.push(FieldError::invalid(at.child("type"), kind, one_of(&TYPES)));
            }
            _ => {}
        }
        let format = json::text(column, "format");
        if !format.is_empty() && !FORMATS.contains(&format) {
            errors.push(FieldError::invalid(at.child("format"), format, one_of(&FORMATS)));
        }
        let json_path = json::text(column, "jsonPath");
        if json_path.is_empty() {
            errors.push(FieldError::required(at.child("JSONPath"), ""));
        } else {
            errors.extend(paths::simple(json_path, &at.child("JSONPath")));
        }
    }
}

fn selectable_fields(version: &Value, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    const MOST: u64 = 8;
    let fields = json::list(version, "selectableFields");
    let schema = &version["schema"]["openAPIV3Schema"];
    let mut seen = HashSet::new();
    for (index, field) in fields.iter().enumerate() {
        let base = path.index(index);
        let at = base.child("jsonPath");
        let text = json::text(field, "jsonPath");
        if text.is_empty() {
            errors.push(FieldError::required(at, ""));
            continue;
        }
        let Some(target) = paths::target(text, schema, false) else {
            let detail = "is an invalid path: does not refer to a valid field";
            errors.push(FieldError::invalid(at, text, detail));
            continue;
        };
        if text.starts_with(".metadata") {
            errors.push(FieldError::invalid(at, text, "must not point to fields in metadata"));
        }
        if !matches!(json::text(target, "type"), "string" | "boolean" | "integer") {
            let detail = "must point to a field of type string, boolean or integer. Enum string fields and strings with formats are allowed.";
            errors.push(FieldError::invalid(at, text, detail));
        }
        if !seen.insert(text) {
            errors.push(FieldError::duplicate(at, text));
        }
    }
    if seen.len() as u64 > MOST {
        errors.push(FieldError::too_many(path, seen.len() as u64, MOST));
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
