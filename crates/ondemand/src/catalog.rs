//! The functions of one namespace and their pods, as last seen.

use std::{
    net::IpAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use api::slimfaas::{Problem, Settings};
use tokio::sync::watch;

use crate::{Difference, SharedMap};

/// What a decision is written to: the object whose `scale` subresource counts.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Target {
    /// `apps/v1`, `serverless.kyma-project.io/v1alpha2`.
    pub api_version: Arc<str>,
    /// `Deployment`, `StatefulSet`, `Function`.
    pub kind: Arc<str>,
    pub namespace: Arc<str>,
    pub name: Arc<str>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Function {
    pub target: Target,
    pub settings: Arc<Settings>,
    pub problems: Vec<Problem>,
    /// `spec.replicas`.
    pub requested: i32,
    /// Whether it is ours to scale: false if it brings a scaler of its own.
    pub is_scaled: bool,
    /// Those that are not being deleted.
    pub pods: Vec<Pod>,
    /// Why a pod of it finds no node.
    pub unschedulable: Option<Arc<str>>,
    /// The HorizontalPodAutoscaler that scales the same workload: only zero, and waking from it, is ours.
    pub autoscaler: Option<Arc<str>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pod {
    pub name: Arc<str>,
    pub ip: Option<IpAddr>,
    /// The first declared container port.
    pub port: Option<u16>,
    pub ready: bool,
    /// Why its containers do not start: a crash loop, an image or a program that is not there.
    pub failure: Option<Arc<str>>,
}

/// One state of affairs; names are those of the workloads.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Snapshot {
    pub functions: SharedMap<Arc<str>, Arc<Function>>,
    /// Addresses of pods that may call what is private, and how many pods have each.
    pub trusted: SharedMap<IpAddr, usize>,
}

/// A handle to the latest [`Snapshot`].
#[derive(Clone, Debug)]
pub struct Catalog {
    latest: watch::Sender<Arc<Snapshot>>,
    filled: Arc<AtomicBool>,
}

impl Function {
    pub fn name(&self) -> &Arc<str> {
        &self.target.name
    }

    /// Why no pod becomes ready, if none of those that there are will without somebody's help. None while pods are still
    /// to come.
    pub fn start_failure(&self) -> Option<Arc<str>> {
        let are_all = usize::try_from(self.requested).is_ok_and(|requested| self.pods.len() >= requested);
        let is_hopeless = are_all && self.pods.iter().all(|pod| pod.failure.is_some());
        let pod = self.pods.first().filter(|_| is_hopeless)?;
        Some(format!("pod {} does not start: {}", pod.name, pod.failure.as_deref()?).into())
    }

    /// Pods a call can be sent to.
    pub fn ready(&self) -> impl Iterator<Item = &Pod> {
        self.pods.iter().filter(|pod| pod.ready && pod.ip.is_some() && pod.port.is_some())
    }
}

impl Default for Catalog {
    fn default() -> Self {
        Catalog { latest: watch::Sender::new(Arc::default()), filled: Arc::default() }
    }
}

impl Catalog {
    pub fn current(&self) -> Arc<Snapshot> {
        self.latest.borrow().clone()
    }

    pub fn get(&self, name: &str) -> Option<Arc<Function>> {
        self.latest.borrow().functions.get(name).cloned()
    }

    /// Whether `snapshot` is still the latest; cheaper than asking for the latest.
    pub fn is_current(&self, snapshot: &Arc<Snapshot>) -> bool {
        Arc::ptr_eq(&self.latest.borrow(), snapshot)
    }

    /// Whether somebody has told of the functions yet; until then an empty catalog means nothing.
    pub fn is_filled(&self) -> bool {
        self.filled.load(Ordering::Acquire)
    }

    /// Tells of every change after this call; the state at the time of the call counts as seen.
    pub fn subscribe(&self) -> watch::Receiver<Arc<Snapshot>> {
        self.latest.subscribe()
    }

    /// Tells subscribers, unless nothing changed.
    pub fn publish(&self, snapshot: impl Into<Arc<Snapshot>>) {
        let snapshot = snapshot.into();
        self.filled.store(true, Ordering::Release);
        self.latest.send_if_modified(|known| {
            let changed = !known.says_the_same(&snapshot);
            if changed {
                *known = snapshot;
            }
            changed
        });
    }
}

impl Snapshot {
    /// Functions that are new, gone, or not what they were. What did not change is the same object, so that most are not
    /// looked at.
    pub fn differences<'a>(
        before: &'a Self,
        after: &'a Self,
    ) -> Vec<Difference<'a, Arc<str>, Arc<Function>>> {
        SharedMap::differences(&before.functions, &after.functions, Arc::ptr_eq)
    }

    /// As equality, but what is the same object is not compared: of many functions nearly all are.
    fn says_the_same(&self, other: &Self) -> bool {
        let is_same = |a: &Arc<Function>, b: &Arc<Function>| Arc::ptr_eq(a, b) || a == b;
        self.trusted == other.trusted
            && SharedMap::differences(&self.functions, &other.functions, is_same).is_empty()
    }
}
