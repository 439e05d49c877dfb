//! All policies by name: JSON in, decision out.
//!
//! To add one, implement [`PolicyInput`] for its input and add a row to the table.

use std::fmt;

use schemars::{JsonSchema, Schema};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

use crate::{
    Decision, Rule, demand, hpa, hvpa,
    input::{InputError, parse},
    recommender, rollout, vertex,
};

/// A policy's whole input.
pub trait PolicyInput: DeserializeOwned + JsonSchema {
    const NAME: &'static str;

    /// # Errors
    /// If the input contradicts itself.
    fn outcome(self) -> Result<Outcome, InputError>;
}

/// A decision in both its forms.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    pub json: Value,
    /// The chain in words, one line a step.
    pub explanation: String,
}

struct Entry {
    name: &'static str,
    schema: fn() -> Schema,
    decide: fn(&str) -> Result<Outcome, InputError>,
}

const POLICIES: &[Entry] = &[
    entry::<hpa::Input>(),
    entry::<demand::Input>(),
    entry::<vertex::Input>(),
    entry::<hvpa::Input>(),
    entry::<recommender::Input>(),
    entry::<rollout::Input>(),
];

const fn entry<I: PolicyInput>() -> Entry {
    Entry { name: I::NAME, schema: || schemars::schema_for!(I), decide: |json| parse::<I>(json)?.outcome() }
}

pub fn names() -> impl Iterator<Item = &'static str> {
    POLICIES.iter().map(|policy| policy.name)
}

/// The JSON Schema of a policy's input.
///
/// # Errors
/// If there is no policy of that name.
pub fn schema(name: &str) -> Result<Schema, InputError> {
    Ok((find(name)?.schema)())
}

/// Decides on one JSON document.
///
/// # Errors
/// If there is no policy of that name, or the input cannot be decided on.
pub fn decide(name: &str, json: &str) -> Result<Outcome, InputError> {
    (find(name)?.decide)(json)
}

fn find(name: &str) -> Result<&'static Entry, InputError> {
    POLICIES.iter().find(|policy| policy.name == name).ok_or_else(|| {
        let known: Vec<_> = names().collect();
        InputError::new("", format!("there is no policy {name:?}; expected one of {}", known.join(", ")))
    })
}

impl Outcome {
    /// # Errors
    /// If the value has no JSON form, which no decision of ours lacks.
    pub fn new(value: &impl Serialize, explanation: impl fmt::Display) -> Result<Self, InputError> {
        let json = serde_json::to_value(value).map_err(|error| InputError::new("", error.to_string()))?;
        Ok(Outcome { json, explanation: explanation.to_string() })
    }

    /// # Errors
    /// As [`Outcome::new`].
    pub fn of<M, R>(decision: &Decision<M, R>) -> Result<Self, InputError>
    where
        M: Serialize,
        R: Rule + Serialize,
        R::Value: Serialize,
    {
        Outcome::new(decision, decision.explain())
    }
}

impl PolicyInput for hpa::Input {
    const NAME: &'static str = "hpa";

    fn outcome(self) -> Result<Outcome, InputError> {
        Outcome::of(&self.decide()?)
    }
}

impl PolicyInput for demand::Input {
    const NAME: &'static str = "demand";

    fn outcome(self) -> Result<Outcome, InputError> {
        Outcome::of(&self.decide()?)
    }
}

impl PolicyInput for vertex::Input {
    const NAME: &'static str = "vertex";

    fn outcome(self) -> Result<Outcome, InputError> {
        Outcome::of(&self.decide()?)
    }
}

impl PolicyInput for hvpa::Input {
    const NAME: &'static str = "hvpa";

    fn outcome(self) -> Result<Outcome, InputError> {
        Outcome::of(&self.decide()?)
    }
}

impl PolicyInput for recommender::Input {
    const NAME: &'static str = "recommender";

    fn outcome(self) -> Result<Outcome, InputError> {
        let recommendation = self.recommend()?;
        Outcome::new(&recommendation, recommendation.explain())
    }
}

impl PolicyInput for rollout::Input {
    const NAME: &'static str = "rollout";

    fn outcome(self) -> Result<Outcome, InputError> {
        Outcome::of(&self.plan()?)
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_decision_by_name_in_both_forms() {
        let input = json!({
            "now": "2026-03-01T12:00:00Z",
            "vertex": { "name": "in", "kind": "Source", "scale": { "targetProcessingSeconds": 3 } },
            "observed": { "replicas": 2, "partitions": [{ "pending": 60000, "rate": 10000 }] },
        });
        let outcome = decide("vertex", &input.to_string()).unwrap();
        assert_eq!(outcome.json["desired"], 4);
        expect![[r#"
            2 -> 4  TooSlow: partition 0 asks for 4
              partition  2 -> 4  partition 0: 60000 pending, 10000/s with 2 ready, to be done in 3 s: wants 4
              highest    2 -> 4  partition 0 asks for 4
              bounds     4 -> 4  between 0 and 50
              step       4 -> 4  in one step"#]]
        .assert_eq(&outcome.explanation);
    }

    #[test]
    fn what_cannot_be_decided_on_is_refused() {
        let errors: Vec<String> = [
            ("weather", "{}"),
            ("hpa", ""),
            ("hpa", "{}"),
            ("hpa", "[]"),
            ("demand", r#"{"now":"2026-03-01T12:00:00Z","function":{"schedule":{"TimeZoneID":"Mars"}},"observed":{"replicas":1}}"#),
            ("demand", r#"{"now":"2026-03-01T12:00:00Z","function":{"schedule":{"Default":{"WakeUp":["25:00"]}}},"observed":{"replicas":1}}"#),
            ("demand", r#"{"now":"2026-03-01T12:00:00Z","function":{},"observed":{"replicas":1,"triggers":[{"value":1}]}}"#),
            ("vertex", r#"{"now":"2026-03-01T12:00:00Z","vertex":{"kind":"Source"},"observed":{"replicas":1}} {}"#),
            ("vertex", r#"{"now":"2026-03-01T12:00:00Z","vertex":{"kind":"Source","scale":{"min":5,"max":2}},"observed":{"replicas":1}}"#),
            ("vertex", r#"{"now":"2026-03-01T12:00:00Z","vertex":{"kind":"Sink","scale":{"cron":{"schedules":[]}}},"observed":{"replicas":1}}"#),
            ("vertex", r#"{"now":"2026-03-01T12:00:00Z","vertex":{"kind":"Source","scale":{"cron":{"schedules":[{"start":"0 8 * * *","end":"","min":1,"max":2}]}}},"observed":{"replicas":1}}"#),
        ]
        .iter()
        .map(|(policy, json)| decide(policy, json).unwrap_err().to_string())
        .collect();
        expect![[r#"
            there is no policy "weather"; expected one of hpa, demand, vertex, hvpa, recommender, rollout
            EOF while parsing a value at line 1 column 0
            missing field `now` at line 1 column 2
            invalid length 0, expected struct Input with 5 elements at line 1 column 2
            function.schedule.TimeZoneID: expected an IANA time zone such as Europe/Paris, found "Mars" at line 1 column 74
            function.schedule.Default.WakeUp[0]: expected a time of day such as 08:30, found "25:00" at line 1 column 83
            observed.triggers: expected at most 0 readings, one for each of function.scale.Triggers
            trailing characters at line 1 column 85
            vertex.scale.max: expected a number from 5 to 2147483647, found 2
            vertex.scale.cron: only sources and MonoVertices can have cron windows
            vertex.scale.cron.schedules[0].start: expected six fields (second minute hour day month weekday), found 5 in "0 8 * * *" at line 1 column 106"#]].assert_eq(&errors.join("\n"));
    }

    /// Every object in every schema is closed, so that a misspelt field is found before it is sent.
    #[test]
    fn schemas_are_closed() {
        fn check(at: &str, value: &Value) {
            match value {
                Value::Object(fields) => {
                    if fields.contains_key("properties") {
                        assert_eq!(fields.get("additionalProperties"), Some(&json!(false)), "{at}");
                    }
                    fields.iter().for_each(|(key, value)| check(&format!("{at}/{key}"), value));
                }
                Value::Array(items) => items.iter().for_each(|value| check(at, value)),
                _ => {}
            }
        }
        for name in names() {
            check(name, schema(name).unwrap().as_value());
        }
    }
}
