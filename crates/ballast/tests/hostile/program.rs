//! `ballast up`, functions to attack, and what the process takes.

use std::{
    net::SocketAddr,
    path::Path,
    process::{Child, Command, Stdio},
    time::Duration,
};

use k8s_openapi::api::apps::v1::Deployment;
use kube::{
    Api, Client, Config,
    api::PostParams,
    config::{KubeConfigOptions, Kubeconfig},
};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::client;

pub const CONNECTIONS: usize = 40;
pub const BODY_MEMORY: u64 = 16 << 20;
pub const ASYNC_MEMORY: u64 = 4 << 20;
pub const HELD: usize = 100;
/// What one connection may have in memory: buffers for a head, for what is read of a body and for what is written.
pub const OF_A_CONNECTION: u64 = 512 << 10;

/// Answers 101 to whoever asks for another protocol, 500 at `/fail`, after a while at `/slow`, as many bytes as asked for at `/bytes/N`, and otherwise
/// with the first line of the request and all lines it was asked before.
const APP: &str = r#"
import os, socket, threading, time
seen = []
def serve(c):
    f = c.makefile('rb')
    while True:
        first = f.readline().decode('latin1').strip()
        if not first: return
        length, upgrade, chunked = 0, False, False
        while True:
            line = f.readline().decode('latin1').strip().lower()
            if not line: break
            if line.startswith('content-length:'): length = int(line.split(':')[1])
            if line.startswith('upgrade:'): upgrade = True
            if line.startswith('transfer-encoding:'): chunked = True
        if chunked:
            while True:
                size = int(f.readline().split(b';')[0], 16)
                f.read(size); f.readline()
                if size == 0: break
        f.read(length)
        if upgrade:
            c.sendall(b'HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n')
            while c.recv(4096): pass
            return
        path = first.split(' ')[1]
        status, body = '200 OK', b''
        if path.startswith('/fail'): status = '500 No'
        elif path.startswith('/slow'): time.sleep(2)
        elif path.startswith('/bytes/'): body = b'x' * int(path.split('/')[2])
        elif path.startswith('/seen'): body = '\n'.join(seen).encode()
        else: seen.append(first)
        c.sendall(('HTTP/1.1 %s\r\ncontent-length: %d\r\n\r\n' % (status, len(body))).encode() + body)
s = socket.socket()
s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
s.bind((os.environ['POD_IP'], 8080))
s.listen(512)
while True:
    c, _ = s.accept()
    threading.Thread(target=serve, args=(c,), daemon=True).start()
"#;

pub struct Program {
    up: Stopped,
    data: TempDir,
    pub gateway: SocketAddr,
}

pub struct Served {
    _serve: Stopped,
    pub gateway: SocketAddr,
    pub operator: SocketAddr,
}

/// Ends with the test, however the test ends. Asked to, so that its pods end too: they are processes of their own.
struct Stopped(Child);

impl Drop for Stopped {
    fn drop(&mut self) {
        let pid = Pid::from_raw(i32::try_from(self.0.id()).unwrap_or_default());
        // The first waits for calls under way, the second does not.
        for _ in 0..2 {
            let _ = kill(pid, Signal::SIGTERM);
            std::thread::sleep(Duration::from_millis(200));
        }
        let _ = self.0.wait();
    }
}

async fn spawn(data: &Path) -> (Stopped, SocketAddr) {
    let connections = CONNECTIONS.to_string();
    let mut command = Command::new(env!("CARGO_BIN_EXE_ballast"));
    command.args(["up", "--quiet", "--no-demo", "--data-dir"]).arg(data);
    command.args(["--connections", &connections, "--connections-per-address", &connections]);
    command.args(["--body-memory", &(BODY_MEMORY >> 20).to_string(), "--held-calls", &HELD.to_string()]);
    command.args(["--async-memory", &(ASYNC_MEMORY >> 20).to_string()]);
    command.args(["--head-timeout", "3", "--body-idle-timeout", "5"]);
    command.args(["--dead-letters", "40", "--results", "30", "--result-size", "8"]);
    let mut up = Stopped(command.stdin(Stdio::null()).spawn().unwrap());
    let running: Value = loop {
        if let Some(status) = up.0.try_wait().unwrap() {
            panic!("ballast up ended: {status}");
        }
        let text = std::fs::read_to_string(data.join("up.json")).unwrap_or_default();
        let running: Value = serde_json::from_str(&text).unwrap_or_default();
        if running["pid"] == up.0.id() {
            break running;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    let gateway = running["gateway"].as_str().unwrap().strip_prefix("http://").unwrap();
    (up, gateway.parse().unwrap())
}

impl Program {
    pub async fn start() -> Self {
        let data = tempfile::tempdir().unwrap();
        let (up, gateway) = spawn(data.path()).await;
        let program = Program { up, data, gateway };
        let asynchronous = json!({"DefaultAsync": {"TimeoutRetries": []}}).to_string();
        let parallel = [
            ("SlimFaas/Configuration", &*asynchronous),
            ("SlimFaas/NumberParallelRequest", "100"),
            ("SlimFaas/NumberParallelRequestPerPod", "100"),
        ];
        program.function("open", &parallel, "true").await;
        // never ready: whoever calls it is held
        program.function("asleep", &[], "false").await;
        program.serves().await;
        program
    }

    /// Ends and starts again, with what it kept.
    pub async fn restart(self) -> Self {
        let Program { up, data, .. } = self;
        drop(up);
        let (up, gateway) = spawn(data.path()).await;
        let program = Program { up, data, gateway };
        program.serves().await;
        program
    }

    async fn serves(&self) {
        while client::get(self.gateway, "/function/open/first").await.status != 200 {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    pub async fn function(&self, name: &str, more: &[(&str, &str)], probe: &str) {
        let mut annotations = json!({"SlimFaas/Function": "true", "SlimFaas/ReplicasMin": "1"});
        for (key, value) in more {
            annotations[key] = (*value).into();
        }
        let object: Deployment = serde_json::from_value(json!({
            "metadata": {"name": name, "annotations": annotations},
            "spec": {
                "replicas": 1,
                "selector": {"matchLabels": {"app": name}},
                "template": {
                    "metadata": {"labels": {"app": name}},
                    "spec": {"containers": [{
                        "name": "app", "image": "python", "command": ["python3", "-c", APP],
                        "ports": [{"containerPort": 8080}],
                        "env": [{"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}],
                        "readinessProbe": {"exec": {"command": [probe]}, "periodSeconds": 1},
                    }]},
                },
            },
        }))
        .unwrap();
        let kubeconfig = Kubeconfig::read_from(self.data.path().join("kubeconfig")).unwrap();
        let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
        let api: Api<Deployment> = Api::default_namespaced(Client::try_from(config).unwrap());
        api.create(&PostParams::default(), &object).await.unwrap();
    }

    /// `ballast serve` on the same cluster.
    pub async fn serve(&self) -> Served {
        let log = self.data.path().join("serve.log");
        let mut command = Command::new(env!("CARGO_BIN_EXE_ballast"));
        command.env("KUBECONFIG", self.data.path().join("kubeconfig"));
        command.args(["serve", "--namespace", "default", "--controllers", "demand", "--store", "memory:"]);
        command.args([
            "--node-name",
            "served",
            "--gateway-addr",
            "127.0.0.1:0",
            "--operator-addr",
            "127.0.0.1:0",
        ]);
        command.stdin(Stdio::null()).stdout(std::fs::File::create(&log).unwrap());
        let mut serve = Stopped(command.spawn().unwrap());
        let text = loop {
            let text = std::fs::read_to_string(&log).unwrap();
            if text.contains("operators on http://") && text.ends_with('\n') {
                break text;
            }
            assert!(serve.0.try_wait().unwrap().is_none(), "serve ended: {text}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        };
        let address = |before: &str| -> SocketAddr {
            let rest = text.split_once(before).unwrap().1;
            rest.split_whitespace().next().unwrap().parse().unwrap()
        };
        let served = Served {
            gateway: address("functions on http://"),
            operator: address("operators on http://"),
            _serve: serve,
        };
        while client::get(served.gateway, "/function/open/served").await.status != 200 {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        served
    }

    /// The most that the process took in memory while `attack` went on, beyond what it took before.
    pub async fn growth<T>(&self, attack: impl Future<Output = T>) -> (u64, T) {
        // From here on the peak is that of the attack (proc(5), clear_refs).
        std::fs::write(format!("/proc/{}/clear_refs", self.up.0.id()), "5").unwrap();
        let before = self.memory("VmRSS:");
        let result = attack.await;
        let peak = self.memory("VmHWM:");
        (peak.saturating_sub(before), result)
    }

    /// In bytes.
    fn memory(&self, field: &str) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.up.0.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix(field)).unwrap();
        line.trim().strip_suffix(" kB").unwrap().parse::<u64>().unwrap() * 1024
    }

    pub async fn metric(&self, name: &str) -> f64 {
        let page = client::get(self.gateway, "/metrics").await.text();
        let line =
            page.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_else(|| panic!("{name}: {page}"));
        line.trim().parse().unwrap()
    }

    /// Nobody else's connections are there any more.
    pub async fn is_alone(&self) {
        // the one that asks
        while self.metric("ballast_gateway_connections ").await > 1.0 {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    pub async fn is_well(&self) {
        for path in ["/health", "/ready", "/function/open/well"] {
            let answer = client::get(self.gateway, path).await;
            assert_eq!(answer.status, 200, "{path}: {}", answer.text());
        }
    }
}
