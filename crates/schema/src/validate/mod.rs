//! Checking a value against a schema, with the API's findings in the API's words.

pub(crate) mod embedded;
pub(crate) mod formats;
pub(crate) mod lists;

use std::{
    collections::HashMap,
    sync::{Arc, LazyLock, RwLock},
};

use regex::Regex;
use serde_json::{Number, Value};

use crate::{
    AdditionalProperties, FieldError, FieldErrorKind, ListType, Path, Schema, Type,
    field_error::{go_float, go_number},
};

/// Checks `value` against `schema`. `base` is where the value sits in its object (`status`, or the root); messages
/// speak of fields relative to the value.
///
/// With `old`, parts that did not change are not held against the writer: a schema that became stricter must not
/// block updates of something else.
pub fn validate(value: &Value, old: Option<&Value>, schema: &Schema, base: &Path<'_>) -> Vec<FieldError> {
    let mut findings = Findings { base: base.relative(), ..Findings::default() };
    node(value, old, schema, &Path::ROOT, &mut findings);
    findings.errors
}

#[derive(Default)]
struct Findings {
    base: String,
    errors: Vec<FieldError>,
    /// How many checks passed: of several alternatives that all fail, the API explains the one that came closest.
    passed: usize,
}

fn node(value: &Value, old: Option<&Value>, schema: &Schema, path: &Path<'_>, findings: &mut Findings) {
    if old == Some(value) {
        return;
    }
    type_of(value, schema, path, findings);
    alternatives(value, schema, path, findings);
    match value {
        Value::Null => {}
        Value::String(text) => string(text, schema, path, findings),
        Value::Number(number) => numeric(number, schema, path, findings),
        Value::Array(items) => array(items, old, schema, path, findings),
        Value::Object(map) => object(map, old, schema, path, findings),
        Value::Bool(_) => {}
    }
    if let Some(allowed) = &schema.enum_
        && !allowed.iter().any(|allowed| equal(allowed, value))
    {
        let names: Vec<String> =
            allowed.iter().map(|v| v.as_str().map_or_else(|| v.to_string(), str::to_owned)).collect();
        let field = findings.field(path);
        findings.errors.push(FieldError::not_supported(field, value.clone(), &names));
    }
    findings.passed += 1;
}

// === impl Findings ===

impl Findings {
    fn field(&self, path: &Path<'_>) -> String {
        match (self.base.is_empty(), path.is_root()) {
            (true, _) => path.to_string(),
            (false, true) => self.base.clone(),
            (false, false) => format!("{}.{path}", self.base),
        }
    }

    fn push(&mut self, kind: FieldErrorKind, path: &Path<'_>, value: Value, what: &str) {
        let detail = format!("{} in body {what}", path.relative());
        let field = self.field(path);
        self.errors.push(FieldError::new(kind, field, value, detail));
    }

    fn invalid(&mut self, path: &Path<'_>, value: Value, what: &str) {
        self.push(FieldErrorKind::Invalid, path, value, what);
    }

    fn wrong_type(&mut self, path: &Path<'_>, wanted: &str, found: &str) {
        let what = format!("must be of type {wanted}: {}", crate::field_error::quote(found));
        self.push(FieldErrorKind::TypeInvalid, path, Value::from(found), &what);
    }

    /// Faults the API does not tie to a field.
    fn whole(&mut self, detail: String) {
        let field = if self.base.is_empty() { Path::ROOT.to_string() } else { self.base.clone() };
        self.errors.push(FieldError::invalid(field, "", detail));
    }
}

fn type_of(value: &Value, schema: &Schema, path: &Path<'_>, findings: &mut Findings) {
    let wanted: &[Type] = match (&schema.type_, schema.int_or_string) {
        (_, true) => &[Type::Integer, Type::String],
        (Some(wanted), false) => std::slice::from_ref(wanted),
        (None, false) => return,
    };
    let names = || wanted.iter().map(|t| t.name()).collect::<Vec<_>>().join(",");
    let (found, inherent_format) = match value {
        Value::Null => {
            if schema.nullable {
                findings.passed += 1;
            } else {
                findings.wrong_type(path, &names(), "null");
            }
            return;
        }
        Value::Bool(_) => (Type::Boolean, ""),
        Value::String(_) => (Type::String, ""),
        Value::Array(_) => (Type::Array, ""),
        Value::Object(_) => (Type::Object, ""),
        Value::Number(number) if number.as_i64().is_some() => (Type::Integer, "int64"),
        Value::Number(_) => (Type::Number, "float64"),
    };
    let whole_float = found == Type::Number
        && value.as_f64().is_some_and(|f| f.fract() == 0.0)
        && wanted.contains(&Type::Integer);
    let int_as_number = found == Type::Integer && wanted.contains(&Type::Number);
    let matches = wanted.contains(&found) || whole_float || int_as_number;
    let format = schema.checked_format();
    let text_or_list = matches!(found, Type::String | Type::Array);
    if let Some(format) = format {
        if !text_or_list && !matches {
            findings.wrong_type(path, format, inherent_format);
            return;
        }
        // a format takes over from the type for text
        if text_or_list && !wanted.contains(&Type::Number) && !wanted.contains(&Type::Integer) {
            findings.passed += 1;
            return;
        }
    }
    if matches {
        findings.passed += 1;
    } else {
        findings.wrong_type(path, &names(), found.name());
    }
}

fn alternatives(value: &Value, schema: &Schema, path: &Path<'_>, findings: &mut Findings) {
    let at = || crate::field_error::quote(&path.relative());
    let base = findings.base.clone();
    let attempt = |schema: &Schema| {
        let mut attempt = Findings { base: base.clone(), ..Findings::default() };
        node(value, None, schema, path, &mut attempt);
        attempt
    };
    if value.is_null() {
        return;
    }
    if !schema.any_of.is_empty() {
        let attempts: Vec<Findings> = schema.any_of.iter().map(|schema| attempt(schema)).collect();
        if !attempts.iter().any(|attempt| attempt.errors.is_empty()) {
            findings.whole(format!("{} must validate at least one schema (anyOf)", at()));
            findings.errors.extend(closest(attempts));
        }
    }
    if !schema.one_of.is_empty() {
        let attempts: Vec<Findings> = schema.one_of.iter().map(|schema| attempt(schema)).collect();
        match attempts.iter().filter(|attempt| attempt.errors.is_empty()).count() {
            1 => {}
            0 => {
                findings.whole(format!(
                    "{} must validate one and only one schema (oneOf). Found none valid",
                    at()
                ));
                findings.errors.extend(closest(attempts));
            }
            n => findings.whole(format!(
                "{} must validate one and only one schema (oneOf). Found {n} valid alternatives",
                at()
            )),
        }
    }
    if !schema.all_of.is_empty() {
        let attempts: Vec<Findings> = schema.all_of.iter().map(|schema| attempt(schema)).collect();
        let valid = attempts.iter().filter(|attempt| attempt.errors.is_empty()).count();
        findings.errors.extend(attempts.into_iter().flat_map(|attempt| attempt.errors));
        if valid < schema.all_of.len() {
            let none = if valid == 0 { ". None validated" } else { "" };
            findings.whole(format!("{} must validate all the schemas (allOf){none}", at()));
        }
    }
    if let Some(not) = &schema.not
        && attempt(not).errors.is_empty()
    {
        findings.whole(format!("{} must not validate the schema (not)", at()));
    }
    findings.passed += 1;
}

fn closest(attempts: Vec<Findings>) -> Vec<FieldError> {
    let most = attempts.iter().map(|attempt| attempt.passed).max();
    attempts
        .into_iter()
        .find(|attempt| Some(attempt.passed) == most)
        .map(|attempt| attempt.errors)
        .unwrap_or_default()
}

fn string(text: &str, schema: &Schema, path: &Path<'_>, findings: &mut Findings) {
    let length = || text.chars().count() as u64;
    if schema.max_length.is_some_and(|max| length() > max) {
        let field = findings.field(path);
        findings.errors.push(FieldError::too_long(field, schema.max_length.unwrap_or_default()));
    } else if let Some(min) = schema.min_length.filter(|min| length() < *min) {
        findings.invalid(path, text.into(), &format!("should be at least {min} chars long"));
    } else if let Some(pattern) = &schema.pattern
        && !pattern.is_empty()
        && !compiled(pattern).is_some_and(|regex| regex.is_match(text))
    {
        findings.invalid(path, text.into(), &format!("should match '{pattern}'"));
    }
    if let Some(format) = schema.checked_format()
        && !formats::matches_format(format, text)
    {
        let what = format!("must be of type {format}: {}", crate::field_error::quote(text));
        findings.push(FieldErrorKind::TypeInvalid, path, text.into(), &what);
    }
}

fn numeric(number: &Number, schema: &Schema, path: &Path<'_>, findings: &mut Findings) {
    let value = Value::Number(number.clone());
    let float = number.as_f64().unwrap_or_default();
    let integer = number.as_i64();
    if schema.type_ == Some(Type::Integer) {
        let (fits, how) = match schema.format.as_deref() {
            Some("int32") => (integer.is_some_and(|i| i32::try_from(i).is_ok()), "with format int32"),
            Some("int64") => (integer.is_some() || float.abs() < 9.2e18, "with format int64"),
            _ => (integer.is_some() || float.abs() < 9.2e18, "(default format)"),
        };
        if !fits || integer.is_none() && float.fract() != 0.0 {
            findings.whole(format!("Checked value must be of type integer {how} in {}", path.relative()));
        }
    }
    // bounds of integers are printed as integers
    let bound = |bound: f64| match integer {
        Some(_) => go_number(&Number::from(bound as i64)),
        None => go_float(bound),
    };
    if let Some(factor) = schema.multiple_of {
        if factor <= 0.0 {
            findings
                .whole(format!("factor MultipleOf declared for {path} must be positive: {}", bound(factor)));
        } else if (float / factor).fract() != 0.0 {
            findings.invalid(path, value.clone(), &format!("should be a multiple of {}", bound(factor)));
        }
    }
    if let Some(minimum) = schema.minimum {
        let low = if schema.exclusive_minimum { float <= minimum } else { float < minimum };
        if low {
            let than = if schema.exclusive_minimum { "greater than" } else { "greater than or equal to" };
            findings.invalid(path, value.clone(), &format!("should be {than} {}", bound(minimum)));
        }
    }
    if let Some(maximum) = schema.maximum {
        let high = if schema.exclusive_maximum { float >= maximum } else { float > maximum };
        if high {
            let than = if schema.exclusive_maximum { "less than" } else { "less than or equal to" };
            findings.invalid(path, value, &format!("should be {than} {}", bound(maximum)));
        }
    }
    findings.passed += 1;
}

fn array(items: &[Value], old: Option<&Value>, schema: &Schema, path: &Path<'_>, findings: &mut Findings) {
    let old = old.and_then(Value::as_array);
    if let Some(item_schema) = &schema.items {
        for (index, item) in items.iter().enumerate() {
            let before = old.and_then(|old| counterpart(item, old, schema));
            node(item, before, item_schema, &path.index(index), findings);
        }
    }
    let size = items.len() as u64;
    if let Some(min) = schema.min_items.filter(|min| size < *min) {
        findings.invalid(path, size.into(), &format!("should have at least {min} items"));
    }
    if let Some(max) = schema.max_items.filter(|max| size > *max) {
        let field = findings.field(path);
        findings.errors.push(FieldError::too_many(field, size, max));
    }
    if schema.unique_items && items.iter().enumerate().any(|(i, item)| items[..i].contains(item)) {
        findings.invalid(path, "".into(), "shouldn't contain duplicates");
    }
    findings.passed += 1;
}

/// The element of the old list that `item` continues: by keys in lists of type map; elements of other lists have no
/// identity.
pub(crate) fn counterpart<'a>(item: &Value, old: &'a [Value], schema: &Schema) -> Option<&'a Value> {
    if schema.list_type != Some(ListType::Map) || schema.list_map_keys.is_empty() {
        return None;
    }
    old.iter().find(|old| schema.list_map_keys.iter().all(|key| old.get(key) == item.get(key)))
}

fn object(
    map: &serde_json::Map<String, Value>,
    old: Option<&Value>,
    schema: &Schema,
    path: &Path<'_>,
    findings: &mut Findings,
) {
    let size = map.len() as u64;
    if let Some(min) = schema.min_properties.filter(|min| size < *min) {
        findings.invalid(path, size.into(), &format!("should have at least {min} properties"));
    }
    if let Some(max) = schema.max_properties.filter(|max| size > *max) {
        let field = findings.field(path);
        findings.errors.push(FieldError::too_many(field, size, max));
    }
    for (name, value) in map {
        let before = old.and_then(|old| old.get(name));
        match (schema.properties.get(name), &schema.additional_properties) {
            (Some(field), _) => node(value, before, field, &path.child(name), findings),
            (None, Some(AdditionalProperties::Typed(entry))) => {
                node(value, before, entry, &path.child(name), findings);
            }
            (None, Some(AdditionalProperties::Any(false))) => {
                let detail = format!("{}.{name} in body is a forbidden property", path.relative());
                let field = findings.field(path);
                findings.errors.push(FieldError::invalid(field, name.as_str(), detail));
            }
            _ => {}
        }
    }
    for name in schema.required.iter().filter(|name| !map.contains_key(name.as_str())) {
        let field = findings.field(&path.child(name));
        findings.errors.push(FieldError::required(field, ""));
    }
}

/// Equality as JSON has it: 1 and 1.0 are the same number.
fn equal(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => a == b || a.as_f64() == b.as_f64(),
        _ => a == b,
    }
}

/// Patterns of schemas, compiled once. A pattern that does not compile matches nothing; the CRD that brought it was
/// refused.
pub(crate) fn compiled(pattern: &str) -> Option<Arc<Regex>> {
    type Cache = RwLock<HashMap<String, Option<Arc<Regex>>>>;
    static CACHE: LazyLock<Cache> = LazyLock::new(Default::default);
    const ENOUGH: usize = 4096;
    if let Some(found) = CACHE.read().ok().and_then(|cache| cache.get(pattern).cloned()) {
        return found;
    }
    let regex = Regex::new(pattern).ok().map(Arc::new);
    if let Ok(mut cache) = CACHE.write() {
        if cache.len() >= ENOUGH {
            cache.clear();
        }
        cache.insert(pattern.to_owned(), regex.clone());
    }
    regex
}

// === impl Schema ===

impl Schema {
    /// The format, if it is one the API checks for this type; others are hints and ignored.
    pub(crate) fn checked_format(&self) -> Option<&str> {
        let format = self.format.as_deref().filter(|format| !format.is_empty())?;
        let known = match self.type_ {
            Some(Type::Integer) => matches!(format, "int32" | "int64"),
            Some(Type::Number) => matches!(format, "float" | "double"),
            Some(Type::String) | None => formats::is_known(format),
            Some(_) => false,
        };
        known.then_some(format)
    }
}

#[cfg(test)]
mod laws;
