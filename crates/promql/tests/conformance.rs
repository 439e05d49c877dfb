//! Runs every test file of the pinned Prometheus module.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use promql::Engine;
use promql::testfile;

fn files() -> Vec<PathBuf> {
    let tools = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tools/prometheus");
    let hint = "run `go mod download` in tools/prometheus";
    let output = Command::new("go")
        .args(["list", "-m", "-f", "{{.Dir}}", "github.com/prometheus/prometheus"])
        .current_dir(&tools)
        .output()
        .unwrap_or_else(|e| panic!("cannot ask go for the Prometheus module ({e}): install Go, then {hint}"));
    let dir = String::from_utf8_lossy(&output.stdout).trim().to_string();
    assert!(output.status.success() && !dir.is_empty(), "the Prometheus module is not there: {hint}");
    let tests = Path::new(&dir).join("promql/promqltest/testdata");
    let entries = std::fs::read_dir(&tests).unwrap_or_else(|e| panic!("{}: {e}: {hint}", tests.display()));
    let mut found: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    found.retain(|path| path.extension().is_some_and(|e| e == "test"));
    found.sort();
    assert!(!found.is_empty(), "no test files in {}: {hint}", tests.display());
    found
}

#[test]
fn prometheus_test_files() {
    let mut failures = String::new();
    let mut table = String::new();
    for path in files() {
        let name = path.file_name().unwrap().to_string_lossy().to_string();
        let text = std::fs::read_to_string(&path).unwrap();
        let report = match testfile::run(&text, &Engine::default()) {
            Ok(report) => report,
            Err(error) => {
                failures += &format!("{name}: {error}\n");
                continue;
            }
        };
        let mut skipped: BTreeMap<_, usize> = BTreeMap::new();
        report.skipped().for_each(|(_, why)| *skipped.entry(why).or_default() += 1);
        for (case, why) in report.failures() {
            failures += &format!("{name}:{}: {}\n    {why}\n", case.line, case.query);
        }
        let skipped: Vec<String> = skipped.iter().map(|(why, n)| format!("{n} {why}")).collect();
        table += &format!("{name}: {} of {} {}\n", report.passed(), report.cases.len(), skipped.join(", "));
    }
    println!("{table}");
    assert!(failures.is_empty(), "{failures}");
}
