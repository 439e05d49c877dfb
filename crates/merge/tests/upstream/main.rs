//! The test tables of the projects that the real server is built from, read from their source in the Go module cache
//! and run against ours. Nothing of them is kept here.

// Helpers of tests may panic like tests.
#![allow(clippy::panic, clippy::unwrap_used)]

mod builtin;
mod golang;
mod strategic;
mod structured;
mod typed;
mod types;
mod values;

use golang::Expr;
use std::{path::PathBuf, process::Command};

/// The folder of a Go module of the pinned version.
fn module(path_and_version: &str) -> PathBuf {
    let output = Command::new("go").args(["env", "GOMODCACHE"]).output().expect("`go env` runs: install Go");
    let cache = String::from_utf8(output.stdout).expect("a path");
    let folder = PathBuf::from(cache.trim()).join(path_and_version);
    assert!(folder.is_dir(), "{} is missing: run `go mod download` in tools/kubernetes", folder.display());
    folder
}

fn read(path: PathBuf) -> String {
    std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// The value of a variable of the package.
fn variable(source: &str, name: &str) -> Expr {
    let declaration = format!("var {name} = ");
    let start = source.find(&declaration).unwrap_or_else(|| panic!("no variable {name}"));
    Expr::parse(&source[start + declaration.len()..]).unwrap_or_else(|e| panic!("{name}: {e}"))
}

fn yaml(text: &str) -> serde_json::Value {
    serde_saphyr::from_str(text).unwrap_or_else(|e| panic!("{e} in\n{text}"))
}
