use expect_test::expect;
use schema::Schema;
use serde_json::{Value, json};

use crate::{golang::Expr, module, read, types, variable, yaml};

struct Case {
    name: String,
    original: Value,
    patch: Value,
    /// Or a part of the error.
    expected: Result<Value, String>,
}

#[test]
fn patches_apply_as_they_do_there() {
    let folder = module("k8s.io/apimachinery@v0.36.3").join("pkg/util/strategicpatch");
    let source = read(folder.join("patch_test.go"));
    let document = serde_json::from_str(&read(folder.join("testdata/swagger-merge-item-v3.json"))).unwrap();
    let schema = types::openapi(&document, "mergeItem", 5);

    let mut report = String::new();
    let mut failures = Vec::new();
    for (table, cases) in [
        (
            "customStrategicMergePatchTestCaseData",
            yaml_cases(&source, "customStrategicMergePatchTestCaseData"),
        ),
        (
            "customStrategicMergePatchRawTestCases",
            raw_cases(&source, "customStrategicMergePatchRawTestCases"),
        ),
        (
            "createStrategicMergePatchTestCaseData",
            yaml_cases(&source, "createStrategicMergePatchTestCaseData"),
        ),
        ("strategicMergePatchRawTestCases", raw_cases(&source, "strategicMergePatchRawTestCases")),
        ("replaceRawExtensionPatchTestCases", raw_cases(&source, "replaceRawExtensionPatchTestCases")),
    ] {
        let in_order = table.contains("Raw");
        let passed = cases.iter().filter(|case| match check(case, &schema, in_order) {
            Ok(()) => true,
            Err(e) => {
                failures.push(format!("{table}: {}: {e}", case.name));
                false
            }
        });
        report += &format!("{table}: {} of {}\n", passed.count(), cases.len());
    }
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
    // Not run: sortMergeListTestCaseData, TestNumberConversion and TestUnknownField are about making patches.
    expect![[r#"
        customStrategicMergePatchTestCaseData: 18 of 18
        customStrategicMergePatchRawTestCases: 10 of 10
        createStrategicMergePatchTestCaseData: 44 of 44
        strategicMergePatchRawTestCases: 188 of 188
        replaceRawExtensionPatchTestCases: 4 of 4
    "#]]
    .assert_eq(&report);
}

fn check(case: &Case, schema: &Schema, in_order: bool) -> Result<(), String> {
    let result = merge::strategic::apply(&case.original, &case.patch, schema).map_err(|e| e.to_string());
    let normal = |value: &Value| if in_order { value.clone() } else { sorted(value.clone(), "") };
    match (&result, &case.expected) {
        (Ok(found), Ok(expected)) if normal(found) == normal(expected) => Ok(()),
        (Err(found), Err(expected)) if found.contains(expected) => Ok(()),
        _ => Err(format!(
            "{} + {}\nexpected {:?}\nfound    {result:?}",
            case.original, case.patch, case.expected
        )),
    }
}

/// A table in one YAML string. Their lists are compared after sorting.
fn yaml_cases(source: &str, name: &str) -> Vec<Case> {
    let table = yaml(variable(source, name).text().expect("YAML"));
    let mut cases = Vec::new();
    for case in table["testCases"].as_array().expect("cases") {
        let get = |field: &str| case.get(field).filter(|v| !v.is_null()).cloned();
        cases.extend(both_ways(case["description"].as_str().expect("text"), get, None));
    }
    cases
}

/// A table of Go values with YAML in them.
fn raw_cases(source: &str, name: &str) -> Vec<Case> {
    let mut cases = Vec::new();
    for (_, case) in variable(source, name).elements() {
        let data = case.field("StrategicMergePatchRawTestCaseData").expect("data");
        let get = |field: &str| {
            let go_name = field[..1].to_uppercase() + &field[1..];
            data.field(&go_name).and_then(Expr::text).map(yaml).filter(|v| !v.is_null())
        };
        let error = data.field("ExpectedError").and_then(Expr::text).map(str::to_owned);
        cases.extend(both_ways(case.field("Description").and_then(Expr::text).expect("text"), get, error));
    }
    cases
}

/// One patch goes from the original to the modified object, the other from the current object to the result.
fn both_ways(name: &str, get: impl Fn(&str) -> Option<Value>, error: Option<String>) -> Vec<Case> {
    let object = |field: &str| get(field).unwrap_or_else(|| json!({}));
    let outcome = |value: Option<Value>| match &error {
        Some(error) => Err(error.clone()),
        None => Ok(value.unwrap_or_else(|| json!({}))),
    };
    let mut cases = vec![Case {
        name: format!("{name}/TwoWay"),
        original: object("original"),
        patch: object("twoWay"),
        expected: outcome(get("twoWayResult").or_else(|| get("modified"))),
    }];
    if let Some(patch) = get("threeWay") {
        cases.push(Case {
            name: format!("{name}/ThreeWay"),
            original: object("current"),
            patch,
            expected: outcome(get("result")),
        });
    }
    cases
}

fn sorted(value: Value, field: &str) -> Value {
    match value {
        Value::Object(map) => map
            .into_iter()
            .map(|(name, v)| (name.clone(), sorted(v, &name)))
            .collect::<serde_json::Map<_, _>>()
            .into(),
        Value::Array(items) => {
            let mut items: Vec<_> = items.into_iter().map(|item| sorted(item, "")).collect();
            if ["mergingList", "mergingIntList", "mergeItemPtr", "retainKeysMergingList"].contains(&field) {
                items.sort_by_key(|item| item.get("name").unwrap_or(item).to_string());
            }
            Value::Array(items)
        }
        scalar => scalar,
    }
}
