use schema::{AdditionalProperties, ListType, MapType, Schema};
use serde_json::Value;

use super::meta::object_meta;
use crate::apply::fieldpath::PathElement;

/// The type of a value.
#[derive(Clone, Copy, Debug)]
pub enum Type<'a> {
    Schema {
        schema: &'a Schema,
        /// The node or one above it preserves unknown fields, so that undeclared ones are allowed.
        open: bool,
        /// An object with `apiVersion`, `kind` and `metadata`, which a custom resource's schema leaves out.
        object: bool,
    },
    /// Nothing is known: maps are granular, lists are atomic.
    Deduced,
    /// Nothing is known, and it belongs to one owner as a whole.
    Atomic,
}

/// What a type makes of a value.
#[derive(Clone, Copy)]
pub(crate) enum Shape<'a> {
    Scalar(Scalar),
    List(ListShape<'a>),
    Map(MapShape<'a>),
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scalar {
    Numeric,
    Text,
    Boolean,
    Any,
}

#[derive(Clone, Copy)]
pub(crate) struct ListShape<'a> {
    pub atomic: bool,
    /// Empty for a set (and for an atomic list).
    keys: &'a [String],
    pub items: Type<'a>,
}

#[derive(Clone, Copy)]
pub(crate) struct MapShape<'a> {
    pub atomic: bool,
    fields: Fields<'a>,
}

#[derive(Clone, Copy)]
enum Fields<'a> {
    Declared { schema: &'a Schema, open: bool, object: bool },
    Undeclared(Type<'a>),
}

/// The alternatives a type allows.
struct Alternatives<'a> {
    scalar: Option<Scalar>,
    list: Option<ListShape<'a>>,
    map: Option<MapShape<'a>>,
}

// === impl Type ===

impl<'a> Type<'a> {
    /// The type of a whole object.
    pub fn object(schema: &'a Schema) -> Self {
        Self::Schema { schema, open: false, object: true }
    }

    pub(crate) fn of(schema: &'a Schema) -> Self {
        Self::Schema { schema, open: false, object: false }
    }

    /// Null fits every shape; which one is taken for it makes no difference to what it means.
    pub(crate) fn shape(self, value: &Value) -> Shape<'a> {
        let Alternatives { scalar, list, map } = self.alternatives();
        let fitting = match value {
            Value::Null => None,
            Value::Bool(_) | Value::Number(_) | Value::String(_) => scalar.map(Shape::Scalar),
            Value::Array(_) => list.map(Shape::List),
            Value::Object(_) => map.map(Shape::Map),
        };
        fitting
            .or(map.map(Shape::Map))
            .or(scalar.map(Shape::Scalar))
            .or(list.map(Shape::List))
            .unwrap_or(Shape::Scalar(Scalar::Any))
    }

    pub(crate) fn map(self) -> Option<MapShape<'a>> {
        self.alternatives().map
    }

    pub(crate) fn list(self) -> Option<ListShape<'a>> {
        self.alternatives().list
    }

    fn alternatives(self) -> Alternatives<'a> {
        let (schema, open, object) = match self {
            Self::Schema { schema, open, object } => (schema, open, object),
            Self::Deduced | Self::Atomic => {
                let atomic = matches!(self, Self::Atomic);
                return Alternatives {
                    scalar: Some(Scalar::Any),
                    list: Some(ListShape { atomic: true, keys: &[], items: Self::Atomic }),
                    map: Some(MapShape { atomic, fields: Fields::Undeclared(self) }),
                };
            }
        };
        let open = open || schema.preserve_unknown_fields == Some(true);
        // a reference to a type, with what the field says of its own beside it
        if let (None, [inner]) = (schema.type_, schema.all_of.as_slice())
            && schema.properties.is_empty()
        {
            let mut inner = Self::Schema { schema: inner, open, object }.alternatives();
            if let (Some(map), Some(own)) = (&mut inner.map, schema.map_type) {
                map.atomic = own == MapType::Atomic;
            }
            return inner;
        }
        let scalar = |scalar| Alternatives { scalar: Some(scalar), list: None, map: None };
        let list = || ListShape::of(schema, open);
        let map = || MapShape {
            atomic: schema.map_type == Some(MapType::Atomic),
            fields: Fields::Declared { schema, open, object: object || schema.embedded_resource },
        };
        use schema::Type as T;
        match schema.type_ {
            None => Alternatives { scalar: Some(Scalar::Any), list: Some(list()), map: Some(map()) },
            Some(T::Object) => Alternatives { scalar: None, list: None, map: Some(map()) },
            Some(T::Array) => Alternatives { scalar: None, list: Some(list()), map: None },
            Some(T::Integer | T::Number) if schema.int_or_string => scalar(Scalar::Any),
            Some(T::Integer | T::Number) => scalar(Scalar::Numeric),
            Some(T::Boolean) => scalar(Scalar::Boolean),
            Some(T::String) => match schema.format.as_deref() {
                None | Some("" | "byte") if !schema.int_or_string => scalar(Scalar::Text),
                _ => scalar(Scalar::Any),
            },
        }
    }
}

// === impl Shape ===

impl Shape<'_> {
    pub(crate) fn same_kind(&self, other: &Self) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other)
    }
}

// === impl ListShape ===

impl<'a> ListShape<'a> {
    fn of(schema: &'a Schema, open: bool) -> Self {
        let items = match &schema.items {
            Some(items) => Type::Schema { schema: items, open, object: false },
            None => Type::Atomic,
        };
        let (atomic, keys): (bool, &[String]) = match (schema.list_type, schema.patch_strategy.as_deref()) {
            (Some(ListType::Map), _) => (false, &schema.list_map_keys),
            (Some(ListType::Set), _) => (false, &[]),
            // a schema older than list types has said the same by strategic merge
            (None, Some("merge" | "merge,retainKeys")) => match &schema.patch_merge_key {
                Some(key) => (false, std::slice::from_ref(key)),
                None => (false, &[]),
            },
            _ => (true, &[]),
        };
        Self { atomic, keys, items }
    }

    /// What tells an item from its neighbours. A key field that is absent counts with its default.
    pub(crate) fn element(&self, item: &Value) -> Result<PathElement, String> {
        if self.keys.is_empty() {
            return match item {
                Value::Object(_) => {
                    Err("associative list without keys has an element that's a map type".into())
                }
                Value::Array(_) => Err("not supported: associative list with lists as elements".into()),
                Value::Null => {
                    Err("associative list without keys has an element that's an explicit null".into())
                }
                scalar => Ok(PathElement::Value(scalar.clone())),
            };
        }
        let fields = match item {
            Value::Object(fields) => fields,
            Value::Null => return Err("associative list with keys may not have a null element".into()),
            _ => return Err("associative list with keys may not have non-map elements".into()),
        };
        let mut key = Vec::with_capacity(self.keys.len());
        for name in self.keys {
            if let Some(value) = fields.get(name).or_else(|| self.key_default(name)) {
                key.push((name.clone(), value.clone()));
            }
        }
        if key.is_empty() {
            let names: Vec<_> = self.keys.iter().map(|name| crate::go::quoted(name)).collect();
            return Err(format!(
                "associative list with keys has an element that omits all key fields [{}] (and doesn't have default \
                 values for any key fields)",
                names.join(" ")
            ));
        }
        Ok(PathElement::key(key))
    }

    fn key_default(&self, name: &str) -> Option<&'a Value> {
        match self.items.map()?.fields {
            Fields::Declared { schema, .. } => schema.properties.get(name)?.default.as_ref(),
            Fields::Undeclared(_) => None,
        }
    }
}

// === impl MapShape ===

impl<'a> MapShape<'a> {
    /// The type of a field that the schema names.
    pub(crate) fn declared(&self, name: &str) -> Option<Type<'a>> {
        let Fields::Declared { schema, open, object } = self.fields else { return None };
        let own = schema.properties.get(name);
        if object {
            match name {
                "metadata" if own.is_none_or(|own| !describes_metadata(own)) => {
                    return Some(Type::of(object_meta()));
                }
                "apiVersion" | "kind" if own.is_none() => return Some(Type::Atomic),
                _ => {}
            }
        }
        own.map(|schema| Type::Schema { schema, open, object: false })
    }

    /// The type of a field that the schema does not name; `None` if it allows none.
    pub(crate) fn undeclared(&self) -> Option<Type<'a>> {
        match self.fields {
            Fields::Undeclared(of) => Some(of),
            Fields::Declared { schema, open, .. } => match &schema.additional_properties {
                Some(AdditionalProperties::Typed(schema)) => {
                    Some(Type::Schema { schema, open, object: false })
                }
                Some(AdditionalProperties::Any(allowed)) => allowed.then_some(Type::Deduced),
                None => (open || schema.properties.is_empty()).then_some(Type::Deduced),
            },
        }
    }

    pub(crate) fn field(&self, name: &str) -> Option<Type<'a>> {
        self.declared(name).or_else(|| self.undeclared())
    }

    /// Nothing is declared and anything is allowed.
    pub(crate) fn is_deduced(&self) -> bool {
        let nothing_declared = match self.fields {
            Fields::Declared { schema, object, .. } => schema.properties.is_empty() && !object,
            Fields::Undeclared(_) => true,
        };
        nothing_declared && matches!(self.undeclared(), Some(Type::Deduced))
    }
}

/// A custom resource may restrict `metadata.name` in its schema, which describes the metadata no further.
fn describes_metadata(schema: &Schema) -> bool {
    schema.properties.contains_key("labels")
        || schema.all_of.iter().any(|inner| inner.properties.contains_key("labels"))
}
