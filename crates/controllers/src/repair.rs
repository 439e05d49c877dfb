//! Whether an object is as it should be: everything that is wanted is there. What else is there was filled in by the API
//! or belongs to others, and is left alone; server-side apply does the same.

use decide::quantity::Quantity;
use serde_json::{Map, Value};

/// The fields by which the API tells the entries of a list apart, the most telling first.
const LIST_KEYS: [&str; 5] = ["mountPath", "containerPort", "port", "uid", "name"];

/// Whether `found` has all that `wanted` has.
pub(crate) fn holds(found: &Value, wanted: &Value) -> bool {
    holds_field("", found, wanted)
}

/// Whether a list has entries that are not ours.
pub(crate) fn has_others(found: &Value, wanted: &Value) -> bool {
    let (Value::Array(found), Value::Array(wanted)) = (found, wanted) else { return false };
    list_key(wanted).is_some_and(|key| found.iter().any(|entry| entry_of(wanted, key, entry).is_none()))
}

fn holds_field(field: &str, found: &Value, wanted: &Value) -> bool {
    match (found, wanted) {
        // One label more selects other pods.
        (Value::Object(_), Value::Object(_)) if field == "selector" => found == wanted,
        (Value::Object(there), Value::Object(fields)) => fields.iter().all(|(name, wanted)| {
            holds_field(quantity_map(field, name), there.get(name).unwrap_or(&Value::Null), wanted)
        }),
        (Value::Array(there), Value::Array(items)) => match list_key(items) {
            Some(key) => items
                .iter()
                .all(|item| entry_of(there, key, item).is_some_and(|found| holds_field(field, found, item))),
            None => {
                there.len() == items.len()
                    && there.iter().zip(items).all(|(found, wanted)| holds_field(field, found, wanted))
            }
        },
        // `1024Mi` comes back as `1Gi`
        (Value::String(a), Value::String(b)) if field == AMOUNT => a == b || is_same_amount(a, b),
        (found, wanted) => found == wanted || (is_nothing(found) && is_nothing(wanted)),
    }
}

fn list_key(wanted: &[Value]) -> Option<&'static str> {
    let is_in_all = |key: &&str| !wanted.is_empty() && wanted.iter().all(|item| item.get(key).is_some());
    LIST_KEYS.into_iter().find(is_in_all)
}

fn entry_of<'a>(list: &'a [Value], key: &str, like: &Value) -> Option<&'a Value> {
    list.iter().find(|entry| entry.get(key) == like.get(key))
}

/// Fields that the API leaves out, or writes although they say nothing.
fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(fields) => fields.values().all(is_nothing),
        Value::Array(items) => items.is_empty(),
        Value::String(text) => text.is_empty(),
        _ => false,
    }
}

const AMOUNT: &str = "amount";

/// The entries of `requests` and `limits` are amounts, whatever they are called.
fn quantity_map<'a>(field: &str, name: &'a str) -> &'a str {
    if field == "requests" || field == "limits" { AMOUNT } else { name }
}

fn is_same_amount(a: &str, b: &str) -> bool {
    matches!((a.parse::<Quantity>(), b.parse::<Quantity>()), (Ok(a), Ok(b)) if a == b)
}

/// The merge patch that puts `list` at a path like `/spec/ports`.
pub(crate) fn patch_at(path: &str, list: Value) -> Value {
    path.split('/')
        .filter(|field| !field.is_empty())
        .rev()
        .fold(list, |inner, field| Value::Object(Map::from_iter([(field.to_owned(), inner)])))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn all_that_is_wanted_has_to_be_there_and_more_may_be() {
        let container = |memory: &str| json!({"name": "a", "resources": {"limits": {"memory": memory}}});
        let found =
            |replicas: i32, memory: &str| json!({"replicas": replicas, "containers": [container(memory)]});
        let more = json!({"replicas": 1, "progressDeadlineSeconds": 600, "nodeSelector": {"disk": "fast"},
            "containers": [{"name": "b"}, container("1Gi")]});
        let table = [
            ("as it is", found(1, "1024Mi"), true),
            ("another form of the same amount", found(1, "1Gi"), true),
            ("another amount", found(1, "2Gi"), false),
            ("another count", found(2, "1Gi"), false),
            ("a default, an addition, and a container of somebody else", more, true),
            ("gone", json!({"replicas": 1}), false),
        ];
        for (what, there, is_held) in table {
            assert_eq!(holds(&there, &found(1, "1024Mi")), is_held, "{what}: {there}");
        }
    }

    #[test]
    fn text_that_looks_like_an_amount_is_text() {
        let env = |value: &str| json!({"env": [{"name": "N", "value": value}]});
        assert!(!holds(&env("1"), &env("1000m")));
        assert!(holds(&json!({"env": [{"name": "N"}]}), &env("")));
        assert!(holds(&json!({"requests": {"cpu": "1"}}), &json!({"requests": {"cpu": "1000m"}})));
    }

    #[test]
    fn selectors_and_lists_without_names_are_compared_whole() {
        let command = |words: &[&str]| json!({"command": words});
        assert!(holds(&command(&["a", "b"]), &command(&["a", "b"])));
        assert!(!holds(&command(&["a", "b", "c"]), &command(&["a", "b"])));
        let wanted = json!({"selector": {"app": "a"}});
        assert!(!holds(&json!({"selector": {"app": "a", "more": "b"}}), &wanted));
        assert!(holds(&wanted, &wanted));
    }

    #[test]
    fn entries_of_others_are_seen() {
        let ours = json!([{"port": 80, "name": "http"}]);
        assert!(!has_others(&json!([{"port": 80, "name": "http", "protocol": "TCP"}]), &ours));
        assert!(has_others(&json!([{"port": 80}, {"port": 81}]), &ours));
        assert_eq!(patch_at("/spec/ports", json!([])), json!({"spec": {"ports": []}}));
    }
}
