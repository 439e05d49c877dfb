//! What differs between an object as it is and as it should be, when all of it is ours.
//!
//! The API fills in defaults, so "equal" means: all that is wanted is there, and what else is there is what the API
//! writes by itself. Anything more was put there by hand, and goes.

use decide::quantity::Quantity;
use serde_json::{Map, Value, json};

/// What an API server writes where nothing is written, by field name.
fn is_default(field: &str, value: &Value) -> bool {
    let default = match field {
        "terminationGracePeriodSeconds" => json!(30),
        "dnsPolicy" => json!("ClusterFirst"),
        "restartPolicy" => json!("Always"),
        "schedulerName" => json!("default-scheduler"),
        "terminationMessagePath" => json!("/dev/termination-log"),
        "terminationMessagePolicy" => json!("File"),
        "protocol" => json!("TCP"),
        "scheme" => json!("HTTP"),
        "apiVersion" => json!("v1"),
        "divisor" => json!("0"),
        "defaultMode" => json!(420),
        "successThreshold" | "timeoutSeconds" => json!(1),
        "failureThreshold" => json!(3),
        "periodSeconds" => json!(10),
        "revisionHistoryLimit" => json!(10),
        "progressDeadlineSeconds" => json!(600),
        "strategy" => json!({
            "type": "RollingUpdate",
            "rollingUpdate": { "maxSurge": "25%", "maxUnavailable": "25%" },
        }),
        _ => return is_nothing(value),
    };
    *value == default
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

/// The merge patch that makes `found` into `wanted`; nothing if it is so already.
pub(super) fn mend(found: &Value, wanted: &Value) -> Option<Value> {
    mend_field("", found, wanted)
}

/// The same for the fields that `wanted` has; others are left alone.
pub(super) fn mend_only(found: &Value, wanted: &Map<String, Value>) -> Option<Value> {
    let patch: Map<String, Value> = wanted
        .iter()
        .filter_map(|(field, wanted)| Some((field.clone(), mend_field(field, &found[field], wanted)?)))
        .collect();
    (!patch.is_empty()).then_some(Value::Object(patch))
}

fn mend_field(field: &str, found: &Value, wanted: &Value) -> Option<Value> {
    match (found, wanted) {
        (Value::Object(there), Value::Object(fields)) => {
            let mut patch = Map::new();
            for (name, wanted) in fields {
                let found = there.get(name).unwrap_or(&Value::Null);
                if let Some(change) = mend_field(quantity_map(field, name), found, wanted) {
                    patch.insert(name.clone(), change);
                }
            }
            for (name, extra) in there {
                if !fields.contains_key(name) && !is_default(name, extra) {
                    patch.insert(name.clone(), Value::Null);
                }
            }
            (!patch.is_empty()).then_some(Value::Object(patch))
        }
        // Lists are replaced whole.
        (Value::Array(there), Value::Array(items)) => {
            let equal = there.len() == items.len()
                && there.iter().zip(items).all(|(found, wanted)| mend_field(field, found, wanted).is_none());
            (!equal).then(|| wanted.clone())
        }
        (found, wanted) if found == wanted || (is_nothing(found) && is_nothing(wanted)) => None,
        // `1024Mi` comes back as `1Gi`
        (Value::String(a), Value::String(b)) if field == AMOUNT && is_same_amount(a, b) => None,
        _ => Some(wanted.clone()),
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

#[cfg(test)]
mod tests {
    use super::*;

    fn check(found: Value, wanted: Value, patch: Option<Value>) {
        assert_eq!(mend(&found, &wanted), patch, "{found} should become {wanted}");
    }

    #[test]
    fn defaults_are_no_difference_and_additions_are() {
        let wanted = json!({"template": {"spec": {"containers": [{"name": "a", "resources": {"limits": {"memory": "1024Mi"}}}]}}});
        let mut found = json!({"progressDeadlineSeconds": 600, "template": {"spec": {
            "dnsPolicy": "ClusterFirst", "securityContext": {},
            "containers": [{"name": "a", "terminationMessagePolicy": "File", "resources": {"limits": {"memory": "1Gi"}}}],
        }}});
        check(found.clone(), wanted.clone(), None);
        found["template"]["spec"]["nodeSelector"] = json!({"disk": "fast"});
        found["progressDeadlineSeconds"] = json!(7);
        check(
            found.clone(),
            wanted.clone(),
            Some(json!({"progressDeadlineSeconds": null, "template": {"spec": {"nodeSelector": null}}})),
        );
        found["template"]["spec"]["containers"][0]["resources"]["limits"]["memory"] = json!("2Gi");
        let mended = mend(&found, &wanted).unwrap();
        assert_eq!(mended["template"]["spec"]["containers"], wanted["template"]["spec"]["containers"]);
    }

    #[test]
    fn text_that_looks_like_an_amount_is_text() {
        let env = |value: &str| json!({"env": [{"name": "N", "value": value}]});
        check(env("1"), env("1000m"), Some(env("1000m")));
        check(json!({"env": [{"name": "N"}]}), env(""), None);
        check(json!({"requests": {"cpu": "1"}}), json!({"requests": {"cpu": "1000m"}}), None);
    }

    #[test]
    fn only_what_is_named() {
        let wanted = json!({"ports": [{"port": 80}]});
        let found = json!({"ports": [{"port": 80, "protocol": "TCP"}], "clusterIP": "10.0.0.1"});
        assert_eq!(mend_only(&found, wanted.as_object().unwrap()), None);
        let found = json!({"ports": [{"port": 81, "protocol": "TCP"}], "clusterIP": "10.0.0.1"});
        assert_eq!(mend_only(&found, wanted.as_object().unwrap()), Some(wanted.clone()));
    }
}
