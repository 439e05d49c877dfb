//! What a pod has on disk, so that a node that is killed and started again finds its containers.
//!
//! ```text
//! <node>/claims/<uid>/                        of a claim of storage, for as long as that is there
//! <node>/pods/<uid>/pod.json                  whose directory this is
//!              volumes/<volume>/
//!              root/                          mount point, or links where there are no mount namespaces
//!              containers/<name>/<instance>/  process.json  exit.json  output, input (FIFOs)  log  termination
//! ```

use std::{
    fs, io,
    net::Ipv4Addr,
    os::unix::fs::{DirBuilderExt, PermissionsExt},
    path::{Path, PathBuf},
};

use nix::{sys::stat::Mode, unistd::mkfifo};
use serde::{Deserialize, Serialize};
use tokio::net::unix::pipe;

use super::container::Terminated;
use crate::process::Identity;

/// Where a node keeps the directories of claims, below its own.
pub const CLAIMS: &str = "claims";

#[derive(Debug, Clone)]
pub struct PodDir(PathBuf);

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Owner {
    pub namespace: String,
    pub name: String,
    pub uid: String,
    pub address: Ipv4Addr,
}

#[derive(Debug, Clone)]
pub struct RunDir(PathBuf);

// === impl PodDir ===

impl PodDir {
    pub fn new(pods: &Path, uid: &str) -> Self {
        Self(pods.join(uid))
    }

    /// All that are there, with what is known of them.
    pub fn list(pods: &Path) -> Vec<(Self, Option<Owner>)> {
        let entries = fs::read_dir(pods).into_iter().flatten().filter_map(Result::ok);
        entries
            .map(|entry| {
                let dir = Self(entry.path());
                let owner = dir.owner();
                (dir, owner)
            })
            .collect()
    }

    /// Secrets are kept below: nobody else may look.
    pub fn create(&self, owner: &Owner) -> io::Result<()> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.0)?;
        fs::create_dir_all(self.root())?;
        fs::create_dir_all(self.volumes())?;
        fs::write(self.0.join("pod.json"), serde_json::to_vec(owner)?)
    }

    pub fn owner(&self) -> Option<Owner> {
        serde_json::from_slice(&fs::read(self.0.join("pod.json")).ok()?).ok()
    }

    /// Of all pods.
    pub fn claims(&self) -> PathBuf {
        self.0.ancestors().nth(2).unwrap_or(&self.0).join(CLAIMS)
    }

    pub fn volumes(&self) -> PathBuf {
        self.0.join("volumes")
    }

    pub fn root(&self) -> PathBuf {
        self.0.join("root")
    }

    pub fn scratch(&self) -> PathBuf {
        self.0.clone()
    }

    pub fn run(&self, container: &str, instance: u32) -> RunDir {
        RunDir(self.0.join("containers").join(container).join(instance.to_string()))
    }

    /// Every run that left a trace: container and instance, in order.
    pub fn runs(&self) -> Vec<(String, u32)> {
        let mut runs = Vec::new();
        for container in fs::read_dir(self.0.join("containers")).into_iter().flatten().filter_map(Result::ok)
        {
            let name = container.file_name().to_string_lossy().into_owned();
            for run in fs::read_dir(container.path()).into_iter().flatten().filter_map(Result::ok) {
                if let Ok(instance) = run.file_name().to_string_lossy().parse() {
                    runs.push((name.clone(), instance));
                }
            }
        }
        runs.sort();
        runs
    }

    pub fn remove(&self) -> io::Result<()> {
        fs::remove_dir_all(&self.0)
    }
}

// === impl RunDir ===

impl RunDir {
    /// Makes the directory with its FIFOs, and forgets the run before the previous one.
    pub fn create(&self) -> io::Result<()> {
        fs::create_dir_all(&self.0)?;
        for fifo in [self.output(), self.input()] {
            match mkfifo(&fifo, Mode::S_IRUSR | Mode::S_IWUSR) {
                Ok(()) | Err(nix::Error::EEXIST) => {}
                Err(error) => return Err(error.into()),
            }
        }
        fs::write(self.termination(), "")?;
        fs::set_permissions(self.termination(), fs::Permissions::from_mode(0o666))?;
        if let (Some(all), Some(instance)) = (self.0.parent(), self.instance())
            && let Some(old) = instance.checked_sub(2)
        {
            // Best effort: it costs disk space, nothing else.
            let _ = fs::remove_dir_all(all.join(old.to_string()));
        }
        Ok(())
    }

    fn instance(&self) -> Option<u32> {
        self.0.file_name()?.to_str()?.parse().ok()
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    pub fn output(&self) -> PathBuf {
        self.0.join("output")
    }

    /// Opened for writing too: it never ends, and the container's end closing does not end it.
    pub fn open_output(&self) -> io::Result<pipe::Receiver> {
        pipe::OpenOptions::new().read_write(true).open_receiver(self.output())
    }

    /// For containers that want one.
    pub fn input(&self) -> PathBuf {
        self.0.join("input")
    }

    pub fn record(&self) -> PathBuf {
        self.0.join("process.json")
    }

    pub fn termination(&self) -> PathBuf {
        self.0.join("termination")
    }

    pub fn process(&self) -> Option<Identity> {
        Identity::read(&self.record())
    }

    /// When the launcher wrote its record, to the precision of the file system.
    pub fn started_at(&self) -> Option<jiff::Timestamp> {
        fs::metadata(self.record()).ok()?.modified().ok()?.try_into().ok()
    }

    pub fn write_end(&self, end: &Terminated) -> io::Result<()> {
        fs::write(self.0.join("exit.json"), serde_json::to_vec(end)?)
    }

    pub fn end(&self) -> Option<Terminated> {
        serde_json::from_slice(&fs::read(self.0.join("exit.json")).ok()?).ok()
    }
}
