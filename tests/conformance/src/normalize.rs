//! What two right servers may answer differently is replaced by a placeholder; the rest must be equal.

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
                    _ => walk(item, names),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| walk(item, names)),
        Value::String(text) => *text = words(text, names),
        _ => {}
    }
}

fn is_version(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Times, uids and this run's names inside a text.
pub fn words(text: &str, names: &Names<'_>) -> String {
    let text = text.replace(names.namespace, "$ns").replace(names.group, "$group");
    if text.parse::<k8s_openapi::jiff::Timestamp>().is_ok() {
        return "<time>".to_owned();
    }
    text.split_inclusive([' ', '"', ','])
        .map(|word| {
            let core = word.trim_end_matches([' ', '"', ',']);
            if is_uid(core) { word.replace(core, "<uid>") } else { word.to_owned() }
        })
        .collect()
}

fn is_uid(word: &str) -> bool {
    word.len() == 36
        && word.bytes().enumerate().all(|(index, byte)| match index {
            8 | 13 | 18 | 23 => byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        })
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
