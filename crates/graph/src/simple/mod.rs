//! Simple schema: fields in the shorthand of kro, as OpenAPI v3.
//!
//! ```text
//! replicas: integer | scale default=3 minimum=1
//! ports: "[]Port"                                  types: { Port: { number: integer | required=true } }
//! ```
//!
//! A schema comes from people we do not know: depth, number of fields (with custom types expanded) and lengths are
//! bounded, and a type that contains itself is an error.

mod apply;
mod markers;
mod types;

use std::{collections::BTreeMap, sync::Arc};

use schema::{AdditionalProperties, Schema, Type};
use serde_json::{Map, Value, json};

use self::types::TypeExpr;
use crate::error::{Error, Findings, child, shown};

/// Objects, lists and custom types inside one another.
const DEEPEST: usize = 64;
/// Fields after expansion: 8 types that each use the next twice ten times over would make 10^8 of a few lines.
const MOST_FIELDS: u64 = 10_000;

/// The schema of an instance's `spec`, and which of its fields are the scale.
#[derive(Clone, Debug, PartialEq)]
pub struct SpecSchema {
    pub schema: Schema,
    /// The names that lead to the field with `| scale`, from `spec` down.
    pub scale: Option<Vec<String>>,
}

/// What a field's markers say of the scale subresource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MarkKind {
    Scale,
    Selector,
}

#[derive(Clone, Debug)]
struct Mark {
    kind: MarkKind,
    /// Names from here down to the marked field.
    path: Vec<String>,
    /// Why a scale path cannot lead there.
    unreachable: Option<&'static str>,
}

/// A field, with everything its parent has to know.
#[derive(Clone, Debug, Default)]
struct Built {
    schema: Schema,
    required: bool,
    marks: Vec<Mark>,
    /// Fields in it, with itself.
    size: u64,
    /// Levels below it.
    height: usize,
}

struct Builder<'a> {
    types: &'a Map<String, Value>,
    built: BTreeMap<&'a str, Option<Built>>,
    /// Custom types that are being built, outermost first.
    under_way: Vec<&'a str>,
    findings: Findings,
}

/// Builds the schema of `spec`. Paths of findings begin with `spec.schema`.
pub(crate) fn spec(
    fields: &Map<String, Value>,
    types: &Map<String, Value>,
) -> Result<SpecSchema, Vec<Error>> {
    let mut builder =
        Builder { types, built: BTreeMap::new(), under_way: Vec::new(), findings: Findings::default() };
    // types that nothing uses are read too: what is wrong with them is wrong today
    for name in types.keys() {
        builder.custom(name, &child("spec.schema.types", name), 0);
    }
    let built = builder.object(fields, "spec.schema.spec", 0);
    let mut findings = builder.findings;
    let Some(mut built) = built.filter(|_| findings.is_empty()) else {
        return findings.or(SpecSchema { schema: Schema::default(), scale: None });
    };
    let scale = scale(&built.marks, &mut findings);
    if let Some(path) = &scale {
        edit(&mut built.schema, path, &prepare_scale);
        propagate(&mut built.schema, path);
    }
    findings.or(SpecSchema { schema: built.schema, scale })
}

/// A status field that is declared instead of computed: `integer | scale`, `string | scaleSelector`.
pub(crate) fn declared(text: &str) -> Result<MarkKind, String> {
    let (type_, markers) = text.split_once('|').unwrap_or((text, ""));
    let mut built = match types::parse(type_)? {
        TypeExpr::Atomic(type_) => Built { schema: leaf(type_), ..Built::default() },
        _ => return Err("needs an expression: ${…}".into()),
    };
    let markers = markers::parse(markers)?;
    apply::apply(&markers, &mut built)?;
    match (built.marks.as_slice(), markers.len()) {
        ([mark], 1) => Ok(mark.kind),
        ([_], _) => Err("a declared status field has the marker scale or scaleSelector and no other".into()),
        _ => Err("status fields without expressions are not supported: write ${…}, \
                  'integer | scale' or 'string | scaleSelector'"
            .into()),
    }
}

/// The marks behind a standalone expression of the status: `${deployment.status.replicas} | scale`.
pub(crate) fn marker_behind_expression(text: &str) -> Result<MarkKind, String> {
    match text.trim() {
        "scale" => Ok(MarkKind::Scale),
        "scaleSelector" => Ok(MarkKind::Selector),
        other => Err(format!(
            "behind an expression of the status stands | scale or | scaleSelector, not '{}'",
            shown(other)
        )),
    }
}

// === impl MarkKind ===

impl MarkKind {
    pub fn name(self) -> &'static str {
        match self {
            Self::Scale => "scale",
            Self::Selector => "scaleSelector",
        }
    }

    /// The only type a field with this marker may have.
    pub fn type_(self) -> Type {
        match self {
            Self::Scale => Type::Integer,
            Self::Selector => Type::String,
        }
    }
}

// === impl Builder ===

impl<'a> Builder<'a> {
    fn field(&mut self, value: &'a Value, path: &str, depth: usize) -> Option<Built> {
        if depth > DEEPEST {
            self.findings.add(path, format!("fields are nested more than {DEEPEST} deep"));
            return None;
        }
        match value {
            Value::String(text) => self.text(text, path, depth),
            Value::Object(fields) => self.object(fields, path, depth),
            other => {
                let found = match other {
                    Value::Null => "nothing",
                    Value::Bool(_) => "a boolean",
                    Value::Number(_) => "a number",
                    _ => "a list",
                };
                self.findings.add(
                    path,
                    format!("unexpected type: a field is a string or a map of fields, not {found}"),
                );
                None
            }
        }
    }

    fn text(&mut self, text: &str, path: &str, depth: usize) -> Option<Built> {
        let (type_, markers) = text.split_once('|').unwrap_or((text, ""));
        let result = types::parse(type_).map_err(Some).and_then(|type_| {
            // what is wrong inside a custom type has been said already
            let mut built = self.type_(&type_, path, depth).ok_or(None)?;
            let markers = markers::parse(markers).map_err(Some)?;
            apply::apply(&markers, &mut built).map_err(Some)?;
            Ok(built)
        });
        match result {
            Ok(built) => Some(built),
            Err(why) => {
                if let Some(why) = why {
                    self.findings.add(path, why);
                }
                None
            }
        }
    }

    fn type_(&mut self, type_: &TypeExpr, path: &str, depth: usize) -> Option<Built> {
        let wrap = |inner: Built, schema: Schema, why: &'static str| Built {
            schema,
            required: false,
            marks: inner.marks.into_iter().map(|mark| Mark { unreachable: Some(why), ..mark }).collect(),
            size: inner.size + 1,
            height: inner.height + 1,
        };
        match type_ {
            TypeExpr::Atomic(type_) => Some(Built { schema: leaf(*type_), size: 1, ..Built::default() }),
            TypeExpr::Object => {
                let schema = Schema { preserve_unknown_fields: Some(true), ..leaf(Type::Object) };
                Some(Built { schema, size: 1, ..Built::default() })
            }
            TypeExpr::List(item) => {
                let mut inner = self.type_(item, path, depth + 1)?;
                let items = Some(Arc::new(std::mem::take(&mut inner.schema)));
                Some(wrap(inner, Schema { items, ..leaf(Type::Array) }, "a list"))
            }
            TypeExpr::Map(value) => {
                let mut inner = self.type_(value, path, depth + 1)?;
                let value = AdditionalProperties::Typed(Arc::new(std::mem::take(&mut inner.schema)));
                let schema = Schema { additional_properties: Some(value), ..leaf(Type::Object) };
                Some(wrap(inner, schema, "a map"))
            }
            TypeExpr::Custom(name) => self.custom(name, path, depth),
        }
    }

    fn custom(&mut self, name: &str, path: &str, depth: usize) -> Option<Built> {
        if let Some(known) = self.built.get(name) {
            let known = known.clone()?;
            if depth + known.height > DEEPEST {
                self.findings.add(path, format!("fields are nested more than {DEEPEST} deep"));
                return None;
            }
            return Some(known);
        }
        let Some((name, definition)) = self.types.get_key_value(name) else {
            self.findings.add(path, format!("unknown type: {}", shown(name)));
            return None;
        };
        if let Some(start) = self.under_way.iter().position(|other| other == name) {
            let mut circle: Vec<&str> = self.under_way[start..].to_vec();
            circle.push(name);
            self.findings.add(path, format!("cyclic dependency in type: {}", shown(&circle.join(" -> "))));
            return None;
        }
        if types::parse(name).is_ok_and(|parsed| parsed != TypeExpr::Custom(name.clone())) {
            self.findings
                .add(path, format!("the type '{}' has a name that means something else", shown(name)));
            return None;
        }
        self.under_way.push(name);
        let built = self.field(definition, &child("spec.schema.types", name), depth + 1);
        self.under_way.pop();
        self.built.insert(name, built.clone());
        built
    }

    fn object(&mut self, fields: &'a Map<String, Value>, path: &str, depth: usize) -> Option<Built> {
        let mut object = Built { schema: leaf(Type::Object), size: 1, ..Built::default() };
        let mut is_sound = true;
        for (name, value) in fields {
            let at = child(path, name);
            if name.is_empty() {
                self.findings.add(at, "a field needs a name");
                is_sound = false;
                continue;
            }
            let Some(field) = self.field(value, &at, depth + 1) else {
                is_sound = false;
                continue;
            };
            object.size = object.size.saturating_add(field.size);
            object.height = object.height.max(field.height + 1);
            if object.size > MOST_FIELDS {
                let message =
                    format!("the schema has more than {MOST_FIELDS} fields once types are expanded");
                self.findings.add(path, message);
                return None;
            }
            if field.required {
                object.schema.required.push(name.clone());
            }
            let awkward =
                name.contains(['.', '[', ']', '\'', '"', ' ']).then_some("a name with dots or brackets");
            object.marks.extend(field.marks.into_iter().map(|mut mark| {
                mark.path.insert(0, name.clone());
                mark.unreachable = mark.unreachable.or(awkward);
                mark
            }));
            object.schema.properties.insert(name.clone(), Arc::new(field.schema));
        }
        object.schema.required.sort();
        default_to_empty(&mut object.schema);
        is_sound.then_some(object)
    }
}

fn leaf(type_: Type) -> Schema {
    Schema { type_: Some(type_), ..Schema::default() }
}

/// An object none of whose fields is required, but which has fields with defaults, is there even if nobody writes it.
fn default_to_empty(schema: &mut Schema) {
    let has_defaults = schema.properties.values().any(|field| field.default.is_some());
    if schema.default.is_none() && schema.required.is_empty() && has_defaults {
        schema.default = Some(json!({}));
    }
}

/// Where the scale is, if it is anywhere and allowed to be there.
fn scale(marks: &[Mark], findings: &mut Findings) -> Option<Vec<String>> {
    let path_of =
        |mark: &Mark| mark.path.iter().fold("spec.schema.spec".to_owned(), |at, name| child(&at, name));
    for mark in marks.iter().filter(|mark| mark.kind == MarkKind::Selector) {
        findings.add(path_of(mark), "marker 'scaleSelector' is for a field of the status");
    }
    let scales: Vec<&Mark> = marks.iter().filter(|mark| mark.kind == MarkKind::Scale).collect();
    let first = scales.first()?;
    for mark in &scales[1..] {
        let message = format!("only one field may have the marker 'scale': {} has it too", path_of(first));
        findings.add(path_of(mark), message);
    }
    if let Some(why) = first.unreachable {
        findings.add(path_of(first), format!("marker 'scale' cannot be reached through {why}"));
        return None;
    }
    Some(first.path.clone())
}

/// The API reads the scale as an int32 of 0 or more, and fails if it is absent.
fn prepare_scale(field: &mut Schema, is_required: bool) {
    field.format = Some("int32".to_owned());
    field.minimum = Some(field.minimum.unwrap_or(0.0).max(0.0));
    if field.default.is_none() && !is_required {
        field.default = Some(json!(1));
    }
}

/// Changes the field that `path` leads to; `change` is told whether it is required.
fn edit(schema: &mut Schema, path: &[String], change: &dyn Fn(&mut Schema, bool)) {
    let Some((name, rest)) = path.split_first() else { return };
    let is_required = schema.required.contains(name);
    let Some(field) = schema.properties.get_mut(name) else { return };
    let field = Arc::make_mut(field);
    match rest {
        [] => change(field, is_required),
        rest => edit(field, rest, change),
    }
}

/// Parents of a default that was put in last.
fn propagate(schema: &mut Schema, path: &[String]) {
    if let Some((name, rest)) = path.split_first()
        && let Some(field) = schema.properties.get_mut(name)
    {
        propagate(Arc::make_mut(field), rest);
        default_to_empty(schema);
    }
}

#[cfg(test)]
mod tests;
