//! What the node knows of one container, and when it may be started again.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1 as k8s;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Runs to its end before the next one starts.
    Init,
    /// An init container that is kept running beside the others.
    Sidecar,
    Main,
}

#[derive(Debug, Clone)]
pub struct Container {
    pub role: Role,
    pub state: State,
    /// How the run before this one ended.
    pub last: Option<Terminated>,
    /// Number of the current run, or of the next one while waiting; also the restart count.
    pub instance: u32,
    /// The startup probe has succeeded, or there is none.
    pub started_up: bool,
    pub probed_ready: bool,
    pub backoff: BackOff,
    /// Until when it has to be gone, once told to stop.
    pub stop_by: Option<Timestamp>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    Waiting { reason: &'static str, message: Option<String>, until: Until },
    Starting,
    Running { since: Timestamp },
    Terminated(Terminated),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Until {
    ItsTurn,
    Time(Timestamp),
    /// The manifest has to change, which for a pod means a new pod.
    Never,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Terminated {
    pub instance: u32,
    pub exit_code: i32,
    pub reason: String,
    pub message: Option<String>,
    pub started_at: Option<Timestamp>,
    pub finished_at: Timestamp,
}

/// Restart delays: none, then 10 s, 20 s, 40 s … up to 5 min; forgotten after 10 min without a restart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Delays {
    pub initial: SignedDuration,
    pub max: SignedDuration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BackOff {
    /// The delay that the next restart has to wait for, and when it was set.
    set: Option<(SignedDuration, Timestamp)>,
}

// === impl Container ===

impl Container {
    pub fn new(role: Role, state: State) -> Self {
        Self {
            role,
            state,
            last: None,
            instance: 0,
            started_up: false,
            probed_ready: false,
            backoff: BackOff::default(),
            stop_by: None,
        }
    }

    /// There is, or may be any moment, a process.
    pub fn is_active(&self) -> bool {
        matches!(self.state, State::Starting | State::Running { .. })
    }

    pub fn is_running(&self) -> bool {
        matches!(self.state, State::Running { .. })
    }

    /// Running and past its startup probe.
    pub fn is_started(&self) -> bool {
        self.is_running() && self.started_up
    }

    pub fn has_succeeded(&self) -> bool {
        matches!(&self.state, State::Terminated(end) if end.exit_code == 0)
    }

    pub fn is_ready(&self, spec: &k8s::Container) -> bool {
        match self.role {
            Role::Init => self.has_succeeded(),
            Role::Sidecar | Role::Main => {
                self.is_started() && (spec.readiness_probe.is_none() || self.probed_ready)
            }
        }
    }

    /// Restarts so far; a restart that is being waited for is none yet.
    pub fn restart_count(&self) -> u32 {
        match &self.state {
            State::Running { .. } => self.instance,
            State::Terminated(end) => end.instance,
            State::Waiting { .. } | State::Starting => self.last.as_ref().map_or(0, |end| end.instance),
        }
    }

    /// The latest run that has ended, whether or not another is being waited for.
    pub fn latest_end(&self) -> Option<&Terminated> {
        match &self.state {
            State::Terminated(end) => Some(end),
            State::Waiting { .. } => self.last.as_ref(),
            State::Starting | State::Running { .. } => None,
        }
    }
}

// === impl State ===

impl State {
    pub fn waiting(reason: &'static str) -> Self {
        Self::Waiting { reason, message: None, until: Until::ItsTurn }
    }
}

// === impl Delays ===

impl Default for Delays {
    fn default() -> Self {
        Self { initial: SignedDuration::from_secs(10), max: SignedDuration::from_mins(5) }
    }
}

// === impl BackOff ===

impl BackOff {
    /// How long a container that ended at `finished` has to wait.
    pub fn delay(&self, delays: &Delays, finished: Timestamp) -> SignedDuration {
        self.unexpired(delays, finished).unwrap_or(SignedDuration::ZERO)
    }

    /// Notes a restart.
    pub fn restarted(&mut self, delays: &Delays, finished: Timestamp, now: Timestamp) {
        let next = match self.unexpired(delays, finished) {
            Some(delay) => delay.checked_mul(2).unwrap_or(delays.max).min(delays.max),
            None => delays.initial,
        };
        self.set = Some((next, now));
    }

    fn unexpired(&self, delays: &Delays, finished: Timestamp) -> Option<SignedDuration> {
        let (delay, at) = self.set?;
        let memory = delays.max.checked_mul(2).unwrap_or(delays.max);
        (finished.duration_since(at) <= memory).then_some(delay)
    }
}

/// Whether a container that ended so is started again.
pub fn restarts(spec: &k8s::Container, role: Role, pod_policy: &str, exit_code: i32) -> bool {
    if role == Role::Sidecar {
        return true;
    }
    let matched = spec.restart_policy_rules.iter().flatten().find(|rule| {
        rule.exit_codes.as_ref().is_some_and(|codes| {
            let listed = codes.values.iter().flatten().any(|code| *code == exit_code);
            (codes.operator == "NotIn") != listed
        })
    });
    if let Some(rule) = matched {
        return rule.action == "Restart";
    }
    match (spec.restart_policy.as_deref().unwrap_or(pod_policy), role) {
        ("Never", _) => false,
        ("OnFailure", _) | (_, Role::Init) => exit_code != 0,
        _ => true,
    }
}

/// In bytes, if there is one.
///
/// # Errors
/// When it is no amount of memory.
pub fn memory_limit(spec: &k8s::Container) -> Result<Option<u64>, String> {
    let limit = spec.resources.as_ref().and_then(|resources| resources.limits.as_ref()?.get("memory"));
    let bytes = |text: &str| u64::try_from(quantity::Quantity::parse(text).ok()?.units()).ok();
    limit.map(|limit| bytes(&limit.0).ok_or_else(|| format!("invalid memory limit {}", limit.0))).transpose()
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

    use super::*;

    #[test]
    fn delays_double_to_the_cap_and_are_forgotten() {
        let delays = Delays::default();
        let mut backoff = BackOff::default();
        let mut now = Timestamp::UNIX_EPOCH;
        let mut seen = Vec::new();
        for _ in 0..8 {
            now += SignedDuration::from_secs(1);
            let finished = now;
            let delay = backoff.delay(&delays, finished);
            seen.push(delay.as_secs());
            now += delay;
            backoff.restarted(&delays, finished, now);
        }
        assert_eq!(seen, [0, 10, 20, 40, 80, 160, 300, 300]);

        let after_ten_minutes = now + SignedDuration::from_secs(601);
        assert_eq!(backoff.delay(&delays, after_ten_minutes), SignedDuration::ZERO);
        backoff.restarted(&delays, after_ten_minutes, after_ten_minutes);
        assert_eq!(backoff.delay(&delays, after_ten_minutes + SignedDuration::from_secs(1)), delays.initial);
    }

    #[test]
    fn memory_limits_in_bytes() {
        let limit = |text: Option<&str>| {
            let limits = text.map(|text| [("memory".to_owned(), Quantity(text.to_owned()))].into());
            let resources = Some(k8s::ResourceRequirements { limits, ..Default::default() });
            memory_limit(&k8s::Container { resources, ..Default::default() })
        };
        assert_eq!(limit(Some("64Mi")), Ok(Some(64 << 20)));
        assert_eq!(limit(Some("1500m")), Ok(Some(2)));
        assert_eq!(limit(None), Ok(None));
        assert_eq!(limit(Some("-1")), Err("invalid memory limit -1".to_owned()));
        assert_eq!(limit(Some("much")), Err("invalid memory limit much".to_owned()));
    }

    #[test]
    fn restart_policies() {
        let plain = k8s::Container::default();
        let ruled = k8s::Container {
            restart_policy: Some("Never".to_owned()),
            restart_policy_rules: Some(vec![k8s::ContainerRestartRule {
                action: "Restart".to_owned(),
                exit_codes: Some(k8s::ContainerRestartRuleOnExitCodes {
                    operator: "In".to_owned(),
                    values: Some(vec![42]),
                }),
            }]),
            ..k8s::Container::default()
        };
        for (spec, role, policy, exit_code, expected) in [
            (&plain, Role::Main, "Always", 0, true),
            (&plain, Role::Main, "Always", 1, true),
            (&plain, Role::Main, "OnFailure", 0, false),
            (&plain, Role::Main, "OnFailure", 1, true),
            (&plain, Role::Main, "Never", 1, false),
            (&plain, Role::Init, "Always", 0, false),
            (&plain, Role::Init, "Always", 1, true),
            (&plain, Role::Init, "Never", 1, false),
            (&plain, Role::Sidecar, "Never", 0, true),
            (&ruled, Role::Main, "Always", 42, true),
            (&ruled, Role::Main, "Always", 1, false),
        ] {
            assert_eq!(restarts(spec, role, policy, exit_code), expected, "{role:?} {policy} {exit_code}");
        }
    }
}
