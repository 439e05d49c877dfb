//! The documents are true of what is there, and the sources are fit to read.

use tidy::{read, root, shown, tracked};

#[test]
fn every_crate_is_on_the_code_map() {
    let map = read("ARCHITECTURE.md");
    for manifest in tracked("Cargo.toml") {
        let name = shown(&manifest);
        let Some(folder) = name.strip_suffix("/Cargo.toml") else { continue };
        assert!(map.contains(&format!("`{folder}`")), "ARCHITECTURE.md does not tell what `{folder}` is");
    }
}

#[test]
fn commands_that_documents_name_exist() {
    let makefile = read("Makefile");
    for document in tracked(".md") {
        let text = read(&document);
        for (_, rest) in text.match_indices("make ").map(|(at, found)| text[at..].split_at(found.len())) {
            let target: String = rest.chars().take_while(|c| c.is_ascii_lowercase() || *c == '-').collect();
            let is_command = text[..text.len() - rest.len()].ends_with("`make ");
            assert!(
                !is_command || makefile.lines().any(|line| line.starts_with(&format!("{target}:"))),
                "{} names `make {target}`, which the Makefile does not have",
                shown(&document)
            );
        }
    }
}

#[test]
fn links_between_documents_lead_somewhere() {
    for document in tracked(".md") {
        let text = read(&document);
        let folder = document.parent().unwrap_or(root());
        for target in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let file = target.split('#').next().unwrap_or_default();
            let is_local = !file.is_empty() && !file.contains("://");
            assert!(!is_local || folder.join(file).exists(), "{} links to {target}", shown(&document));
        }
    }
}

/// A file that has grown past this is more than one thing.
const LONGEST: usize = 900;

#[test]
fn sources_are_fit_to_read() {
    for file in tracked(".rs") {
        let (name, text) = (shown(&file), read(&file));
        assert!(text.lines().count() <= LONGEST, "{name} is longer than {LONGEST} lines: split it");
        // written so that this file does not find itself
        for unfinished in
            [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("to", "do!("), concat!("unimplem", "ented!(")]
        {
            assert!(!text.contains(unfinished), "{name} contains {unfinished}");
        }
    }
}
