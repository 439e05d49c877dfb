//! What pods do on a node that is left in peace.

use kube::Client;
use serde_json::json;

use super::*;

pub async fn a_web_server_answers_on_its_own_address(client: &Client) {
    let s = Scenario::new(client);
    let server = json!({
        "name": "web",
        "command": ["python3", "-u", "-m", "http.server", "--bind", "$(BALLAST_POD_IP)", "$(PORT)"],
        "workingDir": "/usr/share",
        "env": [{ "name": "PORT", "value": "8080" }],
        "ports": [{ "name": "http", "containerPort": 8080 }],
        "readinessProbe": { "httpGet": { "path": "/", "port": "http" }, "periodSeconds": 1 },
        "resources": { "requests": { "cpu": "1m", "memory": "1Mi" } },
    });
    for name in ["web-1", "web-2"] {
        s.create(name, json!({ "containers": [server], "terminationGracePeriodSeconds": 5 })).await;
    }
    let (one, two) = (s.until_ready("web-1").await, s.until_ready("web-2").await);
    assert_ne!(pod_ip(&one), pod_ip(&two), "the same port twice needs two addresses");
    let status = one.status.clone().unwrap();
    assert_eq!(status.phase.as_deref(), Some("Running"));
    assert_eq!(status.observed_generation, one.metadata.generation);
    let conditions: Vec<String> =
        ["PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"]
            .iter()
            .filter_map(|kind| condition(&one, kind))
            .collect();
    assert_eq!(conditions, ["True"; 5]);

    let answer =
        Command::new("curl").args(["-sS", &format!("http://{}:8080/", pod_ip(&two))]).output().await.unwrap();
    assert!(String::from_utf8_lossy(&answer.stdout).contains("Directory listing"), "{answer:?}");
    s.follow("web-2", "GET / HTTP/1.1").await;
    s.until_event("web-1", "Started").await;

    for name in ["web-1", "web-2"] {
        s.delete(name, 5).await;
        s.until_gone(name).await;
    }
    assert_eq!(processes(&pod_ip(&one)), [0_u32; 0]);
}

pub async fn a_crashing_container_is_restarted_with_growing_pauses(client: &Client) {
    let s = Scenario::new(client);
    let container = json!({
        "name": "c", "command": ["sh", "-c", "echo run `date +%N`; echo oops >&2; exit 3"],
        "terminationMessagePolicy": "FallbackToLogsOnError",
    });
    s.create("crash", json!({ "containers": [container] })).await;
    let pod = s
        .until("crash", |pod| {
            let state = first_state(pod).and_then(|state| state.waiting);
            state.is_some_and(|waiting| waiting.reason.as_deref() == Some("CrashLoopBackOff"))
        })
        .await;
    assert_eq!(restarts(&pod), 1, "the first restart comes at once");
    let status = &pod.status.as_ref().unwrap().container_statuses.as_ref().unwrap()[0];
    let last = status.last_state.clone().unwrap().terminated.unwrap();
    assert_eq!((last.exit_code, last.reason.as_deref()), (3, Some("Error")));
    assert!(last.message.unwrap().contains("oops"));
    assert_eq!(pod.status.as_ref().unwrap().phase.as_deref(), Some("Running"));
    let message = first_state(&pod).unwrap().waiting.unwrap().message.unwrap();
    assert!(
        message.starts_with("back-off 10s restarting failed container=c pod=crash_default("),
        "{message}"
    );
    let params = LogParams { previous: true, ..LogParams::default() };
    let previous = s.pods.logs("crash", &params).await.unwrap();
    assert_ne!(previous, s.logs("crash").await, "each run has a log of its own");
    s.until_event("crash", "BackOff").await;
    s.delete("crash", 30).await;
    s.until_gone("crash").await;
}

pub async fn volumes_and_environment_come_from_the_api(client: &Client) {
    let s = Scenario::new(client);
    s.set_config("greeting", json!({ "text": "hello", "extra": "x" })).await;
    let script = "cat /srv/ballast-suite/text /ballast-suite-root/name /etc/ballast-suite.txt; echo; \
                  echo $FROM $IP; touch /srv/ballast-suite/no 2>&1 | grep -o 'Read-only'; echo shared > /scratch/f; \
                  while ! grep -q bye /srv/ballast-suite/text; do sleep 0.1; done; cat /srv/ballast-suite/text; echo; \
                  while :; do sleep 1; done";
    let pod = s
        .create(
            "config",
            json!({
                "containers": [
                    {
                        "name": "c", "command": ["sh", "-c", script],
                        "env": [
                            { "name": "FROM", "valueFrom": { "configMapKeyRef": { "name": "greeting", "key": "extra" } } },
                            { "name": "IP", "valueFrom": { "fieldRef": { "fieldPath": "status.podIP" } } },
                        ],
                        "volumeMounts": [
                            { "name": "config", "mountPath": "/srv/ballast-suite" },
                            { "name": "config", "mountPath": "/etc/ballast-suite.txt", "subPath": "text" },
                            { "name": "names", "mountPath": "/ballast-suite-root" },
                            { "name": "scratch", "mountPath": "/scratch" },
                        ],
                    },
                    {
                        "name": "other", "command": ["sh", "-c", "until cat /elsewhere/f; do sleep 0.1; done; exec sleep 1000"],
                        "volumeMounts": [{ "name": "scratch", "mountPath": "/elsewhere" }],
                    },
                ],
                "terminationGracePeriodSeconds": 1,
                "volumes": [
                    { "name": "config", "configMap": { "name": "greeting" } },
                    { "name": "names", "downwardAPI": { "items": [{ "path": "name", "fieldRef": { "fieldPath": "metadata.name" } }] } },
                    { "name": "scratch", "emptyDir": {} },
                ],
            }),
        )
        .await;
    assert_eq!(pod.metadata.name.as_deref(), Some("config"));
    let ready = s.until_ready("config").await;
    let params = LogParams { container: Some("other".to_owned()), ..LogParams::default() };
    eventually(async || s.pods.logs("config", &params).await.unwrap().contains("shared")).await;
    s.set_config("greeting", json!({ "text": "good bye", "extra": "y" })).await;
    let params = LogParams { container: Some("c".to_owned()), ..LogParams::default() };
    eventually(async || s.pods.logs("config", &params).await.unwrap().contains("good bye")).await;
    let log = s.pods.logs("config", &params).await.unwrap();
    assert_eq!(
        log.lines().collect::<Vec<_>>(),
        ["helloconfighello", &format!("x {}", pod_ip(&ready)), "Read-only", "good bye"]
    );
    assert!(!Path::new("/srv/ballast-suite").exists(), "the host is not littered with mount points");
    s.delete("config", 1).await;
    s.until_gone("config").await;
}

pub async fn probes_restart_and_hold_back(client: &Client) {
    let s = Scenario::new(client);
    let probed = json!({
        "name": "c",
        "command": ["sh", "-c", "trap 'exit 9' TERM; while :; do sleep 0.1; done"],
        "livenessProbe": { "exec": { "command": ["sh", "-c", "echo not feeling well; exit 1"] },
                           "periodSeconds": 1, "failureThreshold": 2 },
        "readinessProbe": { "tcpSocket": { "port": 1 }, "periodSeconds": 1 },
    });
    s.create("sick", json!({ "containers": [probed], "terminationGracePeriodSeconds": 5 })).await;
    let pod = s
        .until("sick", |pod| restarts(pod) >= 1 && first_state(pod).is_some_and(|s| s.running.is_some()))
        .await;
    let status = &pod.status.as_ref().unwrap().container_statuses.as_ref().unwrap()[0];
    assert_eq!(status.last_state.clone().unwrap().terminated.unwrap().exit_code, 9, "it was asked to stop");
    assert_eq!(condition(&pod, "Ready").as_deref(), Some("False"));
    s.until_event("sick", "Unhealthy").await;
    s.until_event("sick", "Killing").await;
    let fields = ListParams::default().fields("involvedObject.name=sick,reason=Unhealthy");
    let messages: Vec<String> =
        s.events.list(&fields).await.unwrap().items.into_iter().filter_map(|event| event.message).collect();
    assert!(messages.contains(&"Liveness probe failed: not feeling well".to_owned()), "{messages:?}");
    s.delete("sick", 5).await;
    s.until_gone("sick").await;
}

pub async fn init_containers_sidecars_and_an_end(client: &Client) {
    let s = Scenario::new(client);
    let volume = json!([{ "name": "shared", "mountPath": "/shared" }]);
    let part = |name: &str, script: &str| json!({ "name": name, "command": ["sh", "-c", script], "volumeMounts": volume });
    let mut sidecar =
        part("side", "echo side >> /shared/order; trap 'exit 0' TERM; while :; do sleep 0.1; done");
    sidecar["restartPolicy"] = json!("Always");
    sidecar["startupProbe"] =
        json!({ "exec": { "command": ["grep", "side", "/shared/order"] }, "periodSeconds": 1 });
    s.create(
        "job",
        json!({
            "initContainers": [part("first", "echo first >> /shared/order"), sidecar, part("second", "echo second >> /shared/order")],
            "containers": [part("main", "cat /shared/order; echo last words > /dev/termination-log; exit 0")],
            "restartPolicy": "Never",
            "volumes": [{ "name": "shared", "emptyDir": {} }],
        }),
    )
    .await;
    let pod = s.until("job", |pod| phase(pod) == "Succeeded").await;
    let params = LogParams { container: Some("main".to_owned()), ..LogParams::default() };
    assert_eq!(s.pods.logs("job", &params).await.unwrap(), "first\nside\nsecond\n");
    let end = first_state(&pod).unwrap().terminated.unwrap();
    assert_eq!((end.reason.as_deref(), end.message.as_deref()), (Some("Completed"), Some("last words\n")));
    assert_eq!(condition(&pod, "Ready").as_deref(), Some("False"));
    s.delete("job", 30).await;
    s.until_gone("job").await;
}

pub async fn a_stubborn_process_is_killed_with_all_its_children(client: &Client) {
    let s = Scenario::new(client);
    let mut container = shell(
        "trap 'echo will not' TERM; setsid sleep 98761 & nohup sleep 98762 & echo up; while :; do sleep 0.1; done",
    );
    container["lifecycle"] =
        json!({ "preStop": { "exec": { "command": ["sh", "-c", "echo hook > /hook/f"] } } });
    container["volumeMounts"] = json!([{ "name": "hook", "mountPath": "/hook" }]);
    let hook = tempfile::tempdir().unwrap();
    s.create(
        "stubborn",
        json!({ "containers": [container], "volumes": [{ "name": "hook", "hostPath": { "path": hook.path() } }] }),
    )
    .await;
    s.until_ready("stubborn").await;
    s.follow("stubborn", "up").await;
    eventually(async || processes("sleep\09876").len() == 2).await;
    s.delete("stubborn", 1).await;
    let killed = s.until("stubborn", |pod| first_state(pod).is_some_and(|s| s.terminated.is_some())).await;
    assert_eq!(first_state(&killed).unwrap().terminated.unwrap().exit_code, 137);
    s.until_gone("stubborn").await;
    assert_eq!(std::fs::read_to_string(hook.path().join("f")).unwrap(), "hook\n");
    assert_eq!(processes("sleep\09876"), [0_u32; 0]);
}

pub async fn what_cannot_run_says_so(client: &Client) {
    let s = Scenario::new(client);
    s.create("image", json!({ "containers": [{ "name": "c" }], "terminationGracePeriodSeconds": 0 })).await;
    let pod = s.until("image", |pod| waiting_reason(pod).as_deref() == Some("ImageNotRunnable")).await;
    assert_eq!(phase(&pod), "Pending");
    s.create("nothing", json!({ "containers": [{ "name": "c", "command": ["/no/such/program"] }] })).await;
    let pod = s.until("nothing", |pod| restarts(pod) >= 1 && waiting_reason(pod).is_some()).await;
    let status = &pod.status.as_ref().unwrap().container_statuses.as_ref().unwrap()[0];
    let end = status.last_state.clone().unwrap().terminated.unwrap();
    assert_eq!((end.exit_code, end.reason.as_deref()), (128, Some("StartError")));
    assert!(end.message.unwrap().contains("/no/such/program"));
    let missing = json!([{ "name": "X", "valueFrom": { "secretKeyRef": { "name": "late", "key": "k" } } }]);
    let mut container = shell("echo $X; sleep 1000");
    container["env"] = missing;
    s.create("late", json!({ "containers": [container] })).await;
    let pod =
        s.until("late", |pod| waiting_reason(pod).as_deref() == Some("CreateContainerConfigError")).await;
    let message = first_state(&pod).unwrap().waiting.unwrap().message;
    assert_eq!(message.as_deref(), Some("secret \"late\" not found"));
    let secrets: Api<k8s_openapi::api::core::v1::Secret> = Api::default_namespaced(client.clone());
    let secret =
        serde_json::from_value(json!({ "metadata": { "name": "late" }, "stringData": { "k": "v" } }))
            .unwrap();
    secrets.create(&PostParams::default(), &secret).await.unwrap();
    s.until_ready("late").await;
    for name in ["image", "nothing", "late"] {
        s.delete(name, 0).await;
        s.until_gone(name).await;
    }
}

pub async fn usage_is_measured(client: &Client) {
    let s = Scenario::new(client);
    s.create("busy", json!({ "containers": [shell("while :; do :; done")] })).await;
    s.until_ready("busy").await;
    let node = Api::<Node>::all(client.clone()).get(NODE).await.unwrap();
    let port = node.status.unwrap().daemon_endpoints.unwrap().kubelet_endpoint.unwrap().port;
    let url = format!("https://127.0.0.1:{port}/metrics/resource");
    let series = "container_cpu_usage_seconds_total{container=\"c\",namespace=\"default\",pod=\"busy\"} ";
    eventually(async || {
        let bearer = format!("Authorization: Bearer {TOKEN}");
        let page = Command::new("curl").args(["-sSk", "-H", &bearer, &url]).output().await.unwrap();
        let page = String::from_utf8(page.stdout).unwrap();
        let value =
            page.lines().find_map(|line| line.strip_prefix(series)?.split(' ').next()?.parse::<f64>().ok());
        value.is_some_and(|seconds| seconds > 0.1)
    })
    .await;
    s.delete("busy", 0).await;
    s.until_gone("busy").await;
}

pub async fn memory_is_limited_where_cgroups_allow(client: &Client) {
    let s = Scenario::new(client);
    let mut container = shell("exec python3 -c 'x = bytearray(200 << 20); print(len(x))'");
    container["resources"] = json!({ "limits": { "memory": "40Mi" } });
    s.create("greedy", json!({ "containers": [container], "restartPolicy": "Never" })).await;
    let pod = s.until("greedy", |pod| ["Failed", "Succeeded"].contains(&phase(pod).as_str())).await;
    let end = first_state(&pod).unwrap().terminated.unwrap();
    let seen = (end.exit_code, end.reason.as_deref().unwrap());
    // Which of the two depends on the machine, and the node says which.
    let node = Api::<Node>::all(client.clone()).get(NODE).await.unwrap();
    let wanted = match node.metadata.labels.unwrap()["ballast.dev/memory-limits"].as_str() {
        "enforced" => (137, "OOMKilled"),
        _ => (0, "Completed"),
    };
    assert_eq!(seen, wanted);
    if memory_cgroups_can_be_made() {
        assert_eq!(wanted.1, "OOMKilled", "the machine allows cgroups, and the node does not use them");
    }
    s.delete("greedy", 0).await;
    s.until_gone("greedy").await;
}

/// As root of a hierarchy that is not read-only.
fn memory_cgroups_can_be_made() -> bool {
    let roots = ["/sys/fs/cgroup", "/sys/fs/cgroup/memory"].map(std::path::Path::new);
    let controllers = std::fs::read_to_string(roots[0].join("cgroup.controllers")).unwrap_or_default();
    let root = if controllers.split(' ').any(|one| one.trim() == "memory") { roots[0] } else { roots[1] };
    let trial = root.join(format!("ballast-trial-{}", std::process::id()));
    let has_memory = root.join("memory.limit_in_bytes").exists() || root == roots[0];
    let made = has_memory && std::fs::create_dir(&trial).is_ok();
    let _ = std::fs::remove_dir(&trial);
    // Under v2 a group with processes of its own cannot hand memory on to its children, unless it is the root.
    let own = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    made && (root == roots[1] || own.lines().any(|line| line == "0::/"))
}

fn first_state(pod: &Pod) -> Option<k8s_openapi::api::core::v1::ContainerState> {
    pod.status.as_ref()?.container_statuses.as_ref()?.first()?.state.clone()
}

fn waiting_reason(pod: &Pod) -> Option<String> {
    first_state(pod)?.waiting?.reason
}

fn phase(pod: &Pod) -> String {
    pod.status.as_ref().and_then(|status| status.phase.clone()).unwrap_or_default()
}
