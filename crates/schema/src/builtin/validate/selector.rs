//! Label selectors: their grammar, and whether one selects given labels.

use serde_json::Value;

use super::{Errors, invalid_each};
use crate::{FieldError, Path, json, meta, names};

pub(crate) fn validate(selector: &Value, path: &Path<'_>, errors: &mut Errors) {
    meta::labels(selector.get("matchLabels"), &path.child("matchLabels"), errors);
    let base = path.child("matchExpressions");
    for (index, expression) in json::list(selector, "matchExpressions").iter().enumerate() {
        let at = base.index(index);
        let values = json::list(expression, "values");
        match json::text(expression, "operator") {
            "In" | "NotIn" if values.is_empty() => {
                let detail = "must be specified when `operator` is 'In' or 'NotIn'";
                errors.push(FieldError::required(at.child("values"), detail));
            }
            "Exists" | "DoesNotExist" if !values.is_empty() => {
                let detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
                errors.push(FieldError::forbidden(at.child("values"), detail));
            }
            "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
            other => {
                errors.push(FieldError::invalid(
                    at.child("operator"),
                    other,
                    "not a valid selector operator",
                ));
            }
        }
        let key = json::text(expression, "key");
        invalid_each(names::qualified_name(key), key, &at.child("key"), errors);
        let values_path = at.child("values");
        for (index, value) in values.iter().filter_map(Value::as_str).enumerate() {
            invalid_each(names::label_value(value), value, &values_path.index(index), errors);
        }
    }
}

pub(crate) fn is_empty(selector: &Value) -> bool {
    json::object(selector, "matchLabels").is_none_or(|labels| labels.is_empty())
        && json::list(selector, "matchExpressions").is_empty()
}

/// Whether every expression can be understood; only then it makes sense to ask what it selects.
pub(crate) fn is_sound(selector: &Value) -> bool {
    let mut errors = Vec::new();
    validate(selector, &Path::ROOT, &mut errors);
    errors.is_empty()
}

pub(crate) fn matches(selector: &Value, labels: &Value) -> bool {
    let wanted = json::object(selector, "matchLabels").into_iter().flatten();
    let by_label = wanted.into_iter().all(|(key, value)| labels.get(key) == Some(value));
    by_label
        && json::list(selector, "matchExpressions").iter().all(|expression| {
            let found = labels.get(json::text(expression, "key"));
            let listed = found.is_some_and(|value| json::list(expression, "values").contains(value));
            match json::text(expression, "operator") {
                "In" => listed,
                "NotIn" => !listed,
                "Exists" => found.is_some(),
                "DoesNotExist" => found.is_none(),
                _ => false,
            }
        })
}
