//! Hvpas whose targets make workloads of their own: Functions, and instances of resource graphs.

use anyhow::{Context, Result, ensure};
use cluster::Cluster;
use e2e::at;
use serde_json::{Value, json};

use super::{
    functions, graphs,
    hvpa::{
        LARGE, MOST, SMALL, STEADY, condition, hvpa, place, pods, sizes, until_at_rest, until_full_grown,
    },
};

/// A Function may request no less, and is busy with more than twice the other.
const LEAST: &str = "10m";
const MORE: &str = "20m";

/// As busy as a workload that does nothing else, beside answering calls.
fn busy_handler() -> String {
    let indented = STEADY.trim().lines().skip(1).map(|line| format!("    {line}\n"));
    format!(
        "import threading, time\n\ndef work():\n{}\nthreading.Thread(target=work, daemon=True).start()\n\n\
         def main(event, context):\n    return 'busy'\n",
        indented.collect::<String>()
    )
}

fn busy_function() -> String {
    let resources = json!({"requests": {"cpu": LEAST, "memory": "16Mi"}});
    functions::manifest(
        "busy",
        json!({
            "runtime": "python312",
            "source": {"inline": {"source": busy_handler()}},
            "labels": {"app": "busy"},
            "resourceConfiguration": {"function": {"resources": resources}},
        }),
    )
}

fn of_function(spec: Value) -> String {
    let policy = json!({
        "containerName": "*", "controlledResources": ["cpu"],
        "minAllowed": {"cpu": LEAST}, "maxAllowed": {"cpu": MORE},
    });
    let mut whole = json!({
        "targetRef": {"apiVersion": "serverless.kyma-project.io/v1alpha2", "kind": "Function"},
        "vpa": {"template": {"spec": {"resourcePolicy": {"containerPolicies": [policy]}}}},
    });
    for (field, value) in spec.as_object().into_iter().flatten() {
        whole[field] = value.clone();
    }
    hvpa(whole)
}

const REQUEST: &str = "/spec/resourceConfiguration/function/resources/requests/cpu";

pub async fn a_function_gets_more_and_larger_pods(cluster: &Cluster) -> Result<()> {
    functions::run(cluster).await?;
    let place = place(cluster, "hvpa-function").await?;
    place.apply(&busy_function()).await?;
    place.ready_pods("app=busy", 1).await?;
    let first = pods(&place).await?.pop().context("a pod")?;
    let selector = functions::selector("busy");

    // in place: the Function has the count, and its controller sees no reason to replace a pod
    place.apply(&of_function(json!({}))).await?;
    let grown = until_full_grown(&place, MORE).await?;
    let same = grown.iter().any(|pod| at(pod, "/metadata/uid") == at(&first, "/metadata/uid"));
    ensure!(same, "the first pod was replaced: {:?}", sizes(&grown));
    let function = place.until("function", "busy", |_| true).await?;
    ensure!(
        at(&function, "/spec/replicas") == &json!(MOST) && at(&function, REQUEST) == LEAST,
        "{function:#}"
    );
    let hvpa = place
        .until("hvpa", "busy", |hvpa| {
            condition(hvpa, "Ready") == "True/Scaling"
                && condition(hvpa, "Resized") == "True/Done"
                && at(hvpa, "/status/replicas") == &json!(MOST)
        })
        .await?;
    let told = at(&hvpa, "/status/targetSelector").as_str().unwrap_or_default();
    ensure!(told.contains(&selector), "{hvpa:#}");
    until_at_rest(&place).await?;

    // through the Function's own resources: its Deployment rolls, and nobody undoes it
    place.apply(&of_function(json!({"updateMode": "Template"}))).await?;
    place.until("function", "busy", |function| at(function, REQUEST) == MORE).await?;
    let replaced =
        |pods: &[Value]| pods.iter().all(|pod| at(pod, "/metadata/uid") != at(&first, "/metadata/uid"));
    e2e::eventually("pods of the new template", || async {
        let found = until_full_grown(&place, MORE).await?;
        Ok(if replaced(&found) { Ok(()) } else { Err(sizes(&found)) })
    })
    .await?;
    place
        .until("function", "busy", |function| {
            at(function, "/status/observedGeneration") == at(function, "/metadata/generation")
                && at(function, "/status/replicas") == &json!(MOST)
        })
        .await?;
    until_at_rest(&place).await?;

    // built-in scaling is a second opinion about the count
    place
        .kubectl(r#"patch function busy --type=merge -p {"spec":{"scaleConfig":{"minReplicas":1,"maxReplicas":1}}}"#)
        .await?;
    let told = place.until("hvpa", "busy", |hvpa| condition(hvpa, "Ready") == "False/TargetConflict").await?;
    let message = at(&told, "/status/conditions").to_string();
    ensure!(message.contains("spec.scaleConfig sets its replicas"), "{message}");
    place.ready_pods("app=busy", 1).await?;
    Ok(())
}

/// A kind with a scale that stands for one Deployment.
fn stall() -> String {
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "${schema.metadata.name}"},
        "spec": {
            "replicas": "${schema.spec.replicas}",
            "selector": {"matchLabels": {"app": "${schema.metadata.name}"}},
            "template": {
                "metadata": {"labels": {"app": "${schema.metadata.name}"}},
                "spec": {"terminationGracePeriodSeconds": 0, "containers": [{
                    "name": "main", "image": "none", "command": ["python3", "-c", STEADY],
                    "resources": {"requests": {"cpu": SMALL}},
                }]},
            },
        },
    });
    json!({
        "apiVersion": "kro.run/v1alpha1", "kind": "ResourceGraphDefinition", "metadata": {"name": "stall"},
        "spec": {
            "schema": {
                "apiVersion": "v1alpha1", "kind": "Stall", "group": "e2e.kro.run",
                "spec": {"replicas": "integer | scale default=1"},
                "status": {
                    "replicas": "${deployment.status.replicas} | scale",
                    "selector": "${labelSelector(deployment.spec.selector)} | scaleSelector",
                },
            },
            "resources": [{"id": "deployment", "template": deployment}],
        },
    })
    .to_string()
}

pub async fn an_instance_of_a_graph_gets_more_pods_and_no_larger_ones(cluster: &Cluster) -> Result<()> {
    graphs::run(cluster).await?;
    let place = place(cluster, "hvpa-graph").await?;
    let target = json!({"targetRef": {"apiVersion": "e2e.kro.run/v1alpha1", "kind": "Stall"}});
    place.apply(&hvpa(target)).await?;
    // nobody serves the kind, then there is no such object
    let ready = |state: &'static str| move |hvpa: &Value| condition(hvpa, "Ready") == state;
    place.until("hvpa", "busy", ready("False/UnsupportedTarget")).await?;
    place.apply(&stall()).await?;
    place.until("rgd", "stall", |rgd| at(rgd, "/status/state") == "Active").await?;
    place.until("hvpa", "busy", ready("False/TargetNotFound")).await?;

    let stall = json!({"apiVersion": "e2e.kro.run/v1alpha1", "kind": "Stall", "metadata": {"name": "busy"}, "spec": {}});
    place.apply(&stall.to_string()).await?;
    let grown = until_full_grown(&place, SMALL).await?;
    let stall = place.until("stall", "busy", |stall| at(stall, "/spec/replicas") == &json!(MOST)).await?;
    ensure!(at(&stall, "/metadata/generation").as_i64() <= Some(3), "one write for each change: {stall:#}");
    let hvpa = place
        .until("hvpa", "busy", |hvpa| {
            condition(hvpa, "Ready") == "True/Scaling" && at(hvpa, "/status/replicas") == &json!(MOST)
        })
        .await?;
    for (name, state) in
        [("HorizontalRecommendation", "True/Metrics"), ("VerticalRecommendation", "False/NotPossible")]
    {
        ensure!(condition(&hvpa, name) == state, "{name}: {hvpa:#}");
    }
    ensure!(at(&hvpa, "/status/targetSelector") == "app=busy", "{hvpa:#}");
    ensure!(sizes(&grown).values().all(|(asked, _)| asked != LARGE), "{grown:?}");
    until_at_rest(&place).await?;

    // the count of somebody else is decided about anew
    place.kubectl("scale stall/busy --replicas=1").await?;
    until_full_grown(&place, SMALL).await?;
    place.kubectl("delete stall busy").await?;
    place.until("hvpa", "busy", ready("False/TargetNotFound")).await?;
    Ok(())
}
