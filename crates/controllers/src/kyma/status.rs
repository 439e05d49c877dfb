//! What a Function's status says, from what is there. True at every turn, and written only when it changed.

use api::kyma::{Function, GitStatus, Status, resources};
use engine::{Failure, kind};
use jiff::Timestamp;
use k8s_openapi::{
    api::apps::v1::{Deployment, DeploymentStatus},
    apimachinery::pkg::apis::meta::v1::Condition,
};

use crate::condition::{ConditionState, condition};

use super::{
    children::{child_name, deployment::image, selector_text},
    runtimes::Runtime,
};

pub(super) mod conditions {
    pub const CONFIGURATION_READY: &str = "ConfigurationReady";
    pub const RUNNING: &str = "Running";
    /// Ours: only there when there is something to say about who scales.
    pub const SCALING: &str = "Scaling";
}

pub(super) mod reasons {
    pub const SPEC_VALIDATED: &str = "FunctionSpecValidated";
    pub const INVALID_SPEC: &str = "InvalidFunctionSpec";
    pub const SOURCE_UPDATED: &str = "SourceUpdated";
    pub const SOURCE_UPDATE_FAILED: &str = "SourceUpdateFailed";
    pub const DEPLOYMENT_UPDATED: &str = "DeploymentUpdated";
    pub const DEPLOYMENT_WAITING: &str = "DeploymentWaiting";
    pub const DEPLOYMENT_READY: &str = "DeploymentReady";
    pub const DEPLOYMENT_FAILED: &str = "DeploymentFailed";
    pub const SERVICE_FAILED: &str = "ServiceFailed";
    pub const TOO_FEW_REPLICAS: &str = "MinReplicasNotAvailable";
    pub const AMBIGUOUS_AUTOSCALERS: &str = "AmbiguousAutoscalers";
    pub const PAUSED: &str = "ScalingPaused";
    pub const FIXED: &str = "FixedReplicas";
    pub const AUTOSCALER_FAILED: &str = "HorizontalPodAutoscalerFailed";
}

/// What the status is made of.
pub(super) struct Facts<'a> {
    pub function: &'a Function,
    /// `None`: the spec is invalid, and what was said of the running version stays.
    pub runtime: Option<&'static Runtime>,
    pub deployment: Option<&'a Deployment>,
    pub git: Option<GitStatus>,
    pub configured: ConditionState,
    pub running: Option<ConditionState>,
    pub scaling: Option<ConditionState>,
}

pub(super) fn status(facts: &Facts<'_>, now: Timestamp) -> Status {
    let function = facts.function;
    let mut status = function.status.clone().unwrap_or_default();
    status.observed_generation = function.metadata.generation;
    // A count that was never known is not zero.
    if let Some(deployment) = facts.deployment {
        status.replicas = Some(deployment.status.as_ref().and_then(|status| status.replicas).unwrap_or(0));
    } else if status.replicas.is_some() || facts.runtime.is_some() {
        status.replicas = Some(0);
    }
    if let Some(runtime) = facts.runtime {
        let spec = &function.spec;
        status.pod_selector = Some(selector_text(function));
        status.runtime = Some(runtime.name.to_owned());
        status.runtime_image = Some(image(function, runtime));
        status.runtime_image_override = spec.runtime_image_override.clone();
        status.function_resource_profile = Some(resources::of(spec).profile);
        status.function_annotations = (!spec.annotations.is_empty()).then(|| spec.annotations.clone());
        status.pod_security_context = spec.pod_security_context.clone();
        status.container_security_context = spec.container_security_context.clone();
        status.git_repository = facts.git.clone();
    }
    let stored = status.conditions.take().unwrap_or_default();
    let mut conditions = Vec::new();
    for (type_, says) in [
        (conditions::CONFIGURATION_READY, Some(&facts.configured)),
        (conditions::RUNNING, facts.running.as_ref()),
        (conditions::SCALING, facts.scaling.as_ref()),
    ] {
        let before = stored.iter().find(|condition| condition.type_ == type_);
        match says {
            Some(says) => conditions.push(condition(type_, says, before, now)),
            // What is not known to have changed still holds.
            None if type_ == conditions::RUNNING => conditions.extend(before.cloned()),
            None => {}
        }
    }
    status.conditions = Some(conditions);
    status
}

pub(super) fn stored<'a>(function: &'a Function, type_: &str) -> Option<&'a Condition> {
    let conditions = function.status.as_ref()?.conditions.as_ref()?;
    conditions.iter().find(|condition| condition.type_ == type_)
}

/// Whether the status is that of an earlier spec.
pub(super) fn is_behind(deployment: &Deployment) -> bool {
    let observed = deployment.status.as_ref().and_then(|status| status.observed_generation);
    observed < deployment.metadata.generation
}

/// What a Deployment's own conditions mean for its Function. A Deployment of no pods is available, as it is asked for.
pub(super) fn running(deployment: &Deployment, failure: Option<&Failure>) -> ConditionState {
    let name = deployment.metadata.name.as_deref().unwrap_or_default();
    if let Some(failure) = failure.filter(|failure| failure.kind == kind::DEPLOYMENT) {
        return ConditionState::new(
            "False",
            reasons::DEPLOYMENT_FAILED,
            format!("Deployment {name}: {}", failure.message),
        );
    }
    let empty = DeploymentStatus::default();
    let status = deployment.status.as_ref().unwrap_or(&empty);
    if is_behind(deployment) {
        return ConditionState::new(
            "Unknown",
            reasons::DEPLOYMENT_WAITING,
            format!("Deployment {name} is being updated"),
        );
    }
    let find = |type_: &str| status.conditions.iter().flatten().find(|condition| condition.type_ == type_);
    let is = |type_: &str, value: &str, reason: &str| {
        find(type_)
            .is_some_and(|condition| condition.status == value && condition.reason.as_deref() == Some(reason))
    };
    let available = is("Available", "True", "MinimumReplicasAvailable");
    if available && is("Progressing", "True", "NewReplicaSetAvailable") {
        return ConditionState::new("True", reasons::DEPLOYMENT_READY, format!("Deployment {name} is ready"));
    }
    let progressing = find("Progressing").is_none_or(|condition| condition.status == "True");
    if is("Available", "False", "MinimumReplicasUnavailable") && progressing {
        return ConditionState::new(
            "Unknown",
            reasons::TOO_FEW_REPLICAS,
            format!("Deployment {name}: not enough of its pods are ready yet"),
        );
    }
    if progressing {
        return ConditionState::new(
            "Unknown",
            reasons::DEPLOYMENT_WAITING,
            format!("Deployment {name} is not ready yet"),
        );
    }
    let words: Vec<&str> = status
        .conditions
        .iter()
        .flatten()
        .filter(|condition| condition.status != "True")
        .filter_map(|condition| condition.message.as_deref())
        .collect();
    ConditionState::new(
        "False",
        reasons::DEPLOYMENT_FAILED,
        format!("Deployment {name} failed: {}", words.join(" ")),
    )
}

/// What is said before there is a Deployment.
pub(super) fn waiting(function: &Function, failure: Option<&Failure>) -> ConditionState {
    let name = child_name(function);
    match failure {
        Some(failure) => ConditionState::new(
            "False",
            reasons::DEPLOYMENT_FAILED,
            format!("{} {}: {}", failure.kind, failure.name, failure.message),
        ),
        None => ConditionState::new(
            "Unknown",
            reasons::DEPLOYMENT_WAITING,
            format!("Deployment {name} is being created"),
        ),
    }
}
