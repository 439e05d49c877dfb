//! Processes that belong to containers: who they are, how they end, how they are signalled.

use std::{
    ffi::OsString,
    fs, io,
    os::fd::OwnedFd,
    path::Path,
    process::{ExitStatus, Stdio},
};

use rustix::{
    event::{PollFd, PollFlags, poll},
    io::Errno,
    process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal},
};
use serde::{Deserialize, Serialize};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    process::{Child, Command},
    sync::oneshot,
};

use crate::launch::Spec;

pub mod cgroup;
pub mod table;

/// In every container process's environment: finds those that left their session and their parent.
pub const ID_VARIABLE: &str = "BALLAST_CONTAINER_ID";

/// A process, and no other that happens to get its pid later.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    pub pid: i32,
    /// Clock ticks from boot to its start.
    pub start_ticks: u64,
    pub boot_id: String,
}

/// How the program starts itself as a launcher.
#[derive(Debug, Clone)]
pub struct Launcher {
    pub command: Vec<OsString>,
    /// Whether binds may be made; otherwise they are left out and paths are rewritten.
    pub namespaces: bool,
}

/// A running process: our child, or one that an earlier run of the node left behind.
#[derive(Debug)]
pub enum Process {
    Child(Child),
    Adopted(oneshot::Receiver<()>),
}

/// `None` when only the parent could have known, and the parent is gone.
pub type Ending = Option<ExitStatus>;

#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("cannot run the launcher {program}: {source}")]
    Launcher { program: String, source: io::Error },
    /// The launcher's own words.
    #[error("{0}")]
    Command(String),
}

// === impl Identity ===

impl Identity {
    pub fn of_this_process() -> io::Result<Self> {
        Self::of(i32::try_from(std::process::id()).map_err(io::Error::other)?)
    }

    fn of(pid: i32) -> io::Result<Self> {
        let stat = table::Entry::read(pid)?;
        let boot_id = fs::read_to_string("/proc/sys/kernel/random/boot_id")?.trim().to_owned();
        Ok(Self { pid, start_ticks: stat.start_ticks, boot_id })
    }

    pub fn read(path: &Path) -> Option<Self> {
        serde_json::from_slice(&fs::read(path).ok()?).ok()
    }

    /// Whether this very process is still running as the container `id`. A zombie is not: nobody will collect it for us.
    pub fn is_alive_as(&self, id: &str) -> bool {
        Self::of(self.pid).is_ok_and(|now| now == *self)
            && table::Entry::read(self.pid).is_ok_and(|entry| !entry.zombie)
            && table::container_id(self.pid).is_some_and(|found| found == id)
    }
}

// === impl Launcher ===

impl Launcher {
    /// Starts a process and returns once it has become the command.
    pub async fn spawn(&self, spec: &Spec) -> Result<Child, StartError> {
        let (program, arguments) = self
            .command
            .split_first()
            .ok_or_else(|| StartError::Command("the node has no launcher".to_owned()))?;
        let cannot_run =
            |source| StartError::Launcher { program: program.to_string_lossy().into_owned(), source };
        let mut child = Command::new(program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(cannot_run)?;
        let text = serde_json::to_vec(spec).map_err(|e| cannot_run(e.into()))?;
        if let Some(mut stdin) = child.stdin.take() {
            // A launcher that died before reading says why on stdout, or by its exit.
            let _ = stdin.write_all(&text).await;
        }
        let mut words = String::new();
        if let Some(mut stdout) = child.stdout.take() {
            stdout.read_to_string(&mut words).await.map_err(cannot_run)?;
        }
        if words.is_empty() {
            return Ok(child);
        }
        let _ = child.wait().await;
        Err(StartError::Command(words))
    }

    /// Whether this user may have mount namespaces here: tries it.
    pub async fn may_mount(&self, scratch: &Path) -> bool {
        let target = Path::new("/.ballast-mount-trial");
        let spec = Spec {
            argv: ["/bin/sh", "-c", &format!("test -d {}", target.display())].map(str::to_owned).to_vec(),
            binds: vec![crate::launch::Bind {
                source: scratch.to_owned(),
                target: target.to_owned(),
                read_only: true,
            }],
            scratch: scratch.to_owned(),
            ..Spec::default()
        };
        match self.spawn(&spec).await {
            Ok(mut child) => child.wait().await.is_ok_and(|status| status.success()),
            Err(error) => {
                tracing::debug!(%error, "no mount namespaces");
                false
            }
        }
    }
}

// === impl Process ===

impl Process {
    /// Takes over a process of an earlier run, if it is still the same one.
    pub fn adopt(identity: &Identity, id: &str) -> io::Result<Self> {
        let handle = open_handle(identity.pid)?;
        // Looked at only after the handle is held: from here on the pid cannot come to mean another process.
        if !identity.is_alive_as(id) {
            return Err(io::Error::new(io::ErrorKind::NotFound, "the process has ended"));
        }
        let (sender, ended) = oneshot::channel();
        // Not the runtime's threads: those would be waited for when the node leaves the process running.
        std::thread::Builder::new().name(format!("wait-{}", identity.pid)).spawn(move || {
            while let Err(Errno::INTR) = poll(&mut [PollFd::new(&handle, PollFlags::IN)], None) {}
            let _ = sender.send(());
        })?;
        Ok(Self::Adopted(ended))
    }

    pub async fn wait(&mut self) -> Ending {
        match self {
            Self::Child(child) => child.wait().await.ok(),
            Self::Adopted(ended) => {
                let _ = ended.await;
                None
            }
        }
    }
}

/// Sends a signal to every process of the container.
pub fn signal(id: &str, session: i32, signal: Signal) {
    let Ok(entries) = table::scan() else { return };
    let members = table::attribute(&entries, &[(session, id)].into());
    for entry in members.get(id).into_iter().flatten() {
        send(entry, signal);
    }
}

/// Sends a signal to a command that was started beside a container: only what is in its own session.
pub fn signal_session(session: i32, signal: Signal) {
    let Ok(entries) = table::scan() else { return };
    for entry in entries.iter().filter(|entry| entry.session == session) {
        send(entry, signal);
    }
}

/// The handle pins the process; if its pid was reused before the handle was taken, the start time tells.
fn send(entry: &table::Entry, signal: Signal) {
    let Ok(handle) = open_handle(entry.pid) else { return };
    if table::Entry::read(entry.pid).is_ok_and(|now| now.start_ticks == entry.start_ticks) {
        // It may have ended by itself.
        let _ = pidfd_send_signal(handle, signal);
    }
}

fn open_handle(pid: i32) -> io::Result<OwnedFd> {
    let pid = Pid::from_raw(pid).ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
    Ok(pidfd_open(pid, PidfdFlags::NONBLOCK)?)
}
