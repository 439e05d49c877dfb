//! etcd, kube-apiserver and, when asked for, kube-controller-manager and kube-scheduler, on free loopback ports.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context, Result, bail};
use kube::config::{KubeConfigOptions, Kubeconfig};
use tempfile::TempDir;

use crate::{
    process::{Running, free_ports, spawn},
    tools,
};

/// What to run besides etcd and kube-apiserver.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// kube-controller-manager and kube-scheduler.
    pub controllers: bool,
    /// etcd with fsync, as in production; only benchmarks want it.
    pub sync: bool,
}

/// A running control plane. Dropping it stops the processes and removes their files.
pub struct ControlPlane {
    // stopped in this order: those that use a server before the server
    controllers: Vec<Running>,
    pub apiserver: Running,
    pub etcd: Running,
    directory: TempDir,
    pub port: u16,
}

pub const TOKEN: &str = "ballast-test-token";

impl ControlPlane {
    pub async fn start(options: Options) -> Result<Self> {
        let directory = TempDir::with_prefix("ballast-real-")?;
        let path = directory.path();
        let [etcd_port, peer_port, port, scheduler_port] = free_ports()?;
        write_credentials(path, port)?;

        let flag = |name: &str, value: &dyn std::fmt::Display| format!("--{name}={value}");
        let file = |name: &str| path.join(name).display().to_string();
        let etcd_url = format!("http://127.0.0.1:{etcd_port}");
        let peer_url = format!("http://127.0.0.1:{peer_port}");
        let mut etcd_args = vec![
            flag("data-dir", &file("etcd")),
            flag("listen-client-urls", &etcd_url),
            flag("advertise-client-urls", &etcd_url),
            flag("listen-peer-urls", &peer_url),
            flag("initial-advertise-peer-urls", &peer_url),
            flag("initial-cluster", &format!("default={peer_url}")),
            flag("log-level", &"warn"),
        ];
        if !options.sync {
            etcd_args.push("--unsafe-no-fsync".to_owned());
        }
        let etcd = spawn(&tools::etcd()?, &etcd_args, &path.join("etcd.log"))?;
        let apiserver = spawn(
            &tools::kubernetes("kube-apiserver")?,
            &[
                flag("etcd-servers", &etcd_url),
                flag("secure-port", &port),
                flag("bind-address", &"127.0.0.1"),
                flag("cert-dir", &file("certs")),
                flag("service-account-key-file", &file("service-account.pub")),
                flag("service-account-signing-key-file", &file("service-account.key")),
                flag("service-account-issuer", &"https://ballast.test"),
                flag("token-auth-file", &file("tokens.csv")),
                flag("authorization-mode", &"RBAC"),
                flag("service-cluster-ip-range", &"10.96.0.0/16"),
                flag("kubelet-preferred-address-types", &"InternalIP"),
                // pods of the process node need no token volume, and the embedded API adds none
                flag("disable-admission-plugins", &"ServiceAccount"),
            ],
            &path.join("kube-apiserver.log"),
        )?;
        let mut plane = Self { controllers: Vec::new(), apiserver, etcd, directory, port };
        plane.wait_until_ready().await?;
        if options.controllers {
            plane.start_controllers(scheduler_port)?;
        }
        Ok(plane)
    }

    pub fn kubeconfig(&self) -> PathBuf {
        self.directory.path().join("kubeconfig")
    }

    pub async fn client(&self) -> Result<kube::Client> {
        client(&self.kubeconfig()).await
    }

    fn start_controllers(&mut self, scheduler_port: u16) -> Result<()> {
        let path = self.directory.path();
        let kubeconfig = format!("--kubeconfig={}", self.kubeconfig().display());
        let manager = spawn(
            &tools::kubernetes("kube-controller-manager")?,
            &[
                kubeconfig.clone(),
                "--leader-elect=false".to_owned(),
                "--secure-port=0".to_owned(),
                "--horizontal-pod-autoscaler-sync-period=1s".to_owned(),
                "--kube-api-qps=500".to_owned(),
                "--kube-api-burst=1000".to_owned(),
                format!("--service-account-private-key-file={}", path.join("service-account.key").display()),
            ],
            &path.join("kube-controller-manager.log"),
        )?;
        let scheduler = spawn(
            &tools::kubernetes("kube-scheduler")?,
            &[
                kubeconfig,
                "--leader-elect=false".to_owned(),
                format!("--secure-port={scheduler_port}"),
                "--bind-address=127.0.0.1".to_owned(),
            ],
            &path.join("kube-scheduler.log"),
        )?;
        self.controllers = vec![manager, scheduler];
        Ok(())
    }

    async fn wait_until_ready(&mut self) -> Result<()> {
        let request = || http::Request::get("/readyz").body(Vec::new());
        loop {
            if self.etcd.has_exited() || self.apiserver.has_exited() {
                bail!("the control plane did not start:\n{}", self.log_tails());
            }
            if let Ok(client) = self.client().await
                && client.request_text(request()?).await.is_ok()
            {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// The last lines of each program's log, for the message of a failed test.
    pub fn log_tails(&self) -> String {
        let mut text = String::new();
        for name in ["etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"] {
            if let Ok(log) = fs::read_to_string(self.directory.path().join(format!("{name}.log"))) {
                let lines: Vec<&str> = log.lines().collect();
                let tail = &lines[lines.len().saturating_sub(15)..];
                text.push_str(&format!("--- {name}\n{}\n", tail.join("\n")));
            }
        }
        text
    }
}

pub async fn client(kubeconfig: &Path) -> Result<kube::Client> {
    let kubeconfig = Kubeconfig::read_from(kubeconfig)?;
    let mut config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    // a test wants to see a 429, not to wait for it to pass
    config.default_retry = false;
    Ok(kube::Client::try_from(config)?)
}

fn write_credentials(path: &Path, port: u16) -> Result<()> {
    let key = rcgen::KeyPair::generate().context("failed to generate the service account key")?;
    fs::write(path.join("service-account.key"), key.serialize_pem())?;
    fs::write(path.join("service-account.pub"), key.public_key_pem())?;
    fs::write(path.join("tokens.csv"), format!("{TOKEN},admin,admin,system:masters\n"))?;
    let kubeconfig = serde_json::json!({
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "real",
        "clusters": [{"name": "real", "cluster": {
            "server": format!("https://127.0.0.1:{port}"), "insecure-skip-tls-verify": true
        }}],
        "users": [{"name": "admin", "user": {"token": TOKEN}}],
        "contexts": [{"name": "real", "context": {"cluster": "real", "user": "admin"}}],
    });
    fs::write(path.join("kubeconfig"), kubeconfig.to_string())?;
    Ok(())
}
