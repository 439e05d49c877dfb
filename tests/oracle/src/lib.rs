//! What others answer, asked over data that a test hands in: Prometheus's own engine and HTTP handlers, and the recommender
//! of the Vertical Pod Autoscaler ([`vpa`]). Both are built from pinned Go modules (`go/`, `tools/`), which takes some
//! minutes the first time; afterwards it comes from Go's cache.

// a peer that cannot be asked fails the test that asks
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used)]

pub mod vpa;

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;

use promql::{Labels, Steps};
use serde_json::{Value as Json, json};

/// A series and its samples: milliseconds since the epoch, values.
pub type Series = (Labels, Vec<(i64, f64)>);

/// What Prometheus answers to each query; a step of zero asks for the instant at `start`.
pub fn ask(series: &[Series], asked: &[(String, Steps)]) -> Vec<Json> {
    let mut input = described(series);
    input["queries"] = asked
        .iter()
        .map(|(query, s)| json!({ "query": query, "start": s.start, "end": s.end, "step": s.step }))
        .collect();
    answer(binary(), &input)
}

/// What a program prints that reads `input`.
fn answer(program: &Path, input: &Json) -> Vec<Json> {
    let mut child = Command::new(program).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.to_string().as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "the oracle failed");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Prometheus's HTTP API over the series, on a free port until it is dropped.
pub struct Server {
    child: Child,
    pub address: SocketAddr,
}

impl Server {
    pub fn start(series: &[Series]) -> Self {
        let mut child = Command::new(binary())
            .arg("-serve")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(described(series).to_string().as_bytes()).unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().parse().unwrap_or_else(|_| panic!("the oracle did not start: {line:?}"));
        Self { child, address }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn described(series: &[Series]) -> Json {
    // JSON has no NaN and no infinities, so values travel as their bits.
    let bits = |v: f64| format!("{:x}", v.to_bits());
    json!({
        "series": series.iter().map(|(labels, samples)| json!({
            "labels": labels.iter().collect::<std::collections::BTreeMap<_, _>>(),
            "times": samples.iter().map(|s| s.0).collect::<Vec<_>>(),
            "bits": samples.iter().map(|s| bits(s.1)).collect::<Vec<_>>(),
        })).collect::<Vec<_>>(),
    })
}

/// Built once, although several tests ask.
fn binary() -> &'static Path {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(|| build("prometheus"))
}

/// The program `go/TOOL`, from the modules of `tools/TOOL`.
fn build(tool: &str) -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = std::env::current_exe().unwrap().parent().unwrap().join("oracle");
    std::fs::create_dir_all(&folder).unwrap();
    let built = folder.join(format!("{tool}-{}", std::process::id()));
    let mut command = Command::new("go");
    command.args(["build", "-o"]).arg(&built);
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(here.join("go").join(tool)).unwrap().map(|file| file.unwrap().path()).collect();
    files.sort();
    let status = command
        .args(files)
        .current_dir(here.join("../../tools").join(tool))
        .status()
        .unwrap_or_else(|error| panic!("Go builds {tool}: install it, then run `make tools` ({error})"));
    assert!(status.success(), "building {tool} failed: run `make tools`");
    // Another test may run the program at this moment: it keeps its file, the name leads to the new one.
    let binary = folder.join(tool);
    std::fs::rename(&built, &binary).unwrap();
    binary
}
