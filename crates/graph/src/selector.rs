//! Label selectors as text: what `kubectl -l`, the scale subresource and an HPA understand.

use serde_json::Value;

/// `{matchLabels: {a: b}, matchExpressions: [{key, operator, values}]}` as `a=b,c in (d,e)`: labels first, each part
/// sorted.
pub(crate) fn to_text(selector: &Value) -> Result<String, String> {
    let mut parts = Vec::new();
    for (key, value) in selector.get("matchLabels").and_then(Value::as_object).into_iter().flatten() {
        let value = value.as_str().ok_or("matchLabels has a value that is not a string")?;
        parts.push(format!("{key}={value}"));
    }
    let expressions = selector.get("matchExpressions").and_then(Value::as_array);
    let mut rest = Vec::new();
    for expression in expressions.into_iter().flatten() {
        let key = expression.get("key").and_then(Value::as_str).ok_or("matchExpressions has no key")?;
        let operator = expression.get("operator").and_then(Value::as_str).unwrap_or_default();
        let values = expression.get("values").and_then(Value::as_array);
        let mut values: Vec<&str> = values.into_iter().flatten().filter_map(Value::as_str).collect();
        values.sort_unstable();
        rest.push(match operator {
            "In" => format!("{key} in ({})", values.join(",")),
            "NotIn" => format!("{key} notin ({})", values.join(",")),
            "Exists" => key.to_owned(),
            "DoesNotExist" => format!("!{key}"),
            other => return Err(format!("matchExpressions has the operator '{other}'")),
        });
    }
    parts.sort();
    rest.sort();
    parts.extend(rest);
    Ok(parts.join(","))
}

/// Whether `labels` are what `selector` (an object) asks for. A selector that says nothing matches all.
pub(crate) fn matches(selector: &Value, labels: Option<&Value>) -> bool {
    let label = |key: &str| labels.and_then(|labels| labels.get(key)).and_then(Value::as_str);
    let mut wanted = selector.get("matchLabels").and_then(Value::as_object).into_iter().flatten();
    let mut expressions = selector.get("matchExpressions").and_then(Value::as_array).into_iter().flatten();
    wanted.all(|(key, value)| label(key).is_some() && label(key) == value.as_str())
        && expressions.all(|expression| {
            let found = expression.get("key").and_then(Value::as_str).and_then(label);
            let values = expression.get("values").and_then(Value::as_array);
            let is_listed =
                || values.is_some_and(|values| values.iter().any(|value| value.as_str() == found));
            match expression.get("operator").and_then(Value::as_str) {
                Some("In") => found.is_some() && is_listed(),
                Some("NotIn") => found.is_none() || !is_listed(),
                Some("Exists") => found.is_some(),
                Some("DoesNotExist") => found.is_none(),
                _ => false,
            }
        })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_selector_as_text() {
        let selector = json!({
            "matchLabels": { "b": "2", "a": "1" },
            "matchExpressions": [
                { "key": "t", "operator": "In", "values": ["y", "x"] },
                { "key": "q", "operator": "DoesNotExist" },
                { "key": "p", "operator": "Exists" },
                { "key": "n", "operator": "NotIn", "values": ["z"] },
            ],
        });
        assert_eq!(to_text(&selector).unwrap(), "a=1,b=2,!q,n notin (z),p,t in (x,y)");
        assert_eq!(to_text(&json!({})).unwrap(), "");
        assert!(to_text(&json!({ "matchExpressions": [{ "key": "a", "operator": "Near" }] })).is_err());
    }

    #[test]
    fn what_a_selector_matches() {
        let selector = json!({
            "matchLabels": { "a": "1" },
            "matchExpressions": [{ "key": "t", "operator": "NotIn", "values": ["x"] }],
        });
        for (labels, expected) in [
            (json!({ "a": "1" }), true),
            (json!({ "a": "1", "t": "y" }), true),
            (json!({ "a": "1", "t": "x" }), false),
            (json!({ "a": "2" }), false),
            (json!({}), false),
        ] {
            assert_eq!(matches(&selector, Some(&labels)), expected, "{labels}");
        }
        assert!(matches(&json!({}), None));
        assert!(!matches(&selector, None));
    }
}
