use std::{collections::BTreeSet, fmt};

use serde_json::{Map, Value};

use super::{ListShape, MapShape, Shape, Type, shape::Scalar};
use crate::{apply::fieldpath::PathElement, go};

/// May a set or an associative list have items that cannot be told apart? A stored object may (older rules let them
/// in), an applied configuration may not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Duplicates {
    Allow,
    Refuse,
}

/// Where a value does not have the type it should have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Errors(Vec<Error>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Error {
    path: String,
    message: String,
}

/// Only what ownership depends on is checked: kinds of values, keys of items, fields that no schema knows.
pub fn validate(value: &Value, of: Type<'_>, duplicates: Duplicates) -> Result<(), Errors> {
    let mut errors = Vec::new();
    Walk { duplicates, errors: &mut errors }.value(value, of, "");
    if errors.is_empty() { Ok(()) } else { Err(Errors(errors)) }
}

struct Walk<'e> {
    duplicates: Duplicates,
    errors: &'e mut Vec<Error>,
}

impl Walk<'_> {
    fn value(&mut self, value: &Value, of: Type<'_>, path: &str) {
        match (of.shape(value), value) {
            (_, Value::Null) => {}
            (Shape::Scalar(scalar), value) => {
                if let Some(message) = mismatch(scalar, value) {
                    self.error(path, message);
                }
            }
            (Shape::List(shape), Value::Array(items)) => self.items(items, shape, path),
            (Shape::Map(shape), Value::Object(fields)) => self.fields(fields, shape, path),
            (Shape::List(_), value) => {
                self.error(path, format!("expected list, got &{{{}}}", go::plain(value)))
            }
            (Shape::Map(_), value) => {
                self.error(path, format!("expected map, got &{{{}}}", go::plain(value)))
            }
        }
    }

    fn fields(&mut self, fields: &Map<String, Value>, shape: MapShape<'_>, path: &str) {
        for (name, field) in fields {
            let path = format!("{path}.{name}");
            match shape.field(name) {
                Some(of) => self.value(field, of, &path),
                // one is enough to say: the rest of such an object is likely to be wrong in the same way
                None => return self.error(&path, "field not declared in schema".into()),
            }
        }
    }

    fn items(&mut self, items: &[Value], shape: ListShape<'_>, path: &str) {
        let mut seen = BTreeSet::new();
        for (i, item) in items.iter().enumerate() {
            let element = if shape.atomic {
                PathElement::Index(i64::try_from(i).unwrap_or(i64::MAX))
            } else {
                match shape.element(item) {
                    Ok(element) => element,
                    Err(message) => return self.error(path, format!("element {i}: {message}")),
                }
            };
            let item_path = format!("{path}{element}");
            if !seen.insert(element.clone()) && self.duplicates == Duplicates::Refuse {
                self.error(path, format!("duplicate entries for key {element}"));
            }
            self.value(item, shape.items, &item_path);
        }
    }

    fn error(&mut self, path: &str, message: String) {
        self.errors.push(Error { path: path.to_owned(), message });
    }
}

fn mismatch(scalar: Scalar, value: &Value) -> Option<String> {
    match (scalar, value) {
        (Scalar::Numeric, Value::Number(_))
        | (Scalar::Text, Value::String(_))
        | (Scalar::Boolean, Value::Bool(_))
        | (Scalar::Any, Value::Number(_) | Value::String(_) | Value::Bool(_)) => None,
        (Scalar::Numeric, value) => {
            Some(format!("expected numeric (int or float), got {}", go::type_name(value)))
        }
        (Scalar::Text, value) => {
            Some(format!("expected string, got &value.valueUnstructured{{Value:{}}}", go::syntax(value)))
        }
        (Scalar::Boolean, value) => Some(format!("expected boolean, got &{{{}}}", go::plain(value))),
        (Scalar::Any, value) => Some(format!("expected any scalar, got &{{{}}}", go::plain(value))),
    }
}

impl fmt::Display for Errors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.as_slice() {
            [only] => only.fmt(f),
            all => {
                f.write_str("errors:")?;
                all.iter().try_for_each(|error| write!(f, "\n  {error}"))
            }
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.path.is_empty() {
            f.write_str(&self.message)
        } else {
            write!(f, "{}: {}", self.path, self.message)
        }
    }
}
