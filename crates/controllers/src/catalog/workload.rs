//! One workload that may be a function, whatever its kind, and what else there is about it.

use std::{borrow::Cow, collections::BTreeMap, fmt, sync::Arc};

use api::slimfaas::Annotations;
use engine::{
    kind::{self, Kind},
    object::controller_of,
};
use k8s_openapi::{
    api::{
        apps::v1::{Deployment, StatefulSet},
        autoscaling::v2::HorizontalPodAutoscaler,
        core::v1::{Pod, PodTemplateSpec},
    },
    apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta},
};
use kube::{
    api::DynamicObject,
    core::{Selector, SelectorExt},
};
use scaling::Autoscaler;

use super::FUNCTION;
use crate::autoscaled::scales;

/// Of several workloads with one name, the first kind has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum WorkloadKind {
    Deployment,
    StatefulSet,
    Function,
}

/// Names a workload of the namespace.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WorkloadId {
    pub kind: WorkloadKind,
    pub name: Arc<str>,
}

/// What the watches have told, of one workload at a time.
pub trait Objects {
    fn workload(&self, id: &WorkloadId) -> Option<Workload>;

    /// Those that may be its own: its selector has the last word.
    fn pods(&self, of: &WorkloadId) -> Vec<Arc<Pod>>;

    /// Those that scale something of this name.
    fn autoscalers(&self, target: &str) -> Vec<Arc<HorizontalPodAutoscaler>>;

    /// KEDA's.
    fn scaled_objects(&self, target: &str) -> Vec<Arc<DynamicObject>>;
}

impl WorkloadKind {
    pub const ALL: [Self; 3] = [Self::Deployment, Self::StatefulSet, Self::Function];

    pub fn of(self, name: &str) -> WorkloadId {
        WorkloadId { kind: self, name: name.into() }
    }
}

impl fmt::Display for WorkloadKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Deployment => "Deployment",
            Self::StatefulSet => "StatefulSet",
            Self::Function => "Function",
        })
    }
}

impl fmt::Display for WorkloadId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.kind, self.name)
    }
}

/// One workload, whatever its kind.
#[derive(Clone)]
pub enum Workload {
    Deployment(Arc<Deployment>),
    StatefulSet(Arc<StatefulSet>),
    Function(Arc<DynamicObject>),
}

impl Workload {
    pub fn kind(&self) -> Kind {
        match self {
            Self::Deployment(_) => kind::DEPLOYMENT,
            Self::StatefulSet(_) => kind::STATEFUL_SET,
            Self::Function(_) => FUNCTION,
        }
    }

    pub fn meta(&self) -> &ObjectMeta {
        match self {
            Self::Deployment(object) => &object.metadata,
            Self::StatefulSet(object) => &object.metadata,
            Self::Function(object) => &object.metadata,
        }
    }

    pub fn name(&self) -> &str {
        self.meta().name.as_deref().unwrap_or_default()
    }

    /// The annotations of its pods.
    pub fn template(&self) -> Option<Cow<'_, Annotations>> {
        match self {
            Self::Deployment(object) => {
                template_annotations(&object.spec.as_ref()?.template).map(Cow::Borrowed)
            }
            Self::StatefulSet(object) => {
                template_annotations(&object.spec.as_ref()?.template).map(Cow::Borrowed)
            }
            Self::Function(object) => serde_json::from_value(object.data["spec"]["annotations"].clone())
                .ok()
                .flatten()
                .map(Cow::Owned),
        }
    }

    pub fn replicas(&self) -> i32 {
        let replicas = match self {
            Self::Deployment(object) => object.spec.as_ref().and_then(|spec| spec.replicas),
            Self::StatefulSet(object) => object.spec.as_ref().and_then(|spec| spec.replicas),
            Self::Function(object) => {
                object.data["spec"]["replicas"].as_i64().and_then(|n| i32::try_from(n).ok())
            }
        };
        replicas.unwrap_or(1)
    }

    /// Of its pods, beside their owner.
    fn selector(&self) -> Option<&LabelSelector> {
        match self {
            Self::Deployment(object) => Some(&object.spec.as_ref()?.selector),
            Self::StatefulSet(object) => Some(&object.spec.as_ref()?.selector),
            Self::Function(_) => None,
        }
    }

    /// Whether it brings a scaler of its own, which ours would fight.
    pub fn scales_itself(&self) -> bool {
        matches!(self, Self::Function(object) if !object.data["spec"]["scaleConfig"].is_null())
    }

    /// Whether it counts. What is being deleted is no function any more, and a Deployment that a Function made is scaled by
    /// that Function.
    pub fn counts(&self) -> bool {
        let has_spec = match self {
            Self::Deployment(object) => object.spec.is_some(),
            Self::StatefulSet(object) => object.spec.is_some(),
            Self::Function(_) => true,
        };
        let is_made_by_function = || {
            controller_of(self.meta()).is_some_and(|owner| {
                owner.kind == FUNCTION.kind && owner.api_version.starts_with(&*FUNCTION.group)
            })
        };
        has_spec && self.meta().deletion_timestamp.is_none() && !is_made_by_function()
    }

    pub fn has_annotations_of(&self, other: &Self) -> bool {
        self.meta().annotations == other.meta().annotations && self.template() == other.template()
    }
}

/// Those of the candidates that are its own.
pub fn pods_of<'a>(workload: &Workload, candidates: &'a [Arc<Pod>]) -> Vec<&'a Pod> {
    if candidates.is_empty() {
        return Vec::new();
    }
    let selector = workload.selector().map(|selector| Selector::try_from(selector.clone()));
    let of_it = |pod: &&Pod| match &selector {
        Some(Ok(selector)) => selector.matches(pod.metadata.labels.as_ref().unwrap_or(&BTreeMap::new())),
        Some(Err(_)) => false,
        None => true,
    };
    candidates.iter().map(|pod| &**pod).filter(of_it).collect()
}

pub(crate) fn template_annotations(template: &PodTemplateSpec) -> Option<&Annotations> {
    template.metadata.as_ref()?.annotations.as_ref()
}

/// What else scales it, whoever made that; the first by name if there are several. KEDA makes an HPA of its own, and does
/// more than that.
pub fn autoscaler_of(workload: &Workload, objects: &impl Objects) -> Option<Autoscaler> {
    let (kind, name) = (workload.kind(), workload.name());
    let scaled_objects = objects.scaled_objects(name);
    let kedas = scaled_objects.iter().filter(|object| {
        let target = &object.data["spec"]["scaleTargetRef"];
        let group = kind::group_of(target["apiVersion"].as_str().unwrap_or("apps/v1"));
        target["kind"].as_str().unwrap_or("Deployment") == kind.kind && group == &*kind.group
    });
    let keda = kedas.filter_map(|object| object.metadata.name.clone()).min().map(Autoscaler::Keda);
    keda.or_else(|| {
        let autoscalers = objects.autoscalers(name);
        let of_it = autoscalers.iter().filter(|autoscaler| scales(autoscaler, &kind, name));
        of_it.filter_map(|autoscaler| autoscaler.metadata.name.clone()).min().map(Autoscaler::Hpa)
    })
}
