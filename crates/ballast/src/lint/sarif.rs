//! Findings in the Static Analysis Results Interchange Format 2.1.0.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::Finding;

/// What each rule is about.
const RULES: [(&str, &str); 11] = [
    ("annotation", "An annotation that cannot be used"),
    ("api", "An API server would refuse it"),
    ("average-of-quantile", "A quantile is divided by the number of pods"),
    ("bounds", "The maximum is below the minimum"),
    ("dependency-cycle", "Functions that wait for each other"),
    ("graph", "A resource graph that cannot be compiled"),
    ("no-maximum", "Nothing bounds the number of replicas"),
    ("spec", "A spec that its controller cannot use"),
    ("two-writers", "Two that scale one object"),
    ("unknown-kind", "A kind that is not checked"),
    ("window", "A query looks back further than metrics are kept"),
];

pub fn log(findings: &[Finding]) -> Value {
    let rule = |(id, text): (&str, &str)| json!({"id": id, "shortDescription": {"text": text}});
    let mut rules: BTreeMap<&str, Value> = RULES.iter().map(|(id, text)| (*id, rule((id, text)))).collect();
    rules.insert("yaml", rule(("yaml", "A file that cannot be read")));
    let result = |finding: &Finding| {
        let object = if finding.object.is_empty() { String::new() } else { format!("{}: ", finding.object) };
        json!({
            "ruleId": finding.rule,
            "level": finding.severity.to_string(),
            "message": {"text": format!("{object}{}", finding.message)},
            "locations": [{"physicalLocation": {
                "artifactLocation": {"uri": finding.file},
                "region": {"startLine": finding.line.max(1), "startColumn": finding.column.max(1)},
            }}],
        })
    };
    json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": {"driver": {
                "name": "ballast lint",
                "version": env!("CARGO_PKG_VERSION"),
                "rules": rules.into_values().collect::<Vec<_>>(),
            }},
            "results": findings.iter().map(result).collect::<Vec<_>>(),
        }],
    })
}
