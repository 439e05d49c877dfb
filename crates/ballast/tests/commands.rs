//! Exit codes and answers of the commands that need no server.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test, though its helpers are not marked as such")]

use std::{
    io::Write,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

use expect_test::expect;

fn ballast(arguments: &[&str], input: impl AsRef<[u8]>) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_ballast"))
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // a command may not read it
    let _ = child.stdin.take().unwrap().write_all(input.as_ref());
    child.wait_with_output().unwrap()
}

fn answer(arguments: &[&str], input: impl AsRef<[u8]>) -> String {
    let output = ballast(arguments, input);
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// The error, after a check that nothing else was said and that the exit code is that of bad input.
fn refusal(arguments: &[&str], input: impl AsRef<[u8]>) -> String {
    let output = ballast(arguments, input);
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(2), &b""[..]), "{output:?}");
    String::from_utf8(output.stderr).unwrap()
}

const VERTEX: &str = r#"{"now": "2026-01-05T12:00:00Z",
    "vertex": {"kind": "Source", "scale": {"max": 50, "targetProcessingSeconds": 3}},
    "observed": {"replicas": 2, "partitions": [{"rate": 10000, "pending": 60000}]}}"#;

#[test]
fn decide_answers_each_input() {
    expect![[r#"
        2 -> 4  TooSlow: partition 0 asks for 4
          partition  2 -> 4  partition 0: 60000 pending, 10000/s with 2 ready, to be done in 3 s: wants 4
          highest    2 -> 4  partition 0 asks for 4
          bounds     4 -> 4  between 0 and 50
          step       4 -> 4  in one step
    "#]]
    .assert_eq(&answer(&["decide", "vertex", "--explain"], VERTEX));
    let named = VERTEX.replace("\"kind\"", "\"name\": \"in\", \"kind\"");
    let twice = answer(&["decide", "vertex"], format!("{VERTEX}\n{named}"));
    let lines: Vec<serde_json::Value> =
        twice.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of = |field: &str| lines.iter().map(|line| line[field].clone()).collect::<Vec<_>>();
    assert_eq!(of("desired"), [4, 4]);
    assert_eq!(of("input"), [1, 2]);
    assert_eq!(of("object"), [serde_json::Value::Null, "in".into()]);
    let explained = answer(&["decide", "vertex", "--explain"], format!("{VERTEX}\n{named}"));
    assert!(
        explained.contains("input 1: 2 -> 4") && explained.contains("input 2 (in): 2 -> 4"),
        "{explained}"
    );
}

/// A source with 60000 pending gets 4 pods, and a buffer with 36000 of 50000 presses.
#[test]
fn the_decisions_of_the_page_about_vertices_are_what_is_answered() {
    let root = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    let page = std::fs::read_to_string(root.join("docs/vertices.md")).unwrap();
    let shown: Vec<&str> = page
        .split("$ ballast decide vertex --explain < ")
        .skip(1)
        .filter_map(|rest| rest.split("```").next())
        .collect();
    assert_eq!(shown.len(), 2);
    for shown in shown {
        let (file, expected) = shown.split_once('\n').unwrap();
        let input = std::fs::read(root.join(file)).unwrap();
        assert_eq!(answer(&["decide", "vertex", "--explain"], input), expected, "{file}");
    }
}

/// Half a batch would look like a whole one.
#[test]
fn a_batch_with_a_bad_input_answers_nothing_and_names_it() {
    let bad = VERTEX.replace("\"kind\"", "\"name\": \"in\", \"kind\"").replace("60000", "[]");
    expect![[r#"
        ballast: input 2 ("in"): observed.partitions[0].pending: expected a whole number, found a list at line 3 column 74
    "#]].assert_eq(&refusal(&["decide", "vertex"], format!("{VERTEX}\n{bad}\n{VERTEX}")));
    expect![[r#"
        ballast: the input is not UTF-8: byte 10 is not part of a character
    "#]]
    .assert_eq(&refusal(&["decide", "vertex"], b"{\"now\": \"\xff\"}"));
}

/// A query that gives a figure for each pod is read so, as the controller reads it: ten pods at 0.6 s against 0.5 s.
#[test]
fn decide_reads_queries() {
    let input = r#"{"now": "2026-03-01T12:00:00Z",
        "function": {"scale": {"Triggers": [{"Query": "histogram_quantile(0.95, sum by (le) (rate(x_bucket[1m])))", "Threshold": 0.5}]}},
        "observed": {"replicas": 10, "activeCalls": 1, "triggers": [{"value": 0.6}]}}"#;
    let answer: serde_json::Value = serde_json::from_str(&answer(&["decide", "demand"], input)).unwrap();
    assert_eq!(answer["desired"], 12);
}

#[test]
fn wrong_input_names_the_field() {
    let wrong = VERTEX.replace("\"replicas\": 2", "\"replicas\": \"two\"");
    expect![[r#"
        ballast: observed.replicas: expected a whole number of at most 2147483647, found "two" at line 3 column 34
    "#]]
    .assert_eq(&refusal(&["decide", "vertex"], &wrong));
    assert!(refusal(&["decide", "vertex"], "").contains("--schema"));
    assert!(refusal(&["decide", "vertex"], "{").contains("EOF"));
    assert!(refusal(&["promql", "eval", "sum("], "").contains("the query is wrong"));
    assert!(refusal(&["promql", "eval", "a", "--file", "-"], "a{b=} 1\n").contains("line 1"));
}

#[test]
fn what_the_gateway_is_told_is_checked_at_the_start() {
    expect![[r#"
        error: invalid value '10.0.0.0/8,10.0.0.0/99' for '--trusted-proxies <NETWORKS>': "10.0.0.0/99" is neither a network (10.0.0.0/8) nor an address (192.168.1.7)

        For more information, try '--help'.
    "#]]
    .assert_eq(&refusal(&["serve", "--trusted-proxies", "10.0.0.0/8,10.0.0.0/99"], ""));
    for (flag, wrong, hint) in [
        ("--cors-origins", "shop.example", "https://shop.example"),
        ("--cors-origins", "https://shop.example/", "is no origin"),
        ("--cors-origins", "", "expected *, none"),
        ("--held-calls", "0", "1..=10000000"),
        ("--held-calls-per-function", "many", "invalid digit"),
        ("--body-limit", "0", "1..="),
        ("--head-timeout", "-1", "unexpected argument"),
        ("--body-idle-timeout", "0", "1..=86400"),
    ] {
        for command in ["serve", "up"] {
            let said = refusal(&[command, flag, wrong], "");
            assert!(said.contains(hint), "{command} {flag} {wrong}: {said}");
        }
    }
    for command in ["serve", "up"] {
        let help = answer(&[command, "--help"], "");
        for flag in ["--trusted-proxies <NETWORKS>", "BALLAST_CORS_ORIGINS=", "[default: 20000]"] {
            assert!(help.contains(flag), "{command}: {help}");
        }
    }
}

#[test]
fn every_policy_has_a_schema() {
    for policy in ["hpa", "demand", "vertex", "hvpa", "recommender", "rollout"] {
        let schema: serde_json::Value =
            serde_json::from_str(&answer(&["decide", policy, "--schema"], "")).unwrap();
        assert_eq!(schema["type"], "object", "{policy}");
        let example = schema["examples"][0].to_string();
        let decided: serde_json::Value = serde_json::from_str(&answer(&["decide", policy], example)).unwrap();
        let answers: serde_json::Value =
            serde_json::from_str(&answer(&["decide", policy, "--schema", "answer"], "")).unwrap();
        for field in decided.as_object().unwrap().keys() {
            assert!(answers["properties"].get(field).is_some(), "{policy}: {field}");
        }
    }
}

#[test]
fn promql_evaluates_a_file() {
    let metrics =
        "calls{code=\"200\",pod=\"a\"} 5\ncalls{code=\"200\",pod=\"b\"} 7\ncalls{code=\"500\",pod=\"b\"} 1\n";
    expect![[r#"
        {code="200"} 12
        {code="500"} 1
        an autoscaler reads Value(13.0), a figure per Total
    "#]]
    .assert_eq(&answer(&["promql", "eval", "sum by (code) (calls)", "--file", "-"], metrics));
}

#[test]
fn every_scenario_runs() {
    let scenarios = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/scenarios");
    let files = std::fs::read_dir(scenarios).unwrap().map(|file| file.unwrap().path());
    let is_scenario = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "yaml");
    for path in files.filter(is_scenario) {
        let timeline = answer(&["simulate", path.to_str().unwrap()], "");
        assert!(timeline.contains("replica-hours"), "{}", path.display());
    }
}

#[test]
fn crds_are_manifests() {
    let text = answer(&["crds"], "");
    let names: Vec<String> = text
        .split("\n---\n")
        .map(|document| serde_saphyr::from_str::<serde_json::Value>(document).unwrap())
        .inspect(|crd| assert_eq!(crd["kind"], "CustomResourceDefinition"))
        .map(|crd| crd["metadata"]["name"].as_str().unwrap().to_owned())
        .collect();
    for name in ["functions.serverless.kyma-project.io", "resourcegraphdefinitions.kro.run"] {
        assert!(names.contains(&name.to_owned()), "{names:?}");
    }
}

#[test]
fn secrets_are_neither_empty_nor_shown() {
    let serve = |arguments: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_ballast"))
            .arg("serve")
            .args(arguments)
            .env("BALLAST_STORE", "nats://me:hunter2@nats:4222")
            .env_remove("KUBECONFIG")
            .output()
            .unwrap();
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
    };
    for (arguments, expected) in [
        (&["--operator-token", ""][..], "is empty"),
        (&["--operator-token", "  "], "is empty"),
        (&["--operator-token-file", "/dev/null"], "is empty"),
        (&["--operator-token-file", "/nowhere"], "failed to read the operator token from /nowhere"),
        (&["--operator-token", "a", "--operator-token-file", "b"], "cannot be used with"),
        (&["--help"], "--nats-credentials-file"),
    ] {
        let said = serve(arguments);
        assert!(said.contains(expected), "{arguments:?}: {said}");
        assert!(!said.contains("hunter2"), "{said}");
    }
}

#[test]
fn kubectl_finds_it_as_a_plugin() {
    let directory = tempfile::tempdir().unwrap();
    let plugin = directory.path().join("kubectl-ballast");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_ballast"), &plugin).unwrap();
    let help = |program: &Path| {
        let output = Command::new(program).args(["explain", "--help"]).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    assert!(help(&plugin).contains("Usage: kubectl ballast explain "), "{}", help(&plugin));
    assert!(help(Path::new(env!("CARGO_BIN_EXE_ballast"))).contains("Usage: ballast explain "));
}

#[test]
fn every_command_has_a_manual_page() {
    let directory = tempfile::tempdir().unwrap();
    let pages = directory.path().join("man1");
    answer(&["man", pages.to_str().unwrap()], "");
    let help = answer(&["--help"], "");
    let commands =
        help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    let commands: Vec<&str> = commands.filter_map(|line| line.split_whitespace().next()).collect();
    assert!(commands.contains(&"explain"), "{help}");
    for command in commands.into_iter().filter(|command| *command != "help") {
        let page = std::fs::read_to_string(pages.join(format!("ballast-{command}.1"))).unwrap();
        assert!(page.contains(".SH SYNOPSIS"), "{page}");
    }
    assert!(!pages.join("ballast-pod-exec.1").exists(), "not for people");
    let failed = ballast(&["man", "/dev/null/pages"], "");
    let error = String::from_utf8(failed.stderr).unwrap();
    assert!(error.starts_with("ballast: failed to write the manual pages into /dev/null/pages: "), "{error}");
}
