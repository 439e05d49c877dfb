//! JSON merge patch (RFC 7386), as the real server does it.

use serde_json::Value;

/// Is this a patch that the server takes? The message is for a 400 Bad Request.
pub fn check(patch: &Value) -> Result<(), String> {
    match patch {
        Value::Object(_) => Ok(()),
        Value::Null => Err("Invalid JSON Patch".into()),
        other => Err(format!(
            "error decoding patch: json: cannot unmarshal {} into Go value of type map[string]interface {{}}",
            crate::go::json_kind(other)
        )),
    }
}

/// Merges `patch` into `target`.
///
/// The server goes further than the RFC in one point: what a patch brings in new is stripped of its nulls
/// everywhere, also inside of arrays of objects. Where both sides have the field, an array replaces it verbatim.
pub fn apply(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *target = without_nulls(patch);
        return;
    };
    if !target.is_object() {
        *target = Value::Object(serde_json::Map::new());
    }
    let Value::Object(target) = target else { return };
    for (name, new) in patch {
        match (target.get_mut(name), new) {
            (_, Value::Null) => {
                target.remove(name);
            }
            (Some(current @ Value::Object(_)), Value::Object(_)) => apply(current, new),
            (Some(current @ Value::Object(_)), _) => *current = new.clone(),
            _ => {
                target.insert(name.clone(), without_nulls(new));
            }
        }
    }
}

/// Without the null fields of every object in it; nulls that are items of an array stay.
fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(map) => map
            .iter()
            .filter(|(_, field)| !field.is_null())
            .map(|(name, field)| (name.clone(), without_nulls(field)))
            .collect::<serde_json::Map<_, _>>()
            .into(),
        Value::Array(items) => items.iter().map(without_nulls).collect(),
        scalar => scalar.clone(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::apply::testing::any_json;

    #[test]
    fn examples() {
        // (target, patch, result); the first rows are the appendix of the RFC
        for (target, patch, expected) in [
            (json!({"a": "b"}), json!({"a": "c"}), json!({"a": "c"})),
            (json!({"a": "b"}), json!({"b": "c"}), json!({"a": "b", "b": "c"})),
            (json!({"a": "b", "b": "c"}), json!({"a": null}), json!({"b": "c"})),
            (json!({"a": ["b"]}), json!({"a": "c"}), json!({"a": "c"})),
            (json!({"a": "c"}), json!({"a": ["b"]}), json!({"a": ["b"]})),
            (json!({"a": {"b": "c"}}), json!({"a": {"b": "d", "c": null}}), json!({"a": {"b": "d"}})),
            (json!({"a": [{"b": "c"}]}), json!({"a": [1]}), json!({"a": [1]})),
            (json!({"e": null}), json!({"a": 1}), json!({"e": null, "a": 1})),
            (json!([1, 2]), json!({"a": "b", "c": null}), json!({"a": "b"})),
            (json!({}), json!({"a": {"bb": {"ccc": null}}}), json!({"a": {"bb": {}}})),
            // new arrays lose the nulls of their objects, replaced ones of an object do not
            (json!({}), json!({"a": [{"b": null}, null]}), json!({"a": [{}, null]})),
            (json!({"a": {"x": 1}}), json!({"a": [{"b": null}]}), json!({"a": [{"b": null}]})),
        ] {
            let mut result = target.clone();
            apply(&mut result, &patch);
            assert_eq!(result, expected, "{target} + {patch}");
        }
    }

    proptest! {
        #![proptest_config(repeatable::cases(256))]

        /// Not yet after the first time: an array that replaces an object keeps the nulls of its items (see above).
        #[test]
        fn applying_again_changes_nothing(target in any_json(), patch in any_json()) {
            let mut twice = target;
            apply(&mut twice, &patch);
            apply(&mut twice, &patch);
            let mut thrice = twice.clone();
            apply(&mut thrice, &patch);
            prop_assert_eq!(twice, thrice);
        }

        #[test]
        fn an_empty_patch_changes_no_object(target in any_json().prop_filter("object", Value::is_object)) {
            let mut result = target.clone();
            apply(&mut result, &json!({}));
            prop_assert_eq!(result, target);
        }
    }
}
