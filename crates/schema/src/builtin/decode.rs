//! What becomes of an object that is read into the Kubernetes API's Go types and written again.

use serde_json::{Map, Value, json};

use super::table::{self, Presence};
use crate::{AdditionalProperties, Path, Quantity, Schema, Type, field_error::go_number};

/// Drops unknown fields of `value` (and answers with their paths), normalizes the others, and fails on a value of the
/// wrong type with the words of Go's JSON decoder.
pub(super) fn object(value: &mut Value, schema: &Schema) -> Result<Vec<String>, String> {
    metadata(value, schema, &Path::ROOT)
}

/// The same for `metadata` alone, which stands at `path`.
pub(crate) fn metadata(value: &mut Value, schema: &Schema, path: &Path<'_>) -> Result<Vec<String>, String> {
    let mut decoder = Decoder { unknown: Vec::new(), fields: Vec::new(), mismatch: None };
    decoder.node(value, schema, "", None, path)?;
    decoder.unknown.sort();
    decoder.mismatch.map_or(Ok(decoder.unknown), Err)
}

struct Decoder {
    unknown: Vec<String>,
    /// Names of the fields down to here, as Go's messages join them.
    fields: Vec<String>,
    /// The first value of a wrong type. Go reads on after it, and prefers to report a value that is of the right type
    /// but malformed.
    mismatch: Option<String>,
}

// === impl Decoder ===

impl Decoder {
    fn node(
        &mut self,
        value: &mut Value,
        schema: &Schema,
        owner: &str,
        go_type: Option<&str>,
        path: &Path<'_>,
    ) -> Result<(), String> {
        let title = schema.title.as_deref().unwrap_or_default();
        match title {
            "api.resource.Quantity" => return quantity(value),
            "util.intstr.IntOrString" => return self.int_or_string(value, owner),
            "meta.v1.Time" | "meta.v1.MicroTime" => {
                if !matches!(value, Value::String(_) | Value::Null) {
                    return Err(self.mismatch(json_type(value), owner, "string"));
                }
                return time(value, title == "meta.v1.MicroTime");
            }
            "apiextensions.v1.JSONSchemaProps" => {
                self.json_schema(value, path);
                return Ok(());
            }
            _ => {}
        }
        if let Some(row) = table::find(title) {
            return self.structure(value, schema, row, title, owner, path);
        }
        match (schema.type_, value) {
            (Some(Type::Array), Value::Array(items)) => {
                let Some(item) = &schema.items else { return Ok(()) };
                let element_type = go_type.and_then(|go| go.strip_prefix("[]"));
                for (index, element) in items.iter_mut().enumerate() {
                    if element.is_null() {
                        *element = zero(item);
                    }
                    self.node(element, item, owner, element_type, &path.index(index))?;
                }
                Ok(())
            }
            (Some(Type::Object), Value::Object(map)) => {
                let Some(AdditionalProperties::Typed(entry)) = &schema.additional_properties else {
                    return Ok(());
                };
                for (key, value) in map.iter_mut() {
                    if value.is_null() {
                        *value = zero(entry);
                    }
                    self.node(value, entry, owner, None, &path.key(key))?;
                }
                Ok(())
            }
            (Some(Type::String), Value::String(text)) => {
                if schema.format.as_deref() == Some("byte") {
                    check_base64(text)?;
                }
                Ok(())
            }
            (Some(Type::Boolean), Value::Bool(_)) | (None, _) => Ok(()),
            (Some(Type::Integer), Value::Number(number)) => {
                let fits = match (number.as_i64(), schema.format.as_deref()) {
                    (Some(integer), Some("int32")) => i32::try_from(integer).is_ok(),
                    (Some(_), _) => true,
                    (None, _) => false,
                };
                if fits {
                    return Ok(());
                }
                let found = format!("number {}", go_number(number));
                self.note(self.mismatch(&found, owner, &go_name(schema, go_type)));
                Ok(())
            }
            (Some(Type::Number), Value::Number(_)) => Ok(()),
            (Some(_), found) => {
                self.note(self.mismatch(json_type(found), owner, &go_name(schema, go_type)));
                Ok(())
            }
        }
    }

    fn structure(
        &mut self,
        value: &mut Value,
        schema: &Schema,
        row: &table::Type,
        title: &str,
        owner: &str,
        path: &Path<'_>,
    ) -> Result<(), String> {
        let Value::Object(map) = value else {
            self.note(self.mismatch(json_type(value), owner, &go_struct(title)));
            return Ok(());
        };
        let names: Vec<String> = map.keys().cloned().collect();
        let this = title.rsplit('.').next().unwrap_or(title);
        for name in names {
            let Some(field) = schema.properties.get(&name) else {
                self.unknown.push(path.child(&name).to_string());
                map.remove(&name);
                continue;
            };
            let Some(value) = map.get_mut(&name) else { continue };
            if value.is_null() {
                map.remove(&name);
                continue;
            }
            let go_type = row.field(&name).and_then(|field| field.go_type);
            let depth = self.fields.len();
            self.fields.extend(embedded_in(title, &name).map(str::to_owned));
            self.fields.push(name.clone());
            self.node(value, field, this, go_type, &path.child(&name))?;
            self.fields.truncate(depth);
        }
        for field in &row.fields {
            match (field.presence, map.get(field.name)) {
                (Presence::UnlessEmpty, Some(value)) if is_empty(value) => {
                    map.remove(field.name);
                }
                // stored without distinction between none and empty
                (Presence::Always, Some(Value::Array(items))) if items.is_empty() => {
                    map.insert(field.name.to_owned(), Value::Null);
                }
                (Presence::Always, None) => {
                    map.insert(field.name.to_owned(), absent(field, schema));
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn int_or_string(&self, value: &Value, owner: &str) -> Result<(), String> {
        match value {
            Value::String(_) | Value::Null => Ok(()),
            Value::Number(number) if number.as_i64().is_some_and(|i| i32::try_from(i).is_ok()) => Ok(()),
            Value::Number(number) => {
                Err(self.mismatch(&format!("number {}", go_number(number)), owner, "int32"))
            }
            other => Err(self.mismatch(json_type(other), owner, "int32")),
        }
    }

    /// CRD schemas hold schemas: the one type that contains itself.
    fn json_schema(&mut self, value: &mut Value, path: &Path<'_>) {
        let (Some(row), Value::Object(map)) = (table::find("apiextensions.v1.JSONSchemaProps"), value) else {
            return;
        };
        map.retain(|name, value| {
            let here = path.child(name);
            if row.field(name).is_none() {
                self.unknown.push(here.to_string());
                return false;
            }
            match (name.as_str(), &mut *value) {
                ("properties" | "patternProperties" | "definitions", Value::Object(fields)) => {
                    for (name, field) in fields.iter_mut() {
                        self.json_schema(field, &here.child(name));
                    }
                }
                ("allOf" | "anyOf" | "oneOf", Value::Array(schemas)) => {
                    for (index, schema) in schemas.iter_mut().enumerate() {
                        self.json_schema(schema, &here.index(index));
                    }
                }
                ("not", schema) => self.json_schema(schema, &here),
                // unknown fields are dropped below these too, but the API does not speak of them
                ("items" | "additionalProperties" | "additionalItems", schema) => {
                    let n_unknown = self.unknown.len();
                    for schema in schema.as_array_mut().into_iter().flatten() {
                        self.json_schema(schema, &here);
                    }
                    self.json_schema(schema, &here);
                    self.unknown.truncate(n_unknown);
                }
                _ => {}
            }
            let empty_matters =
                matches!(name.as_str(), "default" | "example" | "additionalProperties" | "items" | "not")
                    || row.field(name).is_some_and(|field| field.presence == Presence::IfSet);
            !value.is_null() && (empty_matters || !is_empty(value))
        });
    }

    fn note(&mut self, mismatch: String) {
        self.mismatch.get_or_insert(mismatch);
    }

    fn mismatch(&self, found: &str, owner: &str, wanted: &str) -> String {
        if owner.is_empty() && self.fields.is_empty() {
            return format!("json: cannot unmarshal {found} into Go value of type {wanted}");
        }
        format!(
            "json: cannot unmarshal {found} into Go struct field {owner}.{} of type {wanted}",
            self.fields.join(".")
        )
    }
}

/// The Go struct between a type and its field that JSON does not show, but Go's messages do.
fn embedded_in(title: &str, field: &str) -> Option<&'static str> {
    match (title, field) {
        ("core.v1.Volume", "name") => None,
        ("core.v1.Volume", _) => Some("VolumeSource"),
        ("core.v1.Probe", "exec" | "httpGet" | "tcpSocket" | "grpc") => Some("ProbeHandler"),
        _ => None,
    }
}

fn json_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// `core.v1.Container` is `v1.Container` in Go.
fn go_struct(title: &str) -> String {
    let mut parts = title.rsplitn(3, '.');
    match (parts.next(), parts.next()) {
        (Some(name), Some(package)) => format!("{package}.{name}"),
        _ => title.to_owned(),
    }
}

fn go_name(schema: &Schema, go_type: Option<&str>) -> String {
    if let Some(go_type) = go_type {
        return go_type.to_owned();
    }
    match (schema.type_, schema.format.as_deref()) {
        (Some(Type::Integer), Some(format)) => format.to_owned(),
        (Some(Type::Integer), None) => "int64".to_owned(),
        (Some(Type::Number), _) => "float64".to_owned(),
        (Some(Type::Boolean), _) => "bool".to_owned(),
        (Some(Type::String), Some("byte")) => "[]uint8".to_owned(),
        (Some(Type::Array), _) => "[]string".to_owned(),
        (Some(Type::Object), _) => "map[string]string".to_owned(),
        _ => "string".to_owned(),
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::Bool(true) => false,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(map) => map.is_empty(),
    }
}

/// The value of a Go variable that was never set.
pub(super) fn zero(schema: &Schema) -> Value {
    let title = schema.title.as_deref().unwrap_or_default();
    match title {
        "meta.v1.Time" | "meta.v1.MicroTime" => return Value::Null,
        "api.resource.Quantity" => return json!("0"),
        "util.intstr.IntOrString" => return json!(0),
        _ => {}
    }
    let Some(row) = table::find(title) else {
        return match schema.type_ {
            Some(Type::String) => json!(""),
            Some(Type::Integer | Type::Number) => json!(0),
            Some(Type::Boolean) => json!(false),
            _ => Value::Null,
        };
    };
    let always = row.fields.iter().filter(|field| field.presence == Presence::Always);
    Value::Object(Map::from_iter(always.map(|field| (field.name.to_owned(), absent(field, schema)))))
}

/// What is written for a field of `schema` that is always written but was not given.
fn absent(field: &table::Field, schema: &Schema) -> Value {
    let field_schema = schema.properties.get(field.name);
    match (&field.default, field_schema) {
        (Some(Value::Object(_)), Some(schema)) => zero(schema),
        (Some(default), _) => default.clone(),
        (None, Some(schema)) if schema.int_or_string => zero(schema),
        (None, _) => Value::Null,
    }
}

fn quantity(value: &mut Value) -> Result<(), String> {
    let text = match &*value {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        Value::Null => return Ok(()),
        other => other.to_string(),
    };
    let parsed = Quantity::parse(&text).map_err(|error| error.to_string())?;
    *value = parsed.to_string().into();
    Ok(())
}

fn time(value: &mut Value, micro: bool) -> Result<(), String> {
    let Value::String(text) = &*value else { return Ok(()) };
    if let (true, Some(fraction)) = (micro, text.get(19..)) {
        let digits = fraction.strip_prefix('.').unwrap_or_default();
        let n_digits = digits.bytes().take_while(u8::is_ascii_digit).count();
        if text.get(..19).is_some_and(|local| local.parse::<jiff::civil::DateTime>().is_ok()) && n_digits < 6
        {
            return Err(format!(
                "parsing time {text:?} as \"2006-01-02T15:04:05.000000Z07:00\": cannot parse {fraction:?} as \".000000\""
            ));
        }
    }
    let layout = if micro { "2006-01-02T15:04:05.000000Z07:00" } else { "2006-01-02T15:04:05Z07:00" };
    let parsed: jiff::Timestamp = text
        .parse()
        .map_err(|_| format!("parsing time {text:?} as {layout:?}: cannot parse {text:?} as \"2006\""))?;
    *value = if micro {
        format!("{parsed:.6}").into()
    } else {
        jiff::Timestamp::from_second(parsed.as_second()).map_or(Value::Null, |t| t.to_string().into())
    };
    Ok(())
}

fn check_base64(text: &str) -> Result<(), String> {
    use base64::Engine;
    let at = match base64::engine::general_purpose::STANDARD.decode(text) {
        Ok(_) => return Ok(()),
        Err(base64::DecodeError::InvalidByte(at, _) | base64::DecodeError::InvalidLastSymbol(at, _)) => at,
        Err(_) => text.len() / 4 * 4,
    };
    Err(format!("illegal base64 data at input byte {at}"))
}
