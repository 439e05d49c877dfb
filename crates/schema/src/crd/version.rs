//! One version of a CRD: its schema, subresources, columns and selectable fields.

use std::{collections::HashSet, sync::Arc};

use serde_json::{Value, json};

use super::{openapi, parse, paths, structural};
use crate::{FieldError, Path, Schema, json, prune::prune, rules, validate::validate as check};

pub(super) fn deprecation(version: &Value, path: &Path<'_>, errors: &mut Vec<FieldError>) {
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

pub(super) fn schema(version: &Value, path: &Path<'_>, errors: &mut Vec<FieldError>) {
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

pub(super) fn subresources(version: &Value, path: &Path<'_>, errors: &mut Vec<FieldError>) {
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

pub(super) fn columns(version: &Value, path: &Path<'_>, errors: &mut Vec<FieldError>) {
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

pub(super) fn selectable_fields(version: &Value, path: &Path<'_>, errors: &mut Vec<FieldError>) {
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
