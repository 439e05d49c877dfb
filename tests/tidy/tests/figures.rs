//! Whoever looks at Ballast's metrics asks for such as there are.

use std::collections::BTreeSet;

use tidy::{read, shown, tracked};

/// The dashboard of the chart, and what the page on installing says to alert on.
#[test]
fn metrics_that_are_asked_for_are_exported() {
    // These put their names together.
    let roles = read("crates/controllers/src/roles/shown.rs");
    let sources: String =
        tracked(".rs").iter().filter(|file| shown(file).starts_with("crates/")).map(read).collect();
    for file in ["deploy/chart/files/dashboard.json", "docs/install.md"] {
        let text = read(file);
        let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        let asked: BTreeSet<&str> = words.filter(|word| word.starts_with("ballast_")).collect();
        assert!(asked.len() > 5, "{file} asks for {asked:?} only");
        for name in asked {
            let family = ["_bucket", "_sum", "_count"].iter().find_map(|suffix| name.strip_suffix(suffix));
            let own = format!("\"{}\"", name.trim_start_matches("ballast_"));
            let is_exported = [Some(name), family]
                .into_iter()
                .flatten()
                .any(|name| sources.contains(&format!("\"{name}\"")));
            assert!(is_exported || roles.contains(&own), "{file} asks for {name}, which nothing exports");
        }
    }
}
