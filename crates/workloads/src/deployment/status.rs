//! Counters and conditions.

use std::time::Duration;

use engine::{effect::Effect, kind};
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{Deployment, DeploymentCondition, DeploymentStatus, ReplicaSetCondition};

use super::rollout::{COMPONENT, Rollout, Set, UNLIMITED};
use crate::object::{name, nonzero, time};

mod conditions {
    pub const AVAILABLE: &str = "Available";
    pub const PROGRESSING: &str = "Progressing";
    pub const REPLICA_FAILURE: &str = "ReplicaFailure";
}

mod reasons {
    pub const MINIMUM_AVAILABLE: &str = "MinimumReplicasAvailable";
    pub const MINIMUM_UNAVAILABLE: &str = "MinimumReplicasUnavailable";
    pub const NEW_SET_AVAILABLE: &str = "NewReplicaSetAvailable";
    pub const NEW_SET_CREATED: &str = "NewReplicaSetCreated";
    pub const NEW_SET_FOUND: &str = "FoundNewReplicaSet";
    pub const SET_UPDATED: &str = "ReplicaSetUpdated";
    pub const SET_REFUSED: &str = "ReplicaSetCreateError";
    pub const TIMED_OUT: &str = "ProgressDeadlineExceeded";
    pub const PAUSED: &str = "DeploymentPaused";
    pub const RESUMED: &str = "DeploymentResumed";
}

impl Rollout<'_> {
    /// Pausing and resuming restart the progress deadline.
    pub fn note_pause(&mut self) {
        let reason = self.condition(conditions::PROGRESSING).and_then(|condition| condition.reason.clone());
        if self.deadline().is_none() || reason.as_deref() == Some(reasons::TIMED_OUT) {
            return;
        }
        let noted = reason.as_deref() == Some(reasons::PAUSED);
        match (self.spec.paused == Some(true), noted) {
            (true, false) => self.progress("Unknown", reasons::PAUSED, "Deployment is paused".into()),
            (false, true) => self.progress("Unknown", reasons::RESUMED, "Deployment is resumed".into()),
            _ => {}
        }
    }

    pub fn note_found(&mut self, message: String) {
        if self.deadline().is_some() && self.condition(conditions::PROGRESSING).is_none() {
            self.progress("True", reasons::NEW_SET_FOUND, message);
        }
    }

    pub fn note_created(&mut self, set: &str) {
        if self.deadline().is_some() {
            self.progress("True", reasons::NEW_SET_CREATED, format!("Created new replica set {set:?}"));
        }
    }

    /// The API refused the new set: say so, then try again.
    pub fn report_refusal(&mut self, set: &str, message: &str, foreign_names: &[String]) {
        let message = format!("Failed to create new replica set {set:?}: {message}");
        if self.deadline().is_some() {
            self.progress("False", reasons::SET_REFUSED, message.clone());
        }
        let mut told = vec![Effect::warning(self.target(), COMPONENT, reasons::SET_REFUSED, message)];
        if !same(self.deployment.status.as_ref(), &self.status) {
            told.push(write(self.deployment, self.status.clone()));
        }
        self.effects.append(&mut told);
        // From here on the plan is that of another attempt.
        let told = self.status.clone();
        self.create_new(foreign_names);
        self.status = told.clone();
        self.told = Some(told);
    }

    /// The counters, and whether enough pods are available.
    pub fn count(&mut self) {
        let sum = |number: &dyn Fn(&Set) -> i32| self.sets.iter().map(number).sum::<i32>();
        let available = sum(&Set::available);
        let n_terminating: Option<i32> = self
            .sets
            .iter()
            .map(|set| set.object.status.as_ref().and_then(|status| status.terminating_replicas))
            .sum();
        let enough = available >= self.replicas - self.max_unavailable;
        let status = DeploymentStatus {
            observed_generation: self.deployment.metadata.generation,
            replicas: nonzero(sum(&Set::running)),
            updated_replicas: self.new.and_then(|new| nonzero(self.sets[new].running())),
            ready_replicas: nonzero(sum(&|set| {
                set.object.status.as_ref().and_then(|status| status.ready_replicas).unwrap_or(0)
            })),
            available_replicas: nonzero(available),
            unavailable_replicas: nonzero((self.total_size() - available).max(0)),
            terminating_replicas: n_terminating,
            collision_count: self.status.collision_count,
            conditions: self.status.conditions.take(),
        };
        self.status = status;
        if enough {
            let message = "Deployment has minimum availability.";
            self.set_condition(conditions::AVAILABLE, "True", reasons::MINIMUM_AVAILABLE, message.into());
        } else {
            let message = "Deployment does not have minimum availability.";
            self.set_condition(conditions::AVAILABLE, "False", reasons::MINIMUM_UNAVAILABLE, message.into());
        }
    }

    /// The counters, and how the rollout goes.
    pub fn count_and_judge(&mut self) {
        self.count();
        let before = self.deployment.status.clone().unwrap_or_default();
        match self.deadline() {
            None => self.remove_condition(conditions::PROGRESSING),
            Some(deadline) => self.judge(&before, deadline),
        }
        match self.replica_failure() {
            Some(failure) => self.set_condition(
                conditions::REPLICA_FAILURE,
                &failure.status.clone(),
                failure.reason.as_deref().unwrap_or_default(),
                failure.message.clone().unwrap_or_default(),
            ),
            None => self.remove_condition(conditions::REPLICA_FAILURE),
        }
    }

    fn judge(&mut self, before: &DeploymentStatus, deadline: Duration) {
        let subject = match self.new {
            Some(new) => format!("ReplicaSet {:?}", name(&self.sets[new].object.metadata)),
            None => format!("Deployment {:?}", self.name()),
        };
        let known = self.condition(conditions::PROGRESSING).cloned();
        let reason = known.as_ref().and_then(|condition| condition.reason.as_deref()).unwrap_or_default();
        let completed_before =
            self.status.replicas == self.status.updated_replicas && reason == reasons::NEW_SET_AVAILABLE;
        if completed_before {
            return;
        }
        if self.complete(&self.status) {
            let message = format!("{subject} has successfully progressed.");
            return self.progress("True", reasons::NEW_SET_AVAILABLE, message);
        }
        if progressed(before, &self.status) {
            // The same reason again, but with a fresh time: the deadline counts from the last progress.
            self.remove_condition(conditions::PROGRESSING);
            self.progress("True", reasons::SET_UPDATED, format!("{subject} is progressing."));
            if let (Some(known), Some(fresh)) = (known, self.condition_mut(conditions::PROGRESSING))
                && known.status == "True"
            {
                fresh.last_transition_time = known.last_transition_time;
            }
        } else if let Some(known) = &known {
            let out_of_time = known
                .last_update_time
                .as_ref()
                .and_then(|last| last.0.checked_add(deadline).ok())
                .map(|end| (end, end < self.now));
            match out_of_time {
                _ if reason == reasons::NEW_SET_AVAILABLE || reason == reasons::TIMED_OUT => {}
                Some((_, true)) => self.progress(
                    "False",
                    reasons::TIMED_OUT,
                    format!("{subject} has timed out progressing."),
                ),
                _ => {}
            }
        }
        self.next = self.next_judgement(deadline);
    }

    /// When the deadline has to be looked at again; a second later, since times have whole seconds.
    fn next_judgement(&self, deadline: Duration) -> Option<Timestamp> {
        let condition = self.condition(conditions::PROGRESSING)?;
        if condition.reason.as_deref() == Some(reasons::TIMED_OUT) {
            return None;
        }
        let last = condition.last_update_time.as_ref()?.0;
        last.checked_add(deadline + Duration::from_secs(1)).ok().map(|at| at.max(self.now))
    }

    pub fn complete(&self, status: &DeploymentStatus) -> bool {
        let all = |n: Option<i32>| n.unwrap_or(0) == self.replicas;
        all(status.updated_replicas)
            && all(status.replicas)
            && all(status.available_replicas)
            && status.observed_generation >= self.deployment.metadata.generation
    }

    fn deadline(&self) -> Option<Duration> {
        let seconds = self.spec.progress_deadline_seconds.filter(|seconds| *seconds != UNLIMITED)?;
        u64::try_from(seconds).ok().map(Duration::from_secs)
    }

    /// What keeps pods from being created, of the new set first.
    fn replica_failure(&self) -> Option<ReplicaSetCondition> {
        let of = |set: &Set| {
            let conditions = set.object.status.as_ref().and_then(|status| status.conditions.clone());
            conditions.into_iter().flatten().find(|condition| condition.type_ == conditions::REPLICA_FAILURE)
        };
        self.new.and_then(|new| of(&self.sets[new])).or_else(|| self.sets.iter().find_map(of))
    }

    fn condition(&self, type_: &str) -> Option<&DeploymentCondition> {
        self.status.conditions.iter().flatten().find(|condition| condition.type_ == type_)
    }

    fn condition_mut(&mut self, type_: &str) -> Option<&mut DeploymentCondition> {
        self.status.conditions.iter_mut().flatten().find(|condition| condition.type_ == type_)
    }

    fn progress(&mut self, status: &str, reason: &str, message: String) {
        self.set_condition(conditions::PROGRESSING, status, reason, message);
    }

    /// A condition with the same status and reason stays as it is.
    fn set_condition(&mut self, type_: &str, status: &str, reason: &str, message: String) {
        let held = self.condition(type_);
        if held.is_some_and(|held| held.status == status && held.reason.as_deref() == Some(reason)) {
            return;
        }
        let now = time(self.now);
        let since = held
            .filter(|held| held.status == status)
            .and_then(|held| held.last_transition_time.clone())
            .unwrap_or_else(|| now.clone());
        let condition = DeploymentCondition {
            type_: type_.into(),
            status: status.into(),
            reason: Some(reason.into()),
            message: Some(message),
            last_update_time: Some(now),
            last_transition_time: Some(since),
        };
        self.remove_condition(type_);
        self.status.conditions.get_or_insert_default().push(condition);
    }

    fn remove_condition(&mut self, type_: &str) {
        if let Some(conditions) = &mut self.status.conditions {
            conditions.retain(|condition| condition.type_ != type_);
        }
    }
}

/// Any counter moved the right way.
fn progressed(before: &DeploymentStatus, now: &DeploymentStatus) -> bool {
    let n = |count: Option<i32>| count.unwrap_or(0);
    let n_old = |status: &DeploymentStatus| n(status.replicas) - n(status.updated_replicas);
    n(now.updated_replicas) > n(before.updated_replicas)
        || n_old(now) < n_old(before)
        || n(now.ready_replicas) > n(before.ready_replicas)
        || n(now.available_replicas) > n(before.available_replicas)
}

/// Zero, null and absent are the same; servers differ in which they store.
pub(super) fn same(stored: Option<&DeploymentStatus>, wanted: &DeploymentStatus) -> bool {
    let normal = |status: &DeploymentStatus| DeploymentStatus {
        replicas: status.replicas.and_then(nonzero),
        updated_replicas: status.updated_replicas.and_then(nonzero),
        ready_replicas: status.ready_replicas.and_then(nonzero),
        available_replicas: status.available_replicas.and_then(nonzero),
        unavailable_replicas: status.unavailable_replicas.and_then(nonzero),
        conditions: status.conditions.clone().filter(|conditions| !conditions.is_empty()),
        ..status.clone()
    };
    stored.is_some_and(|stored| normal(stored) == normal(wanted))
}

pub(super) fn write(deployment: &Deployment, status: DeploymentStatus) -> Effect {
    Effect::status(&kind::DEPLOYMENT, &deployment.metadata, deployment.status.as_ref(), &status)
}
