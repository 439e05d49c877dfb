//! What an Hvpa scales, as the caches show it.

use std::sync::Arc;

use api::{
    hvpa::TargetRef,
    kyma::{self, Function, resources},
};
use decide::{
    hvpa::ContainerSize,
    quantity::Quantity,
    recommender::amount::{Resource, Resources},
};
use engine::{
    Cached, Key,
    effect::Target,
    kind::{self, Kind, group_of},
    object::{controller_of, uid},
    pods::{active, ready},
};
use k8s_openapi::{
    api::{
        apps::v1::{DaemonSet, Deployment, ReplicaSet, StatefulSet},
        core::v1::{Container, Pod, PodTemplateSpec},
    },
    apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta, OwnerReference},
};
use kube::core::{Selector, SelectorExt};
use serde_json::{Value, json};
use workloads::parse_selector;

use super::{pods::sizes, scale::Scaled};
use crate::catalog::FUNCTION;

pub const DAEMON_SET: Kind = Kind::namespaced("apps", "v1", "DaemonSet", "daemonsets");
static KNOWN: [Kind; 5] = [kind::DEPLOYMENT, kind::STATEFUL_SET, kind::REPLICA_SET, DAEMON_SET, FUNCTION];

pub struct Workloads {
    pub deployments: Cached<Deployment>,
    pub stateful_sets: Cached<StatefulSet>,
    pub replica_sets: Cached<ReplicaSet>,
    pub daemon_sets: Cached<DaemonSet>,
    pub functions: Cached<Function>,
    pub pods: Cached<Pod>,
}

#[derive(Clone, Debug)]
pub struct Workload {
    pub target: Target,
    /// What is wanted: `spec.replicas`, or how many nodes there are for a DaemonSet.
    pub replicas: i32,
    pub status_replicas: i32,
    /// Whether there is a count to write.
    pub has_scale: bool,
    /// As the template has them.
    pub sizes: Vec<ContainerSize>,
    pub sizes_in: SizesIn,
    /// What its own controller refuses to go below.
    pub least: Resources,
    /// As a scale's status has it; empty if it cannot be understood.
    pub selector: String,
    /// A new template is being rolled out, or has yet to be looked at.
    pub is_rolling: bool,
    /// Who manages it, and would undo what others write.
    pub manager: Option<OwnerReference>,
    /// What it says itself about who scales it, in words.
    pub own_scaling: Option<&'static str>,
    /// The workload that it makes and that has its pods.
    pub made: Option<Target>,
    pub is_on_demand: bool,
    pub pods: Vec<Arc<Pod>>,
}

/// Where sizes are written that are to outlive the pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SizesIn {
    Template,
    /// Of a Function, whose controller writes the template.
    FunctionResources,
    /// It says how many there are, and not how large.
    Nowhere,
}

/// The kind that is meant, if it is one whose objects are understood; all that is known of others is their scale.
pub fn kind_of(reference: &TargetRef) -> Option<&'static Kind> {
    known(reference.api_version.as_deref(), &reference.kind)
}

pub fn known(api_version: Option<&str>, name: &str) -> Option<&'static Kind> {
    let group = api_version.map(group_of);
    KNOWN.iter().find(|kind| kind.kind == name && group.is_none_or(|group| group == kind.group))
}

pub fn supported() -> String {
    KNOWN.each_ref().map(|kind| kind.kind.to_string()).join(", ")
}

/// Where a Function has the sizes of its pods. A profile beside them would win.
pub fn function_resources(sizes: Value) -> Value {
    json!({ "resourceConfiguration": { "function": { "profile": null, "resources": sizes } } })
}

/// The index value of a workload.
pub fn place(kind: &str, namespace: &str, name: &str) -> String {
    format!("{kind} {namespace}/{name}")
}

struct Facts<'a> {
    kind: &'a Kind,
    meta: &'a ObjectMeta,
    replicas: i32,
    status_replicas: i32,
    template: Option<&'a PodTemplateSpec>,
    selector: Option<&'a LabelSelector>,
    is_rolling: bool,
    pods: Vec<Arc<Pod>>,
}

impl Workloads {
    pub fn get(&self, kind: &Kind, key: &Key) -> Option<Workload> {
        match &*kind.kind {
            "Deployment" => {
                let found = self.deployments.get(key)?;
                let sets = self.replica_sets.controlled_by(uid(&found.metadata));
                let pods = sets.iter().flat_map(|set| self.pods.controlled_by(uid(&set.metadata)));
                Workload::deployment(&found, pods.collect())
            }
            "StatefulSet" => {
                let found = self.stateful_sets.get(key)?;
                Workload::stateful_set(&found, self.pods.controlled_by(uid(&found.metadata)))
            }
            "ReplicaSet" => {
                let found = self.replica_sets.get(key)?;
                Workload::replica_set(&found, self.pods.controlled_by(uid(&found.metadata)))
            }
            "Function" => {
                let found = self.functions.get(key)?;
                let made = self.deployments.controlled_by(uid(&found.metadata));
                let made = made.first().map(|made| Key::of(&made.metadata));
                let made = made.and_then(|made| self.get(&kind::DEPLOYMENT, &made));
                Some(Workload::function(&found, made))
            }
            _ => {
                let found = self.daemon_sets.get(key)?;
                Workload::daemon_set(&found, self.pods.controlled_by(uid(&found.metadata)))
            }
        }
    }

    /// One of which only the scale is known.
    pub fn with_scale(&self, scaled: &Scaled) -> Workload {
        let namespace = scaled.meta.namespace.as_deref().unwrap_or_default();
        let selector = parse_selector(&scaled.selector).ok().filter(|_| !scaled.selector.is_empty());
        let selects = |pod: &Arc<Pod>| {
            let labels = pod.metadata.labels.as_ref();
            selector.as_ref().is_some_and(|selector| labels.is_some_and(|labels| selector.matches(labels)))
        };
        Workload::scaled(scaled, self.pods.in_namespace(namespace).into_iter().filter(selects).collect())
    }

    /// The workload that a pod belongs to, by kind and name.
    pub fn of_pod(&self, pod: &Pod) -> Option<String> {
        let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
        let owner = controller_of(&pod.metadata)?;
        if owner.kind == "ReplicaSet"
            && let Some(set) = self.replica_sets.get(&Key::new(namespace, &owner.name))
            && let Some(above) = controller_of(&set.metadata)
        {
            let deployment = self.deployments.get(&Key::new(namespace, &above.name));
            let function = deployment.and_then(|deployment| function_of(&deployment));
            return Some(function.unwrap_or_else(|| place(&above.kind, namespace, &above.name)));
        }
        Some(place(&owner.kind, namespace, &owner.name))
    }
}

/// The Function that made it, if one did.
pub fn function_of(deployment: &Deployment) -> Option<String> {
    let owner = controller_of(&deployment.metadata).filter(|owner| owner.kind == FUNCTION.kind)?;
    let namespace = deployment.metadata.namespace.as_deref().unwrap_or_default();
    Some(place(&owner.kind, namespace, &owner.name))
}

impl Workload {
    pub fn deployment(found: &Deployment, pods: Vec<Arc<Pod>>) -> Option<Self> {
        let (spec, status) = (found.spec.as_ref()?, found.status.clone().unwrap_or_default());
        let replicas = spec.replicas.unwrap_or(1);
        let updated = status.updated_replicas.unwrap_or(0);
        Some(Self::new(Facts {
            kind: &kind::DEPLOYMENT,
            meta: &found.metadata,
            replicas,
            status_replicas: status.replicas.unwrap_or(0),
            template: Some(&spec.template),
            selector: Some(&spec.selector),
            is_rolling: is_unseen(&found.metadata, status.observed_generation)
                || updated < replicas
                || status.replicas.unwrap_or(0) > updated,
            pods,
        }))
    }

    pub fn stateful_set(found: &StatefulSet, pods: Vec<Arc<Pod>>) -> Option<Self> {
        let (spec, status) = (found.spec.as_ref()?, found.status.clone().unwrap_or_default());
        let replicas = spec.replicas.unwrap_or(1);
        // One that is updated by hand, or only from some pod on, is never "done".
        let strategy = spec.update_strategy.as_ref();
        let by_hand = strategy.is_some_and(|strategy| {
            strategy.type_.as_deref() == Some("OnDelete")
                || strategy.rolling_update.as_ref().is_some_and(|rolling| rolling.partition.unwrap_or(0) > 0)
        });
        Some(Self::new(Facts {
            kind: &kind::STATEFUL_SET,
            meta: &found.metadata,
            replicas,
            status_replicas: status.replicas,
            template: Some(&spec.template),
            selector: Some(&spec.selector),
            is_rolling: is_unseen(&found.metadata, status.observed_generation)
                || (!by_hand && status.current_revision != status.update_revision)
                || status.replicas < replicas,
            pods,
        }))
    }

    pub fn replica_set(found: &ReplicaSet, pods: Vec<Arc<Pod>>) -> Option<Self> {
        let (spec, status) = (found.spec.as_ref()?, found.status.clone().unwrap_or_default());
        Some(Self::new(Facts {
            kind: &kind::REPLICA_SET,
            meta: &found.metadata,
            replicas: spec.replicas.unwrap_or(1),
            status_replicas: status.replicas,
            template: spec.template.as_ref(),
            selector: Some(&spec.selector),
            is_rolling: is_unseen(&found.metadata, status.observed_generation),
            pods,
        }))
    }

    pub fn daemon_set(found: &DaemonSet, pods: Vec<Arc<Pod>>) -> Option<Self> {
        let (spec, status) = (found.spec.as_ref()?, found.status.clone().unwrap_or_default());
        let wanted = status.desired_number_scheduled;
        Some(Self::new(Facts {
            kind: &DAEMON_SET,
            meta: &found.metadata,
            replicas: wanted,
            status_replicas: status.current_number_scheduled,
            template: Some(&spec.template),
            selector: Some(&spec.selector),
            is_rolling: is_unseen(&found.metadata, status.observed_generation)
                || status.updated_number_scheduled.unwrap_or(0) < wanted,
            pods,
        }))
    }

    /// `made` is the Deployment that its controller has made of it. The Function is the truth: what the Deployment has yet to
    /// take over is on its way.
    pub fn function(found: &Function, made: Option<Workload>) -> Self {
        let (spec, status) = (&found.spec, found.status.clone().unwrap_or_default());
        let container = Container {
            name: kyma::CONTAINER.to_owned(),
            resources: Some(resources::of(spec).requirements),
            ..Container::default()
        };
        let sizes = sizes(&[container]);
        let is_taken_over = made.as_ref().is_some_and(|made| {
            !made.is_rolling
                && made.replicas == spec.replicas()
                && sizes.iter().all(|size| made.sizes.contains(size))
        });
        let mut least = Resources::default();
        for (name, amount) in resources::LEAST {
            let resource = Resource::ALL.into_iter().find(|resource| resource.name() == name);
            if let (Some(resource), Ok(amount)) = (resource, amount.parse::<Quantity>()) {
                least.set(resource, Some(resource.amount_of(amount)));
            }
        }
        Self {
            sizes,
            sizes_in: SizesIn::FunctionResources,
            least,
            selector: status.pod_selector.unwrap_or_default(),
            own_scaling: spec.scale_config.map(|_| "spec.scaleConfig sets its replicas: remove it"),
            made: made.as_ref().map(|made| made.target.clone()),
            ..Self::new(Facts {
                kind: &FUNCTION,
                meta: &found.metadata,
                replicas: spec.replicas(),
                status_replicas: status.replicas.unwrap_or(0),
                template: None,
                selector: None,
                is_rolling: is_unseen(&found.metadata, status.observed_generation) || !is_taken_over,
                pods: made.map(|made| made.pods).unwrap_or_default(),
            })
        }
    }

    pub fn scaled(scaled: &Scaled, pods: Vec<Arc<Pod>>) -> Self {
        Self {
            sizes_in: SizesIn::Nowhere,
            selector: scaled.selector.clone(),
            manager: scaled.owner.clone(),
            ..Self::new(Facts {
                kind: &scaled.kind,
                meta: &scaled.meta,
                replicas: scaled.replicas,
                status_replicas: scaled.status_replicas,
                template: None,
                selector: None,
                is_rolling: false,
                pods,
            })
        }
    }

    fn new(facts: Facts<'_>) -> Self {
        let Facts { kind, meta, replicas, status_replicas, template, selector, is_rolling, mut pods } = facts;
        pods.retain(|pod| active(pod));
        let containers = template.and_then(|template| template.spec.as_ref()).map(|spec| &*spec.containers);
        let selector = selector.and_then(|selector| Selector::try_from(selector.clone()).ok());
        let annotations = template.and_then(|template| template.metadata.as_ref()?.annotations.as_ref());
        Self {
            target: Target::of(kind, meta),
            replicas,
            status_replicas,
            has_scale: *kind != DAEMON_SET,
            sizes: sizes(containers.unwrap_or_default()),
            selector: selector.map(|selector| selector.to_string()).unwrap_or_default(),
            is_rolling,
            sizes_in: SizesIn::Template,
            least: Resources::default(),
            manager: controller_of(meta).cloned(),
            own_scaling: None,
            made: None,
            is_on_demand: annotations.is_some_and(|all| all.keys().any(|name| name.starts_with(ON_DEMAND))),
            pods,
        }
    }

    /// As many pods as wanted, and all of them take calls.
    pub fn is_complete(&self) -> bool {
        let n_ready = self.pods.iter().filter(|pod| ready(pod)).count();
        !self.is_rolling && self.pods.len() == n_ready && i32::try_from(n_ready).ok() == Some(self.replicas)
    }
}

/// Whose annotations make a workload a function on demand, which is scaled by calls.
const ON_DEMAND: &str = "SlimFaas/";

fn is_unseen(meta: &ObjectMeta, observed: Option<i64>) -> bool {
    meta.generation.unwrap_or(0) > observed.unwrap_or(0)
}
