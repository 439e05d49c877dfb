//! Why the containers of a pod do not start.

use k8s_openapi::api::core::v1::{ContainerState, ContainerStateTerminated, ContainerStatus, Pod};

/// What a waiting container says that will not start without somebody's help, or only after growing pauses. Others
/// (`ContainerCreating`, `PodInitializing`) are on their way.
const HOPELESS: [&str; 9] = [
    "CrashLoopBackOff",
    "ImagePullBackOff",
    "ErrImagePull",
    "ErrImageNeverPull",
    "InvalidImageName",
    "CreateContainerError",
    "CreateContainerConfigError",
    "RunContainerError",
    "StartError",
];
/// An event, a log line and an answer have to have room for it.
const LONGEST: usize = 500;

/// Of the first container that fails, in words that stay the same while it fails for the same reason.
pub fn start_failure(pod: &Pod) -> Option<String> {
    let status = pod.status.as_ref()?;
    let init = status.init_container_statuses.iter().flatten();
    let words = init.chain(status.container_statuses.iter().flatten()).find_map(of_container)?;
    Some(words.chars().take(LONGEST).collect())
}

fn of_container(container: &ContainerStatus) -> Option<String> {
    let state = container.state.as_ref()?;
    let (reason, message) = match state {
        ContainerState { waiting: Some(waiting), .. } => (
            waiting.reason.as_deref().filter(|reason| HOPELESS.contains(reason))?,
            waiting.message.as_deref(),
        ),
        ContainerState { terminated: Some(terminated), .. } => {
            (terminated.reason.as_deref().filter(|reason| HOPELESS.contains(reason))?, None)
        }
        _ => return None,
    };
    // Of a crash loop, the back-off says how long it takes and not why.
    let last = container.last_state.as_ref().and_then(|last| last.terminated.as_ref());
    let ended = state.terminated.as_ref().or(last).map(ended);
    let why = ended.or_else(|| message.map(str::to_owned));
    let name = &container.name;
    Some(match why {
        Some(why) => format!("container {name}: {reason}: {why}"),
        None => format!("container {name}: {reason}"),
    })
}

fn ended(terminated: &ContainerStateTerminated) -> String {
    let message = terminated.message.as_deref().map(str::trim).filter(|message| !message.is_empty());
    match (message, terminated.reason.as_deref()) {
        (Some(message), _) => format!("exit code {}: {message}", terminated.exit_code),
        (None, Some(reason)) => format!("exit code {} ({reason})", terminated.exit_code),
        (None, None) => format!("exit code {}", terminated.exit_code),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn failure(containers: Value) -> Option<String> {
        let pod = json!({"status": {"containerStatuses": containers}});
        start_failure(&serde_json::from_value(pod).unwrap())
    }

    fn container(state: Value, last: Value) -> Value {
        json!({"name": "app", "image": "i", "imageID": "", "ready": false, "restartCount": 1, "state": state, "lastState": last})
    }

    #[test]
    fn what_containers_say() {
        let back_off = json!({"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 10s restarting failed container"}});
        let no_program = json!({"terminated": {"exitCode": 128, "reason": "StartError",
            "message": "exec: \"python3\": executable file not found in $PATH"}});
        let crashed = json!({"terminated": {"exitCode": 1, "reason": "Error"}});
        for (state, last, words) in [
            (
                back_off.clone(),
                no_program.clone(),
                Some(
                    "container app: CrashLoopBackOff: exit code 128: exec: \"python3\": executable file not found in $PATH",
                ),
            ),
            (back_off.clone(), crashed.clone(), Some("container app: CrashLoopBackOff: exit code 1 (Error)")),
            (
                no_program,
                json!({}),
                Some(
                    "container app: StartError: exit code 128: exec: \"python3\": executable file not found in $PATH",
                ),
            ),
            (
                json!({"waiting": {"reason": "ImagePullBackOff", "message": "Back-off pulling image \"nope\""}}),
                json!({}),
                Some("container app: ImagePullBackOff: Back-off pulling image \"nope\""),
            ),
            (json!({"waiting": {"reason": "ContainerCreating"}}), json!({}), None),
            (json!({"running": {}}), crashed, None),
        ] {
            assert_eq!(failure(json!([container(state.clone(), last)])).as_deref(), words, "{state}");
        }
        assert_eq!(failure(json!([])), None);
    }
}
