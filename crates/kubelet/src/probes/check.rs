//! One try: an HTTP request, a TCP connection or a command. Lifecycle hooks are made of the same.

use std::{
    net::Ipv4Addr,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use k8s_openapi::{
    api::core::v1::{Container, ExecAction, HTTPGetAction, LifecycleHandler, Probe, TCPSocketAction},
    apimachinery::pkg::util::intstr::IntOrString,
};
use rustix::process::Signal;
use tokio::{net::TcpStream, time};

use super::{Kind, http};
use crate::{
    launch::{Spec, Streams},
    process::{self, Launcher},
};

#[derive(Debug, Clone)]
pub enum Action {
    Http(HTTPGetAction),
    Tcp(TCPSocketAction),
    Exec(ExecAction),
    Sleep(Duration),
    /// Nothing to do: counts as success, as for a kubelet.
    None,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    Success,
    Failure(String),
}

/// The container that is looked at.
#[derive(Debug, Clone)]
pub struct Target {
    pub address: Ipv4Addr,
    pub container: Container,
    pub launcher: Launcher,
    /// How the container itself was started; a command is run in the same surroundings.
    pub spec: Spec,
    /// Commands' output goes to files here.
    pub scratch: PathBuf,
}

/// Why a container's probes cannot be run here at all.
pub fn unsupported(container: &Container) -> Option<String> {
    Kind::ALL.into_iter().find(|kind| kind.of(container).is_some_and(|probe| probe.grpc.is_some())).map(|kind| {
        format!(
            "the {} probe of container \"{}\" is a grpc probe, which the process node does not run; use httpGet, \
             tcpSocket or exec",
            kind.title().to_lowercase(),
            container.name
        )
    })
}

// === impl Action ===

impl Action {
    pub fn of_probe(probe: &Probe) -> Self {
        Self::pick(probe.exec.as_ref(), probe.http_get.as_ref(), probe.tcp_socket.as_ref())
    }

    pub fn of_hook(hook: &LifecycleHandler) -> Self {
        match &hook.sleep {
            Some(sleep) => Self::Sleep(Duration::from_secs(sleep.seconds.try_into().unwrap_or(0))),
            None => Self::pick(hook.exec.as_ref(), hook.http_get.as_ref(), hook.tcp_socket.as_ref()),
        }
    }

    fn pick(exec: Option<&ExecAction>, http: Option<&HTTPGetAction>, tcp: Option<&TCPSocketAction>) -> Self {
        match (exec, http, tcp) {
            (Some(exec), _, _) => Self::Exec(exec.clone()),
            (_, Some(http), _) => Self::Http(http.clone()),
            (_, _, Some(tcp)) => Self::Tcp(tcp.clone()),
            _ => Self::None,
        }
    }
}

// === impl Target ===

impl Target {
    pub async fn perform(&self, action: &Action, timeout: Duration) -> Outcome {
        let result = match action {
            Action::Http(get) => self.http(get, timeout).await,
            Action::Tcp(tcp) => self.tcp(tcp, timeout).await,
            Action::Exec(exec) => self.exec(exec, timeout).await,
            Action::Sleep(duration) => {
                time::sleep(*duration).await;
                Ok(())
            }
            Action::None => Ok(()),
        };
        result.map_or_else(Outcome::Failure, |()| Outcome::Success)
    }

    async fn http(&self, get: &HTTPGetAction, timeout: Duration) -> Result<(), String> {
        let port = self.port(&get.port)?;
        let host = get.host.clone().filter(|h| !h.is_empty()).unwrap_or_else(|| self.address.to_string());
        let request = http::Request {
            tls: get.scheme.as_deref().is_some_and(|scheme| scheme.eq_ignore_ascii_case("https")),
            path: get.path.clone().unwrap_or_default(),
            headers: get.http_headers.iter().flatten().map(|h| (h.name.clone(), h.value.clone())).collect(),
            host,
            port,
        };
        let url = request.url();
        match time::timeout(timeout, http::get(request)).await {
            Ok(Ok(status)) if (200..400).contains(&status) => Ok(()),
            Ok(Ok(status)) => Err(format!("HTTP probe failed with statuscode: {status}")),
            Ok(Err(error)) => Err(format!("Get \"{url}\": {error}")),
            Err(_) => Err(format!(
                "Get \"{url}\": context deadline exceeded (Client.Timeout exceeded while awaiting headers)"
            )),
        }
    }

    async fn tcp(&self, tcp: &TCPSocketAction, timeout: Duration) -> Result<(), String> {
        let port = self.port(&tcp.port)?;
        let host = tcp.host.clone().filter(|h| !h.is_empty()).unwrap_or_else(|| self.address.to_string());
        match time::timeout(timeout, TcpStream::connect((host.as_str(), port))).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(error)) => Err(format!("dial tcp {host}:{port}: {error}")),
            Err(_) => Err(format!("dial tcp {host}:{port}: i/o timeout")),
        }
    }

    async fn exec(&self, exec: &ExecAction, timeout: Duration) -> Result<(), String> {
        let output = tempfile_path(&self.scratch);
        let mut spec = self.spec.clone();
        spec.argv = exec.command.clone().unwrap_or_default();
        spec.streams = Streams::Log { output: output.clone(), input: None };
        spec.record = None;
        let result = self.run(&spec, timeout).await;
        let said = std::fs::read(&output).unwrap_or_default();
        let _ = std::fs::remove_file(&output);
        result.map_err(|reason| {
            let said = String::from_utf8_lossy(&said[..said.len().min(1024)]).trim_end().to_owned();
            if said.is_empty() { reason } else { said }
        })
    }

    async fn run(&self, spec: &Spec, timeout: Duration) -> Result<(), String> {
        let mut child = self.launcher.spawn(spec).await.map_err(|error| error.to_string())?;
        let Ok(ended) = time::timeout(timeout, child.wait()).await else {
            if let Some(pid) = child.id().and_then(|pid| i32::try_from(pid).ok()) {
                process::signal_session(pid, Signal::KILL);
            }
            let _ = child.wait().await;
            return Err(format!("command {:?} timed out after {}s", spec.argv, timeout.as_secs()));
        };
        match ended {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => {
                Err(format!("command {:?} exited with {}", spec.argv, status.code().unwrap_or(137)))
            }
            Err(error) => Err(error.to_string()),
        }
    }

    fn port(&self, port: &IntOrString) -> Result<u16, String> {
        let by_name = |name: &str| {
            self.container
                .ports
                .iter()
                .flatten()
                .find(|p| p.name.as_deref() == Some(name))
                .map(|p| p.container_port)
                .or_else(|| name.parse().ok())
                .ok_or_else(|| format!("couldn't find port \"{name}\" among the container's ports"))
        };
        let number = match port {
            IntOrString::Int(number) => *number,
            IntOrString::String(name) => by_name(name)?,
        };
        u16::try_from(number).ok().filter(|p| *p > 0).ok_or_else(|| format!("invalid port number: {number}"))
    }
}

fn tempfile_path(directory: &Path) -> PathBuf {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    directory.join(format!("exec-{}.out", NEXT.fetch_add(1, Ordering::Relaxed)))
}
