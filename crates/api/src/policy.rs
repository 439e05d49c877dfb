//! A policy by name on JSON, with what stands in it read as the controllers read it.

use decide::{
    demand,
    input::{InputError, parse},
    policy::{self, Outcome, PolicyInput},
};

use crate::slimfaas::triggers;

/// # Errors
/// If there is no policy of that name, or the input cannot be decided on.
pub fn decide(name: &str, json: &str) -> Result<Outcome, InputError> {
    if name != demand::Input::NAME {
        return policy::decide(name, json);
    }
    let mut input: demand::Input = parse(json)?;
    triggers::read_queries(&mut input);
    policy::decide_on(input)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn desired(query: &str, reading: serde_json::Value) -> (i64, String) {
        let input = json!({
            "now": "2026-03-01T12:00:00Z",
            "function": { "name": "f", "scale": { "Triggers": [
                { "MetricName": "m", "Query": query, "Threshold": 0.5 }] } },
            "observed": { "replicas": 10, "activeCalls": 1, "triggers": [reading] },
        });
        let outcome = decide("demand", &input.to_string()).unwrap();
        (outcome.json["desired"].as_i64().unwrap(), outcome.explanation)
    }

    /// Ten pods at 0.6 s against 0.5 s have to become twelve; a total of 6 against 0.5 a pod makes twelve too.
    #[test]
    fn the_query_says_what_its_figure_stands_for() {
        let p95 = "histogram_quantile(0.95, sum by (le) (rate(latency_bucket{app=\"${app}\"}[1m])))";
        for (query, reading, expected) in [
            (p95, json!({ "value": 0.6 }), 12),
            ("avg(latency)", json!({ "value": 0.6 }), 12),
            ("sum(latency)", json!({ "value": 6 }), 12),
            // What the input says goes before what the text says.
            ("sum(latency)", json!({ "value": 0.6, "per": "Pod" }), 12),
            ("", json!({ "value": 6 }), 12),
            // A query that is none has no value.
            ("avg(latency", json!({ "value": 0.6 }), 10),
        ] {
            let (desired, explanation) = desired(query, reading);
            assert_eq!(desired, expected, "{query}\n{explanation}");
        }
    }
}
