//! The launcher: the program starts itself anew to become a container's process.
//!
//! ```text
//! node ── spec as JSON on stdin ──▶ launcher: session, cgroup, record, mounts, directory ── exec ──▶ the command
//!      ◀── stdout: closed by exec, or the words of what went wrong ──┘
//! ```
//! Between fork and exec only a program of one thread may change namespaces, and only outside of `unsafe`
//! by being a program of its own. The pid stays the same through exec, so the node's child is the container's process.

use std::{
    collections::BTreeMap,
    fs::{self, File, OpenOptions},
    io::{self, Read, Write},
    os::{fd::AsFd, unix::process::CommandExt},
    path::{Path, PathBuf},
    process::{Command, ExitCode},
};

use nix::unistd;
use serde::{Deserialize, Serialize};

use crate::process::Identity;

mod mounts;

pub use mounts::Bind;

/// Exit code of a launcher that could not start its command; the reason went to the node.
pub const CANNOT_START: u8 = 128;

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Spec {
    pub argv: Vec<String>,
    pub env: BTreeMap<String, String>,
    pub directory: Option<PathBuf>,
    pub streams: Streams,
    /// Where to leave the process's [`Identity`].
    pub record: Option<PathBuf>,
    /// `cgroup.procs` of the group to join.
    pub cgroup: Option<PathBuf>,
    pub binds: Vec<Bind>,
    /// An existing, otherwise unused directory: a mount point for a new root where one is needed.
    pub scratch: PathBuf,
}

/// Where the standard streams lead.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub enum Streams {
    #[default]
    Nowhere,
    /// Of a container.
    Log {
        /// A FIFO or file for stdout and stderr. Opened for reading too: a FIFO then outlives its reader, so that a
        /// process goes on when its node is killed and started again.
        output: PathBuf,
        input: Option<Input>,
    },
    /// Of a command beside a container: each to a pipe of the node's, by its path in `/proc`.
    Pipes { stdin: Option<PathBuf>, stdout: Option<PathBuf>, stderr: Option<PathBuf> },
    /// All three are one terminal, which also controls the session.
    Terminal(PathBuf),
}

/// A FIFO as stdin.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Input {
    pub path: PathBuf,
    /// Ends when the node closes it; otherwise it never does.
    pub once: bool,
}

/// What the launcher subcommand of a program runs, before it starts any thread.
#[must_use]
pub fn main() -> ExitCode {
    // The duplicate is closed by exec, which is how the node learns that all went well.
    let Ok(report) = io::stdout().as_fd().try_clone_to_owned() else { return ExitCode::from(CANNOT_START) };
    let Err(message) = run();
    // The node hung up: there is nobody to tell.
    let _ = File::from(report).write_all(message.as_bytes());
    ExitCode::from(CANNOT_START)
}

fn run() -> Result<std::convert::Infallible, String> {
    let mut text = String::new();
    io::stdin()
        .read_to_string(&mut text)
        .map_err(|e| format!("cannot read the launch specification: {e}"))?;
    let spec: Spec =
        serde_json::from_str(&text).map_err(|e| format!("the launch specification is malformed: {e}"))?;
    // A session of its own: terminal signals stay away, and its members can be found.
    unistd::setsid().map_err(|e| format!("cannot start a session: {e}"))?;
    if let Some(procs) = &spec.cgroup {
        fs::write(procs, "0").map_err(|e| format!("cannot join the cgroup {}: {e}", procs.display()))?;
    }
    if let Some(record) = &spec.record {
        record_identity(record).map_err(|e| format!("cannot write {}: {e}", record.display()))?;
    }
    let [stdin, stdout, stderr] = spec.streams.open()?;
    if !spec.binds.is_empty() {
        mounts::enter(&spec.binds, &spec.scratch)?;
    }
    let directory = spec.directory.as_deref().unwrap_or(Path::new("/"));
    std::env::set_current_dir(directory)
        .map_err(|e| format!("cannot change to the working directory {}: {e}", directory.display()))?;

    let (program, arguments) = spec.argv.split_first().ok_or("there is no command")?;
    let program = find(program, spec.env.get("PATH").map_or("/usr/local/bin:/usr/bin:/bin", String::as_str))?;
    let standard = |e: nix::Error| format!("cannot connect the standard streams: {e}");
    unistd::dup2_stdin(&stdin).map_err(standard)?;
    unistd::dup2_stderr(&stderr).map_err(standard)?;
    unistd::dup2_stdout(&stdout).map_err(standard)?;
    let error = Command::new(&program).arg0(&spec.argv[0]).args(arguments).env_clear().envs(&spec.env).exec();
    Err(format!("exec: \"{}\": {error}", spec.argv[0]))
}

/// Looks a bare name up in the container's own PATH, which need not be ours.
fn find(program: &str, path: &str) -> Result<PathBuf, String> {
    if program.contains('/') {
        return Ok(PathBuf::from(program));
    }
    path.split(':')
        .map(|dir| Path::new(dir).join(program))
        .find(|candidate| candidate.is_file())
        .ok_or_else(|| format!("exec: \"{program}\": executable file not found in $PATH"))
}

// === impl Streams ===

impl Streams {
    fn open(&self) -> Result<[File; 3], String> {
        let open = |options: &mut OpenOptions, path: &Path| {
            options.open(path).map_err(|e| format!("cannot open {}: {e}", path.display()))
        };
        let duplicate = |file: &File| file.try_clone().map_err(|e| format!("cannot share a stream: {e}"));
        let null = Path::new("/dev/null");
        let reading = |path: Option<&Path>| open(OpenOptions::new().read(true), path.unwrap_or(null));
        let writing = |path: Option<&Path>| open(OpenOptions::new().write(true), path.unwrap_or(null));
        Ok(match self {
            Self::Nowhere => [reading(None)?, writing(None)?, writing(None)?],
            Self::Log { output, input } => {
                let output = open(OpenOptions::new().read(true).append(true).create(true), output)?;
                let input = match input {
                    Some(Input { path, once: false }) => {
                        open(OpenOptions::new().read(true).write(true), path)?
                    }
                    Some(Input { path, once: true }) => reading(Some(path))?,
                    None => reading(None)?,
                };
                [input, duplicate(&output)?, output]
            }
            Self::Pipes { stdin, stdout, stderr } => {
                [reading(stdin.as_deref())?, writing(stdout.as_deref())?, writing(stderr.as_deref())?]
            }
            // The first terminal that the leader of a session opens becomes the session's.
            Self::Terminal(path) => {
                let terminal = open(OpenOptions::new().read(true).write(true), path)?;
                [duplicate(&terminal)?, duplicate(&terminal)?, terminal]
            }
        })
    }
}

/// By rename, so that a node that reads it never sees half of it.
fn record_identity(path: &Path) -> io::Result<()> {
    let identity = Identity::of_this_process()?;
    let partial = path.with_extension("partial");
    fs::write(&partial, serde_json::to_vec(&identity)?)?;
    fs::rename(partial, path)
}
