//! A namespace with pipelines, and who looks after them.

use std::{
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, ensure};
use cluster::{Cluster, Flavor, Nats, Running, eventually, spawn};
use kube::{
    Client, Config,
    config::{KubeConfigOptions, Kubeconfig},
};
use serde_json::{Value, json};
use tempfile::TempDir;

pub struct World {
    pub client: Client,
    pub namespace: String,
    pub operator: SocketAddr,
    /// The spec of an InterStepBufferService.
    pub buffers: Value,
    pub directory: TempDir,
    log: PathBuf,
    _nats: Option<Nats>,
    _running: Running,
}

impl World {
    /// `ballast up`, which is a Kubernetes itself, or `ballast serve` on the real one.
    pub async fn start(cluster: &'static Cluster) -> Result<Self> {
        match cluster.flavor {
            Flavor::Embedded => Self::up().await,
            Flavor::Real => Self::serve(cluster).await,
        }
    }

    async fn up() -> Result<Self> {
        let directory = TempDir::with_prefix("ballast-pipelines-")?;
        let data_dir = directory.path().join("data");
        let log = directory.path().join("up.log");
        let data = data_dir.display().to_string();
        let args = ["up", "-v", "--no-demo", "--data-dir", &data].map(str::to_owned);
        let mut running = spawn(Path::new(env!("CARGO_BIN_EXE_ballast")), &args, &log)?;
        let told = eventually("ballast up to be up", || {
            let text = fs::read_to_string(data_dir.join("up.json")).unwrap_or_default();
            let (ended, said) = (running.has_exited(), fs::read_to_string(&log).unwrap_or_default());
            async move {
                ensure!(!ended, "it ended:\n{said}");
                Ok(serde_json::from_str::<Value>(&text).map_err(|_| said))
            }
        })
        .await?;
        let operator = told["operator"].as_str().and_then(|url| url.strip_prefix("http://"));
        let operator = operator.context("no operator port")?.parse()?;
        let kubeconfig = Kubeconfig::read_from(data_dir.join("kubeconfig"))?;
        let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
        Ok(Self {
            client: Client::try_from(config)?,
            namespace: "default".to_owned(),
            operator,
            buffers: json!({ "embedded": {} }),
            directory,
            log,
            _nats: None,
            _running: running,
        })
    }

    async fn serve(cluster: &'static Cluster) -> Result<Self> {
        let directory = TempDir::with_prefix("ballast-pipelines-")?;
        let nats = Nats::one().await?;
        controllers::crds::install(&cluster.client()).await?;
        let namespace = cluster.namespace("pipelines").await?;
        let log = directory.path().join("serve.log");
        let mut args = vec![
            format!("KUBECONFIG={}", cluster.kubeconfig().display()),
            env!("CARGO_BIN_EXE_ballast").to_owned(),
        ];
        let store = format!("redb:{}", directory.path().join("ballast.redb").display());
        let only = format!("--function-namespace={namespace}");
        let options = [
            "serve",
            "--namespace",
            &namespace,
            "--store",
            &store,
            "--gateway-addr",
            "127.0.0.1:0",
            "--operator-addr",
            "127.0.0.1:0",
            "--node-name",
            "node-a",
            "--lease",
            "3",
            "--loopback-pods",
            "--controllers=pipelines",
            &only,
        ];
        args.extend(options.map(str::to_owned));
        let mut running = spawn(Path::new("env"), &args, &log)?;
        let operator = eventually("ballast serve to serve", || {
            let (ended, said) = (running.has_exited(), fs::read_to_string(&log).unwrap_or_default());
            async move {
                ensure!(!ended, "it ended:\n{said}");
                let address = said
                    .split_once("operators on http://")
                    .and_then(|(_, rest)| rest.split_whitespace().next()?.parse().ok());
                Ok(address.ok_or(said))
            }
        })
        .await?;
        Ok(Self {
            client: cluster.client(),
            namespace,
            operator,
            buffers: json!({ "jetstream": { "url": nats.url() } }),
            directory,
            log,
            _nats: Some(nats),
            _running: running,
        })
    }

    /// What Ballast has said.
    pub fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }
}
