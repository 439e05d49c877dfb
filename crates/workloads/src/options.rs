//! What to run, and how often to look.

use std::{collections::BTreeSet, fmt, path::PathBuf, str::FromStr, time::Duration};

use crate::{
    cronjob, daemonset, deployment, disruption, endpoints, garbage, hpa, job, namespace, quota, replicaset,
    statefulset, volume,
};

#[derive(Clone, Debug)]
pub struct Options {
    pub which: BTreeSet<Name>,
    /// How often each HPA decides although nothing changed.
    pub hpa_sync_period: Duration,
    /// What kube-controller-manager takes as `--horizontal-pod-autoscaler-*` flags.
    pub hpa_settings: decide::hpa::Settings,
    /// Where decisions are noted, for who asks why.
    pub history: scaling::History,
    /// How often each kind is listed anew, in case a watch lost an event.
    pub relist_period: Duration,
    /// Where claims of storage get directories of their own; without it they wait for somebody else to bind them.
    pub claims: Option<PathBuf>,
}

/// A controller's name, as it is given on a command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Name {
    Deployment,
    ReplicaSet,
    StatefulSet,
    DaemonSet,
    Job,
    CronJob,
    Endpoints,
    GarbageCollector,
    Namespace,
    ResourceQuota,
    PersistentVolume,
    Disruption,
    HorizontalPodAutoscaler,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no controller {given:?}: choose of {}", Name::ALL.map(Name::as_str).join(", "))]
pub struct UnknownName {
    pub given: String,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            which: Name::ALL.into(),
            hpa_sync_period: Duration::from_secs(15),
            hpa_settings: decide::hpa::Settings::default(),
            history: scaling::History::default(),
            relist_period: Duration::from_secs(300),
            claims: None,
        }
    }
}

impl Name {
    pub const ALL: [Self; 13] = [
        Self::Deployment,
        Self::ReplicaSet,
        Self::StatefulSet,
        Self::DaemonSet,
        Self::Job,
        Self::CronJob,
        Self::Endpoints,
        Self::GarbageCollector,
        Self::Namespace,
        Self::ResourceQuota,
        Self::PersistentVolume,
        Self::Disruption,
        Self::HorizontalPodAutoscaler,
    ];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Deployment => deployment::NAME,
            Self::ReplicaSet => replicaset::NAME,
            Self::StatefulSet => statefulset::NAME,
            Self::DaemonSet => daemonset::NAME,
            Self::Job => job::NAME,
            Self::CronJob => cronjob::NAME,
            Self::Endpoints => endpoints::NAME,
            Self::GarbageCollector => garbage::NAME,
            Self::Namespace => namespace::NAME,
            Self::ResourceQuota => quota::NAME,
            Self::PersistentVolume => volume::NAME,
            Self::Disruption => disruption::NAME,
            Self::HorizontalPodAutoscaler => hpa::NAME,
        }
    }

    /// What it does, in a line.
    pub const fn about(self) -> &'static str {
        match self {
            Self::Deployment => "Deployments: ReplicaSets, rolling updates and roll-backs",
            Self::ReplicaSet => "ReplicaSets: as many pods as wanted",
            Self::StatefulSet => "StatefulSets: pods with names and an order",
            Self::DaemonSet => "DaemonSets: a pod on every node that wants it",
            Self::Job => "Jobs: pods that run until enough of them succeeded",
            Self::CronJob => "CronJobs: a Job for each time of a schedule",
            Self::ResourceQuota => "counts what ResourceQuotas limit",
            Self::PersistentVolume => "PersistentVolumeClaims: a directory for each",
            Self::Endpoints => "Endpoints and EndpointSlices of Services",
            Self::GarbageCollector => "deletes what has lost its owners",
            Self::Namespace => "empties namespaces that are deleted",
            Self::Disruption => "PodDisruptionBudgets",
            Self::HorizontalPodAutoscaler => "HorizontalPodAutoscalers",
        }
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Name {
    type Err = UnknownName;

    fn from_str(given: &str) -> Result<Self, UnknownName> {
        let found = Self::ALL.into_iter().find(|name| name.as_str() == given);
        found.ok_or_else(|| UnknownName { given: given.to_owned() })
    }
}
