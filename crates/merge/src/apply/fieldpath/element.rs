use std::{cmp::Ordering, fmt};

use serde_json::Value;

use crate::apply::value::{compare, text};

/// One step from a container to something in it.
#[derive(Clone, Debug)]
pub enum PathElement {
    /// A field of an object: `.name`.
    Field(String),
    /// The item of an associative list that has these key fields, sorted by name: `[name="a"]`.
    Key(Vec<(String, Value)>),
    /// An item of a set: `[="a"]`.
    Value(Value),
    /// A place in a list without keys: `[0]`. Only error messages and foreign managers have these.
    Index(i64),
}

/// From the root of an object to a field.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Path(pub Vec<PathElement>);

// === impl PathElement ===

impl PathElement {
    pub fn field(name: &str) -> Self {
        Self::Field(name.to_owned())
    }

    pub fn key(mut fields: Vec<(String, Value)>) -> Self {
        fields.sort_by(|a, b| a.0.cmp(&b.0));
        Self::Key(fields)
    }

    fn rank(&self) -> u8 {
        match self {
            Self::Field(_) => 0,
            Self::Key(_) => 1,
            Self::Value(_) => 2,
            Self::Index(_) => 3,
        }
    }
}

impl Ord for PathElement {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Field(a), Self::Field(b)) => a.cmp(b),
            (Self::Key(a), Self::Key(b)) => a
                .iter()
                .zip(b)
                .map(|(a, b)| a.0.cmp(&b.0).then_with(|| compare(&a.1, &b.1)))
                .find(|order| order.is_ne())
                .unwrap_or_else(|| a.len().cmp(&b.len())),
            (Self::Value(a), Self::Value(b)) => compare(a, b),
            (Self::Index(a), Self::Index(b)) => a.cmp(b),
            (a, b) => a.rank().cmp(&b.rank()),
        }
    }
}

impl PartialOrd for PathElement {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for PathElement {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for PathElement {}

impl fmt::Display for PathElement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Field(name) => write!(f, ".{name}"),
            Self::Key(fields) => {
                let fields: Vec<_> =
                    fields.iter().map(|(name, value)| format!("{name}={}", text(value))).collect();
                write!(f, "[{}]", fields.join(","))
            }
            Self::Value(value) => write!(f, "[={}]", text(value)),
            Self::Index(index) => write!(f, "[{index}]"),
        }
    }
}

// === impl Path ===

impl Path {
    /// The path of nested fields: `Path::fields(["spec", "replicas"])`.
    pub fn fields<'a>(names: impl IntoIterator<Item = &'a str>) -> Self {
        Self(names.into_iter().map(PathElement::field).collect())
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|element| element.fmt(f))
    }
}
