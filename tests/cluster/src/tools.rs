//! The real programs, built from what is pinned under `tools/`.

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::OnceLock,
};

use anyhow::{Context, Result, bail};

/// The root of the source tree.
pub fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

/// Where the programs of `tool` are; builds them if they are not there (minutes, once per version).
fn directory(tool: &str) -> Result<PathBuf> {
    let output = Command::new(root().join("tools/build"))
        .arg(tool)
        .stderr(Stdio::inherit())
        .output()
        .context("failed to start tools/build")?;
    if !output.status.success() {
        bail!("tools/build {tool} failed ({}): see its output above, then run it by hand", output.status);
    }
    Ok(PathBuf::from(String::from_utf8(output.stdout)?.trim()))
}

/// kube-apiserver, kube-controller-manager, kube-scheduler and kubectl.
pub fn kubernetes(program: &str) -> Result<PathBuf> {
    static DIRECTORY: OnceLock<PathBuf> = OnceLock::new();
    once(&DIRECTORY, || directory("kubernetes")).map(|directory| directory.join(program))
}

pub fn etcd() -> Result<PathBuf> {
    static DIRECTORY: OnceLock<PathBuf> = OnceLock::new();
    once(&DIRECTORY, || directory("etcd")).map(|directory| directory.join("etcd"))
}

pub fn metrics_server() -> Result<PathBuf> {
    static DIRECTORY: OnceLock<PathBuf> = OnceLock::new();
    once(&DIRECTORY, || directory("metrics-server")).map(|directory| directory.join("metrics-server"))
}

pub fn nats() -> Result<PathBuf> {
    static DIRECTORY: OnceLock<PathBuf> = OnceLock::new();
    once(&DIRECTORY, || directory("nats")).map(|directory| directory.join("nats-server"))
}

/// kro's controller, and its kinds in files of YAML beside it.
pub fn kro() -> Result<PathBuf> {
    static DIRECTORY: OnceLock<PathBuf> = OnceLock::new();
    once(&DIRECTORY, || directory("kro")).map(|directory| directory.join("kro"))
}

pub fn helm() -> Result<PathBuf> {
    static DIRECTORY: OnceLock<PathBuf> = OnceLock::new();
    once(&DIRECTORY, || directory("helm")).map(|directory| directory.join("helm"))
}

/// A Python that has Numaflow's SDK.
pub fn pynumaflow() -> Result<PathBuf> {
    static DIRECTORY: OnceLock<PathBuf> = OnceLock::new();
    once(&DIRECTORY, || directory("pynumaflow")).map(|directory| directory.join("bin/python"))
}

fn once(
    cell: &'static OnceLock<PathBuf>,
    make: impl FnOnce() -> Result<PathBuf>,
) -> Result<&'static PathBuf> {
    if let Some(path) = cell.get() {
        return Ok(path);
    }
    let path = make()?;
    Ok(cell.get_or_init(|| path))
}
