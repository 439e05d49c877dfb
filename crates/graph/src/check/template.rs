//! A template against the schema of its kind: literals, unknown fields, and what expressions make.

use std::sync::Arc;

use schema::{Schema, Type as Json};
use serde_json::Value;

use super::{Scope, Type, assign::assign, infer};
use crate::{
    error::{Findings, child, shown},
    template::{Code, Field, Piece},
};

/// Where a template stands, for messages.
pub(crate) struct Place<'a> {
    pub id: &'a str,
    /// `spec.resources[2].template`
    pub path: &'a str,
}

/// Checks `field` against `schema`; without one (below a field that may hold anything) only the expressions.
pub(crate) fn check(
    field: &Field,
    schema: Option<&Arc<Schema>>,
    scope: &Scope<'_>,
    place: &Place<'_>,
    findings: &mut Findings,
) {
    Walk { scope, place, findings }.field(field, schema, "");
}

struct Walk<'a> {
    scope: &'a Scope<'a>,
    place: &'a Place<'a>,
    findings: &'a mut Findings,
}

impl Walk<'_> {
    fn add(&mut self, path: &str, message: String) {
        let at =
            if path.is_empty() { self.place.path.to_owned() } else { format!("{}.{path}", self.place.path) };
        self.findings.add(at, message);
    }

    fn field(&mut self, field: &Field, schema: Option<&Arc<Schema>>, path: &str) {
        match field {
            Field::Literal(value) => {
                if let Some(schema) = schema {
                    self.literal(value, schema, path);
                }
            }
            Field::Standalone(code) => {
                if let Some(found) = self.infer(code, path)
                    && let Some(schema) = schema
                    && let Err(why) = assign(&found, schema)
                {
                    let expected = Type::of(schema);
                    let message = format!(
                        "type mismatch in resource \"{}\" at path \"{path}\": expression \"{}\" returns type \"{found}\" but expected \"{expected}\": {why}",
                        self.place.id,
                        shown(&code.text),
                    );
                    self.add(path, message);
                }
            }
            Field::Text(pieces) => {
                for piece in pieces {
                    let Piece::Code(code) = piece else { continue };
                    match self.infer(code, path) {
                        None | Some(Type::String) => {}
                        Some(found) if found.is_dyn() => {}
                        Some(found) => {
                            let message = format!(
                                "type mismatch in resource \"{}\" at path \"{path}\": expression \"{}\" returns type \"{found}\" but expected \"string\": use string(…) inside text",
                                self.place.id,
                                shown(&code.text),
                            );
                            self.add(path, message);
                        }
                    }
                }
                if let Some(schema) = schema {
                    self.literal(&Value::String(std::string::String::new()), schema, path);
                }
            }
            Field::Object(fields) => {
                let schema = schema.filter(|schema| self.expect(schema, Json::Object, path));
                for (name, field) in fields {
                    let at = child(path, name);
                    match schema {
                        None => self.field(field, None, &at),
                        Some(schema) => match schema.field(name) {
                            Some(known) => self.field(field, Some(known), &at),
                            None if is_open(schema) => self.field(field, None, &at),
                            None => self.add(&at, format!("schema not found for field {}", shown(name))),
                        },
                    }
                }
            }
            Field::List(items) => {
                let schema = schema.filter(|schema| self.expect(schema, Json::Array, path));
                let item_schema = schema.and_then(|schema| schema.items.as_ref());
                for (index, item) in items.iter().enumerate() {
                    self.field(item, item_schema, &format!("{path}[{index}]"));
                }
            }
        }
    }

    fn infer(&mut self, code: &Code, path: &str) -> Option<Type> {
        match infer(&code.expr, self.scope) {
            Ok(found) => Some(found),
            Err(why) => {
                self.add(path, format!("expression \"{}\": {why}", shown(&code.text)));
                None
            }
        }
    }

    /// Whether the schema is for this type; says so if it is for another.
    fn expect(&mut self, schema: &Arc<Schema>, found: Json, path: &str) -> bool {
        match schema.type_ {
            Some(wanted) if wanted != found => {
                self.mismatch(wanted.name(), found.name(), path);
                false
            }
            None if schema.int_or_string => {
                self.mismatch("integer or string", found.name(), path);
                false
            }
            _ => true,
        }
    }

    fn mismatch(&mut self, wanted: &str, found: &str, path: &str) {
        self.add(path, format!("expected {wanted} type for path {path}, got {found}"));
    }

    fn literal(&mut self, value: &Value, schema: &Arc<Schema>, path: &str) {
        let found = match value {
            Value::Null => return,
            Value::Bool(_) => "boolean",
            Value::Number(number) if number.is_f64() => "number",
            Value::Number(_) => "integer",
            Value::String(_) => "string",
            Value::Array(_) => "array",
            Value::Object(_) => "object",
        };
        if schema.int_or_string {
            if !matches!(found, "integer" | "string") {
                self.mismatch("integer or string", found, path);
            }
            return;
        }
        let Some(wanted) = schema.type_ else { return };
        let fits = wanted.name() == found
            || (wanted == Json::Number && found == "integer")
            || is_quantity(schema, found);
        if !fits {
            self.mismatch(wanted.name(), found, path);
        }
    }
}

/// Quantities are strings in the schema, and numbers in half of all manifests.
fn is_quantity(schema: &Schema, found: &str) -> bool {
    matches!(found, "integer" | "number")
        && schema.title.as_deref().is_some_and(|title| title.ends_with("Quantity"))
}

fn is_open(schema: &Schema) -> bool {
    schema.preserves_unknown_fields() || (schema.type_.is_none() && schema.properties.is_empty())
}
