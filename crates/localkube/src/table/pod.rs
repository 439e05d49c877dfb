//! A pod in three words: how many containers are ready, what it is doing, how often it was restarted.

use jiff::Timestamp;
use serde_json::Value;

use super::cells;
use crate::object;

pub struct Summary {
    pub ready: String,
    pub status: String,
    pub restarts: String,
}

/// The worst or latest thing that happens in a pod decides what is shown of it: a problem while initializing, else
/// what the first container waits for or ended with, else the phase.
pub fn summary(pod: &Value, now: Timestamp) -> Summary {
    let (spec, status) = (&pod["spec"], &pod["status"]);
    let list = |value: &'static str, of: &'_ Value| -> Vec<Value> {
        of[value].as_array().cloned().unwrap_or_default()
    };
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let condition =
        |kind: &str| status["conditions"].as_array().into_iter().flatten().find(|one| one["type"] == kind);
    let is_true = |kind: &str| condition(kind).is_some_and(|one| one["status"] == "True");

    let init_specs = list("initContainers", spec);
    let restartable =
        |name: &Value| init_specs.iter().any(|one| one["name"] == *name && one["restartPolicy"] == "Always");
    let total = spec["containers"].as_array().map_or(0, Vec::len)
        + init_specs.iter().filter(|one| one["restartPolicy"] == "Always").count();

    let phase = text(&status["phase"]);
    let mut reason = match text(&status["reason"]) {
        reason if reason.is_empty() => phase.clone(),
        reason => reason,
    };
    if condition("PodScheduled").is_some_and(|one| one["reason"] == "SchedulingGated") {
        reason = "SchedulingGated".to_owned();
    }

    let mut ready = 0;
    let mut all = Restarts::default();
    let mut sidecars = Restarts::default();
    let mut initializing = false;
    for (index, container) in list("initContainerStatuses", status).iter().enumerate() {
        all.add(container);
        let sidecar = restartable(&container["name"]);
        if sidecar {
            sidecars.add(container);
        }
        let (terminated, waiting) = (&container["state"]["terminated"], &container["state"]["waiting"]);
        if terminated.is_object() && terminated["exitCode"] == 0 {
            continue;
        }
        if sidecar && container["started"] == true {
            ready += usize::from(container["ready"] == true);
            continue;
        }
        let waits_for = text(&waiting["reason"]);
        reason = if terminated.is_object() {
            format!("Init:{}", ending(terminated))
        } else if !waits_for.is_empty() && waits_for != "PodInitializing" {
            format!("Init:{waits_for}")
        } else {
            format!("Init:{index}/{}", init_specs.len())
        };
        initializing = true;
        break;
    }

    let mut restarts = all;
    if !initializing || is_true("Initialized") {
        restarts = sidecars;
        let (mut running, mut failure) = (false, String::new());
        for container in list("containerStatuses", status).iter().rev() {
            restarts.add(container);
            let (terminated, waiting) = (&container["state"]["terminated"], &container["state"]["waiting"]);
            let waits_for = text(&waiting["reason"]);
            if !waits_for.is_empty() {
                reason = waits_for;
            } else if terminated.is_object() {
                reason = ending(terminated);
                if terminated["exitCode"] != 0 {
                    failure = reason.clone();
                }
            } else if container["ready"] == true && container["state"]["running"].is_object() {
                running = true;
                ready += 1;
            }
        }
        if reason == "Completed" {
            reason = match (running, is_true("Ready"), failure.is_empty()) {
                (true, true, _) => "Running".to_owned(),
                (_, _, false) => failure,
                (true, false, true) => "NotReady".to_owned(),
                (false, _, true) => reason,
            };
        }
    }
    if object::is_deleting(pod) {
        if status["reason"] == "NodeLost" {
            reason = "Unknown".to_owned();
        } else if !matches!(phase.as_str(), "Succeeded" | "Failed") {
            reason = "Terminating".to_owned();
        }
    }
    Summary { ready: format!("{ready}/{total}"), status: reason, restarts: restarts.show(now) }
}

/// What a container that ended is said to have done.
fn ending(terminated: &Value) -> String {
    match terminated["reason"].as_str().unwrap_or_default() {
        "" => match terminated["signal"].as_i64().unwrap_or_default() {
            0 => format!("ExitCode:{}", terminated["exitCode"].as_i64().unwrap_or_default()),
            signal => format!("Signal:{signal}"),
        },
        reason => reason.to_owned(),
    }
}

#[derive(Default)]
struct Restarts {
    count: i64,
    last: Option<Timestamp>,
}

impl Restarts {
    fn add(&mut self, container: &Value) {
        self.count += container["restartCount"].as_i64().unwrap_or_default();
        let ended = object::text(container, &["lastState", "terminated", "finishedAt"]);
        self.last = self.last.max(object::parse_timestamp(ended));
    }

    fn show(&self, now: Timestamp) -> String {
        match self.last {
            Some(last) if self.count != 0 => format!("{} ({} ago)", self.count, cells::since(last, now)),
            _ => self.count.to_string(),
        }
    }
}

pub fn readiness_gates(pod: &Value, _: Timestamp) -> Value {
    let Some(gates) = pod["spec"]["readinessGates"].as_array().filter(|gates| !gates.is_empty()) else {
        return "<none>".into();
    };
    let conditions = pod["status"]["conditions"].as_array();
    let open = gates
        .iter()
        .filter(|gate| {
            let condition = conditions.into_iter().flatten().find(|one| one["type"] == gate["conditionType"]);
            condition.is_some_and(|one| one["status"] == "True")
        })
        .count();
    format!("{open}/{}", gates.len()).into()
}
