//! What people type.

use anyhow::{Context, Result, ensure};
use cluster::Cluster;
use e2e::{Place, at, eventually};
use serde_json::json;
use std::process::Stdio;
use tokio::io::{AsyncBufReadExt, BufReader};

const SLEEPER: &str = r#"
apiVersion: apps/v1
kind: Deployment
metadata: {name: app, labels: {app: app}}
spec:
  selector: {matchLabels: {app: app}}
  template:
    metadata: {labels: {app: app}}
    spec:
      terminationGracePeriodSeconds: 0
      containers:
      - {name: main, image: "none:1", command: [sh, -c, "while true; do echo tick; sleep 0.2; done"]}
"#;

pub async fn everyday_commands(cluster: &Cluster) -> Result<()> {
    let place = Place::new(cluster, "everyday").await?;
    place.apply(SLEEPER).await?;
    let unchanged = place.apply(SLEEPER).await?;
    ensure!(unchanged.contains("unchanged"), "{unchanged}");
    let missing = place.apply("{apiVersion: example.com/v1, kind: Nothing, metadata: {name: x}}").await;
    let missing = missing.unwrap_or_else(|error| error.to_string());
    ensure!(missing.contains("no matches for kind \"Nothing\" in version \"example.com/v1\""), "{missing}");
    let server_side = ["-n", &place.namespace, "apply", "--server-side", "--force-conflicts", "-f", "-"];
    place.cluster.kubectl_with_input(server_side, SLEEPER).await?;

    for (command, expected) in [
        ("create configmap made --from-literal=k=v", "created"),
        ("create secret generic made --from-literal=k=v", "created"),
        ("create serviceaccount made", "created"),
        ("create deployment made --image=none -- sleep infinity", "created"),
        ("wait --for=condition=Available deployment/app deployment/made", "condition met"),
        ("get deployments", "READY"),
        ("get deployments -o wide", "SELECTOR"),
        ("get pods -o wide", "NODE"),
        ("get deployment app -o yaml", "kind: Deployment"),
        ("get deployment app -o jsonpath={.spec.template.spec.containers[0].image}", "none:1"),
        ("get all", "replicaset.apps/"),
        ("describe deployment app", "StrategyType:"),
        ("describe pods -l app=app", "Events:"),
        ("label deployment app tier=front", "labeled"),
        ("annotate deployment app note=x", "annotated"),
        ("get deployments -l tier=front -o name", "deployment.apps/app"),
        (
            "patch deployment app --type=json -p [{\"op\":\"replace\",\"path\":\"/spec/replicas\",\"value\":2}]",
            "patched",
        ),
        ("rollout status deployment/app", "successfully rolled out"),
        ("scale deployment app --replicas=1", "scaled"),
        ("set image deployment/app main=none:2", "image updated"),
        ("rollout status deployment/app", "successfully rolled out"),
        ("rollout restart deployment/app", "restarted"),
        ("rollout status deployment/app", "successfully rolled out"),
        ("rollout undo deployment/app --to-revision=1", "rolled back"),
        ("rollout status deployment/app", "successfully rolled out"),
        ("get deployment app -o jsonpath={.spec.template.spec.containers[0].image}", "none:1"),
        ("autoscale deployment app --min=1 --max=3 --cpu=50%", "autoscaled"),
        ("get hpa", "app"),
        ("describe hpa app", "Deployment/app"),
        ("explain deployment.spec.strategy", "rollingUpdate"),
        ("explain hpa.spec.behavior --api-version=autoscaling/v2", "scaleDown"),
        ("api-resources --api-group=apps", "deployments"),
        ("api-versions", "autoscaling/v2"),
        ("auth can-i create deployments", "yes"),
        ("get events", "LAST SEEN"),
        ("delete hpa app", "deleted"),
        ("delete deployment made", "deleted"),
        ("delete configmap,secret made", "deleted"),
        ("get nodes", "Ready"),
        ("version", "Server Version"),
    ] {
        let output = place.kubectl(command).await?;
        ensure!(output.contains(expected), "kubectl {command}: no {expected:?} in:\n{output}");
    }
    let edited = edit(&place).await?;
    ensure!(edited.contains("edited"), "{edited}");
    let deployment = place.until("deployment", "app", |_| true).await?;
    ensure!(at(&deployment, "/metadata/labels/tier") == &json!("back"), "{deployment}");
    Ok(())
}

/// `kubectl edit` with an editor that changes one label.
async fn edit(place: &Place<'_>) -> Result<String> {
    let mut command = place.cluster.kubectl_command()?;
    command.env("KUBE_EDITOR", "sed -i s/tier:.*/tier:\\ back/").args([
        "-n",
        &place.namespace,
        "edit",
        "deployment",
        "app",
    ]);
    let output = command.output().await?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

pub async fn logs_follow_and_watch_stream(cluster: &Cluster) -> Result<()> {
    let place = Place::new(cluster, "stream").await?;
    place.apply(SLEEPER).await?;
    place.ready_pods("app=app", 1).await?;
    let mut watch = lines(&place, &["get", "deployment", "app", "-w", "--no-headers"])?;
    let mut logs = lines(&place, &["logs", "-f", "deployment/app"])?;
    for _ in 0..5 {
        let line = logs.lines.next_line().await?.context("the log ended")?;
        ensure!(line == "tick", "{line}");
    }
    watch.lines.next_line().await?.context("the watch ended")?;
    place.kubectl("scale deployment app --replicas=2").await?;
    loop {
        let line = watch.lines.next_line().await?.context("the watch ended")?;
        if line.contains("2/2") {
            break;
        }
    }
    let tail = place.kubectl("logs deployment/app --tail=2").await?;
    ensure!(tail.lines().count() == 2, "{tail}");
    Ok(())
}

struct Stream {
    _child: tokio::process::Child,
    lines: tokio::io::Lines<BufReader<tokio::process::ChildStdout>>,
}

fn lines(place: &Place<'_>, arguments: &[&str]) -> Result<Stream> {
    let mut command = place.cluster.kubectl_command()?;
    let mut child = command.args(["-n", &place.namespace]).args(arguments).stdout(Stdio::piped()).spawn()?;
    let stdout = child.stdout.take().context("no output")?;
    Ok(Stream { _child: child, lines: BufReader::new(stdout).lines() })
}

pub async fn top_shows_usage(cluster: &Cluster) -> Result<()> {
    let place = Place::new(cluster, "top").await?;
    place.apply(SLEEPER).await?;
    place.ready_pods("app=app", 1).await?;
    eventually("usage of the pod", || async {
        Ok(match place.kubectl("top pods").await {
            Ok(table) if table.contains("app-") && table.contains("Mi") => Ok(()),
            Ok(table) => Err(table),
            Err(error) => Err(error.to_string()),
        })
    })
    .await?;
    place.kubectl("top nodes").await?;
    Ok(())
}
