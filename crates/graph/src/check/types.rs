//! Types of expressions, made from OpenAPI schemas.

use std::{collections::BTreeMap, fmt, sync::Arc};

use schema::{AdditionalProperties, Schema};

#[derive(Clone, Debug)]
pub(crate) enum Type {
    /// Anything: what is not known is never called wrong.
    Dyn,
    /// The element of a list that has none.
    Never,
    Null,
    Bool,
    Int,
    Uint,
    Double,
    String,
    Bytes,
    Timestamp,
    Duration,
    /// Of the Kubernetes libraries: quantities, addresses …
    Named(&'static str),
    List(Arc<Type>),
    /// Key and value.
    Map(Arc<(Type, Type)>),
    /// An object whose fields a schema declares.
    Object(Arc<Schema>),
    /// A map that is written out, with text for keys.
    Literal(Arc<BTreeMap<String, Type>>),
    Optional(Arc<Type>),
}

// === impl Type ===

impl Type {
    pub fn of(schema: &Arc<Schema>) -> Self {
        use schema::Type as Json;
        if schema.int_or_string {
            return Self::Dyn;
        }
        match schema.type_ {
            None => match schema.properties.is_empty() {
                true => Self::Dyn,
                false => Self::Object(schema.clone()),
            },
            Some(Json::Boolean) => Self::Bool,
            Some(Json::Integer) => Self::Int,
            Some(Json::Number) => Self::Double,
            Some(Json::String) => match schema.format.as_deref() {
                Some("byte") => Self::Bytes,
                Some("date-time" | "date") => Self::Timestamp,
                Some("duration") => Self::Duration,
                _ => Self::String,
            },
            Some(Json::Array) => Self::List(Arc::new(schema.items.as_ref().map_or(Self::Dyn, Type::of))),
            Some(Json::Object) => match &schema.additional_properties {
                _ if !schema.properties.is_empty() => Self::Object(schema.clone()),
                Some(AdditionalProperties::Typed(entry)) => Self::map(Self::String, Type::of(entry)),
                Some(AdditionalProperties::Any(true)) => Self::Dyn,
                _ if schema.preserves_unknown_fields() => Self::Dyn,
                _ => Self::Object(schema.clone()),
            },
        }
    }

    pub fn map(key: Self, value: Self) -> Self {
        Self::Map(Arc::new((key, value)))
    }

    pub fn list(element: Self) -> Self {
        Self::List(Arc::new(element))
    }

    pub fn is_dyn(&self) -> bool {
        matches!(self, Self::Dyn | Self::Never)
    }

    pub fn is_number(&self) -> bool {
        matches!(self, Self::Int | Self::Uint | Self::Double)
    }

    /// The type of `self.field`; an error says why there is no such field.
    pub fn field(&self, field: &str) -> Result<Self, String> {
        match self {
            Self::Dyn | Self::Never | Self::Null => Ok(Self::Dyn),
            Self::Object(schema) => match schema.field(field) {
                Some(found) => Ok(Self::of(found)),
                None if schema.preserves_unknown_fields() => Ok(Self::Dyn),
                None => Err(format!("undefined field '{field}'")),
            },
            Self::Literal(fields) => {
                fields.get(field).cloned().ok_or_else(|| format!("undefined field '{field}'"))
            }
            Self::Map(entry) => Ok(entry.1.clone()),
            Self::Optional(inner) => inner.field(field).map(|inner| Self::Optional(Arc::new(inner))),
            other => Err(format!("type '{other}' does not support field selection")),
        }
    }

    /// What a macro's variables are: of one, of two.
    pub fn elements(&self) -> Result<(Self, (Self, Self)), String> {
        let both = |first: Self, key: Self, value: Self| Ok((first, (key, value)));
        match self {
            Self::List(item) => both((**item).clone(), Self::Int, (**item).clone()),
            Self::Map(entry) => both(entry.0.clone(), entry.0.clone(), entry.1.clone()),
            Self::Literal(_) | Self::Object(_) => both(Self::String, Self::String, Self::Dyn),
            Self::Dyn | Self::Never => both(Self::Dyn, Self::Dyn, Self::Dyn),
            other => Err(format!("expression of type '{other}' cannot be range of a comprehension")),
        }
    }

    /// A type that is right for both; `Dyn` if they have nothing in common.
    pub fn join(&self, other: &Self) -> Self {
        match (self, other) {
            (Self::Never, other) => other.clone(),
            (one, Self::Never) => one.clone(),
            (Self::List(one), Self::List(other)) => Self::list(one.join(other)),
            (Self::Map(one), Self::Map(other)) => Self::map(one.0.join(&other.0), one.1.join(&other.1)),
            (Self::Optional(one), Self::Optional(other)) => Self::Optional(Arc::new(one.join(other))),
            (Self::Object(one), Self::Object(other)) if Arc::ptr_eq(one, other) => self.clone(),
            (Self::Literal(one), Self::Literal(other)) if one.keys().eq(other.keys()) => {
                let joined = one.iter().map(|(key, one)| (key.clone(), one.join(&other[key])));
                Self::Literal(Arc::new(joined.collect()))
            }
            _ if self.is_scalar() && self.to_string() == other.to_string() => self.clone(),
            _ => Self::Dyn,
        }
    }

    pub fn is_scalar(&self) -> bool {
        matches!(
            self,
            Self::Null
                | Self::Bool
                | Self::Int
                | Self::Uint
                | Self::Double
                | Self::String
                | Self::Bytes
                | Self::Timestamp
                | Self::Duration
                | Self::Named(_)
        )
    }

    /// Whether a value of one type can never be equal to one of the other.
    pub fn is_disjoint(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Null, _) | (_, Self::Null) => false,
            (one, other) if one.is_number() && other.is_number() => false,
            (one, other) if one.is_scalar() && other.is_scalar() => one.to_string() != other.to_string(),
            (one, Self::List(_) | Self::Map(_) | Self::Object(_) | Self::Literal(_)) => one.is_scalar(),
            (Self::List(_) | Self::Map(_) | Self::Object(_) | Self::Literal(_), other) => other.is_scalar(),
            _ => false,
        }
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dyn | Self::Never => f.write_str("dyn"),
            Self::Null => f.write_str("null_type"),
            Self::Bool => f.write_str("bool"),
            Self::Int => f.write_str("int"),
            Self::Uint => f.write_str("uint"),
            Self::Double => f.write_str("double"),
            Self::String => f.write_str("string"),
            Self::Bytes => f.write_str("bytes"),
            Self::Timestamp => f.write_str("timestamp"),
            Self::Duration => f.write_str("duration"),
            Self::Named(name) => f.write_str(name),
            Self::List(element) => write!(f, "list({element})"),
            Self::Map(entry) => write!(f, "map({}, {})", entry.0, entry.1),
            Self::Object(schema) => f.write_str(schema.title.as_deref().unwrap_or("object")),
            Self::Literal(_) => f.write_str("map(string, dyn)"),
            Self::Optional(inner) => write!(f, "optional({inner})"),
        }
    }
}
