//! What to run, and how often to look.

use std::{collections::BTreeSet, fmt, str::FromStr, time::Duration};

use crate::{deployment, disruption, endpoints, garbage, hpa, namespace, replicaset, statefulset};

#[derive(Clone, Debug)]
pub struct Options {
    pub which: BTreeSet<Name>,
    /// How often each HPA decides although nothing changed.
    pub hpa_sync_period: Duration,
    /// What kube-controller-manager takes as `--horizontal-pod-autoscaler-*` flags.
    pub hpa_settings: decide::hpa::Settings,
    /// How often each kind is listed anew, in case a watch lost an event.
    pub relist_period: Duration,
}

/// A controller's name, as it is given on a command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Name {
    Deployment,
    ReplicaSet,
    StatefulSet,
    Endpoints,
    GarbageCollector,
    Namespace,
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
            relist_period: Duration::from_secs(300),
        }
    }
}

impl Name {
    pub const ALL: [Self; 8] = [
        Self::Deployment,
        Self::ReplicaSet,
        Self::StatefulSet,
        Self::Endpoints,
        Self::GarbageCollector,
        Self::Namespace,
        Self::Disruption,
        Self::HorizontalPodAutoscaler,
    ];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Deployment => deployment::NAME,
            Self::ReplicaSet => replicaset::NAME,
            Self::StatefulSet => statefulset::NAME,
            Self::Endpoints => endpoints::NAME,
            Self::GarbageCollector => garbage::NAME,
            Self::Namespace => namespace::NAME,
            Self::Disruption => disruption::NAME,
            Self::HorizontalPodAutoscaler => hpa::NAME,
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
