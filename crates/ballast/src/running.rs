//! `up.json`: how scripts, and our own commands, find a running Ballast.

use std::{fs, io, path::Path};

use anyhow::{Context, Result};
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde::{Deserialize, Serialize};

const FILE: &str = "up.json";

/// Written when all is ready, removed at the end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Running {
    /// URL of the Kubernetes API.
    pub api: String,
    /// URL where functions are called.
    pub gateway: String,
    /// URL of metrics, debug and query paths.
    pub operator: String,
    pub pid: u32,
}

impl Running {
    /// # Errors
    /// When there is none, or it cannot be read.
    pub fn read(data_dir: &Path) -> Result<Self> {
        let path = data_dir.join(FILE);
        let text = match fs::read_to_string(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                anyhow::bail!(
                    "no Ballast runs in {}; start one with: ballast up --data-dir {0}",
                    data_dir.display()
                )
            }
            other => other.with_context(|| format!("failed to read {}", path.display()))?,
        };
        serde_json::from_str(&text).with_context(|| format!("{} is damaged", path.display()))
    }

    /// A reader sees all of it or nothing.
    pub fn write(&self, data_dir: &Path) -> Result<()> {
        disk::write_private(&data_dir.join(FILE), &serde_json::to_vec_pretty(self)?)
            .with_context(|| format!("failed to write {}", data_dir.join(FILE).display()))
    }

    pub fn remove(data_dir: &Path) {
        // it may be gone already
        let _ = fs::remove_file(data_dir.join(FILE));
    }
}

/// How to reach the Kubernetes API of the Ballast in a data directory, as its administrator.
pub async fn kube_config(data_dir: &Path) -> Result<kube::Config> {
    let kubeconfig = Kubeconfig::read_from(data_dir.join("kubeconfig"))?;
    Ok(kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?)
}
