//! Which containers there are, for those who ask over HTTP: their logs, what they use, and how to get into them.

use std::{
    collections::BTreeMap,
    io,
    net::Ipv4Addr,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError, RwLock},
};

use jiff::Timestamp;
use tokio::net::unix::pipe;
use tokio_util::sync::CancellationToken;

use crate::{
    launch::{Input, Spec, Streams},
    logs::Log,
    pod::disk::PodDir,
    terminal::Window,
};

#[derive(Debug, Default)]
pub struct Registry {
    pods: RwLock<BTreeMap<String, Pod>>,
}

#[derive(Debug)]
struct Pod {
    namespace: String,
    name: String,
    dir: PodDir,
    containers: BTreeMap<String, Container>,
    /// Cancelled when the pod is.
    gone: CancellationToken,
}

#[derive(Debug, Default)]
struct Container {
    waiting: Option<String>,
    run: Option<(u32, Arc<Log>)>,
    running: Option<Running>,
    site: Option<Arc<Site>>,
}

/// A running container for those who want to get into it.
#[derive(Debug)]
pub struct Site {
    /// How the container itself was started; other commands get the same surroundings.
    pub spec: Spec,
    pub log: Arc<Log>,
    pub stdin: Option<Stdin>,
    pub address: Ipv4Addr,
    /// Cancelled when the container has ended and its output is complete.
    pub ended: CancellationToken,
}

/// How a container is told something.
#[derive(Debug)]
pub enum Stdin {
    /// It never ends, whoever comes and goes.
    Fifo(PathBuf),
    /// Held open for the first who writes to it; then it ends.
    Once(Mutex<Option<pipe::Sender>>),
    /// A terminal is held open for as long as the container is, whether or not it may be written to.
    Terminal { window: Window, writable: bool },
}

#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum NoSite {
    #[error("pod does not exist")]
    Pod,
    /// Whether there never was one or it does not run is all the same to a kubelet.
    #[error("container not found (\"{0}\")")]
    Container(String),
    #[error("pod not found (\"{0}\")")]
    NothingRuns(String),
}

/// A running container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Running {
    pub id: String,
    pub session: i32,
    pub since: Timestamp,
}

/// A running container by its names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Named {
    pub namespace: String,
    pub pod: String,
    pub container: String,
    pub running: Running,
}

#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum NoLog {
    #[error("pod \"{0}\" not found")]
    Pod(String),
    #[error("container \"{container}\" is not valid for pod \"{pod}\"")]
    Container { pod: String, container: String },
    #[error("container \"{container}\" in pod \"{pod}\" is waiting to start: {reason}")]
    Waiting { pod: String, container: String, reason: String },
    #[error("previous terminated container \"{container}\" in pod \"{pod}\" not found")]
    Previous { pod: String, container: String },
}

// === impl Registry ===

impl Registry {
    pub fn add_pod<'a>(
        &self,
        uid: &str,
        namespace: &str,
        name: &str,
        dir: PodDir,
        containers: impl Iterator<Item = &'a str>,
    ) {
        let containers = containers.map(|name| (name.to_owned(), Container::default())).collect();
        let (namespace, name, gone) = (namespace.to_owned(), name.to_owned(), CancellationToken::new());
        let pod = Pod { namespace, name, dir, containers, gone };
        self.write(|pods| pods.insert(uid.to_owned(), pod));
    }

    pub fn remove_pod(&self, uid: &str) {
        if let Some(pod) = self.write(|pods| pods.remove(uid)) {
            pod.gone.cancel();
        }
    }

    /// A run has begun or is known to have been; it is `running` once it has a process.
    pub fn set_run(
        &self,
        uid: &str,
        container: &str,
        instance: u32,
        log: Arc<Log>,
        running: Option<Running>,
    ) {
        self.with(uid, container, |entry| {
            entry.run = Some((instance, log));
            entry.running = running;
            entry.site = None;
        });
    }

    /// Lets others into the container's latest run.
    pub fn open(&self, uid: &str, container: &str, spec: Spec, stdin: Option<Stdin>, address: Ipv4Addr) {
        self.write(|pods| {
            let Some(pod) = pods.get_mut(uid) else { return };
            let ended = pod.gone.child_token();
            if let Some(entry) = pod.containers.get_mut(container)
                && let Some((_, log)) = &entry.run
            {
                let log = Arc::clone(log);
                entry.site = Some(Arc::new(Site { spec, log, stdin, address, ended }));
            }
        });
    }

    /// The way into a running container.
    pub fn site(&self, namespace: &str, pod: &str, container: &str) -> Result<Arc<Site>, NoSite> {
        let pods = self.pods.read().unwrap_or_else(PoisonError::into_inner);
        let found = pods.values().find(|p| p.namespace == namespace && p.name == pod).ok_or(NoSite::Pod)?;
        let site = found.containers.get(container).and_then(|entry| entry.site.clone());
        site.ok_or_else(|| NoSite::Container(container.to_owned()))
    }

    /// Where a pod's ports are, and when they no longer are.
    pub fn address(&self, namespace: &str, pod: &str) -> Result<(Ipv4Addr, CancellationToken), NoSite> {
        let pods = self.pods.read().unwrap_or_else(PoisonError::into_inner);
        let found = pods.values().find(|p| p.namespace == namespace && p.name == pod).ok_or(NoSite::Pod)?;
        let site = found.containers.values().find_map(|entry| entry.site.as_ref());
        let site = site.ok_or_else(|| NoSite::NothingRuns(format!("{pod}_{namespace}")))?;
        Ok((site.address, found.gone.clone()))
    }

    pub fn set_ended(&self, uid: &str, container: &str) {
        self.with(uid, container, |entry| {
            entry.running = None;
            if let Some(site) = entry.site.take() {
                site.ended.cancel();
            }
        });
    }

    pub fn set_waiting(&self, uid: &str, container: &str, reason: Option<&str>) {
        self.with(uid, container, |entry| entry.waiting = reason.map(str::to_owned));
    }

    /// The log of a container's latest run, or of the one before.
    pub fn log(
        &self,
        namespace: &str,
        pod: &str,
        container: &str,
        previous: bool,
    ) -> Result<Arc<Log>, NoLog> {
        let pods = self.pods.read().unwrap_or_else(PoisonError::into_inner);
        let found = pods.values().find(|p| p.namespace == namespace && p.name == pod);
        let found = found.ok_or_else(|| NoLog::Pod(pod.to_owned()))?;
        let (pod, container_name) = (pod.to_owned(), container.to_owned());
        let Some(entry) = found.containers.get(container) else {
            return Err(NoLog::Container { pod, container: container_name });
        };
        let Some((instance, log)) = &entry.run else {
            if previous {
                return Err(NoLog::Previous { pod, container: container_name });
            }
            let reason =
                entry.waiting.clone().unwrap_or_else(|| crate::pod::reasons::CONTAINER_CREATING.to_owned());
            return Err(NoLog::Waiting { pod, container: container_name, reason });
        };
        if !previous {
            return Ok(Arc::clone(log));
        }
        let dir = instance.checked_sub(1).map(|before| found.dir.run(container, before));
        match dir.filter(|dir| Log::exists(dir.path())) {
            Some(dir) => Ok(Log::ended(dir.path())),
            None => Err(NoLog::Previous { pod, container: container_name }),
        }
    }

    /// Everything that runs.
    pub fn running(&self) -> Vec<Named> {
        let pods = self.pods.read().unwrap_or_else(PoisonError::into_inner);
        let containers = pods.values().flat_map(|pod| {
            pod.containers.iter().filter_map(|(container, entry)| {
                Some(Named {
                    namespace: pod.namespace.clone(),
                    pod: pod.name.clone(),
                    container: container.clone(),
                    running: entry.running.clone()?,
                })
            })
        });
        containers.collect()
    }

    fn with(&self, uid: &str, container: &str, change: impl FnOnce(&mut Container)) {
        self.write(|pods| {
            if let Some(entry) = pods.get_mut(uid).and_then(|pod| pod.containers.get_mut(container)) {
                change(entry);
            }
        });
    }

    fn write<R>(&self, change: impl FnOnce(&mut BTreeMap<String, Pod>) -> R) -> R {
        change(&mut self.pods.write().unwrap_or_else(PoisonError::into_inner))
    }
}

// === impl Site ===

impl Site {
    /// # Errors
    /// Says why the container cannot be told anything.
    pub fn writer(&self) -> Result<pipe::Sender, String> {
        let opened = match &self.stdin {
            None | Some(Stdin::Terminal { writable: false, .. }) => {
                return Err("the container has no stdin; set stdin: true in its manifest".to_owned());
            }
            Some(Stdin::Fifo(path)) => open(path),
            Some(Stdin::Terminal { window, writable: true }) => window.writer(),
            Some(Stdin::Once(once)) => {
                let first = once.lock().unwrap_or_else(PoisonError::into_inner).take();
                first.ok_or_else(|| io::Error::other("stdinOnce is set, and it was used once"))
            }
        };
        opened.map_err(|error| format!("cannot open the container's stdin: {error}"))
    }

    pub fn window(&self) -> Option<&Window> {
        match &self.stdin {
            Some(Stdin::Terminal { window, .. }) => Some(window),
            _ => None,
        }
    }
}

// === impl Stdin ===

impl Stdin {
    /// Of a container without a terminal, if it is to have one.
    pub fn of(spec: &Spec) -> io::Result<Option<Self>> {
        Ok(match &spec.streams {
            Streams::Log { input: Some(Input { path, once: true }), .. } => {
                Some(Self::Once(Mutex::new(Some(open(path)?))))
            }
            Streams::Log { input: Some(Input { path, once: false }), .. } => Some(Self::Fifo(path.clone())),
            _ => None,
        })
    }
}

/// For reading as well: to open it must not wait for the other end.
fn open(path: &Path) -> io::Result<pipe::Sender> {
    pipe::OpenOptions::new().read_write(true).open_sender(path)
}
