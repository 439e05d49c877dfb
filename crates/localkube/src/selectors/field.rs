//! Field selectors: `metadata.name=web,status.phase!=Running`, over the fields that a kind's row lists.

use crate::{
    registry::{Kind, Origin},
    storage::Record,
};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldSelector(Vec<Requirement>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Requirement {
    place: Place,
    value: String,
    equal: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Name,
    Namespace,
    /// Index into the row's selectable fields.
    Field(usize),
}

// === impl FieldSelector ===

impl FieldSelector {
    pub fn parse(text: &str, kind: &Kind) -> Result<Self, String> {
        let mut requirements = Vec::new();
        for term in split_terms(text).iter().filter(|term| !term.is_empty()) {
            let (label, value, equal) = split_term(term)
                .ok_or_else(|| format!("invalid selector: '{text}'; can't understand '{term}'"))?;
            let value = unescape(value).map_err(|why| format!("{why}: '{value}'"))?;
            let place = match label {
                "metadata.name" => Place::Name,
                "metadata.namespace" if kind.namespaced || kind.plural == "namespaces" => Place::Namespace,
                label => {
                    let at = kind.selectable.iter().position(|field| field.label == label);
                    Place::Field(at.ok_or_else(|| {
                        if kind.origin == Origin::Builtin && kind.selectable.is_empty() {
                            format!(
                                "{label:?} is not a known field selector: only \"metadata.name\", \"metadata.namespace\""
                            )
                        } else {
                            format!("field label not supported: {label}")
                        }
                    })?)
                }
            };
            requirements.push(Requirement { place, value, equal });
        }
        Ok(Self(requirements))
    }

    pub fn require_name(&mut self, name: &str) {
        self.0.push(Requirement { place: Place::Name, value: name.to_owned(), equal: true });
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn matches(&self, record: &Record) -> bool {
        self.0.iter().all(|Requirement { place, value, equal }| {
            let actual = match place {
                Place::Name => record.name(),
                Place::Namespace => record.namespace(),
                Place::Field(index) => record.fields.get(*index).map_or("", |field| field),
            };
            (actual == value) == *equal
        })
    }
}

/// Splits at commas that no backslash precedes.
fn split_terms(text: &str) -> Vec<&str> {
    let mut terms = Vec::new();
    let (mut start, mut escaped) = (0, false);
    for (at, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            ',' => {
                terms.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    terms.push(&text[start..]);
    terms
}

fn split_term(term: &str) -> Option<(&str, &str, bool)> {
    for (at, _) in term.char_indices() {
        for (operator, equal) in [("!=", false), ("==", true), ("=", true)] {
            if let Some(value) = term[at..].strip_prefix(operator) {
                return Some((&term[..at], value, equal));
            }
        }
    }
    None
}

fn unescape(value: &str) -> Result<String, &'static str> {
    let mut out = String::with_capacity(value.len());
    let mut chars = value.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some(c @ ('\\' | ',' | '=')) => out.push(c),
                _ => return Err("invalid field selector: invalid escape sequence"),
            },
            ',' | '=' => return Err("invalid field selector: unescaped character in value"),
            c => out.push(c),
        }
    }
    Ok(out)
}
