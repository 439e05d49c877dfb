//! Words for tests: objects from JSON, a fixed clock, plans as text.

use jiff::{SignedDuration, Timestamp};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::effect::Plan;

/// Seconds after the tests' epoch.
pub fn at(seconds: i64) -> Timestamp {
    let epoch: Timestamp = "2026-01-01T00:00:00Z".parse().expect("test data");
    epoch.checked_add(SignedDuration::from_secs(seconds)).expect("test data")
}

pub fn seconds(n: i64) -> String {
    at(n).to_string()
}

pub fn from_json<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).expect("test data")
}

/// A JSON merge patch: field by field, null takes a field away.
pub fn merge(into: &mut Value, from: Value) {
    let Value::Object(from) = from else {
        *into = from;
        return;
    };
    if !into.is_object() {
        *into = Value::Object(Default::default());
    }
    for (key, value) in from {
        if value.is_null() {
            into.as_object_mut().expect("test data").remove(&key);
        } else {
            merge(&mut into[key], value);
        }
    }
}

/// The whole plan, one line an effect.
pub fn lines(plan: &Plan) -> String {
    let mut text: String = plan.effects.iter().map(|effect| format!("{effect}\n")).collect();
    if let Some(next) = plan.next {
        text += &format!("look again after {}s\n", next.duration_since(at(0)).as_secs());
    }
    text
}
