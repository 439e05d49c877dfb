//! What to do for one Function, from what is known of it. Synchronous: no clock, no I/O, no memory.

use std::sync::Arc;

use api::kyma::{Function, GitStatus};
use engine::{
    Failure, Verb,
    effect::{Effect, Plan, Target},
    kind,
    object::{being_deleted, by_age, created, name},
};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::{
    apps::v1::Deployment,
    autoscaling::v2::HorizontalPodAutoscaler,
    core::v1::{ConfigMap, Service},
};
use serde_json::json;

use crate::{catalog::FUNCTION, condition::ConditionState};

use super::{
    children::{self, Found, autoscaler, child_name, config_map, deployment, service},
    git::Latest,
    runtimes::Runtime,
    status::{self, Facts, conditions, reasons},
    validate::validate,
};

/// So long a new Function may take to start before its status says that it is starting: most are quicker, and one write
/// is better than two.
const QUIET_START: SignedDuration = SignedDuration::from_secs(10);
/// As long as pods are still being made, the count in the status would be written again for each of them. If that takes
/// so long, something is in their way, and it is said all the same.
const QUIET_WITHOUT_PODS: SignedDuration = SignedDuration::from_secs(60);
/// An autoscaler has nothing to measure before the first pod runs. It is made all the same after a Deployment's usual
/// deadline for a rollout.
const AUTOSCALER_PATIENCE: SignedDuration = SignedDuration::from_secs(600);

/// Everything a decision about one Function depends on.
pub(super) struct Observed {
    pub function: Arc<Function>,
    pub config_map: Found<ConfigMap>,
    pub deployment: Found<Deployment>,
    /// Others that the Function controls: copies made by hand.
    pub spare_deployments: Vec<Arc<Deployment>>,
    pub service: Found<Service>,
    /// Those that the Function controls.
    pub autoscalers: Vec<Arc<HorizontalPodAutoscaler>>,
    /// Names of those of others that target this Function.
    pub foreign_autoscalers: Vec<String>,
    /// Of a Function with a Git source.
    pub latest_commit: Option<Latest>,
    pub failure: Option<Failure>,
    pub cpu_percent: i32,
}

pub(super) fn plan(observed: &Observed, now: Timestamp) -> Plan {
    if being_deleted(&observed.function.metadata) {
        return Plan::default();
    }
    Planner { observed, function: &observed.function, now, plan: Plan::default() }.run()
}

struct Planner<'a> {
    observed: &'a Observed,
    function: &'a Function,
    now: Timestamp,
    plan: Plan,
}

/// A source that can be deployed, or the condition that says why there is none.
struct Source {
    commit: Option<String>,
    says: ConditionState,
}

impl<'a> Planner<'a> {
    fn run(mut self) -> Plan {
        let runtime = match validate(self.function) {
            Ok(runtime) => runtime,
            // The running version keeps running.
            Err(problem) => {
                let says = ConditionState::new("False", reasons::INVALID_SPEC, problem.to_string());
                return self.only_status(None, says);
            }
        };
        let Some(source) = self.source() else { return self.plan };
        if self.function.spec.source.git_repository.is_some() && source.commit.is_none() {
            return self.only_status(None, source.says);
        }
        let mut effects = Vec::new();
        effects.extend(self.config_map(runtime));
        effects.extend(self.service());
        let rollout = self.deployment(runtime, source.commit.as_deref());
        let replaces_pods = match &self.observed.deployment {
            Found::Ours(found) => children::replaces_pods(found, &rollout),
            _ => false,
        };
        effects.extend(rollout);
        effects.extend(self.fixed_count());

        let running = self.running(replaces_pods);
        let is_starting = running.as_ref().is_none_or(|running| running.status == "Unknown");
        let (autoscaler, after) = self.autoscaler(is_starting);
        let status = self.status(Some(runtime), &source, running);
        if self.observed.failure.is_some() {
            // Whatever failed will fail again and end the plan: first it is said.
            self.plan.effects.extend(status);
            self.plan.effects.extend(effects);
        } else {
            self.plan.effects.extend(effects);
            self.plan.effects.extend(status);
        }
        self.plan.effects.extend(autoscaler);
        if let Some(at) = after {
            self.plan.look_again(at);
        }
        self.plan
    }

    /// Nothing while it is not known yet.
    fn source(&mut self) -> Option<Source> {
        let Some(git) = &self.function.spec.source.git_repository else {
            let says = ConditionState::new("True", reasons::SPEC_VALIDATED, "the Function's spec is valid");
            return Some(Source { commit: None, says });
        };
        let latest = self.observed.latest_commit.as_ref()?;
        self.plan.look_again(latest.next);
        let running = self.function.status.as_ref().and_then(|status| status.git_repository.as_ref());
        let known = running
            .filter(|running| {
                running.url.as_ref() == Some(&git.url) && running.reference.as_ref() == Some(&git.reference)
            })
            .and_then(|running| running.commit.clone());
        match (&latest.answer, known) {
            (Some(Ok(commit)), _) => {
                let message = format!("{} is at commit {commit}", git.reference);
                let says = ConditionState::new("True", reasons::SOURCE_UPDATED, message);
                Some(Source { commit: Some(commit.clone()), says })
            }
            // The last known commit goes on.
            (Some(Err(error)), known) => Some(Source {
                commit: known,
                says: ConditionState::new("False", reasons::SOURCE_UPDATE_FAILED, error),
            }),
            (None, Some(known)) => {
                let message = format!("{} is at commit {known}", git.reference);
                Some(Source {
                    commit: Some(known),
                    says: ConditionState::new("True", reasons::SOURCE_UPDATED, message),
                })
            }
            (None, None) => None,
        }
    }

    fn config_map(&self, runtime: &Runtime) -> Vec<Effect> {
        let wanted = config_map::wanted(self.function, runtime);
        match &self.observed.config_map {
            Found::Absent => vec![children::create(self.function, &kind::CONFIG_MAP, wanted, false)],
            Found::Ours(found) => children::mend(&kind::CONFIG_MAP, &**found, wanted, &[]),
            Found::Leaving | Found::Foreign => Vec::new(),
        }
    }

    fn service(&self) -> Vec<Effect> {
        let wanted = service::wanted(self.function);
        match &self.observed.service {
            // It has the Function's name, which others may have chosen too.
            Found::Absent => vec![children::create(self.function, &kind::SERVICE, wanted, true)],
            // A second port of the same name would be refused.
            Found::Ours(found) => children::mend(&kind::SERVICE, &**found, wanted, &["/spec/ports"]),
            Found::Leaving | Found::Foreign => Vec::new(),
        }
    }

    fn deployment(&self, runtime: &'static Runtime, commit: Option<&str>) -> Vec<Effect> {
        let mut effects = Vec::new();
        let spares = self.observed.spare_deployments.iter().filter(|spare| !being_deleted(&spare.metadata));
        match &self.observed.deployment {
            Found::Absent => {
                let wanted = deployment::wanted(self.function, runtime, commit);
                effects.push(children::create(self.function, &kind::DEPLOYMENT, wanted, false));
            }
            Found::Ours(found) => {
                let wanted = deployment::wanted(self.function, runtime, commit);
                let selector = found.spec.as_ref().map(|spec| json!(spec.selector));
                if selector.as_ref() == Some(&wanted["spec"]["selector"]) {
                    let exact = ["/spec/template/spec/containers"];
                    effects.extend(children::mend(&kind::DEPLOYMENT, &**found, wanted, &exact));
                } else {
                    // A selector cannot be changed.
                    effects.push(children::delete(&kind::DEPLOYMENT, &found.metadata));
                }
            }
            Found::Leaving | Found::Foreign => {}
        }
        effects.extend(spares.map(|spare| children::delete(&kind::DEPLOYMENT, &spare.metadata)));
        effects
    }

    /// With min = max there is nothing to scale, only a number to set. 0 stays: somebody paused the Function.
    fn fixed_count(&self) -> Option<Effect> {
        let scale = self.function.spec.scale_config?;
        let replicas = self.function.spec.replicas();
        let is_off =
            scale.min_replicas == scale.max_replicas && replicas != 0 && replicas != scale.min_replicas;
        let decision =
            scaling::fixed(replicas, scale.min_replicas, "spec.scaleConfig with minReplicas = maxReplicas");
        let target = Target::of(&FUNCTION, &self.function.metadata);
        is_off.then(|| scaling::rescale(&target, &decision)).flatten()
    }

    /// Effects, and when to come back for one that is too early.
    fn autoscaler(&self, is_starting: bool) -> (Vec<Effect>, Option<Timestamp>) {
        let mut ours: Vec<_> =
            self.observed.autoscalers.iter().filter(|hpa| !being_deleted(&hpa.metadata)).collect();
        ours.sort_by(|a, b| by_age(&a.metadata, &b.metadata));
        let hpa_kind = kind::HORIZONTAL_POD_AUTOSCALER;
        let scale = self.function.spec.scale_config.filter(|scale| scale.min_replicas < scale.max_replicas);
        let Some(scale) = scale else {
            return (ours.iter().map(|hpa| children::delete(&hpa_kind, &hpa.metadata)).collect(), None);
        };
        let wanted = autoscaler::wanted(self.function, &scale, self.observed.cpu_percent);
        let Some((kept, rest)) = ours.split_first() else {
            let due = created(&self.function.metadata, self.now)
                .checked_add(AUTOSCALER_PATIENCE)
                .unwrap_or(self.now);
            let is_leaving = !self.observed.autoscalers.is_empty();
            if is_leaving || (is_starting && self.now < due) {
                return (Vec::new(), (!is_leaving).then_some(due));
            }
            return (vec![children::create(self.function, &hpa_kind, wanted, false)], None);
        };
        let mut effects = children::mend(&hpa_kind, &***kept, wanted, &[]);
        effects.extend(rest.iter().map(|hpa| children::delete(&hpa_kind, &hpa.metadata)));
        (effects, None)
    }

    /// Nothing for a Function that has only just begun: what it says next will be that it runs.
    fn running(&mut self, replaces_pods: bool) -> Option<ConditionState> {
        let failure = self.observed.failure.as_ref().filter(|failure| {
            [kind::CONFIG_MAP, kind::DEPLOYMENT].contains(&failure.kind) && failure.verb != Verb::Delete
        });
        let service_failure = self.observed.failure.as_ref().filter(|failure| failure.kind == kind::SERVICE);
        if let Some(clash) = self.clash() {
            return Some(clash);
        }
        if let Some(failure) = service_failure {
            let message = format!("Service {}: {}", failure.name, failure.message);
            return Some(ConditionState::new("False", reasons::SERVICE_FAILED, message));
        }
        let stored = status::stored(self.function, conditions::RUNNING);
        let says = match &self.observed.deployment {
            Found::Ours(_) if replaces_pods => {
                let name = child_name(self.function);
                ConditionState::new(
                    "Unknown",
                    reasons::DEPLOYMENT_UPDATED,
                    format!("Deployment {name} is updated"),
                )
            }
            // Its controller has yet to look at the last change: what was said before still holds.
            Found::Ours(deployment)
                if stored.is_some() && failure.is_none() && status::is_behind(deployment) =>
            {
                return None;
            }
            Found::Ours(deployment) => status::running(deployment, failure),
            _ => status::waiting(self.function, failure),
        };
        if says.status != "Unknown" {
            return Some(says);
        }
        match stored {
            // One kind of waiting after the other is no news.
            Some(stored) if stored.status == "Unknown" && stored.reason != reasons::DEPLOYMENT_READY => {
                let is_new = says.reason == reasons::TOO_FEW_REPLICAS && stored.reason != says.reason;
                is_new.then_some(says)
            }
            Some(_) => Some(says),
            None => {
                let quiet = if self.pods_are_made() { QUIET_START } else { QUIET_WITHOUT_PODS };
                let quiet_until =
                    created(&self.function.metadata, self.now).checked_add(quiet).unwrap_or(self.now);
                if self.now < quiet_until {
                    self.plan.look_again(quiet_until);
                    return None;
                }
                Some(says)
            }
        }
    }

    /// All of them, ready or not: the count will not change before it runs.
    fn pods_are_made(&self) -> bool {
        let Found::Ours(deployment) = &self.observed.deployment else { return false };
        let made = deployment.status.as_ref().and_then(|status| status.replicas);
        !status::is_behind(deployment) && made == Some(self.function.spec.replicas())
    }

    /// An object of somebody else's where one of ours should be.
    fn clash(&self) -> Option<ConditionState> {
        let own = child_name(self.function);
        let taken = |kind: &str, name: &str| {
            format!("{kind} {name} exists and is not this Function's: delete or rename it")
        };
        if matches!(self.observed.service, Found::Foreign) {
            let message = taken("Service", name(&self.function.metadata));
            return Some(ConditionState::new("False", reasons::SERVICE_FAILED, message));
        }
        let kind = match (&self.observed.config_map, &self.observed.deployment) {
            (Found::Foreign, _) => "ConfigMap",
            (_, Found::Foreign) => "Deployment",
            _ => return None,
        };
        Some(ConditionState::new("False", reasons::DEPLOYMENT_FAILED, taken(kind, &own)))
    }

    fn scaling(&self) -> Option<ConditionState> {
        let failure = self.observed.failure.as_ref();
        if let Some(failure) = failure.filter(|failure| failure.kind == kind::HORIZONTAL_POD_AUTOSCALER) {
            return Some(ConditionState::new("False", reasons::AUTOSCALER_FAILED, failure.message.clone()));
        }
        let scale = self.function.spec.scale_config;
        let is_built_in = scale.is_some_and(|scale| scale.min_replicas < scale.max_replicas);
        let foreign = &self.observed.foreign_autoscalers;
        if foreign.len() + usize::from(is_built_in) > 1 {
            let mut names = foreign.clone();
            if is_built_in {
                names.insert(0, "the one of spec.scaleConfig".to_owned());
            }
            let message = format!(
                "several HorizontalPodAutoscalers scale this Function and undo each other's work: {}; keep one",
                names.join(", ")
            );
            return Some(ConditionState::new("False", reasons::AMBIGUOUS_AUTOSCALERS, message));
        }
        let scale = scale?;
        if self.function.spec.replicas() == 0 {
            let message = "spec.replicas is 0, which pauses scaling: set it to at least 1 to go on";
            return Some(ConditionState::new("False", reasons::PAUSED, message));
        }
        if !is_built_in {
            let message = format!(
                "minReplicas and maxReplicas are both {}: the count is set to it, and there is no autoscaler",
                scale.min_replicas
            );
            return Some(ConditionState::new("True", reasons::FIXED, message));
        }
        None
    }

    fn status(
        &self,
        runtime: Option<&'static Runtime>,
        source: &Source,
        running: Option<ConditionState>,
    ) -> Option<Effect> {
        let function = self.function;
        let is_first = status::stored(function, conditions::RUNNING).is_none();
        let has_problem = source.says.status != "True";
        if runtime.is_some() && is_first && running.is_none() && !has_problem {
            return None;
        }
        let git = function.spec.source.git_repository.as_ref().map(|git| GitStatus {
            url: Some(git.url.clone()),
            base_dir: git.base_dir.clone(),
            reference: Some(git.reference.clone()),
            commit: source.commit.clone(),
        });
        let deployment = match &self.observed.deployment {
            Found::Ours(deployment) => Some(&**deployment),
            _ => None,
        };
        let facts = Facts {
            function,
            runtime,
            deployment,
            git,
            configured: source.says.clone(),
            running,
            scaling: self.scaling(),
        };
        let wanted = status::status(&facts, self.now);
        (function.status.as_ref() != Some(&wanted))
            .then(|| Effect::status(&FUNCTION, &function.metadata, function.status.as_ref(), &wanted))
    }

    fn only_status(mut self, runtime: Option<&'static Runtime>, says: ConditionState) -> Plan {
        let running = match &self.observed.deployment {
            Found::Ours(deployment) => Some(status::running(deployment, None)),
            _ => None,
        };
        let status = self.status(runtime, &Source { commit: None, says }, running);
        self.plan.effects.extend(status);
        self.plan
    }
}
