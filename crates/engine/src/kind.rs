//! The kinds of API object the controllers name. Kinds found by discovery at run time have the same form.

use std::{any::TypeId, borrow::Cow, fmt};

use k8s_openapi::NamespaceResourceScope;
use kube::{Resource, core::ApiResource};
use serde_json::Value;

/// One row of what an API serves: enough to build any request for it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Kind {
    pub group: Cow<'static, str>,
    pub version: Cow<'static, str>,
    pub kind: Cow<'static, str>,
    pub plural: Cow<'static, str>,
    pub namespaced: bool,
}

pub const POD: Kind = Kind::namespaced("", "v1", "Pod", "pods");
pub const CONFIG_MAP: Kind = Kind::namespaced("", "v1", "ConfigMap", "configmaps");
pub const SECRET: Kind = Kind::namespaced("", "v1", "Secret", "secrets");
pub const SERVICE: Kind = Kind::namespaced("", "v1", "Service", "services");
pub const ENDPOINTS: Kind = Kind::namespaced("", "v1", "Endpoints", "endpoints");
pub const SERVICE_ACCOUNT: Kind = Kind::namespaced("", "v1", "ServiceAccount", "serviceaccounts");
pub const EVENT: Kind = Kind::namespaced("", "v1", "Event", "events");
pub const NAMESPACE: Kind = Kind::cluster("", "v1", "Namespace", "namespaces");
pub const DEPLOYMENT: Kind = Kind::namespaced("apps", "v1", "Deployment", "deployments");
pub const REPLICA_SET: Kind = Kind::namespaced("apps", "v1", "ReplicaSet", "replicasets");
pub const STATEFUL_SET: Kind = Kind::namespaced("apps", "v1", "StatefulSet", "statefulsets");
pub const DAEMON_SET: Kind = Kind::namespaced("apps", "v1", "DaemonSet", "daemonsets");
pub const JOB: Kind = Kind::namespaced("batch", "v1", "Job", "jobs");
pub const CRON_JOB: Kind = Kind::namespaced("batch", "v1", "CronJob", "cronjobs");
pub const PERSISTENT_VOLUME: Kind = Kind::cluster("", "v1", "PersistentVolume", "persistentvolumes");
pub const PERSISTENT_VOLUME_CLAIM: Kind =
    Kind::namespaced("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims");
pub const CONTROLLER_REVISION: Kind =
    Kind::namespaced("apps", "v1", "ControllerRevision", "controllerrevisions");
pub const ENDPOINT_SLICE: Kind =
    Kind::namespaced("discovery.k8s.io", "v1", "EndpointSlice", "endpointslices");
pub const POD_DISRUPTION_BUDGET: Kind =
    Kind::namespaced("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets");
pub const HORIZONTAL_POD_AUTOSCALER: Kind =
    Kind::namespaced("autoscaling", "v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers");

// === impl Kind ===

impl Kind {
    /// What a CustomResourceDefinition with one version defines.
    pub fn of_crd(crd: &Value) -> Self {
        let owned = |pointer: &str| {
            Cow::Owned(crd.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned())
        };
        Self {
            group: owned("/spec/group"),
            version: owned("/spec/versions/0/name"),
            kind: owned("/spec/names/kind"),
            plural: owned("/spec/names/plural"),
            namespaced: owned("/spec/scope") != "Cluster",
        }
    }

    const fn row(
        group: &'static str,
        version: &'static str,
        kind: &'static str,
        plural: &'static str,
        namespaced: bool,
    ) -> Self {
        Self {
            group: Cow::Borrowed(group),
            version: Cow::Borrowed(version),
            kind: Cow::Borrowed(kind),
            plural: Cow::Borrowed(plural),
            namespaced,
        }
    }

    pub const fn namespaced(
        group: &'static str,
        version: &'static str,
        kind: &'static str,
        plural: &'static str,
    ) -> Self {
        Self::row(group, version, kind, plural, true)
    }

    pub const fn cluster(
        group: &'static str,
        version: &'static str,
        kind: &'static str,
        plural: &'static str,
    ) -> Self {
        Self::row(group, version, kind, plural, false)
    }

    /// The kind of a type.
    pub fn of<K: Resource<DynamicType = ()>>() -> Self
    where
        K::Scope: 'static,
    {
        let owned = |text: Cow<'_, str>| Cow::Owned(text.into_owned());
        Self {
            group: owned(K::group(&())),
            version: owned(K::version(&())),
            kind: owned(K::kind(&())),
            plural: owned(K::plural(&())),
            namespaced: TypeId::of::<K::Scope>() == TypeId::of::<NamespaceResourceScope>(),
        }
    }

    /// `apps/v1`, or `v1` for the core group.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.to_string()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }

    /// Whether both name the same stored objects: versions of one group are views of the same data.
    pub fn same_resource(&self, other: &Kind) -> bool {
        self.group == other.group && self.plural == other.plural
    }

    pub fn api_resource(&self) -> ApiResource {
        ApiResource {
            group: self.group.to_string(),
            version: self.version.to_string(),
            api_version: self.api_version(),
            kind: self.kind.to_string(),
            plural: self.plural.to_string(),
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.kind)
    }
}

/// The group of an `apiVersion`: `apps` of `apps/v1`, empty for `v1`.
pub fn group_of(api_version: &str) -> &str {
    api_version.split_once('/').map_or("", |(group, _)| group)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::{core::v1::Namespace, policy::v1::PodDisruptionBudget};

    use super::*;

    #[test]
    fn a_type_knows_its_kind() {
        assert_eq!(Kind::of::<PodDisruptionBudget>(), POD_DISRUPTION_BUDGET);
        assert_eq!(Kind::of::<Namespace>(), NAMESPACE);
    }
}
