//! Objects of kinds that CRDs define.

use std::sync::Arc;

use serde_json::Value;

use crate::{
    FieldError, FieldErrorKind, Path, Schema, builtin, crd,
    default::default,
    json,
    kind::Part,
    meta::{self, Scope},
    names,
    prune::prune,
    rules::Rules,
    validate::{embedded, lists, validate},
};

/// One served version of a CRD.
pub(crate) struct Custom {
    pub schema: Arc<Schema>,
    pub scope: Scope,
    kind: String,
    api_version: String,
    rules: Option<Rules>,
    scale: Option<Scale>,
    pub has_status: bool,
}

struct Scale {
    spec_replicas: String,
    status_replicas: String,
    label_selector: String,
}

// === impl Custom ===

impl Custom {
    pub fn new(crd: &Value, version: &str) -> Option<Self> {
        let schema = crd::schema(crd, version)?;
        let spec = &crd["spec"];
        let row = json::list(spec, "versions").iter().find(|row| json::text(row, "name") == version)?;
        let scale = row.get("subresources").and_then(|s| json::some(s, "scale")).map(|scale| Scale {
            spec_replicas: json::text(scale, "specReplicasPath").to_owned(),
            status_replicas: json::text(scale, "statusReplicasPath").to_owned(),
            label_selector: json::text(scale, "labelSelectorPath").to_owned(),
        });
        let scope = if json::text(spec, "scope") == "Cluster" { Scope::Cluster } else { Scope::Namespaced };
        Some(Self {
            rules: Rules::compile(&schema),
            schema,
            scope,
            kind: json::text(&spec["names"], "kind").to_owned(),
            api_version: format!("{}/{version}", json::text(spec, "group")),
            scale,
            has_status: row.get("subresources").is_some_and(|s| json::some(s, "status").is_some()),
        })
    }

    pub fn decode(&self, object: &mut Value) -> Result<Vec<String>, String> {
        let mut fields = prune(object, &self.schema);
        let Some(meta) = builtin::object_meta() else { return Ok(fields) };
        let refused = |why: String| {
            let version = self.api_version.rsplit('/').next().unwrap_or_default();
            format!("{kind} in version \"{version}\" cannot be handled as a {kind}: {why}", kind = self.kind)
        };
        let mut unknown = Vec::new();
        if let Some(metadata) = object.get_mut("metadata") {
            let at = Path::ROOT.child("metadata");
            unknown = builtin::decode_metadata(metadata, &meta, &at).map_err(refused)?;
        }
        embedded::decode(object, &self.schema, false, &Path::ROOT, &meta, &mut fields).map_err(refused)?;
        fields.sort();
        unknown.append(&mut fields);
        Ok(unknown)
    }

    pub fn set_defaults(&self, object: &mut Value) {
        default(object, &self.schema);
    }

    pub fn prepare_create(&self, object: &mut Value) {
        if let (true, Some(map)) = (self.has_status, object.as_object_mut()) {
            map.remove("status");
        }
    }

    pub fn validate_create(&self, object: &Value) -> Vec<FieldError> {
        let mut errors = self.type_meta(object);
        if !errors.is_empty() {
            return errors;
        }
        let metadata = object.get("metadata").unwrap_or(&Value::Null);
        let at = Path::ROOT.child("metadata");
        meta::validate(metadata, self.scope, names::name_is_subdomain, &at, &mut errors);
        errors.extend(validate(object, None, &self.schema, &Path::ROOT));
        self.scale(object, Part::Whole, &mut errors);
        embedded::resources(object, &self.schema, true, &Path::ROOT, &mut errors);
        lists::duplicates(object, &self.schema, &Path::ROOT, &mut errors);
        self.rules(object, None, &mut errors);
        errors
    }

    pub fn validate_update(&self, object: &Value, old: &Value, part: Part) -> Vec<FieldError> {
        let mut errors = self.type_meta(object);
        if !errors.is_empty() {
            return errors;
        }
        let at = Path::ROOT.child("metadata");
        let metadata = |object: &Value| object.get("metadata").cloned().unwrap_or_default();
        meta::validate_update(&metadata(object), &metadata(old), &at, &mut errors);
        match (part, self.schema.properties.get("status"), object.get("status")) {
            (Part::Whole, _, _) => errors.extend(validate(object, Some(old), &self.schema, &Path::ROOT)),
            (Part::Status, Some(schema), Some(status)) => {
                let at = Path::ROOT.child("status");
                errors.extend(validate(status, old.get("status"), schema, &at));
            }
            (Part::Status | Part::Resize, _, _) => {}
        }
        self.scale(object, part, &mut errors);
        embedded::resources(object, &self.schema, true, &Path::ROOT, &mut errors);
        let mut duplicates = Vec::new();
        lists::duplicates(object, &self.schema, &Path::ROOT, &mut duplicates);
        if !duplicates.is_empty() {
            let mut before = Vec::new();
            lists::duplicates(old, &self.schema, &Path::ROOT, &mut before);
            // what was stored with duplicates may keep them
            if before.is_empty() {
                errors.append(&mut duplicates);
            }
        }
        self.rules(object, Some(old), &mut errors);
        errors
    }

    fn type_meta(&self, object: &Value) -> Vec<FieldError> {
        [("kind", &self.kind), ("apiVersion", &self.api_version)]
            .into_iter()
            .filter(|(field, wanted)| json::text(object, field) != wanted.as_str())
            .map(|(field, wanted)| {
                FieldError::invalid(
                    Path::ROOT.child(field),
                    json::text(object, field),
                    format!("must be {wanted}"),
                )
            })
            .collect()
    }

    /// Rules see only values of the right shape; what is wrong already keeps them from running.
    fn rules(&self, object: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
        let Some(rules) = &self.rules else { return };
        let blocks = |error: &FieldError| {
            matches!(
                error.kind,
                FieldErrorKind::Required
                    | FieldErrorKind::TooLong
                    | FieldErrorKind::TooMany
                    | FieldErrorKind::TypeInvalid
                    | FieldErrorKind::NotFound
            )
        };
        if errors.iter().any(blocks) {
            let detail = "some validation rules were not checked because the object was invalid; correct the existing errors to complete validation";
            errors.push(FieldError::invalid(Path::ROOT, Value::Null, detail));
        } else {
            errors.extend(rules.validate(object, old, &Path::ROOT));
        }
    }

    /// What `kubectl scale` reads and writes must be usable.
    fn scale(&self, object: &Value, part: Part, errors: &mut Vec<FieldError>) {
        let Some(scale) = &self.scale else { return };
        if part == Part::Whole {
            replicas(object, &scale.spec_replicas, errors);
        }
        replicas(object, &scale.status_replicas, errors);
        if !scale.label_selector.is_empty() {
            match nested(object, &scale.label_selector) {
                Ok(None | Some(Value::String(_))) => {}
                Ok(Some(other)) => {
                    errors.push(accessor_error(&scale.label_selector, "".into(), &other, "string"));
                }
                Err(error) => errors.push(FieldError { value: Some("".into()), ..error }),
            }
        }
    }
}

fn replicas(object: &Value, path: &str, errors: &mut Vec<FieldError>) {
    match nested(object, path) {
        Err(error) => errors.push(error),
        Ok(None) => {}
        Ok(Some(value)) => match value.as_i64() {
            None => errors.push(accessor_error(path, 0.into(), &value, "int64")),
            Some(count) if count < 0 => {
                errors.push(FieldError::invalid(path, count, "should be a non-negative integer"));
            }
            Some(count) if count > i64::from(i32::MAX) => {
                let detail = format!("should be less than or equal to {}", i32::MAX);
                errors.push(FieldError::invalid(path, count, detail));
            }
            Some(_) => {}
        },
    }
}

fn nested(object: &Value, path: &str) -> Result<Option<Value>, FieldError> {
    let mut value = object;
    for name in path.trim_start_matches('.').split('.') {
        match value {
            Value::Object(map) => match map.get(name) {
                Some(found) => value = found,
                None => return Ok(None),
            },
            other => return Err(accessor_error(path, 0.into(), other, "map[string]interface{}")),
        }
    }
    Ok(Some(value.clone()))
}

fn accessor_error(path: &str, shown: Value, found: &Value, wanted: &str) -> FieldError {
    let (text, kind) = match found {
        Value::Null => ("<nil>".to_owned(), "<nil>"),
        Value::Bool(flag) => (flag.to_string(), "bool"),
        Value::Number(number) => (
            crate::field_error::go_number(number),
            if number.as_i64().is_some() { "int64" } else { "float64" },
        ),
        Value::String(text) => (text.clone(), "string"),
        Value::Array(_) => ("[]".to_owned(), "[]interface {}"),
        Value::Object(_) => ("map[]".to_owned(), "map[string]interface {}"),
    };
    let path_shown = if path.starts_with('.') { path.to_owned() } else { format!(".{path}") };
    let detail = format!("{path_shown} accessor error: {text} is of the type {kind}, expected {wanted}");
    FieldError::invalid(path, shown, detail)
}

#[cfg(test)]
mod tests;
