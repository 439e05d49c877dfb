//! Dependencies point downward, and the core stays pure.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use tidy::{metadata, read, shown, tracked};

/// Each crate and those of ours that it may use. A new crate or a new edge is a decision: it is made here and in
/// ARCHITECTURE.md.
const MAP: &[(&str, &[&str])] = &[
    ("quantity", &[]),
    ("decide", &["quantity"]),
    ("promql", &[]),
    ("api", &["decide", "promql"]),
    ("tls", &[]),
    ("disk", &[]),
    ("metrics", &["promql", "tls"]),
    ("schema", &["quantity"]),
    ("merge", &["schema"]),
    ("localkube", &["schema", "merge", "tls", "disk"]),
    // controllers and the node know kube::Client, never the server behind it
    ("engine", &[]),
    ("store", &["disk"]),
    // what runs in the pods of a pipeline; it knows neither Kubernetes nor the controllers
    ("vertex", &["store", "tls"]),
    // the one place that writes replica counts and request sizes
    ("scaling", &["decide", "engine", "store"]),
    // what counts against a quota is said once, for admission and for the controller
    ("workloads", &["api", "decide", "engine", "scaling", "schema"]),
    // what fits a node is said once, for its scheduler and for DaemonSets
    ("kubelet", &["engine", "quantity", "tls", "disk"]),
    ("sim", &["api", "decide", "promql", "metrics"]),
    // resource graphs as values
    ("graph", &["api", "schema"]),
    ("ondemand", &["api", "decide", "store"]),
    ("gateway", &["api", "ondemand", "store"]),
    (
        "controllers",
        &[
            "api",
            "decide",
            "engine",
            "graph",
            "schema",
            "scaling",
            "workloads",
            "ondemand",
            "store",
            "metrics",
            "promql",
        ],
    ),
    ("admin", &["metrics", "promql"]),
    // files, and nothing that knows what they show
    ("web", &[]),
    (
        "ballast",
        &[
            "decide",
            "sim",
            "graph",
            "promql",
            "metrics",
            "localkube",
            "engine",
            "scaling",
            "workloads",
            "kubelet",
            "disk",
            "schema",
            "api",
            "store",
            "ondemand",
            "gateway",
            "controllers",
            // the container of a pipeline's pods
            "vertex",
            "admin",
            "web",
        ],
    ),
];

#[test]
fn crates_use_only_what_the_map_allows() {
    let metadata = metadata();
    let members: BTreeSet<&str> = names(&metadata["workspace_members"], &metadata).collect();
    let ours: BTreeMap<&str, &[&str]> = MAP.iter().copied().collect();
    for package in packages(&metadata) {
        let name = package["name"].as_str().unwrap();
        let is_crate = package["manifest_path"].as_str().unwrap().contains("/crates/");
        if !members.contains(name) || !is_crate {
            continue;
        }
        let allowed = ours.get(name).unwrap_or_else(|| panic!("crate {name} is not on the map of this test"));
        for dependency in package["dependencies"].as_array().unwrap() {
            let other = dependency["name"].as_str().unwrap();
            let is_test_only = dependency["kind"] == "dev";
            let is_ours = dependency["source"].is_null();
            assert!(
                !is_ours || is_test_only || allowed.contains(&other),
                "{name} may not depend on {other}: the map allows it {allowed:?}"
            );
        }
    }
}

/// No clock, no randomness, no async, no I/O: time and memory come in and go out as values.
#[test]
fn decide_is_pure() {
    let metadata = metadata();
    let tree = dependency_tree("decide", &metadata);
    for banned in ["tokio", "kube", "kube-client", "hyper", "rand", "getrandom", "futures", "redb", "tracing"]
    {
        assert!(!tree.contains(banned), "decide depends on {banned}");
    }
    let banned = [
        "Timestamp::now",
        "Zoned::now",
        "SystemTime",
        "Instant::now",
        "std::fs",
        "std::net",
        "std::env",
        "std::thread",
        "std::process",
        "async fn",
        "println!",
    ];
    assert_absent("crates/decide/src/", &banned);
}

#[test]
fn promql_has_no_clock_and_no_io() {
    let metadata = metadata();
    let tree = dependency_tree("promql", &metadata);
    for banned in ["tokio", "kube", "hyper", "rand"] {
        assert!(!tree.contains(banned), "promql depends on {banned}");
    }
    assert_absent(
        "crates/promql/src/",
        &["SystemTime::now", "Instant::now", "Timestamp::now", "std::net", "async fn"],
    );
}

/// A definition in, kinds and plans out: what is observed and what time it is comes from the caller.
#[test]
fn graph_has_no_clock_and_no_io() {
    assert_absent(
        "crates/graph/src/",
        &[
            "Timestamp::now",
            "SystemTime",
            "Instant::now",
            "std::fs",
            "std::net",
            "std::thread",
            "async fn",
            "kube::Client",
            "println!",
        ],
    );
}

/// What a library does depends on its arguments alone.
#[test]
fn only_the_program_reads_arguments_and_environment() {
    for file in tracked(".rs") {
        let name = shown(&file);
        let is_library = name.starts_with("crates/") && name.contains("/src/") && !name.contains("/src/bin/");
        if !is_library || name.starts_with("crates/ballast/") || name.ends_with("tests.rs") {
            continue;
        }
        for banned in ["env::var", "env::args", "env::temp_dir", "env::home_dir"] {
            assert!(!read(&file).contains(banned), "{name} uses {banned}: hand it in as an option");
        }
    }
}

/// Every replica count and every request size is written by a decision, in one place.
#[test]
fn only_scaling_writes_a_scale() {
    let mut n_writers = 0;
    for file in tracked(".rs") {
        let name = shown(&file);
        let is_source = name.starts_with("crates/") && name.contains("/src/");
        // The engine carries it out and words it for logs; it decides nothing. `decide`, `api` and `graph`
        // have no I/O: they describe a field and a marker.
        let writes_nothing = ["crates/engine/", "crates/decide/", "crates/api/", "crates/graph/"]
            .iter()
            .any(|one| name.starts_with(one));
        if !is_source || writes_nothing || name.contains("tests") {
            continue;
        }
        let text = read(&file);
        let writes = [
            "Some(\"scale\")",
            "patch_scale(",
            "replace_scale(",
            "\"scale\",",
            "Some(\"resize\")",
            "\"resize\",",
            "Effect::StrategicPatch",
        ];
        let writes = writes.iter().any(|word| text.contains(word));
        let is_allowed = name.starts_with("crates/scaling/") || name.starts_with("crates/localkube/");
        assert!(
            !writes || is_allowed,
            "{name} writes a scale or sizes: hand scaling::rescale or scaling::resize_pod a decision"
        );
        n_writers += usize::from(writes && name.starts_with("crates/scaling/"));
    }
    assert_eq!(n_writers, 1, "the place that writes a scale is not where this test looks for it");
}

/// Removing a controller's folder and its row in the table leaves the others compiling: nobody else names it.
#[test]
fn controllers_do_not_know_each_other() {
    let table = "crates/ballast/src/components.rs";
    let text = read(table);
    let is_chosen = |name: &&str| !["catalog", "roles", "scraping"].contains(name);
    let names: Vec<&str> = text
        .lines()
        .filter_map(|line| line.trim().strip_prefix("controllers::")?.strip_suffix("::COMPONENT,"))
        .filter(is_chosen)
        .collect();
    assert!(names.contains(&"demand") && names.contains(&"kyma"), "{names:?}");
    for file in tracked(".rs") {
        let shown = shown(&file);
        let is_source =
            shown.starts_with("crates/controllers/src/") || shown.starts_with("crates/ballast/src/");
        if !is_source || shown == table {
            continue;
        }
        let text = read(&file);
        for name in &names {
            let is_its_own = shown.starts_with(&format!("crates/controllers/src/{name}/"));
            let uses = [format!("crate::{name}::"), format!("controllers::{name}")];
            let uses = uses.iter().any(|word| text.contains(word.as_str()));
            assert!(
                is_its_own || !uses,
                "{shown} knows the controller {name}: it could not be removed alone"
            );
        }
    }
}

fn assert_absent(folder: &str, banned: &[&str]) {
    let files: Vec<_> = tracked(".rs").into_iter().filter(|file| shown(file).starts_with(folder)).collect();
    assert!(!files.is_empty(), "no sources in {folder}");
    for file in files {
        let text = read(&file);
        for word in banned {
            assert!(!text.contains(word), "{} uses {word}", shown(&file));
        }
    }
}

fn packages(metadata: &Value) -> impl Iterator<Item = &Value> {
    metadata["packages"].as_array().expect("packages").iter()
}

fn names<'a>(ids: &'a Value, metadata: &'a Value) -> impl Iterator<Item = &'a str> {
    packages(metadata)
        .filter(move |package| ids.as_array().is_some_and(|ids| ids.contains(&package["id"])))
        .filter_map(|package| package["name"].as_str())
}

/// Everything that `name` needs to run, by name; build scripts and tests do not count.
fn dependency_tree(name: &str, metadata: &Value) -> BTreeSet<String> {
    let name_of: BTreeMap<&str, &str> = packages(metadata)
        .filter_map(|package| Some((package["id"].as_str()?, package["name"].as_str()?)))
        .collect();
    let nodes: BTreeMap<&str, &Value> = metadata["resolve"]["nodes"]
        .as_array()
        .expect("resolve")
        .iter()
        .filter_map(|node| Some((node["id"].as_str()?, node)))
        .collect();
    let mut pending: Vec<&str> =
        name_of.iter().filter(|(_, other)| **other == name).map(|(id, _)| *id).collect();
    let mut seen = BTreeSet::new();
    while let Some(id) = pending.pop() {
        for dependency in nodes[id]["deps"].as_array().into_iter().flatten() {
            let is_normal = dependency["dep_kinds"]
                .as_array()
                .is_some_and(|kinds| kinds.iter().any(|kind| kind["kind"].is_null()));
            let Some(other) = dependency["pkg"].as_str().filter(|_| is_normal) else { continue };
            if seen.insert(name_of[other].to_owned()) {
                pending.push(other);
            }
        }
    }
    assert!(!seen.is_empty(), "{name} has no dependencies at all?");
    seen
}
