//! What happened, and what it changes in the pod's state.

use super::*;

impl Machine {
    pub(super) fn update(&mut self, now: Timestamp, pod: Arc<k8s::Pod>, effects: &mut Vec<Effect>) {
        let old = std::mem::replace(&mut self.pod, pod);
        if self.volumes == Volumes::Ready
            && (old.metadata.labels != self.pod.metadata.labels
                || old.metadata.annotations != self.pod.metadata.annotations)
        {
            effects.push(Effect::PrepareVolumes);
        }
        let by = after(now, self.grace());
        if self.pod.metadata.deletion_timestamp.is_some() {
            // Counted from here: the timestamp is in whole seconds, which would take up to one off the grace.
            let grace = self.pod.metadata.deletion_grace_period_seconds;
            let by = grace.map_or(by, |seconds| after(now, SignedDuration::from_secs(seconds.max(0))));
            self.begin_stop(Cause::Deleted, by);
            return;
        }
        for index in 0..self.containers.len() {
            let (before, after) = (spec_of(&old, index), spec_of(&self.pod, index));
            if !self.containers[index].is_running() || self.stop.is_some() {
                continue;
            }
            if before.image != after.image {
                let message = format!("Container {} definition changed, will be restarted", after.name);
                self.stop_one(index, by, message, effects);
            } else if before.resources != after.resources {
                if resize_restarts(&before, &after) {
                    let message = format!("Container {} resize requires restart", after.name);
                    self.stop_one(index, by, message, effects);
                } else {
                    effects.push(Effect::Resize { container: index });
                }
            }
        }
    }

    pub(super) fn volumes_done(
        &mut self,
        now: Timestamp,
        result: Result<(), String>,
        effects: &mut Vec<Effect>,
    ) {
        match result {
            Ok(()) => self.volumes = Volumes::Ready,
            Err(message) => {
                effects.push(warn(None, reasons::FAILED_MOUNT, message));
                // Volumes that were made once keep what they have.
                if self.volumes != Volumes::Ready {
                    self.volumes = Volumes::Failed { retry_at: after(now, RETRY) };
                }
            }
        }
    }

    pub(super) fn objects_changed(&mut self, now: Timestamp, effects: &mut Vec<Effect>) {
        match self.volumes {
            Volumes::Ready => effects.push(Effect::PrepareVolumes),
            Volumes::Failed { .. } => self.volumes = Volumes::Failed { retry_at: now },
            Volumes::Unasked | Volumes::Preparing => {}
        }
        for container in &mut self.containers {
            if let State::Waiting { reason: reasons::CONFIG_ERROR, until, .. } = &mut container.state {
                *until = Until::Time(now);
            }
        }
    }

    pub(super) fn started(&mut self, now: Timestamp, index: usize, instance: u32, effects: &mut Vec<Effect>) {
        let spec = spec_of(&self.pod, index);
        let Some(container) = self.current(index, instance) else { return };
        container.state = State::Running { since: now };
        container.started_up = spec.startup_probe.is_none();
        effects.push(tell(index, reasons::STARTED, format!("Started container {}", spec.name)));
    }

    pub(super) fn not_configured(
        &mut self,
        now: Timestamp,
        index: usize,
        instance: u32,
        message: String,
        effects: &mut Vec<Effect>,
    ) {
        let Some(container) = self.current(index, instance) else { return };
        effects.push(warn(index, reasons::FAILED, format!("Error: {message}")));
        container.state = State::Waiting {
            reason: reasons::CONFIG_ERROR,
            message: Some(message),
            until: Until::Time(after(now, RETRY)),
        };
    }

    pub(super) fn ended(&mut self, index: usize, instance: u32, end: Terminated) {
        let Some(container) = self.current(index, instance) else { return };
        container.state = State::Terminated(end);
        container.started_up = false;
        container.probed_ready = false;
        container.stop_by = None;
    }

    pub(super) fn probed(
        &mut self,
        now: Timestamp,
        index: usize,
        instance: u32,
        report: Report,
        effects: &mut Vec<Effect>,
    ) {
        let spec = spec_of(&self.pod, index);
        let grace = self.grace();
        let Some(container) = self.current(index, instance) else { return };
        let kind = match report {
            Report::Failed { kind, message } => {
                effects.push(warn(
                    index,
                    reasons::UNHEALTHY,
                    format!("{} probe failed: {message}", kind.title()),
                ));
                return;
            }
            Report::Became { kind: probes::Kind::Readiness, healthy } => {
                container.probed_ready = healthy;
                return;
            }
            Report::Became { kind: probes::Kind::Startup, healthy: true } => {
                container.started_up = true;
                return;
            }
            Report::Became { healthy: true, .. } => return,
            Report::Became { kind, healthy: false } => kind,
        };
        let own_grace = kind.of(&spec).and_then(|probe| probe.termination_grace_period_seconds);
        let grace = own_grace.map_or(grace, SignedDuration::from_secs);
        let message = format!(
            "Container {} failed {} probe, will be restarted",
            spec.name,
            kind.title().to_lowercase()
        );
        self.stop_one(index, after(now, grace), message, effects);
    }
}

fn resize_restarts(before: &k8s::Container, after: &k8s::Container) -> bool {
    let value = |container: &k8s::Container, name: &str| {
        let resources = container.resources.clone().unwrap_or_default();
        (
            resources.requests.unwrap_or_default().remove(name),
            resources.limits.unwrap_or_default().remove(name),
        )
    };
    after.resize_policy.iter().flatten().any(|policy| {
        policy.restart_policy == "RestartContainer"
            && value(before, &policy.resource_name) != value(after, &policy.resource_name)
    })
}
