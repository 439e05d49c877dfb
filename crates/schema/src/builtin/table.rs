//! Reads `table.txt`: facts about built-in types that their JSON schemas leave out.

use std::{collections::HashMap, sync::LazyLock};

use serde_json::Value;

use crate::{ListType, MapType};

pub(super) struct Type {
    pub map_type: Option<MapType>,
    pub fields: Vec<Field>,
}

pub(super) struct Field {
    pub name: &'static str,
    pub presence: Presence,
    /// The Go type where the JSON type does not tell.
    pub go_type: Option<&'static str>,
    pub map_type: Option<MapType>,
    pub list_type: Option<ListType>,
    pub list_map_keys: Vec<&'static str>,
    pub patch_strategy: Option<&'static str>,
    pub patch_merge_key: Option<&'static str>,
    pub default: Option<Value>,
    pub item_default: Option<Value>,
    /// The default of the elements' elements.
    pub inner_default: Option<Value>,
    pub required: bool,
}

/// When a field is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Presence {
    /// If it was given.
    IfSet,
    /// Unless it is empty: `""`, `0`, `false`, `[]`, `{}`.
    UnlessEmpty,
    /// Always.
    Always,
}

/// The row of a type like `core.v1.Container`.
pub(super) fn find(name: &str) -> Option<&'static Type> {
    static TYPES: LazyLock<HashMap<&'static str, Type>> = LazyLock::new(|| parse(include_str!("table.txt")));
    TYPES.get(name)
}

// === impl Type ===

impl Type {
    pub fn field(&self, name: &str) -> Option<&Field> {
        self.fields.iter().find(|field| field.name == name)
    }
}

fn parse(text: &'static str) -> HashMap<&'static str, Type> {
    let mut types = HashMap::new();
    let mut current = "";
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        match line.strip_prefix("  ") {
            None => {
                let (name, map_type) = line.split_once('~').unwrap_or((line, ""));
                current = name;
                types.insert(name, Type { map_type: map_type_of(map_type), fields: Vec::new() });
            }
            Some(fields) => {
                if let Some(row) = types.get_mut(current) {
                    row.fields.extend(fields.split(' ').filter_map(field));
                }
            }
        }
    }
    types
}

fn field(text: &'static str) -> Option<Field> {
    let presence = match text.as_bytes().first()? {
        b'?' => Presence::IfSet,
        b'-' => Presence::UnlessEmpty,
        b'+' => Presence::Always,
        _ => return None,
    };
    // defaults come last and may hold any of the other signs
    let (text, default) = split_json(&text[1..], '=');
    let (text, item_default) = match default {
        None if !text.contains("@@") => split_json(text, '@'),
        _ => (text, None),
    };
    let (text, inner_default) = match text.split_once("@@") {
        Some((before, after)) => (before, serde_json::from_str(after).ok()),
        None => (text, None),
    };
    let (text, map_type) = split(text, '~');
    let (text, patch) = bracket(text, '{', '}');
    let (text, list) = bracket(text, '[', ']');
    let (name, go_type) = split(text, ':');
    let (name, required) = match name.strip_suffix('!') {
        Some(name) => (name, true),
        None => (name, false),
    };
    let (list_type, keys) = list.map_or((None, ""), |list| {
        let (kind, keys) = list.split_once('=').unwrap_or((list, ""));
        (list_type_of(kind), keys)
    });
    let (patch_strategy, merge_key) = patch.map_or((None, None), |patch| {
        let (strategy, key) = split(patch, '=');
        (Some(strategy), key)
    });
    Some(Field {
        name,
        presence,
        go_type,
        map_type: map_type.and_then(map_type_of),
        list_type,
        list_map_keys: keys.split(',').filter(|key| !key.is_empty()).collect(),
        patch_strategy,
        patch_merge_key: merge_key,
        default,
        item_default,
        inner_default,
        required,
    })
}

fn split(text: &'static str, at: char) -> (&'static str, Option<&'static str>) {
    match text.split_once(at) {
        Some((before, after)) => (before, Some(after)),
        None => (text, None),
    }
}

/// Splits off JSON after `sign`; a sign inside brackets is part of something else.
fn split_json(text: &'static str, sign: char) -> (&'static str, Option<Value>) {
    let mut depth = 0;
    for (at, c) in text.char_indices() {
        match c {
            '[' | '{' => depth += 1,
            ']' | '}' => depth -= 1,
            c if c == sign && depth == 0 => return (&text[..at], serde_json::from_str(&text[at + 1..]).ok()),
            _ => {}
        }
    }
    (text, None)
}

/// Splits off what stands in brackets at the end.
fn bracket(text: &'static str, open: char, close: char) -> (&'static str, Option<&'static str>) {
    match text.strip_suffix(close).and_then(|inner| inner.rsplit_once(open)) {
        // `[]v1.Container` is a Go type, not a list type
        Some((before, inner)) if !inner.is_empty() => (before, Some(inner)),
        _ => (text, None),
    }
}

fn list_type_of(text: &str) -> Option<ListType> {
    match text {
        "atomic" => Some(ListType::Atomic),
        "set" => Some(ListType::Set),
        "map" => Some(ListType::Map),
        _ => None,
    }
}

fn map_type_of(text: &str) -> Option<MapType> {
    match text {
        "atomic" => Some(MapType::Atomic),
        "granular" => Some(MapType::Granular),
        _ => None,
    }
}
