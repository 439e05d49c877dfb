//! What a CRD's schema may use of OpenAPI, and how its extensions go together.

use std::sync::Arc;

use serde_json::Value;

use super::structural::is_set;
use crate::{
    FieldError, Path, Schema, json,
    prune::META,
    rules::{self, Fault, RuleText},
};

#[derive(Clone, Default)]
pub(super) struct Context {
    /// Why defaults are refused here, if they are.
    no_defaults: Option<String>,
    inside_metadata: bool,
    /// The list or map above whose elements cannot be matched with their old selves.
    uncorrelatable: Option<String>,
}

/// Checks `schema`, and its rules if nothing else is wrong. `typed` is the same schema, parsed; without it rules are
/// not looked at.
pub(super) fn validate(
    schema: &Value,
    typed: Option<&Arc<Schema>>,
    is_root: bool,
    context: &Context,
    path: &Path<'_>,
    schema_errors: &mut Vec<FieldError>,
    rule_errors: &mut Vec<FieldError>,
) {
    let before = schema_errors.len();
    keywords(schema, context, path, schema_errors);
    children(schema, typed, is_root, context, path, schema_errors, rule_errors);
    extensions(schema, path, schema_errors);
    rule_texts(schema, path, schema_errors);
    if let (Some(typed), true) = (typed, schema_errors.len() == before) {
        rule_programs(schema, typed, is_root, context, path, rule_errors);
    }
}

fn keywords(schema: &Value, context: &Context, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    const TYPES: [&str; 6] = ["array", "boolean", "integer", "number", "object", "string"];
    let kind = json::text(schema, "type");
    if !kind.is_empty() && !TYPES.contains(&kind) {
        errors.push(FieldError::not_supported(path.child("type"), kind, &TYPES));
    }
    if let (Some(_), Some(reason)) = (json::some(schema, "default"), &context.no_defaults) {
        errors.push(FieldError::forbidden(path.child("default"), format!("must not be set {reason}")));
    }
    for name in ["id", "additionalItems", "patternProperties", "definitions", "dependencies", "$ref"] {
        let used = json::some(schema, name)
            .is_some_and(|value| is_set(value) && value.as_object().is_none_or(|map| !map.is_empty()));
        if used {
            errors.push(FieldError::forbidden(path.child(name), format!("{name} is not supported")));
        }
    }
    if kind == "null" {
        let detail = "type cannot be set to null, use nullable as an alternative";
        errors.push(FieldError::forbidden(path.child("type"), detail));
    }
    if schema.get("items").is_some_and(Value::is_array) {
        let detail = "items must be a schema object and not an array";
        errors.push(FieldError::forbidden(path.child("items"), detail));
    }
    if context.inside_metadata && json::flag(schema, "x-kubernetes-embedded-resource") {
        let detail = "must not be used inside of resource meta";
        errors.push(FieldError::forbidden(path.child("x-kubernetes-embedded-resource"), detail));
    }
    if json::flag(schema, "uniqueItems") {
        let detail = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
        errors.push(FieldError::forbidden(path.child("uniqueItems"), detail));
    }
    let has_properties = json::object(schema, "properties").is_some_and(|fields| !fields.is_empty());
    if has_properties
        && json::some(schema, "additionalProperties").is_some_and(|value| *value != Value::Bool(true))
    {
        let detail = "additionalProperties and properties are mutual exclusive";
        errors.push(FieldError::forbidden(path.child("additionalProperties"), detail));
    }
}

fn children(
    schema: &Value,
    typed: Option<&Arc<Schema>>,
    is_root: bool,
    context: &Context,
    path: &Path<'_>,
    schema_errors: &mut Vec<FieldError>,
    rule_errors: &mut Vec<FieldError>,
) {
    if let Some(additional) = json::some(schema, "additionalProperties").filter(|value| value.is_object()) {
        let mut context = context.clone();
        if context.inside_metadata {
            context.no_defaults = Some("inside additionalProperties applying to object metadata".into());
        }
        let typed = typed.and_then(|typed| match &typed.additional_properties {
            Some(crate::AdditionalProperties::Typed(entry)) => Some(entry),
            _ => None,
        });
        let at = path.child("additionalProperties");
        validate(additional, typed, false, &context, &at, schema_errors, rule_errors);
    }
    let embedded = json::flag(schema, "x-kubernetes-embedded-resource");
    let base = path.child("properties");
    for (name, field) in json::object(schema, "properties").into_iter().flatten() {
        let mut context = context.clone();
        if (is_root || embedded) && META.contains(&name.as_str()) {
            context.inside_metadata = true;
            if is_root {
                context.no_defaults = Some(format!("in top-level {name}"));
            }
        }
        let typed = typed.and_then(|typed| typed.properties.get(name));
        validate(field, typed, false, &context, &base.key(name), schema_errors, rule_errors);
    }
    if let Some(not) = json::some(schema, "not") {
        validate(not, None, false, context, &path.child("not"), schema_errors, rule_errors);
    }
    for list in ["allOf", "oneOf", "anyOf"] {
        let base = path.child(list);
        for (index, branch) in json::list(schema, list).iter().enumerate() {
            validate(branch, None, false, context, &base.index(index), schema_errors, rule_errors);
        }
    }
    if let Some(items) = json::some(schema, "items").filter(|items| items.is_object()) {
        let mut context = context.clone();
        if json::text(schema, "x-kubernetes-list-type") != "map" {
            context.uncorrelatable.get_or_insert_with(|| path.to_string());
        }
        let typed = typed.and_then(|typed| typed.items.as_ref());
        validate(items, typed, false, &context, &path.child("items"), schema_errors, rule_errors);
    }
}

fn extensions(schema: &Value, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    let kind = json::text(schema, "type");
    if schema.get("x-kubernetes-preserve-unknown-fields") == Some(&Value::Bool(false)) {
        let at = path.child("x-kubernetes-preserve-unknown-fields");
        errors.push(FieldError::invalid(at, false, "must be true or undefined"));
    }
    for (extension, wanted, allowed) in [
        ("x-kubernetes-map-type", "object", &["atomic", "granular"][..]),
        ("x-kubernetes-list-type", "array", &["atomic", "set", "map"][..]),
    ] {
        let Some(value) = json::some(schema, extension).and_then(Value::as_str) else { continue };
        if kind != wanted {
            let detail = format!("must be {wanted} if {extension} is specified");
            errors.push(match kind {
                "" => FieldError::required(path.child("type"), detail),
                kind => FieldError::invalid(path.child("type"), kind, detail),
            });
        }
        if !allowed.contains(&value) {
            errors.push(FieldError::not_supported(path.child(extension), value, allowed));
        }
    }
    let list_type = json::text(schema, "x-kubernetes-list-type");
    let keys = json::list(schema, "x-kubernetes-list-map-keys");
    let items = json::some(schema, "items");
    let items_path = path.child("items");
    if list_type == "set"
        && kind == "array"
        && let Some(items) = items
    {
        let detail = "must be atomic as item of a list with x-kubernetes-list-type=set";
        match json::text(items, "type") {
            "array" if !matches!(json::text(items, "x-kubernetes-list-type"), "" | "atomic") => {
                let value = json::text(items, "x-kubernetes-list-type");
                errors.push(FieldError::invalid(items_path.child("x-kubernetes-list-type"), value, detail));
            }
            "object" if json::text(items, "x-kubernetes-map-type") != "atomic" => {
                let value = items.get("x-kubernetes-list-type").cloned().unwrap_or_default();
                errors.push(FieldError::invalid(items_path.child("x-kubernetes-map-type"), value, detail));
            }
            _ => {}
        }
    }
    if !keys.is_empty() && list_type != "map" {
        let (at, detail) =
            (path.child("x-kubernetes-list-type"), "must be map if x-kubernetes-list-map-keys is non-empty");
        errors.push(match list_type {
            "" => FieldError::required(at, detail),
            other => FieldError::invalid(at, other, detail),
        });
    }
    if list_type == "map" {
        map_list(keys, items, path, errors);
    }
    if let (Some(items), "set" | "map") = (items, list_type)
        && json::flag(items, "nullable")
    {
        let detail = format!("cannot be nullable when x-kubernetes-list-type is {list_type}");
        errors.push(FieldError::forbidden(items_path.child("nullable"), detail));
    }
}

fn map_list(keys: &[Value], items: Option<&Value>, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    let keys_path = path.child("x-kubernetes-list-map-keys");
    if keys.is_empty() {
        errors.push(FieldError::required(keys_path, "must not be empty if x-kubernetes-list-type is map"));
    }
    let items_path = path.child("items");
    let Some(items) = items else {
        errors.push(FieldError::required(items_path, "must have a schema if x-kubernetes-list-type is map"));
        return;
    };
    let kind = json::text(items, "type");
    if kind != "object" {
        let detail = "must be object if parent array's x-kubernetes-list-type is map";
        errors.push(FieldError::invalid(items_path.child("type"), kind, detail));
        return;
    }
    let fields_path = items_path.child("properties");
    for (index, key) in keys.iter().enumerate() {
        let key_name = key.as_str().unwrap_or_default();
        let whole = || Value::from(keys.to_vec());
        if keys[..index].contains(key) {
            errors.push(FieldError::invalid(keys_path, whole(), "must not contain duplicate entries"));
        }
        let Some(field) = json::object(items, "properties").and_then(|fields| fields.get(key_name)) else {
            errors.push(FieldError::invalid(
                keys_path,
                whole(),
                "entries must all be names of item properties",
            ));
            continue;
        };
        let at = fields_path.key(key_name);
        if matches!(json::text(field, "type"), "array" | "object") {
            let detail = "must be a scalar type if parent array's x-kubernetes-list-type is map";
            errors.push(FieldError::invalid(at.child("type"), kind, detail));
        }
        if !json::list(items, "required").contains(key) && json::some(field, "default").is_none() {
            let detail = "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property";
            errors.push(FieldError::required(at.child("default"), detail));
        }
        if json::flag(field, "nullable") {
            let detail = "this property is in x-kubernetes-list-map-keys, so it cannot be nullable";
            errors.push(FieldError::forbidden(at.child("nullable"), detail));
        }
    }
}

fn rule_texts(schema: &Value, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    const REASONS: [&str; 4] =
        ["FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"];
    let base = path.child("x-kubernetes-validations");
    for (index, rule) in json::list(schema, "x-kubernetes-validations").iter().enumerate() {
        let at = base.index(index);
        let RuleText { rule, message, message_expression, reason, field_path, .. } = rules::text_of(rule);
        let broken = |text: &str| text.trim().contains(['\n', '\r']);
        if rule.trim().is_empty() {
            errors.push(FieldError::required(at.child("rule"), "rule is not specified"));
        } else if !message.is_empty() && message.trim().is_empty() {
            let detail = "must be non-empty if specified";
            errors.push(FieldError::invalid(at.child("message"), message.as_str(), detail));
        } else if broken(&message) {
            errors.push(FieldError::invalid(
                at.child("message"),
                message.as_str(),
                "must not contain line breaks",
            ));
        } else if broken(&rule) && message.trim().is_empty() {
            let detail = "message must be specified if rule contains line breaks";
            errors.push(FieldError::required(at.child("message"), detail));
        }
        if !message_expression.is_empty() && message_expression.trim().is_empty() {
            let detail = "messageExpression must be non-empty if specified";
            errors.push(FieldError::required(at.child("messageExpression"), detail));
        }
        if let Some(reason) = reason.filter(|reason| !REASONS.contains(&reason.as_str())) {
            errors.push(FieldError::not_supported(at.child("reason"), reason, &REASONS));
        }
        if !field_path.is_empty() {
            let at = at.child("fieldPath");
            if field_path.trim().is_empty() {
                errors.push(FieldError::invalid(at, field_path.as_str(), "must be non-empty if specified"));
            }
            if field_path.contains(['\n', '\r']) {
                errors.push(FieldError::invalid(at, field_path.as_str(), "must not contain line breaks"));
            }
            if !super::paths::exists(&field_path, schema, true) {
                errors.push(FieldError::invalid(at, field_path.as_str(), "must be a valid path"));
            }
        }
    }
}

fn rule_programs(
    schema: &Value,
    typed: &Arc<Schema>,
    is_root: bool,
    context: &Context,
    path: &Path<'_>,
    errors: &mut Vec<FieldError>,
) {
    let base = path.child("x-kubernetes-validations");
    for (index, rule) in json::list(schema, "x-kubernetes-validations").iter().enumerate() {
        let at = base.index(index);
        match rules::check(rule, typed, is_root || typed.embedded_resource) {
            Err(Fault::Rule(detail)) => {
                errors.push(FieldError::invalid(at.child("rule"), rule.clone(), detail));
            }
            Err(Fault::Message(detail)) => {
                errors.push(FieldError::invalid(at.child("messageExpression"), rule.clone(), detail));
            }
            Ok(true) => {
                if let Some(list) = &context.uncorrelatable {
                    let detail = format!(
                        "oldSelf cannot be used on the uncorrelatable portion of the schema within {list}"
                    );
                    errors.push(FieldError::invalid(at.child("rule"), json::text(rule, "rule"), detail));
                }
            }
            Ok(false) => {
                if let Some(optional) = rule.get("optionalOldSelf") {
                    let detail = "may not be set if oldSelf is not used in rule";
                    errors.push(FieldError::invalid(at.child("optionalOldSelf"), optional.clone(), detail));
                }
            }
        }
    }
}
