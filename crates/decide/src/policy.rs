//! All policies by name: JSON in, decision out.
//!
//! To add one, implement [`PolicyInput`] for its input and add a row to the table.

mod schema;
mod words;

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
    /// An input that can be decided on.
    const EXAMPLE: &'static str;
    /// A type with the schema of the answer.
    type Answer: JsonSchema;

    /// What the input is about, if it says so.
    fn object(&self) -> Option<&str> {
        None
    }

    /// # Errors
    /// If the input contradicts itself.
    fn outcome(self) -> Result<Outcome, InputError>;
}

/// A decision in both its forms.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    pub json: Value,
    /// The name of what was decided on, if the input has one.
    pub object: Option<String>,
    /// The chain in words, one line a step.
    pub explanation: String,
}

struct Entry {
    name: &'static str,
    schema: fn() -> Schema,
    answer: fn() -> Schema,
    example: &'static str,
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
    Entry {
        name: I::NAME,
        schema: || schema::complete(schemars::schema_for!(I), I::EXAMPLE),
        answer: || schema::answer(schemars::schema_for!(I::Answer)),
        example: I::EXAMPLE,
        decide: |json| decide_on(parse::<I>(json)?),
    }
}

/// Decides on an input that was read already.
///
/// # Errors
/// If the input contradicts itself.
pub fn decide_on<I: PolicyInput>(input: I) -> Result<Outcome, InputError> {
    let object = input.object().map(str::to_owned).filter(|name| !name.is_empty());
    Ok(Outcome { object, ..input.outcome()? })
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

/// The JSON Schema of a policy's answer.
///
/// # Errors
/// If there is no policy of that name.
pub fn answer_schema(name: &str) -> Result<Schema, InputError> {
    Ok((find(name)?.answer)())
}

/// An input that the policy decides on.
///
/// # Errors
/// If there is no policy of that name.
pub fn example(name: &str) -> Result<&'static str, InputError> {
    Ok(find(name)?.example)
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
        Ok(Outcome { json, object: None, explanation: explanation.to_string() })
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
    const EXAMPLE: &'static str = include_str!("policy/examples/hpa.json");
    type Answer = schema::Answer<i32, hpa::Memory>;

    fn object(&self) -> Option<&str> {
        self.spec.scale_target_ref.as_ref().map(|target| target.name.as_str())
    }

    fn outcome(self) -> Result<Outcome, InputError> {
        Outcome::of(&self.decide()?)
    }
}

impl PolicyInput for demand::Input {
    const NAME: &'static str = "demand";
    const EXAMPLE: &'static str = include_str!("policy/examples/demand.json");
    type Answer = schema::Answer<i32, demand::Memory>;

    fn object(&self) -> Option<&str> {
        Some(&self.function.name)
    }

    fn outcome(self) -> Result<Outcome, InputError> {
        Outcome::of(&self.decide()?)
    }
}

impl PolicyInput for vertex::Input {
    const NAME: &'static str = "vertex";
    const EXAMPLE: &'static str = include_str!("policy/examples/vertex.json");
    type Answer = schema::Answer<i32, vertex::Memory>;

    fn object(&self) -> Option<&str> {
        Some(&self.vertex.name)
    }

    fn outcome(self) -> Result<Outcome, InputError> {
        Outcome::of(&self.decide()?)
    }
}

impl PolicyInput for hvpa::Input {
    const NAME: &'static str = "hvpa";
    const EXAMPLE: &'static str = include_str!("policy/examples/hvpa.json");
    type Answer = schema::Answer<schema::Sizes, hvpa::Memory>;

    fn outcome(self) -> Result<Outcome, InputError> {
        Outcome::of(&self.decide()?)
    }
}

impl PolicyInput for recommender::Input {
    const NAME: &'static str = "recommender";
    const EXAMPLE: &'static str = include_str!("policy/examples/recommender.json");
    type Answer = schema::Recommendation;

    fn outcome(self) -> Result<Outcome, InputError> {
        let recommendation = self.recommend()?;
        Outcome::new(&recommendation, recommendation.explain())
    }
}

impl PolicyInput for rollout::Input {
    const NAME: &'static str = "rollout";
    const EXAMPLE: &'static str = include_str!("policy/examples/rollout.json");
    type Answer = schema::Answer<schema::Actions, rollout::Memory>;

    fn object(&self) -> Option<&str> {
        Some(&self.spec.name)
    }

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
            the field now is missing at line 1 column 2
            expected an object, found a list of 0 at line 1 column 2
            function.schedule.TimeZoneID: expected an IANA time zone such as Europe/Paris, found "Mars" at line 1 column 74
            function.schedule.Default.WakeUp[0]: expected a time of day such as 08:30, found "25:00" at line 1 column 83
            observed.triggers: expected at most 0 readings, one for each of function.scale.Triggers
            trailing characters at line 1 column 85
            vertex.scale.max: expected a number from 5 to 2147483647, found 2
            vertex.scale.cron: only sources and MonoVertices can have cron windows
            vertex.scale.cron.schedules[0].start: expected six fields (second minute hour day month weekday), found 5 in "0 8 * * *" at line 1 column 106"#]].assert_eq(&errors.join("\n"));
    }

    /// What a schema says of a value, as far as our schemas go.
    fn fits(root: &Value, schema: &Value, value: &Value, at: &str) -> Result<(), String> {
        if let Some(name) = schema.get("$ref").and_then(Value::as_str) {
            let target = root.pointer(name.trim_start_matches('#')).ok_or(format!("{at}: no {name}"))?;
            fits(root, target, value, at)?;
        }
        for alternative in schema.get("allOf").and_then(Value::as_array).into_iter().flatten() {
            fits(root, alternative, value, at)?;
        }
        for choice in ["anyOf", "oneOf"] {
            if let Some(choices) = schema.get(choice).and_then(Value::as_array)
                && !choices.iter().any(|schema| fits(root, schema, value, at).is_ok())
            {
                return Err(format!("{at}: none of {choice} fits {value}"));
            }
        }
        let kinds: Vec<&str> = match schema.get("type") {
            Some(Value::String(kind)) => vec![kind],
            Some(Value::Array(kinds)) => kinds.iter().filter_map(Value::as_str).collect(),
            _ => Vec::new(),
        };
        let kind = match value {
            Value::Null => "null",
            Value::Bool(_) => "boolean",
            Value::Number(number) if number.is_f64() => "number",
            Value::Number(_) => "integer",
            Value::String(_) => "string",
            Value::Array(_) => "array",
            Value::Object(_) => "object",
        };
        let is_number = kind == "integer" && kinds.contains(&"number");
        let is_of_kind = kinds.is_empty() || kinds.contains(&kind) || is_number;
        if !is_of_kind {
            return Err(format!("{at}: {value} is none of {kinds:?}"));
        }
        if let (Some(properties), Some(fields)) =
            (schema.get("properties").and_then(Value::as_object), value.as_object())
        {
            for (name, value) in fields {
                let property = properties.get(name).ok_or(format!("{at}: no field {name}"))?;
                fits(root, property, value, &format!("{at}.{name}"))?;
            }
            for name in schema.get("required").and_then(Value::as_array).into_iter().flatten() {
                if !fields.contains_key(name.as_str().unwrap()) {
                    return Err(format!("{at}: {name} is missing"));
                }
            }
        }
        if let (Some(items), Some(values)) = (schema.get("items"), value.as_array()) {
            for (idx, value) in values.iter().enumerate() {
                fits(root, items, value, &format!("{at}[{idx}]"))?;
            }
        }
        Ok(())
    }

    #[test]
    fn examples_are_decided_on_and_answers_fit_their_schema() {
        for name in names() {
            let schema = schema(name).unwrap().to_value();
            let example = &schema["examples"][0];
            assert_eq!(fits(&schema, &schema, example, name), Ok(()));
            let outcome =
                decide(name, &example.to_string()).unwrap_or_else(|error| panic!("{name}: {error}"));
            let answers = answer_schema(name).unwrap().to_value();
            assert_eq!(fits(&answers, &answers, &outcome.json, name), Ok(()));
            // The checker itself can say no.
            assert!(fits(&answers, &answers, &json!({ "what": 1 }), name).is_err());
            // And what an answer remembers can be given back.
            let mut again = example.clone();
            again["memory"] = outcome.json["memory"].clone();
            decide(name, &again.to_string()).unwrap_or_else(|error| panic!("{name}: {error}"));
        }
    }

    #[test]
    fn every_field_is_described_bounded_and_has_its_default() {
        fn check(at: &str, value: &Value, missing: &mut Vec<String>) {
            if let Some(properties) = value.get("properties").and_then(Value::as_object) {
                let required = value.get("required").and_then(Value::as_array).cloned().unwrap_or_default();
                for (name, property) in properties {
                    let has = |key: &str| property.get(key).is_some();
                    if !has("description") {
                        missing.push(format!("{at}.{name}: a description"));
                    }
                    if !required.contains(&json!(name)) && !has("default") {
                        missing.push(format!("{at}.{name}: a default"));
                    }
                    if property["type"] == "integer" && !(has("minimum") && has("maximum")) {
                        missing.push(format!("{at}.{name}: bounds"));
                    }
                }
            }
            match value {
                Value::Object(fields) => {
                    fields.iter().for_each(|(key, value)| check(&format!("{at}/{key}"), value, missing));
                }
                Value::Array(items) => items.iter().for_each(|value| check(at, value, missing)),
                _ => {}
            }
        }
        let mut missing = Vec::new();
        for name in names() {
            let mut schema = schema(name).unwrap().to_value();
            schema.as_object_mut().unwrap().remove("examples");
            check(name, &schema, &mut missing);
            check(&format!("{name} answer"), answer_schema(name).unwrap().as_value(), &mut missing);
        }
        assert!(missing.is_empty(), "{}", missing.join("\n"));
    }

    #[test]
    fn messages_stay_short_and_speak_of_json() {
        let long = "x".repeat(100_000);
        let at = r#""now":"2026-03-01T12:00:00Z""#;
        let texts = [
            "[]".to_owned(),
            format!(r#"{{{at},"function":{{"scale":3}},"observed":{{"replicas":1}}}}"#),
            format!(r#"{{{at},"function":{{}},"observed":{{"replicas":"{long}"}}}}"#),
            format!(r#"{{{at},"function":{{}},"observed":{{"replicas":3000000000}}}}"#),
            format!(r#"{{{at},"function":{{}},"observed":{{"replicas":1.5}}}}"#),
            format!(r#"{{{at},"function":{{}},"observed":{{"{long}":1}}}}"#),
            format!(
                r#"{{{at},"function":{{"scale":{{"Triggers":[{{"MetricType":"{long}"}}]}}}},"observed":{{"replicas":1}}}}"#
            ),
            format!(
                r#"{{{at},"function":{{"schedule":{{"TimeZoneID":"{long}"}}}},"observed":{{"replicas":1}}}}"#
            ),
            format!(r#"{{{at},"function":{{"replicasMin":1,"replicasMin":2}},"observed":{{"replicas":1}}}}"#),
            format!(
                r#"{{{at},"function":{{"name":"f"}},"observed":{{"replicas":1}},"others":[{{"name":"f"}}]}}"#
            ),
            format!(
                r#"{{{at},"function":{{"scale":{{"Triggers":[{{"Threshold":1}}]}}}},"observed":{{"replicas":1,"triggers":[{{"value":1,"error":"no"}}]}}}}"#
            ),
            format!(r#"{{{at},"function":{{}},"observed":{{"replicas":true}}}}"#),
        ];
        let errors: Vec<String> =
            texts.iter().map(|text| decide("demand", text).unwrap_err().to_string()).collect();
        for error in &errors {
            assert!(error.chars().count() < 800, "{} characters", error.chars().count());
        }
        expect![[r#"
            expected an object, found a list of 0 at line 1 column 2
            function.scale: expected an object, found 3 at line 1 column 51
            observed.replicas: expected a whole number of at most 2147483647, found "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx…" at line 1 column 100069
            observed.replicas: expected a whole number of at most 2147483647, found 3000000000 at line 1 column 77
            observed.replicas: expected a whole number of at most 2147483647, found 1.5 at line 1 column 70
            observed.xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx…: unknown field "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"…, expected one of replicas, lastCall, activeCalls, schedulingFailure, autoscaler, triggers at line 1 column 100058
            function.scale.Triggers[0].MetricType: unknown value "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"…, expected AverageValue or Value at line 1 column 100079
            function.schedule.TimeZoneID: expected an IANA time zone such as Europe/Paris, found "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx… at line 1 column 100070
            function: the field replicasMin comes twice; give it once at line 1 column 71
            others[0].name: "f" comes twice; name each once
            observed.triggers[0]: expected one of value, noDemand and error, found several that contradict each other
            observed.replicas: expected a whole number of at most 2147483647, found true at line 1 column 71"#]].assert_eq(&errors.join("\n"));
        let map = r#"{"now":"2026-03-01T12:00:00Z","spec":{"maxReplicas":3},"observed":{"replicas":1,"pods":[{"name":"a","usage":{"cpu":1,"cpu":2}}]}}"#;
        let twice = r#"{"now":"2026-03-01T12:00:00Z","spec":{"maxReplicas":3},"observed":{"replicas":1,"pods":[{"name":"a"},{"name":"a"}]}}"#;
        let both = r#"{"now":"2026-03-01T12:00:00Z","spec":{"maxReplicas":3},"observed":{"replicas":1,"readings":[{"metric":"cpu","error":"x"},{"metric":"cpu"}]}}"#;
        let errors: Vec<String> =
            [map, twice, both].iter().map(|text| decide("hpa", text).unwrap_err().to_string()).collect();
        expect![[r#"
            observed.pods[0].usage: the key "cpu" comes twice; give it once at line 1 column 122
            observed.pods[1].name: "a" comes twice; name each once
            observed.readings[1].metric: there is a reading of "cpu" already; give one"#]]
        .assert_eq(&errors.join("\n"));
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
