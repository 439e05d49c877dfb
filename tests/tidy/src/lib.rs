//! Checks of the project itself: dependency directions, purity of the core, documents.

// a check that cannot be made fails like any test
#![allow(clippy::panic)]

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::Value;

pub fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

/// `cargo metadata` of the workspace, with all dependencies resolved.
pub fn metadata() -> Value {
    let output = Command::new(env!("CARGO"))
        .args([
            "metadata",
            "--format-version",
            "1",
            "--locked",
            "--filter-platform",
            "x86_64-unknown-linux-gnu",
        ])
        .current_dir(root())
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("cargo metadata is JSON")
}

/// The files that git tracks whose path ends so.
pub fn tracked(ending: &str) -> Vec<PathBuf> {
    let output = Command::new("git").args(["ls-files", "-z"]).current_dir(root()).output().expect("git runs");
    let names = String::from_utf8(output.stdout).expect("paths are UTF-8");
    let files: Vec<PathBuf> = names
        .split_terminator('\0')
        .filter(|name| name.ends_with(ending))
        .map(|name| root().join(name))
        // removed, but not committed yet
        .filter(|path| path.exists())
        .collect();
    assert!(!files.is_empty(), "no tracked file ends in {ending}");
    files
}

pub fn read(path: impl AsRef<Path>) -> String {
    let path = root().join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// `path` as a person writes it.
pub fn shown(path: &Path) -> String {
    path.strip_prefix(root()).unwrap_or(path).display().to_string()
}
