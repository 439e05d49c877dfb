//! etcd, kube-apiserver and, when asked for, kube-controller-manager and kube-scheduler, on free loopback ports.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context, Result, bail};
use kube::{
    Api,
    api::{DynamicObject, PostParams},
    config::{KubeConfigOptions, Kubeconfig},
    core::ApiResource,
};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose,
};
use serde_json::{Value, json};
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
    /// An audit log of what [`ControlPlane::audited_kubeconfig`] is used for.
    pub audit: bool,
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

/// Not a limit of speed: after this long nothing is going to happen any more.
const STUCK: Duration = Duration::from_secs(300);
const FRONT_PROXY: &str = "front-proxy";
/// Whose requests the audit log has.
const AUDITED: &str = "audited";

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
        let mut audit_args = Vec::new();
        if options.audit {
            fs::write(path.join("audit-policy.json"), audit_policy().to_string())?;
            audit_args = vec![
                flag("audit-policy-file", &file("audit-policy.json")),
                flag("audit-log-path", &file("audit.log")),
                // one file, however long
                flag("audit-log-maxsize", &100_000),
            ];
        }
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
                // for aggregated APIs such as that of metrics-server
                flag("requestheader-client-ca-file", &file("front-proxy-ca.crt")),
                flag("requestheader-allowed-names", &FRONT_PROXY),
                flag("requestheader-username-headers", &"X-Remote-User"),
                flag("requestheader-group-headers", &"X-Remote-Group"),
                flag("requestheader-extra-headers-prefix", &"X-Remote-Extra-"),
                flag("proxy-client-cert-file", &file("front-proxy.crt")),
                flag("proxy-client-key-file", &file("front-proxy.key")),
            ]
            .into_iter()
            .chain(audit_args)
            .collect::<Vec<String>>(),
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

    /// The same, for a user of whose requests there is an audit log.
    pub fn audited_kubeconfig(&self) -> PathBuf {
        self.directory.path().join("audited-kubeconfig")
    }

    pub fn audit_log(&self) -> PathBuf {
        self.directory.path().join("audit.log")
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
                // silence is to be seen within a test
                format!(
                    "--horizontal-pod-autoscaler-downscale-stabilization={}s",
                    crate::DOWNSCALE_STABILIZATION_SECONDS
                ),
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

    /// metrics-server, and the APIService that leads to it.
    pub async fn start_metrics(&self) -> Result<Running> {
        let path = self.directory.path();
        let [port] = free_ports()?;
        let kubeconfig = self.kubeconfig().display().to_string();
        let mut running = spawn(
            &tools::metrics_server()?,
            &[
                format!("--kubeconfig={kubeconfig}"),
                format!("--authentication-kubeconfig={kubeconfig}"),
                format!("--authorization-kubeconfig={kubeconfig}"),
                format!("--secure-port={port}"),
                "--bind-address=127.0.0.1".to_owned(),
                format!("--cert-dir={}", path.join("metrics-server").display()),
                "--kubelet-insecure-tls".to_owned(),
                "--kubelet-use-node-status-port".to_owned(),
                "--kubelet-preferred-address-types=InternalIP".to_owned(),
                // the one has to be above the other
                "--metric-resolution=15s".to_owned(),
                "--kubelet-request-timeout=10s".to_owned(),
            ],
            &path.join("metrics-server.log"),
        )?;
        self.aggregate("metrics.k8s.io", "v1beta1", port).await?;
        let client = self.client().await?;
        let begun = std::time::Instant::now();
        loop {
            let nodes = http::Request::get("/apis/metrics.k8s.io/v1beta1/nodes").body(Vec::new())?;
            match client.request_text(nodes).await {
                Ok(_) => return Ok(running),
                Err(error) if running.has_exited() || begun.elapsed() > STUCK => {
                    bail!("metrics-server does not answer ({error}):\n{}", self.log_tails());
                }
                Err(_) => tokio::time::sleep(Duration::from_millis(200)).await,
            }
        }
    }

    /// The APIService of a group that a server on loopback has. Its Service is an external name, since the API server
    /// takes no loopback addresses in endpoints.
    pub async fn aggregate(&self, group: &str, version: &str, port: u16) -> Result<()> {
        let client = self.client().await?;
        let name = group.replace('.', "-");
        let service = json!({
            "apiVersion": "v1", "kind": "Service",
            "metadata": {"name": name, "namespace": "kube-system"},
            "spec": {"type": "ExternalName", "externalName": "localhost", "ports": [{"port": port}]},
        });
        let services: Api<DynamicObject> =
            Api::namespaced_with(client.clone(), "kube-system", &resource("", "v1", "Service", "services"));
        services.create(&PostParams::default(), &serde_json::from_value(service)?).await?;
        let api_service = json!({
            "apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
            "metadata": {"name": format!("{version}.{group}")},
            "spec": {
                "group": group, "version": version,
                "groupPriorityMinimum": 100, "versionPriority": 100, "insecureSkipTLSVerify": true,
                "service": {"name": name, "namespace": "kube-system", "port": port},
            },
        });
        let kind = resource("apiregistration.k8s.io", "v1", "APIService", "apiservices");
        let api_services: Api<DynamicObject> = Api::all_with(client, &kind);
        api_services.create(&PostParams::default(), &serde_json::from_value(api_service)?).await?;
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
        for name in ["etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "metrics-server"]
        {
            if let Ok(log) = fs::read_to_string(self.directory.path().join(format!("{name}.log"))) {
                let lines: Vec<&str> = log.lines().collect();
                let tail = &lines[lines.len().saturating_sub(15)..];
                text.push_str(&format!("--- {name}\n{}\n", tail.join("\n")));
            }
        }
        text
    }
}

fn resource(group: &str, version: &str, kind: &str, plural: &str) -> ApiResource {
    let api_version = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
    ApiResource {
        group: group.to_owned(),
        version: version.to_owned(),
        api_version,
        kind: kind.to_owned(),
        plural: plural.to_owned(),
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
    let key = KeyPair::generate().context("failed to generate the service account key")?;
    fs::write(path.join("service-account.key"), key.serialize_pem())?;
    fs::write(path.join("service-account.pub"), key.public_key_pem())?;
    write_front_proxy(path).context("failed to make the certificates of aggregated APIs")?;
    let tokens =
        format!("{TOKEN},admin,admin,system:masters\n{AUDITED},{AUDITED},{AUDITED},system:masters\n");
    fs::write(path.join("tokens.csv"), tokens)?;
    fs::write(path.join("kubeconfig"), kubeconfig(port, TOKEN).to_string())?;
    fs::write(path.join("audited-kubeconfig"), kubeconfig(port, AUDITED).to_string())?;
    Ok(())
}

fn kubeconfig(port: u16, token: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "real",
        "clusters": [{"name": "real", "cluster": {
            "server": format!("https://127.0.0.1:{port}"), "insecure-skip-tls-verify": true
        }}],
        "users": [{"name": "admin", "user": {"token": token}}],
        "contexts": [{"name": "real", "context": {"cluster": "real", "user": "admin"}}],
    })
}

/// One line for each request of one user, without bodies.
fn audit_policy() -> Value {
    json!({
        "apiVersion": "audit.k8s.io/v1", "kind": "Policy",
        "omitStages": ["RequestReceived", "ResponseStarted"],
        "rules": [{"level": "Metadata", "users": [AUDITED]}, {"level": "None"}],
    })
}

/// With it the API server proves to an aggregated API that a request comes from it.
fn write_front_proxy(path: &Path) -> Result<()> {
    let named = |name: &str| {
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, name);
        params
    };
    let ca_key = KeyPair::generate()?;
    let mut ca = named("front-proxy-ca");
    ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    ca.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
    fs::write(path.join("front-proxy-ca.crt"), ca.self_signed(&ca_key)?.pem())?;
    let issuer = Issuer::new(ca, ca_key);
    let key = KeyPair::generate()?;
    let mut params = named(FRONT_PROXY);
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    fs::write(path.join("front-proxy.crt"), params.signed_by(&key, &issuer)?.pem())?;
    fs::write(path.join("front-proxy.key"), key.serialize_pem())?;
    Ok(())
}
