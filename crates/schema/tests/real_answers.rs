//! What kube-apiserver 1.36.3 answered, and what we would answer.
//!
//! `answers/create.jsonl` holds one dry-run create a line: what was sent, and the object, the causes or the error that
//! came back (without uid, times and managed fields). `answers/mutations.jsonl` holds the same for good objects of which
//! one field was set to something random. `answers/update.jsonl` holds one dry-run update a line: the stored
//! object, the one that was sent, and the causes. `answers/rules.jsonl` starts with a CRD full of rules, and goes on with
//! creates and updates of its objects.

#![allow(clippy::unwrap_used, reason = "tests may panic")]

use std::fmt::Write;

use schema::{FieldError, Kind, Part};
use serde_json::{Value, json};

fn kind_of(object: &Value) -> Kind {
    let api_version = object["apiVersion"].as_str().unwrap();
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    Kind::builtin(group, version, object["kind"].as_str().unwrap()).unwrap()
}

fn causes(errors: &[FieldError]) -> Vec<String> {
    let mut causes: Vec<String> =
        errors.iter().map(|e| format!("{} | {}: {}", e.kind.cause(), e.field, e.message())).collect();
    causes.sort();
    causes
}

/// What we make of a create.
fn answer(sent: &Value) -> Value {
    let kind = kind_of(sent);
    let mut object = sent.clone();
    if kind.scope() == schema::Scope::Namespaced {
        object["metadata"]["namespace"] = "default".into();
    }
    let unknown = match kind.decode(&mut object) {
        Ok(unknown) => unknown,
        Err(error) => return json!({ "error": error }),
    };
    kind.set_defaults(&mut object);
    kind.prepare_create(&mut object);
    let errors = kind.validate_create(&object);
    let mut answer = match errors.is_empty() {
        true => json!({ "object": object }),
        false => json!({ "causes": causes(&errors) }),
    };
    if !unknown.is_empty() {
        answer["unknown"] = json!(unknown);
    }
    answer
}

/// One line for each place where they differ.
fn differences(path: &str, real: &Value, ours: &Value, shown: &mut String) {
    match (real, ours) {
        (Value::Object(a), Value::Object(b)) => {
            for name in a.keys().chain(b.keys().filter(|name| !a.contains_key(*name))) {
                let missing = Value::String("<absent>".to_owned());
                let (a, b) = (a.get(name).unwrap_or(&missing), b.get(name).unwrap_or(&missing));
                differences(&format!("{path}.{name}"), a, b, shown);
            }
        }
        (Value::Array(a), Value::Array(b)) if path.ends_with("causes") => {
            for cause in a.iter().filter(|cause| !b.contains(cause)) {
                let _ = writeln!(shown, "  only the real one: {cause}");
            }
            for cause in b.iter().filter(|cause| !a.contains(cause)) {
                let _ = writeln!(shown, "  only ours:         {cause}");
            }
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            for (index, (a, b)) in a.iter().zip(b).enumerate() {
                differences(&format!("{path}[{index}]"), a, b, shown);
            }
        }
        (a, b) if a != b => {
            let _ = writeln!(shown, "  {path}: real {a}, ours {b}");
        }
        _ => {}
    }
}

/// Where we differ on purpose: a piece of the difference, and why.
const ON_PURPOSE: [(&str, &str); 7] = [
    (".object.spec.taints: real", "a new node is tainted until a controller lifts it; there is none here"),
    (
        "spec.updateStrategy.rollingUpdate: Invalid value: {",
        "internal structs of the real server, field by field",
    ),
    ("spec.ports[2]: Duplicate value: {", "likewise"),
    ("minAvailable and maxUnavailable cannot be both set", "likewise"),
    ("| spec.versions: Invalid value: [{", "likewise"),
    ("x-kubernetes-validations[0].rule: Invalid value: {", "likewise"),
    ("must be a valid regular expression, but isn't", "in the words of another regular expression engine"),
];

fn report(case: &Value, difference: &str, shown: &mut String) {
    let lines = difference.lines().filter(|line| !ON_PURPOSE.iter().any(|(piece, _)| line.contains(piece)));
    let unintended: String = lines.flat_map(|line| [line, "\n"]).collect();
    if !unintended.is_empty() {
        let _ = write!(shown, "{}\n{unintended}", case["name"].as_str().unwrap());
    }
}

#[test]
fn creates_are_answered_like_the_real_server() {
    let mut shown = String::new();
    let mut n_cases = 0;
    let lines = include_str!("answers/create.jsonl").lines();
    for line in lines.chain(include_str!("answers/mutations.jsonl").lines()) {
        let case: Value = serde_json::from_str(line).unwrap();
        let mut difference = String::new();
        differences("", &case["answer"], &answer(&case["sent"]), &mut difference);
        let lines =
            difference.lines().filter(|line| !ON_PURPOSE.iter().any(|(piece, _)| line.contains(piece)));
        let difference: String = lines.flat_map(|line| [line, "\n"]).collect();
        report(&case, &difference, &mut shown);
        n_cases += 1;
    }
    assert!(shown.is_empty(), "{shown}");
    assert!(n_cases > 200, "only {n_cases} cases were read");
}

#[test]
fn updates_are_answered_like_the_real_server() {
    let mut shown = String::new();
    for line in include_str!("answers/update.jsonl").lines() {
        let case: Value = serde_json::from_str(line).unwrap();
        let kind = kind_of(&case["old"]);
        let mut new = case["new"].clone();
        kind.decode(&mut new).unwrap();
        kind.set_defaults(&mut new);
        kind.prepare_update(&mut new, &case["old"], Part::Whole);
        let ours = json!({ "causes": causes(&kind.validate_update(&new, &case["old"], Part::Whole)) });
        let mut difference = String::new();
        differences("", &case["answer"], &ours, &mut difference);
        report(&case, &difference, &mut shown);
    }
    assert!(shown.is_empty(), "{shown}");
}

#[test]
fn rules_say_what_they_say_on_the_real_server() {
    let mut lines = include_str!("answers/rules.jsonl").lines();
    let crd: Value = serde_json::from_str(lines.next().unwrap()).unwrap();
    let kind = Kind::custom(&crd, "v1").unwrap();
    let mut shown = String::new();
    for line in lines {
        let case: Value = serde_json::from_str(line).unwrap();
        let errors = match case.get("old") {
            None => kind.validate_create(&case["new"]),
            Some(old) => kind.validate_update(&case["new"], old, Part::Whole),
        };
        let (real, ours) = (json!({ "causes": case["answer"] }), json!({ "causes": causes(&errors) }));
        let mut difference = String::new();
        differences("", &real, &ours, &mut difference);
        report(&case, &difference, &mut shown);
    }
    assert!(shown.is_empty(), "{shown}");
}

#[test]
fn an_object_read_again_is_the_same_object() {
    for line in include_str!("answers/create.jsonl").lines() {
        let case: Value = serde_json::from_str(line).unwrap();
        let Some(object) = case["answer"].get("object") else { continue };
        let kind = kind_of(object);
        let mut again = object.clone();
        assert_eq!(kind.decode(&mut again), Ok(vec![]), "{}", case["name"]);
        kind.set_defaults(&mut again);
        assert_eq!(&again, object, "{}", case["name"]);
        let mut stored = object.clone();
        stored["metadata"]["resourceVersion"] = "1".into();
        assert_eq!(kind.validate_update(&stored, &stored, Part::Whole), [], "{}", case["name"]);
    }
}
