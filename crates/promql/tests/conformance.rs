//! Runs every test file of the pinned Prometheus module.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use expect_test::expect;
use promql::Engine;
use promql::testfile;

fn files() -> Result<Vec<PathBuf>, String> {
    let tools = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tools/prometheus");
    let missing =
        |what: String| format!("{what}: install Go, then run `go mod download` in tools/prometheus");
    let output = Command::new("go")
        .args(["list", "-m", "-f", "{{.Dir}}", "github.com/prometheus/prometheus"])
        .current_dir(&tools)
        .output()
        .map_err(|e| missing(format!("cannot ask go for the Prometheus module ({e})")))?;
    let dir = String::from_utf8_lossy(&output.stdout).trim().to_string();
    let tests = Path::new(&dir).join("promql/promqltest/testdata");
    let entries =
        std::fs::read_dir(&tests).map_err(|e| missing(format!("no test files of Prometheus ({e})")))?;
    let mut found: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    found.retain(|path| path.extension().is_some_and(|e| e == "test"));
    found.sort();
    Ok(found)
}

/// All that can pass passes. What is skipped is counted per reason and pinned, so that it cannot grow in silence.
#[test]
fn prometheus_test_files() {
    let (mut failures, mut table) = (String::new(), String::new());
    for path in files().unwrap() {
        let name = path.file_name().unwrap().to_string_lossy().to_string();
        let report = testfile::run(&std::fs::read_to_string(&path).unwrap(), &Engine::default())
            .unwrap_or_else(|e| panic!("{name}: {e}"));
        for (case, why) in report.failures() {
            failures += &format!("{name}:{}: {}\n    {why}\n", case.line, case.query);
        }
        let mut reasons: BTreeMap<_, usize> = BTreeMap::new();
        for (case, why) in report.skipped() {
            println!("skipped {name}:{}: {} ({why})", case.line, case.query);
            *reasons.entry(why).or_default() += 1;
        }
        let skipped: String = reasons.iter().map(|(why, n)| format!(", skipped {n} ({why})")).collect();
        table += &format!("{name}: passed {} of {}{skipped}\n", report.passed(), report.cases.len());
    }
    // Past the capture of `println!`, so that every run of the tests shows it.
    std::io::stdout().write_all(format!("Prometheus's test files:\n{table}").as_bytes()).unwrap();
    assert!(failures.is_empty(), "{failures}");
    expect![[r#"
        aggregators.test: passed 125 of 160, skipped 35 (native histogram)
        at_modifier.test: passed 78 of 78
        collision.test: passed 2 of 2
        duration_expression.test: passed 8 of 59, skipped 51 (experimental: arithmetic in durations)
        extended_vectors.test: passed 31 of 174, skipped 4 (native histogram), skipped 139 (experimental: anchored and smoothed ranges)
        fill-modifier.test: passed 46 of 46
        functions.test: passed 326 of 438, skipped 112 (native histogram)
        histograms.test: passed 93 of 185, skipped 92 (native histogram)
        info.test: passed 69 of 70, skipped 1 (native histogram)
        limit.test: passed 1 of 37, skipped 36 (native histogram)
        literals.test: passed 25 of 25
        name_label_dropping.test: passed 30 of 30
        native_histograms.test: passed 3 of 522, skipped 409 (native histogram), skipped 110 (experimental: trimming of native histograms)
        operators.test: passed 142 of 214, skipped 72 (native histogram)
        range_queries.test: passed 17 of 18, skipped 1 (native histogram)
        selectors.test: passed 31 of 31
        staleness.test: passed 17 of 17
        start_timestamps.test: passed 0 of 26, skipped 8 (native histogram), skipped 18 (experimental: start timestamps)
        subquery.test: passed 32 of 34, skipped 2 (native histogram)
        trig_functions.test: passed 19 of 19
        type_and_unit.test: passed 58 of 58
    "#]].assert_eq(&table);
}
