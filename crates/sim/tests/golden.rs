//! Every scenario that is shipped, run to its end. `BLESS=1` writes what came out as what is expected.

// Helpers of a test may fail as loudly as the test itself.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::{
    fs,
    path::{Path, PathBuf},
};

use sim::{Report, Scenario, run};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/scenarios")
}

fn scenarios() -> Vec<(String, String)> {
    let folder = folder();
    let mut found: Vec<_> = fs::read_dir(&folder)
        .unwrap_or_else(|error| panic!("{} cannot be listed: {error}", folder.display()))
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "yaml"))
        .map(|path| {
            (path.file_stem().unwrap().to_string_lossy().into_owned(), fs::read_to_string(&path).unwrap())
        })
        .collect();
    found.sort();
    assert!(found.len() >= 10, "only {} scenarios in {}", found.len(), folder.display());
    found
}

fn report(name: &str, yaml: &str) -> Report {
    let beside = |file: &str| fs::read_to_string(folder().join(file)).map_err(|error| error.to_string());
    run(&Scenario::read(yaml, &beside).unwrap_or_else(|error| panic!("{name}: {error}")))
}

#[test]
fn timelines_are_as_expected() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let bless = std::env::var_os("BLESS").is_some();
    let mut wrong = Vec::new();
    for (name, yaml) in scenarios() {
        let actual = report(&name, &yaml).timeline_text();
        let path = folder.join(format!("{name}.txt"));
        if bless {
            fs::write(&path, &actual).unwrap();
        }
        let expected = fs::read_to_string(&path).unwrap_or_default();
        if let Some(line) = first_difference(&expected, &actual) {
            wrong.push(format!("{name}: {line}"));
        }
    }
    assert!(wrong.is_empty(), "run with BLESS=1 if this is what you want:\n{}", wrong.join("\n"));
}

fn first_difference(expected: &str, actual: &str) -> Option<String> {
    let n = expected.lines().count().max(actual.lines().count());
    (0..n).find_map(|idx| {
        let (expected, actual) = (expected.lines().nth(idx), actual.lines().nth(idx));
        (expected != actual).then(|| {
            format!("line {}\n  expected {}\n  found    {}", idx + 1, shown(expected), shown(actual))
        })
    })
}

fn shown(line: Option<&str>) -> &str {
    line.unwrap_or("(nothing)")
}

/// Charts and pages are looked at, not compared; what can be checked without eyes is checked here.
#[test]
fn charts_stand_alone() {
    for (name, yaml) in scenarios() {
        let report = report(&name, &yaml);
        let (svg, html) = (report.svg(), report.html());
        for text in [&svg, &html] {
            let without_namespace = text.replace("http://www.w3.org/2000/svg", "");
            for outside in ["http:", "https:", "src=", "href=", "@import", "url("] {
                assert!(!without_namespace.contains(outside), "{name} reaches outside: {outside}");
            }
            assert!(!text.contains("NaN") && !text.contains("inf"), "{name} draws what is no number");
        }
        for run in &report.runs {
            assert!(!run.points.is_empty() && run.points.len() <= 720, "{name}: {} points", run.points.len());
        }
        let n_changes: usize = report.runs.iter().map(|run| run.changes.len()).sum();
        for (text, page_titles) in [(&svg, 0), (&html, 1)] {
            assert_eq!(text.matches("<g class=\"change\" tabindex").count(), n_changes, "{name}");
            assert_eq!(text.matches("<title>").count(), n_changes + page_titles, "{name}");
        }
        assert_eq!(report.json()["runs"].as_array().unwrap().len(), report.runs.len());
    }
}

#[test]
fn the_same_file_gives_the_same_report() {
    for (name, yaml) in scenarios().into_iter().take(4) {
        assert_eq!(report(&name, &yaml), report(&name, &yaml), "{name}");
    }
}
