//! What two right servers may answer differently is replaced by a placeholder; the rest must be equal.

use std::{borrow::Cow, sync::LazyLock};

use regex::Regex;
use serde_json::Value;

/// The names that this run gave, to be written as the script wrote them.
pub struct Names<'a> {
    pub namespace: &'a str,
    pub group: &'a str,
}

pub fn body(value: &mut Value, names: &Names<'_>, ignored: &[String]) {
    walk(value, names);
    for path in ignored {
        remove(value, &path.split('.').collect::<Vec<_>>());
    }
}

fn walk(value: &mut Value, names: &Names<'_>) {
    match value {
        Value::Object(map) => {
            if let Some(Value::String(prefix)) = map.get("generateName").cloned()
                && let Some(Value::String(name)) = map.get_mut("name")
                && name.starts_with(&prefix)
            {
                *name = format!("{prefix}<generated>");
            }
            sort_causes(map);
            // prose, for people who read it
            if let Some(Value::Array(columns)) = map.get_mut("columnDefinitions") {
                columns.iter_mut().filter_map(Value::as_object_mut).for_each(|column| {
                    column.remove("description");
                });
            }
            let empty_creation = map.get("creationTimestamp").is_some_and(Value::is_null);
            if empty_creation {
                map.remove("creationTimestamp");
            }
            for (key, item) in map.iter_mut() {
                match key.as_str() {
                    "uid" if item.is_string() => *item = "<uid>".into(),
                    "resourceVersion" if item.as_str().is_some_and(is_version) => *item = "<version>".into(),
                    "continue" if item.as_str().is_some_and(|token| !token.is_empty()) => {
                        *item = "<token>".into()
                    }
                    // an estimate, by its documentation
                    "remainingItemCount" => {}
                    // 100m is no age of 100 minutes
                    "cpu" if item.is_string() => {}
                    // sorted by times that are whole seconds: whether two steps share one is chance
                    "managedFields" => {
                        walk(item, names);
                        if let Value::Array(entries) = item {
                            entries.sort_by_key(Value::to_string);
                        }
                    }
                    _ => walk(item, names),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| walk(item, names)),
        Value::String(text) => *text = words(text, names),
        _ => {}
    }
}

/// The real server collects the faults of a custom resource from a hash map, so their order is chance, and reports a
/// fault of the metadata as often as it happens to look. The message only repeats the causes.
fn sort_causes(status: &mut serde_json::Map<String, Value>) {
    let Some(Value::Array(causes)) = status.get_mut("details").and_then(|details| details.get_mut("causes"))
    else {
        return;
    };
    causes.sort_by_key(Value::to_string);
    causes.dedup();
    if let Some(Value::String(message)) = status.get_mut("message")
        && let Some((head, _)) = message.split_once(" is invalid: ")
    {
        *message = format!("{head} is invalid: <causes>");
    }
}

fn is_version(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Times, ages, uids, versions and this run's names inside a text.
pub fn words(text: &str, names: &Names<'_>) -> String {
    static PLACEHOLDERS: LazyLock<Vec<(Regex, &str)>> = LazyLock::new(|| {
        [
            (r"[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}", "<uid>"),
            (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", "<time>"),
            (r"^(\d+[smhd]){1,2}$", "<age>"),
            (r"in record \(\d+\)", "in record (<version>)"),
            (r#"resourceVersion\\":\\"\d+"#, "resourceVersion <version>"),
        ]
        .into_iter()
        .filter_map(|(pattern, placeholder)| Some((Regex::new(pattern).ok()?, placeholder)))
        .collect()
    });
    let mut text = text.replace(names.group, "$group").replace(names.namespace, "$ns");
    for (pattern, placeholder) in PLACEHOLDERS.iter() {
        if let Cow::Owned(replaced) = pattern.replace_all(&text, *placeholder) {
            text = replaced;
        }
    }
    text
}

fn remove(value: &mut Value, path: &[&str]) {
    let Some((first, rest)) = path.split_first() else { return };
    match value {
        // a path reaches through lists
        Value::Array(items) => items.iter_mut().for_each(|item| remove(item, path)),
        Value::Object(map) if rest.is_empty() => {
            if *first == "*" {
                map.clear();
            } else {
                map.remove(*first);
            }
        }
        Value::Object(map) if *first == "*" => map.values_mut().for_each(|item| remove(item, rest)),
        Value::Object(map) => {
            if let Some(item) = map.get_mut(*first) {
                remove(item, rest);
            }
        }
        _ => {}
    }
}
