//! `ballast lint` as a person or a pipeline runs it.

#![allow(clippy::unwrap_used, reason = "a test, though its helpers are not marked as such")]

use std::{
    io::Write,
    path::Path,
    process::{Command, Output, Stdio},
};

use expect_test::expect;
use serde_json::Value;

fn lint(arguments: &[&str], input: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ballast"));
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    command.arg("lint").args(arguments).current_dir(root);
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

fn words(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

const BAD: &str = r#"apiVersion: apps/v1
kind: Deployment
metadata:
  name: fib
  annotations:
    SlimFaas/DependsOn: "db"
    SlimFaas/ReplicasMin: "3"
    SlimFaas/Scale: |
      {"ReplicaMax": 2, "Triggers": [
        {"MetricName": "slow", "Query": "histogram_quantile(0.9, sum by (le) (rate(seconds_bucket[45m])))", "Threshold": 1},
        {"MetricName": "broken", "Query": "sum(", "Threshold": 1}]}
spec:
  replicas: 1
  selector: {matchLabels: {app: fib}}
  template:
    metadata: {labels: {app: other}}
    spec:
      containers:
        - name: app
          image: none
          comand: [python3]
---
apiVersion: apps/v1
kind: StatefulSet
metadata:
  name: db
  annotations: {SlimFaas/Function: "true", SlimFaas/DependsOn: "fib"}
spec:
  serviceName: db
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}}
    spec: {containers: [{name: app, image: none}]}
---
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: fib}
spec:
  minReplicas: 5
  maxReplicas: 2
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: fib}
---
apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata: {name: web}
spec:
  schema:
    apiVersion: v1alpha1
    kind: Web
    spec: {size: "integr"}
  resources: []
---
apiVersion: example.com/v1
kind: Widget
metadata: {name: w}
"#;

#[test]
fn what_is_wrong_is_named_with_its_place() {
    let output = lint(&["-"], BAD);
    assert_eq!(output.status.code(), Some(1));
    expect![[r#"
        <stdin>:6:25: error: Deployment fib: metadata.annotations[SlimFaas/DependsOn]: fib and db depend on each other, so neither waits for the other: remove one direction [dependency-cycle]
        <stdin>:9:7: error: Deployment fib: metadata.annotations[SlimFaas/Scale]: Triggers[1].Query: cannot parse the query: 1:5: unexpected end of input, expected an expression [annotation]
        <stdin>:9:7: error: Deployment fib: metadata.annotations[SlimFaas/Scale]: ReplicaMax 2 is below ReplicasMin 3: it is never below the minimum [bounds]
        <stdin>:9:7: warning: Deployment fib: metadata.annotations[SlimFaas/Scale]: Triggers[0]: AverageValue divides by the number of pods, and a quantile does not grow with it; choose MetricType Value [average-of-quantile]
        <stdin>:9:7: warning: Deployment fib: metadata.annotations[SlimFaas/Scale]: Triggers[0]: the query looks back 45 minutes, and metrics are remembered for 30 [window]
        <stdin>:16:24: error: Deployment fib: spec.template.metadata.labels: Invalid value: {"app":"other"}: `selector` does not match template `labels` [api]
        <stdin>:21:19: error: Deployment fib: spec.template.spec.containers[0].comand: unknown field "spec.template.spec.containers[0].comand" [api]
        <stdin>:27:64: error: StatefulSet db: metadata.annotations[SlimFaas/DependsOn]: db and fib depend on each other, so neither waits for the other: remove one direction [dependency-cycle]
        <stdin>:40:16: error: HorizontalPodAutoscaler fib: spec.maxReplicas: Invalid value: 2: must be greater than or equal to `minReplicas` [api]
        <stdin>:41:19: error: HorizontalPodAutoscaler fib: spec.scaleTargetRef: Deployment default/fib is scaled by its SlimFaas/* annotations already: two writers of one count argue [two-writers]
        <stdin>:50:18: error: ResourceGraphDefinition web: spec.schema.spec.size: unknown type: integr [graph]
        <stdin>:54:7: warning: Widget w: kind: example.com/v1 Widget is no kind that is known here: it is not checked [unknown-kind]
        1 file: 9 errors, 3 warnings
    "#]].assert_eq(&words(&output));
}

#[test]
fn examples_are_without_errors() {
    let output = lint(
        &[
            "examples/hello.yaml",
            "examples/functions",
            "examples/on-demand",
            "examples/graphs",
            "examples/hvpa/mixed.yaml",
            "deploy",
        ],
        "",
    );
    assert!(output.status.success(), "{}", words(&output));
}

#[test]
fn for_tools() {
    let json: Value = serde_json::from_str(&words(&lint(&["-o", "json", "-"], BAD))).unwrap();
    assert!(
        json.as_array().is_some_and(|all| all.iter().all(|one| one["line"].as_u64() > Some(0))),
        "{json}"
    );
    let sarif: Value = serde_json::from_str(&words(&lint(&["-o", "sarif", "-"], BAD))).unwrap();
    let run = &sarif["runs"][0];
    let rules: Vec<&str> = run["tool"]["driver"]["rules"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|rule| rule["id"].as_str())
        .collect();
    let results = run["results"].as_array().unwrap();
    assert_eq!(results.len(), json.as_array().unwrap().len());
    for result in results {
        assert!(rules.contains(&result["ruleId"].as_str().unwrap()), "{result}");
    }
}

#[test]
fn what_cannot_be_read_is_said() {
    let output = lint(&["no/such/file.yaml"], "");
    assert!(!output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("failed to read no/such/file.yaml"));
    let output = lint(&["-"], "kind: [\n");
    assert_eq!(output.status.code(), Some(1));
    assert!(words(&output).starts_with("<stdin>:"), "{}", words(&output));
}
