//! Which containers there are, for those who ask over HTTP: their logs and what they use.

use std::{
    collections::BTreeMap,
    sync::{Arc, PoisonError, RwLock},
};

use jiff::Timestamp;

use crate::{logs::Log, pod::disk::PodDir};

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
}

#[derive(Debug, Default)]
struct Container {
    waiting: Option<String>,
    run: Option<(u32, Arc<Log>)>,
    running: Option<Running>,
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
        let pod = Pod { namespace: namespace.to_owned(), name: name.to_owned(), dir, containers };
        self.write(|pods| pods.insert(uid.to_owned(), pod));
    }

    pub fn remove_pod(&self, uid: &str) {
        self.write(|pods| pods.remove(uid));
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
        });
    }

    pub fn set_ended(&self, uid: &str, container: &str) {
        self.with(uid, container, |entry| entry.running = None);
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
