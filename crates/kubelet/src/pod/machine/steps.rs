//! What follows from the pod's state: what to start, and in which order to stop.

use super::*;

impl Machine {
    pub(super) fn begin_stop(&mut self, cause: Cause, by: Timestamp) {
        match &mut self.stop {
            // Deletion of a pod that has run to its end, or a second deletion with less grace.
            Some(stop) => {
                let final_already = matches!(stop.cause, Cause::Gone | Cause::Shutdown);
                if !final_already && cause != Cause::Finished {
                    stop.cause = cause;
                }
                stop.by = stop.by.min(by);
            }
            None => self.stop = Some(Stop { cause, by }),
        }
        for container in &mut self.containers {
            if let State::Waiting { .. } = container.state
                && let Some(last) = container.last.take()
            {
                container.state = State::Terminated(last);
            }
        }
    }

    /// Stops one container for a reason of its own; it is restarted as its policy says.
    pub(super) fn stop_one(
        &mut self,
        index: usize,
        by: Timestamp,
        message: String,
        effects: &mut Vec<Effect>,
    ) {
        let container = &mut self.containers[index];
        if container.stop_by.is_none() {
            container.stop_by = Some(by);
            effects.push(tell(index, reasons::KILLING, message));
            effects.push(Effect::Stop { container: index, instance: container.instance, by });
        }
    }

    pub(super) fn advance(&mut self, now: Timestamp, effects: &mut Vec<Effect>) {
        if self.stop.is_none() && self.deadline().is_some_and(|deadline| now >= deadline) {
            let by = after(now, self.grace());
            self.begin_stop(Cause::DeadlineExceeded, by);
            effects.push(tell(
                None,
                reasons::DEADLINE_EXCEEDED,
                "Pod was active on the node longer than the specified deadline".to_owned(),
            ));
        }
        if self.stop.is_none() {
            self.start_step(now, effects);
        }
        if let Some(stop) = self.stop {
            self.stop_step(now, stop, effects);
        }
    }

    fn start_step(&mut self, now: Timestamp, effects: &mut Vec<Effect>) {
        match self.volumes {
            Volumes::Unasked => {
                self.volumes = Volumes::Preparing;
                effects.push(Effect::PrepareVolumes);
                return;
            }
            Volumes::Failed { retry_at } if now >= retry_at => {
                self.volumes = Volumes::Preparing;
                effects.push(Effect::PrepareVolumes);
                return;
            }
            Volumes::Failed { .. } | Volumes::Preparing => return,
            Volumes::Ready => {}
        }
        let initialized = self.is_initialized();
        for index in 0..self.containers.len() {
            let container = &self.containers[index];
            match container.role {
                Role::Init if initialized || container.has_succeeded() => continue,
                Role::Init | Role::Sidecar | Role::Main => self.start_if_due(index, now, effects),
            }
            let container = &self.containers[index];
            let holds_up_the_rest = match container.role {
                Role::Init => true,
                Role::Sidecar => !initialized && !container.is_started(),
                Role::Main => false,
            };
            let failed_for_good = container.role == Role::Init
                && matches!(&container.state, State::Terminated(end) if !self.restarts(index, end.exit_code));
            if failed_for_good {
                self.begin_stop(Cause::Finished, after(now, self.grace()));
                return;
            }
            if holds_up_the_rest {
                return;
            }
        }
        let all_over = self.containers.iter().enumerate().filter(|(_, c)| c.role == Role::Main).all(
            |(index, c)| matches!(&c.state, State::Terminated(end) if !self.restarts(index, end.exit_code)),
        );
        if all_over {
            self.begin_stop(Cause::Finished, after(now, self.grace()));
        }
    }

    fn start_if_due(&mut self, index: usize, now: Timestamp, effects: &mut Vec<Effect>) {
        let spec = spec_of(&self.pod, index);
        if let State::Terminated(end) = &self.containers[index].state {
            if !self.restarts(index, end.exit_code) {
                return;
            }
            let end = end.clone();
            let delay = self.containers[index].backoff.delay(&self.delays, end.finished_at);
            let due = after(end.finished_at, delay);
            let in_pod = self.in_pod();
            let container = &mut self.containers[index];
            container.state = State::Waiting {
                reason: reasons::CRASH_LOOP,
                message: Some(format!(
                    "back-off {} restarting failed container={} pod={in_pod}",
                    go_duration(delay),
                    spec.name
                )),
                until: Until::Time(due),
            };
            container.instance = end.instance + 1;
            container.last = Some(end);
            if due > now {
                let message = format!("Back-off restarting failed container {} in pod {in_pod}", spec.name);
                effects.push(warn(index, reasons::BACK_OFF, message));
            }
        }
        let container = &mut self.containers[index];
        match container.state {
            State::Waiting { until: Until::ItsTurn, .. } => {}
            State::Waiting { until: Until::Time(at), .. } if now >= at => {}
            _ => return,
        }
        if let Some((reason, message)) = refusal(&spec) {
            effects.push(warn(index, reasons::FAILED, format!("Error: {message}")));
            container.state = State::Waiting { reason, message: Some(message), until: Until::Never };
            return;
        }
        if let (State::Waiting { reason: reasons::CRASH_LOOP, .. }, Some(last)) =
            (&container.state, &container.last)
        {
            container.backoff.restarted(&self.delays, last.finished_at, now);
        }
        container.state = State::Starting;
        effects.push(Effect::Start { container: index, instance: container.instance });
    }

    fn stop_step(&mut self, now: Timestamp, stop: Stop, effects: &mut Vec<Effect>) {
        let mains_active = self.containers.iter().any(|c| c.role != Role::Sidecar && c.is_active());
        if mains_active {
            for index in 0..self.containers.len() {
                if self.containers[index].role != Role::Sidecar {
                    self.stop_by(index, stop.by, effects);
                }
            }
            return;
        }
        // Sidecars leave in the opposite order of their coming, one after the other.
        if let Some(index) =
            (0..self.containers.len()).rev().find(|index| self.containers[*index].is_active())
        {
            self.stop_by(index, stop.by.max(after(now, SHORTEST_GRACE)), effects);
        }
    }

    /// Asks again only when there is less time than before.
    fn stop_by(&mut self, index: usize, by: Timestamp, effects: &mut Vec<Effect>) {
        let container = &mut self.containers[index];
        if !container.is_active() || container.stop_by.is_some_and(|before| before <= by) {
            return;
        }
        if container.stop_by.is_none() && container.is_running() {
            let name = spec_of(&self.pod, index).name;
            effects.push(tell(index, reasons::KILLING, format!("Stopping container {name}")));
        }
        container.stop_by = Some(by);
        effects.push(Effect::Stop { container: index, instance: container.instance, by });
    }
}

/// Why a container can never run here.
fn refusal(spec: &k8s::Container) -> Option<(&'static str, String)> {
    if spec.command.as_ref().is_none_or(Vec::is_empty) {
        let image = spec.image.as_deref().unwrap_or_default();
        return Some((
            reasons::IMAGE_NOT_RUNNABLE,
            format!(
                "container \"{}\" has no command, and the process node does not run images (\"{image}\"): give the \
                 container a command that exists on this machine",
                spec.name
            ),
        ));
    }
    probes::unsupported(spec).map(|message| (reasons::PROBE_NOT_SUPPORTED, message))
}

/// As Go prints it: `10s`, `1m20s`, `5m0s`.
fn go_duration(duration: SignedDuration) -> String {
    let (minutes, seconds) = (duration.as_secs() / 60, duration.as_secs() % 60);
    if minutes == 0 { format!("{seconds}s") } else { format!("{minutes}m{seconds}s") }
}
