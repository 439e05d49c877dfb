//! Pods as processes: environment, volumes, probes, restarts, ends.

use anyhow::{Result, ensure};
use cluster::Cluster;
use e2e::{Place, at, eventually, is_ready};
use k8s_openapi::api::core::v1::Pod;
use serde_json::json;

pub async fn environment_and_volumes_are_as_the_manifest_says(cluster: &Cluster) -> Result<()> {
    let place = Place::new(cluster, "pod-env").await?;
    place
        .apply(
            r#"
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data: {color: green, greeting.txt: "hello from a file"}
---
apiVersion: v1
kind: Secret
metadata: {name: keys}
stringData: {password: s3cret}
---
apiVersion: v1
kind: Pod
metadata: {name: show, labels: {app: show}, annotations: {note: "a note"}}
spec:
  restartPolicy: Never
  volumes:
  - {name: settings, configMap: {name: settings}}
  - {name: keys, secret: {secretName: keys}}
  - {name: scratch, emptyDir: {}}
  - name: about
    downwardAPI: {items: [{path: labels, fieldRef: {fieldPath: metadata.labels}}]}
  containers:
  - name: main
    image: none
    command: [sh, -c]
    args:
    - |
      echo "color=$COLOR password=$PASSWORD name=$NAME ip=$IP sum=$SUM from=$color"
      cat /ballast-e2e/settings/greeting.txt; echo
      cat /ballast-e2e/keys/password; echo
      cat /ballast-e2e/about/labels; echo
      echo kept > /ballast-e2e/scratch/file && cat /ballast-e2e/scratch/file
    envFrom: [{configMapRef: {name: settings}}]
    env:
    - {name: COLOR, valueFrom: {configMapKeyRef: {name: settings, key: color}}}
    - {name: PASSWORD, valueFrom: {secretKeyRef: {name: keys, key: password}}}
    - {name: NAME, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
    - {name: IP, valueFrom: {fieldRef: {fieldPath: status.podIP}}}
    - {name: SUM, value: "$(NAME)-$(COLOR)"}
    volumeMounts:
    - {name: settings, mountPath: /ballast-e2e/settings}
    - {name: keys, mountPath: /ballast-e2e/keys}
    - {name: scratch, mountPath: /ballast-e2e/scratch}
    - {name: about, mountPath: /ballast-e2e/about}
"#,
        )
        .await?;
    let pod = place.until("pod", "show", |pod| at(pod, "/status/phase") == "Succeeded").await?;
    let ip = at(&pod, "/status/podIP").as_str().unwrap_or_default().to_owned();
    let log = place.kubectl("logs show").await?;
    let expected = format!("color=green password=s3cret name=show ip={ip} sum=show-green from=green");
    for line in [expected.as_str(), "hello from a file", "s3cret", r#"app="show""#, "kept"] {
        ensure!(log.contains(line), "no {line:?} in:\n{log}");
    }
    Ok(())
}

pub async fn a_crash_loop_is_told_and_logged(cluster: &Cluster) -> Result<()> {
    let place = Place::new(cluster, "crash").await?;
    place
        .apply(
            r#"
apiVersion: v1
kind: Pod
metadata: {name: crash}
spec:
  containers:
  - {name: main, image: none, command: [sh, -c, "echo one more try; exit 3"]}
"#,
        )
        .await?;
    let pod = place
        .until("pod", "crash", |pod| {
            let status = at(pod, "/status/containerStatuses/0");
            status["restartCount"].as_i64() >= Some(2)
                && at(status, "/state/waiting/reason") == "CrashLoopBackOff"
                && at(status, "/lastState/terminated/exitCode") == &json!(3)
        })
        .await?;
    ensure!(
        at(&pod, "/status/phase") == "Running",
        "a pod that restarts is running: {}",
        at(&pod, "/status/phase")
    );
    // Between two looks it may have tried again, so each waits for the back-off anew.
    eventually("the table to tell of the back-off", || async {
        let table = place.kubectl("get pod crash").await?;
        Ok(if table.contains("CrashLoopBackOff") && table.contains("0/1") { Ok(()) } else { Err(table) })
    })
    .await?;
    eventually("the log of the try before", || async {
        Ok(match place.kubectl("logs crash --previous").await {
            Ok(log) if log.contains("one more try") => Ok(()),
            Ok(seen) => Err(seen),
            Err(error) => Err(error.to_string()),
        })
    })
    .await?;
    eventually("an event of the back-off", || async {
        let events = place.kubectl("get events --field-selector involvedObject.name=crash").await?;
        Ok(if events.contains("BackOff") { Ok(()) } else { Err(events) })
    })
    .await
}

pub async fn init_containers_run_first_and_exit_codes_are_kept(cluster: &Cluster) -> Result<()> {
    let place = Place::new(cluster, "init").await?;
    place
        .apply(
            r#"
apiVersion: v1
kind: Pod
metadata: {name: job}
spec:
  restartPolicy: Never
  volumes: [{name: shared, emptyDir: {}}]
  initContainers:
  - {name: first, image: none, command: [sh, -c, "echo prepared > /ballast-e2e/shared/file"], volumeMounts: [{name: shared, mountPath: /ballast-e2e/shared}]}
  containers:
  - {name: main, image: none, command: [sh, -c, "cat /ballast-e2e/shared/file; exit 7"], volumeMounts: [{name: shared, mountPath: /ballast-e2e/shared}]}
"#,
        )
        .await?;
    let pod = place.until("pod", "job", |pod| at(pod, "/status/phase") == "Failed").await?;
    ensure!(at(&pod, "/status/initContainerStatuses/0/state/terminated/exitCode") == &json!(0), "{pod}");
    ensure!(at(&pod, "/status/initContainerStatuses/0/state/terminated/reason") == "Completed", "{pod}");
    ensure!(at(&pod, "/status/containerStatuses/0/state/terminated/exitCode") == &json!(7), "{pod}");
    ensure!(at(&pod, "/status/containerStatuses/0/state/terminated/reason") == "Error", "{pod}");
    ensure!(place.kubectl("logs job").await?.contains("prepared"));
    Ok(())
}

pub async fn readiness_follows_the_probe(cluster: &Cluster) -> Result<()> {
    let place = Place::new(cluster, "ready").await?;
    let flag = cluster.directory().join(format!("{}-flag", place.namespace));
    place
        .apply(&format!(
            r#"
apiVersion: v1
kind: Pod
metadata: {{name: gated, labels: {{app: gated}}}}
spec:
  terminationGracePeriodSeconds: 0
  containers:
  - name: main
    image: none
    command: [sleep, infinity]
    readinessProbe: {{exec: {{command: [test, -e, "{}"]}}, periodSeconds: 1, failureThreshold: 1}}
"#,
            flag.display()
        ))
        .await?;
    place
        .until("pod", "gated", |pod| !at(pod, "/status/containerStatuses/0/state/running").is_null())
        .await?;
    let pods = place.pods("app=gated").await?;
    ensure!(!pods.iter().any(is_ready), "not ready before the probe passes");
    std::fs::write(&flag, "")?;
    place.ready_pods("app=gated", 1).await?;
    std::fs::remove_file(&flag)?;
    let pod = place
        .until("pod", "gated", |pod| at(pod, "/status/containerStatuses/0/ready") == &json!(false))
        .await?;
    let conditions = at(&pod, "/status/conditions").to_string();
    ensure!(conditions.contains("ContainersNotReady"), "{conditions}");
    Ok(())
}

pub async fn a_failing_liveness_probe_restarts(cluster: &Cluster) -> Result<()> {
    let place = Place::new(cluster, "live").await?;
    place
        .apply(
            r#"
apiVersion: v1
kind: Pod
metadata: {name: sick}
spec:
  terminationGracePeriodSeconds: 0
  containers:
  - name: main
    image: none
    command: [sleep, infinity]
    livenessProbe: {exec: {command: ["false"]}, periodSeconds: 1, failureThreshold: 2}
"#,
        )
        .await?;
    let pod = place
        .until("pod", "sick", |pod| at(pod, "/status/containerStatuses/0/restartCount").as_i64() >= Some(1))
        .await?;
    // by SIGTERM: a kubelet gives a process at least two seconds to end
    ensure!(at(&pod, "/status/containerStatuses/0/lastState/terminated/exitCode") == &json!(143), "{pod}");
    eventually("events of the probe", || async {
        let events = place.kubectl("get events --field-selector involvedObject.name=sick").await?;
        Ok(if events.contains("Unhealthy") && events.contains("Killing") { Ok(()) } else { Err(events) })
    })
    .await
}

pub async fn termination_waits_for_the_process(cluster: &Cluster) -> Result<()> {
    let place = Place::new(cluster, "grace").await?;
    let done = cluster.directory().join(format!("{}-done", place.namespace));
    place
        .apply(&format!(
            r#"
apiVersion: v1
kind: Pod
metadata: {{name: polite, labels: {{app: polite}}}}
spec:
  terminationGracePeriodSeconds: 60
  containers:
  - name: main
    image: none
    command: [sh, -c, "trap 'sleep 1; echo bye > {0}; exit 0' TERM; touch {0}.started; while true; do sleep 0.1; done"]
    readinessProbe: {{exec: {{command: [test, -e, "{0}.started"]}}, periodSeconds: 1}}
"#,
            done.display()
        ))
        .await?;
    place.ready_pods("app=polite", 1).await?;
    place.kubectl("delete pod polite --wait=false").await?;
    let pods = place.api::<Pod>();
    if let Some(pod) = pods.get_opt("polite").await? {
        ensure!(pod.metadata.deletion_timestamp.is_some(), "it is on its way out");
    }
    place.until_gone("pod", "polite").await?;
    ensure!(std::fs::read_to_string(&done)?.contains("bye"), "it had its time to say good-bye");
    Ok(())
}

pub async fn a_container_without_a_command_is_refused(cluster: &Cluster) -> Result<()> {
    let place = Place::new(cluster, "image").await?;
    place.apply("{apiVersion: v1, kind: Pod, metadata: {name: image}, spec: {containers: [{name: main, image: nginx}]}}").await?;
    let pod = place
        .until("pod", "image", |pod| !at(pod, "/status/containerStatuses/0/state/waiting/message").is_null())
        .await?;
    let message = at(&pod, "/status/containerStatuses/0/state/waiting/message").to_string();
    ensure!(message.contains("command"), "it says what to do: {message}");
    ensure!(at(&pod, "/status/phase") == "Pending", "{pod}");
    Ok(())
}
