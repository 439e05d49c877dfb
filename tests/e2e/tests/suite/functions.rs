//! Functions: handlers, both ways of scaling, repairs and refusals.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use cluster::{Cluster, Flavor};
use controllers::kyma;
use e2e::{Answer, Place, at, eventually, http_call, pod_ip};
use k8s_openapi::api::{autoscaling::v2::HorizontalPodAutoscaler, core::v1::Pod};
use kube::{ResourceExt, api::ListParams};
use serde_json::{Value, json};
use tokio::{process::Command, sync::OnceCell};

/// A namespace on a cluster in which the Function controller runs.
pub(super) async fn place<'a>(cluster: &'a Cluster, name: &str) -> Result<Place<'a>> {
    run(cluster).await?;
    Place::new(cluster, name).await
}

pub(super) async fn run(cluster: &Cluster) -> Result<()> {
    static EMBEDDED: OnceCell<()> = OnceCell::const_new();
    static REAL: OnceCell<()> = OnceCell::const_new();
    let cell = if cluster.flavor == Flavor::Embedded { &EMBEDDED } else { &REAL };
    cell.get_or_try_init(|| async {
        controllers::crds::install(&cluster.client()).await?;
        let options = kyma::Options {
            git_poll_period: Duration::from_secs(2),
            git: kyma::GitPolicy {
                private_addresses: true,
                environment: std::env::vars().filter(|(name, _)| name == "PATH").collect(),
                ..kyma::GitPolicy::default()
            },
            ..kyma::Options::new(cluster.directory().join("git"))
        };
        tokio::spawn(kyma::run(cluster.client(), options, std::future::pending()));
        anyhow::Ok(())
    })
    .await?;
    Ok(())
}

const NODE_JS: &str = "
module.exports = { main: async function (event, context) {
  const { request, response } = event.extensions;
  switch (request.path) {
    case '/text': return 'hello ' + (request.query.who || 'nobody');
    case '/json': return { got: event.data, name: context['function-name'] };
    case '/status': response.status(201).set('X-Made', 'yes'); return 'made';
    case '/error': throw new Error('on purpose');
    case '/later': return new Promise((resolve) => setTimeout(() => resolve('later'), 20));
    case '/event': return { type: event['ce-type'], version: event['ce-eventtypeversion'], data: event.data };
    case '/env': return process.env.WHO + require('fs').readFileSync(process.env.SECRET_FILE, 'utf8');
    case '/method': return request.method;
    default: response.sendStatus(404);
  }
} };";

const PYTHON: &str = "
import asyncio, os

async def later():
    await asyncio.sleep(0.02)
    return 'later'

def main(event, context):
    request, response = event['extensions']['request'], event['extensions']['response']
    if request.path == '/text':
        return 'hello ' + request.query.get('who', 'nobody')
    if request.path == '/json':
        return {'got': event['data'], 'name': context['function-name']}
    if request.path == '/status':
        response.status = 201
        response.headers['X-Made'] = 'yes'
        return 'made'
    if request.path == '/error':
        raise ValueError('on purpose')
    if request.path == '/later':
        return later()
    if request.path == '/event':
        return {'type': event['ce-type'], 'version': event['ce-eventtypeversion'], 'data': event['data']}
    if request.path == '/env':
        return os.environ['WHO'] + open(os.environ['SECRET_FILE']).read()
    if request.path == '/method':
        return request.method
    return 'no such path', 404
";

/// A small Function; `spec` is merged over it.
pub(super) fn manifest(name: &str, spec: Value) -> String {
    let mut whole = json!({
        "runtime": "nodejs22",
        "source": {"inline": {"source": NODE_JS}},
        "env": [{"name": "WHO", "value": "you"}],
        "resourceConfiguration": {"function": {"resources": {"requests": {"cpu": "10m", "memory": "16Mi"}}}},
    });
    for (field, value) in spec.as_object().into_iter().flatten() {
        whole[field] = value.clone();
    }
    json!({
        "apiVersion": "serverless.kyma-project.io/v1alpha2", "kind": "Function",
        "metadata": {"name": name}, "spec": whole,
    })
    .to_string()
}

pub(super) fn selector(name: &str) -> String {
    format!("serverless.kyma-project.io/function-name={name}")
}

/// The Function's pods, once there are `count` of them and its status says so.
pub(super) async fn pods(place: &Place<'_>, name: &str, count: usize) -> Result<Vec<Pod>> {
    let pods = place.ready_pods(&selector(name), count).await?;
    place
        .until("function", name, |function| {
            at(function, "/status/replicas") == &json!(count)
                && at(function, "/status/observedGeneration") == at(function, "/metadata/generation")
        })
        .await?;
    Ok(pods)
}

/// `status/reason`; a dash if the condition is not there.
fn condition(function: &Value, type_: &str) -> String {
    let all = at(function, "/status/conditions").as_array().cloned().unwrap_or_default();
    let found = all.iter().find(|one| one["type"] == type_);
    found.map_or("-".into(), |one| {
        format!(
            "{}/{}",
            one["status"].as_str().unwrap_or_default(),
            one["reason"].as_str().unwrap_or_default()
        )
    })
}

pub(super) async fn until_condition(
    place: &Place<'_>,
    name: &str,
    type_: &str,
    expected: &str,
) -> Result<Value> {
    place.until("function", name, |function| condition(function, type_) == expected).await
}

/// Autoscalers of the namespace: names of those that a Function owns, and of the others.
async fn autoscalers(place: &Place<'_>) -> Result<(Vec<String>, Vec<String>)> {
    let all = place.api::<HorizontalPodAutoscaler>().list(&ListParams::default()).await?;
    let (ours, theirs): (Vec<_>, Vec<_>) =
        all.items.iter().partition(|hpa| hpa.owner_references().iter().any(|owner| owner.kind == "Function"));
    let names = |hpas: Vec<&HorizontalPodAutoscaler>| hpas.iter().map(|hpa| hpa.name_any()).collect();
    Ok((names(ours), names(theirs)))
}

async fn until_autoscalers(place: &Place<'_>, ours: usize, theirs: usize) -> Result<()> {
    eventually(format!("{ours} autoscalers of ours and {theirs} of others"), || async {
        let seen = autoscalers(place).await?;
        Ok(if (seen.0.len(), seen.1.len()) == (ours, theirs) { Ok(()) } else { Err(seen) })
    })
    .await
}

pub(super) async fn get(pod: &Pod, path: &str) -> Result<Answer> {
    http_call(&pod_ip(pod)?, 8080, "GET", path, &[], "").await
}

pub async fn handlers_answer_calls(cluster: &Cluster) -> Result<()> {
    let place = place(cluster, "handlers").await?;
    place.kubectl("create secret generic keys --from-literal=word=!").await?;
    let common = |runtime: &str, source: &str| {
        json!({
            "runtime": runtime,
            "source": {"inline": {"source": source}},
            "env": [{"name": "WHO", "value": "you"}, {"name": "SECRET_FILE", "value": "/etc/keys/word"}],
            "secretMounts": [{"secretName": "keys", "mountPath": "/etc/keys"}],
        })
    };
    for (name, runtime, source) in [("in-js", "nodejs22", NODE_JS), ("in-python", "python312", PYTHON)] {
        place.apply(&manifest(name, common(runtime, source))).await?;
        place.kubectl(&format!("wait --for=condition=Running function/{name} --timeout=300s")).await?;
        let pod = pods(&place, name, 1).await?.remove(0);
        let ip = pod_ip(&pod)?;
        let call = |method, path, headers, body| http_call(&ip, 8080, method, path, headers, body);
        let is_json: &[(&str, &str)] = &[("Content-Type", "application/json")];

        let answer = get(&pod, "/healthz").await?;
        ensure!(answer.status == 200, "{name}: {answer:?}");
        let answer = get(&pod, "/text?who=me").await?;
        ensure!((answer.status, answer.body.as_str()) == (200, "hello me"), "{name}: {answer:?}");
        let answer = call("POST", "/json", is_json, r#"{"a": [1, "é"]}"#).await?;
        let body: Value =
            serde_json::from_str(&answer.body).with_context(|| format!("{name}: {answer:?}"))?;
        ensure!(body == json!({"got": {"a": [1, "é"]}, "name": name}), "{name}: {answer:?}");
        ensure!(answer.headers["content-type"].starts_with("application/json"), "{name}: {answer:?}");
        let answer = call("POST", "/json", is_json, "{").await?;
        ensure!(answer.status == 400 && answer.body.contains("not JSON"), "{name}: {answer:?}");
        let answer = call("PUT", "/status", &[], "").await?;
        ensure!(answer.status == 201 && answer.headers["x-made"] == "yes", "{name}: {answer:?}");
        let answer = get(&pod, "/error").await?;
        ensure!(answer.status == 500 && !answer.body.contains("purpose"), "{name}: {answer:?}");
        let answer = get(&pod, "/later").await?;
        ensure!(answer.body == "later", "{name}: {answer:?}");
        let answer = get(&pod, "/env").await?;
        ensure!(answer.body == "you!", "{name}: {answer:?}");
        let answer = get(&pod, "/elsewhere").await?;
        ensure!(answer.status == 404, "{name}: {answer:?}");
        let answer = call("DELETE", "/method", &[], "").await?;
        ensure!(answer.body == "DELETE", "{name}: {answer:?}");

        let expected = json!({"type": "order.created.v1", "version": "v1", "data": {"id": 7}});
        let binary = [
            ("Content-Type", "application/json"),
            ("ce-specversion", "1.0"),
            ("ce-id", "1"),
            ("ce-source", "test"),
            ("ce-type", "order.created.v1"),
        ];
        let answer = call("POST", "/event", &binary, r#"{"id": 7}"#).await?;
        ensure!(serde_json::from_str::<Value>(&answer.body)? == expected, "{name}: {answer:?}");
        let structured = json!({"specversion": "1.0", "id": "1", "source": "test", "type": "order.created.v1",
                                "data": {"id": 7}});
        let is_event: &[(&str, &str)] = &[("Content-Type", "application/cloudevents+json")];
        let answer = call("POST", "/event", is_event, &structured.to_string()).await?;
        ensure!(serde_json::from_str::<Value>(&answer.body)? == expected, "{name}: {answer:?}");
    }
    let columns = place.kubectl("get fn").await?;
    ensure!(columns.contains("CONFIGURED") && columns.contains("python312"), "{columns}");
    let line = columns.lines().find(|line| line.starts_with("in-js")).unwrap_or_default();
    ensure!(line.split_whitespace().take(6).eq(["in-js", "True", "True", "1", "nodejs22", "1"]), "{columns}");

    // another source replaces the pods
    let other = json!({"source": {"inline": {"source": "exports.main = () => 'second'"}}});
    place.apply(&manifest("in-js", other)).await?;
    eventually("the second version to answer", || async {
        let pods = place.pods(&selector("in-js")).await?;
        let Some(pod) = pods.iter().find(|pod| e2e::is_ready(pod)) else {
            return Ok(Err("no pod".to_owned()));
        };
        Ok(match get(pod, "/text").await {
            Ok(answer) if answer.body == "second" => Ok(()),
            other => Err(format!("{other:?}")),
        })
    })
    .await?;
    let done = until_condition(&place, "in-js", "Running", "True/DeploymentReady").await?;
    ensure!(
        at(&done, "/status/runtimeImage").as_str().is_some_and(|image| image.contains("node:22")),
        "{done}"
    );
    Ok(())
}

/// A wheel with one module, as small as pip takes it.
const MAKE_WHEEL: &str = "
import sys, zipfile
with zipfile.ZipFile(sys.argv[1], 'w') as wheel:
    wheel.writestr('forty_two.py', 'answer = 42')
    wheel.writestr('forty_two-1.0.dist-info/METADATA', 'Metadata-Version: 2.1\\nName: forty_two\\nVersion: 1.0\\n')
    wheel.writestr('forty_two-1.0.dist-info/WHEEL',
                   'Wheel-Version: 1.0\\nGenerator: test\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n')
    wheel.writestr('forty_two-1.0.dist-info/RECORD', '')
";

/// With dependencies on disk, so that no package registry is asked.
pub async fn dependencies_are_installed_at_start(cluster: &Cluster) -> Result<()> {
    let place = place(cluster, "needs").await?;
    let directory = cluster.directory().join(format!("{}-packages", place.namespace));
    let package = directory.join("forty-two");
    std::fs::create_dir_all(&package)?;
    std::fs::write(
        package.join("package.json"),
        r#"{"name": "forty-two", "version": "1.0.0", "main": "main.js"}"#,
    )?;
    std::fs::write(package.join("main.js"), "exports.answer = 42;")?;
    let wheel = directory.join("forty_two-1.0-py3-none-any.whl");
    let made = Command::new("python3").args(["-c", MAKE_WHEEL]).arg(&wheel).output().await?;
    ensure!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let needed = json!({"dependencies": {"forty-two": format!("file:{}", package.display())}}).to_string();
    for (name, runtime, source, dependencies) in [
        ("js", "nodejs22", "exports.main = () => require('forty-two').answer", needed),
        (
            "python",
            "python312",
            "import forty_two\ndef main(event, context):\n  return forty_two.answer\n",
            wheel.display().to_string(),
        ),
    ] {
        let spec = json!({"runtime": runtime, "source": {"inline": {"source": source, "dependencies": dependencies}}});
        place.apply(&manifest(name, spec)).await?;
        let pod = pods(&place, name, 1).await?.remove(0);
        let answer = get(&pod, "/").await?;
        ensure!(answer.body == "42", "{name}: {answer:?}");
    }
    Ok(())
}

pub async fn external_scaling_follows_the_count(cluster: &Cluster) -> Result<()> {
    let place = place(cluster, "external").await?;
    place.apply(&manifest("plain", json!({}))).await?;
    let created = until_condition(&place, "plain", "Running", "True/DeploymentReady").await?;
    ensure!(at(&created, "/spec/replicas") == &json!(1), "the default is one: {created}");
    pods(&place, "plain", 1).await?;
    place.kubectl("scale function/plain --replicas=3").await?;
    pods(&place, "plain", 3).await?;
    place.kubectl("scale function/plain --replicas=0").await?;
    pods(&place, "plain", 0).await?;
    let at_zero = until_condition(&place, "plain", "Running", "True/DeploymentReady").await?;
    ensure!(at(&at_zero, "/status/replicas") == &json!(0), "{at_zero}");
    place.kubectl("scale function/plain --replicas=2").await?;
    pods(&place, "plain", 2).await?;
    let (ours, theirs) = autoscalers(&place).await?;
    ensure!(ours.is_empty() && theirs.is_empty(), "{ours:?} {theirs:?}");

    // kubectl's own commands for the Deployment go on working
    let deployment = place.kubectl(&format!("get deployment -l {} -o name", selector("plain"))).await?;
    let deployment = deployment.trim();
    place.kubectl(&format!("rollout status {deployment}")).await?;
    let before: Vec<_> = pods(&place, "plain", 2).await?.iter().map(ResourceExt::uid).collect();
    place.kubectl(&format!("rollout restart {deployment}")).await?;
    place.kubectl(&format!("rollout status {deployment}")).await?;
    let after = pods(&place, "plain", 2).await?;
    ensure!(after.iter().all(|pod| !before.contains(&pod.uid())), "the restart was undone");
    Ok(())
}

pub async fn a_users_autoscaler_scales_the_function(cluster: &Cluster) -> Result<()> {
    let place = place(cluster, "users").await?;
    place.apply(&manifest("theirs", json!({}))).await?;
    pods(&place, "theirs", 1).await?;
    place.kubectl("autoscale function theirs --min=2 --max=3 --cpu=50%").await?;
    pods(&place, "theirs", 2).await?;
    let function = place.until("function", "theirs", |_| true).await?;
    ensure!(condition(&function, "Scaling") == "-", "one autoscaler is as it should be: {function}");
    let (ours, theirs) = autoscalers(&place).await?;
    ensure!(ours.is_empty() && theirs == ["theirs"], "{ours:?} {theirs:?}");
    Ok(())
}

pub async fn built_in_scaling_comes_and_goes(cluster: &Cluster) -> Result<()> {
    let place = place(cluster, "built-in").await?;
    let scaled = |min: i32, max: i32| json!({"scaleConfig": {"minReplicas": min, "maxReplicas": max}});
    place.apply(&manifest("auto", scaled(2, 3))).await?;
    // the API says 1, and the autoscaler lifts it
    pods(&place, "auto", 2).await?;
    until_autoscalers(&place, 1, 0).await?;
    let (ours, _) = autoscalers(&place).await?;
    let hpa = place.until("hpa", &ours[0], |_| true).await?;
    ensure!(at(&hpa, "/spec/scaleTargetRef/kind") == "Function", "{hpa}");
    ensure!(at(&hpa, "/spec/metrics/0/resource/target/averageUtilization") == &json!(50), "{hpa}");

    // above the maximum: followed, until the autoscaler corrects it
    place.kubectl("scale function/auto --replicas=5").await?;
    place.until("function", "auto", |function| at(function, "/spec/replicas").as_i64() <= Some(3)).await?;

    // an edit of the bounds is followed
    place.apply(&manifest("auto", scaled(3, 4))).await?;
    pods(&place, "auto", 3).await?;

    // built-in scaling goes, the count stays
    place
        .kubectl(r#"patch function auto --type=json -p [{"op":"remove","path":"/spec/scaleConfig"}]"#)
        .await?;
    until_autoscalers(&place, 0, 0).await?;
    let function = place.until("function", "auto", |_| true).await?;
    ensure!(at(&function, "/spec/replicas") == &json!(3), "{function}");
    pods(&place, "auto", 3).await?;

    // and a user's edit leaves it alone: it is neither a minimum nor the default of 1 that anything could bring back
    place.apply(&manifest("auto", json!({"env": [{"name": "WHO", "value": "another"}]}))).await?;
    eventually("the edit to reach the pods", || async {
        let pods = place.pods(&selector("auto")).await?;
        let text = serde_json::to_string(&pods.iter().map(|pod| &pod.spec).collect::<Vec<_>>())?;
        Ok(if text.matches("another").count() == 3 && pods.len() == 3 { Ok(()) } else { Err(pods.len()) })
    })
    .await?;
    let function = place.until("function", "auto", |_| true).await?;
    ensure!(at(&function, "/spec/replicas") == &json!(3), "{function}");
    Ok(())
}

pub async fn equal_bounds_are_a_number(cluster: &Cluster) -> Result<()> {
    let place = place(cluster, "equal").await?;
    place.apply(&manifest("fixed", json!({"scaleConfig": {"minReplicas": 2, "maxReplicas": 2}}))).await?;
    pods(&place, "fixed", 2).await?;
    let function = until_condition(&place, "fixed", "Scaling", "True/FixedReplicas").await?;
    ensure!(at(&function, "/spec/replicas") == &json!(2), "{function}");
    until_autoscalers(&place, 0, 0).await
}

pub async fn zero_pauses_built_in_scaling(cluster: &Cluster) -> Result<()> {
    let place = place(cluster, "paused").await?;
    let spec = json!({"replicas": 0, "scaleConfig": {"minReplicas": 1, "maxReplicas": 3}});
    place.apply(&manifest("paused", spec)).await?;
    until_condition(&place, "paused", "Scaling", "False/ScalingPaused").await?;
    until_autoscalers(&place, 1, 0).await?;
    let (ours, _) = autoscalers(&place).await?;
    place
        .until("hpa", &ours[0], |hpa| at(hpa, "/status/conditions").to_string().contains("ScalingDisabled"))
        .await?;
    pods(&place, "paused", 0).await?;
    place.kubectl("scale function/paused --replicas=1").await?;
    pods(&place, "paused", 1).await?;
    until_condition(&place, "paused", "Scaling", "-").await?;
    Ok(())
}

pub async fn two_autoscalers_are_reported(cluster: &Cluster) -> Result<()> {
    let place = place(cluster, "ambiguous").await?;
    place.apply(&manifest("torn", json!({"scaleConfig": {"minReplicas": 1, "maxReplicas": 2}}))).await?;
    until_autoscalers(&place, 1, 0).await?;
    place.kubectl("autoscale function torn --min=1 --max=3 --cpu=60%").await?;
    until_condition(&place, "torn", "Scaling", "False/AmbiguousAutoscalers").await?;
    until_autoscalers(&place, 1, 1).await?;
    place.kubectl("delete hpa torn").await?;
    until_condition(&place, "torn", "Scaling", "-").await?;
    until_autoscalers(&place, 1, 0).await
}

pub async fn what_is_done_by_hand_is_undone(cluster: &Cluster) -> Result<()> {
    let place = place(cluster, "by-hand").await?;
    let spec = json!({"scaleConfig": {"minReplicas": 1, "maxReplicas": 2}});
    place.apply(&manifest("kept", spec)).await?;
    until_autoscalers(&place, 1, 0).await?;
    let (ours, _) = autoscalers(&place).await?;
    let name = ours[0].clone();
    let original = place.until("deployment", &name, |_| true).await?;
    // what somebody adds beside it stays, as fields of another manager do
    let added = r#"{"spec":{"template":{"spec":{"tolerations":[{"operator":"Exists"}]}}}}"#;
    place.kubectl(&format!("patch deployment {name} --type=merge -p {added}")).await?;
    for (by_hand, pointer) in [
        (r#"{"spec":{"replicas":4}}"#, "/spec/replicas"),
        (
            r#"{"spec":{"template":{"spec":{"containers":[{"name":"function","image":"another"}]}}}}"#,
            "/spec/template/spec/containers/0/image",
        ),
        (
            r#"{"spec":{"template":{"spec":{"containers":[{"name":"function","command":["sleep"]}]}}}}"#,
            "/spec/template/spec/containers/0/command",
        ),
    ] {
        let before = place.until("deployment", &name, |_| true).await?;
        place.kubectl(&format!("patch deployment {name} --type=strategic -p {by_hand}")).await?;
        let after = place
            .until("deployment", &name, |object| {
                at(object, pointer) == at(&original, pointer)
                    && at(object, "/metadata/generation") != at(&before, "/metadata/generation")
            })
            .await?;
        ensure!(at(&after, "/spec/template/spec/tolerations/0/operator") == "Exists", "{after}");
    }
    place.kubectl(&format!(r#"patch hpa {name} --type=merge -p {{"spec":{{"maxReplicas":9}}}}"#)).await?;
    place.until("hpa", &name, |hpa| at(hpa, "/spec/maxReplicas") == &json!(2)).await?;
    let data = r#"{"data":{"handler.js":"evil()"}}"#;
    place.kubectl(&format!("patch configmap {name} --type=merge -p {data}")).await?;
    place
        .until("configmap", &name, |map| {
            at(map, "/data/handler.js").as_str().is_some_and(|text| text.contains("main"))
        })
        .await?;
    for (kind, child) in
        [("hpa", name.as_str()), ("service", "kept"), ("configmap", &name), ("deployment", &name)]
    {
        let before = place.until(kind, child, |_| true).await?;
        place.kubectl(&format!("delete {kind} {child}")).await?;
        eventually(format!("another {kind}/{child}"), || async {
            let text = place.kubectl(&format!("get {kind} {child} --ignore-not-found -o json")).await?;
            let uid =
                serde_json::from_str::<Value>(&text).ok().map(|object| at(&object, "/metadata/uid").clone());
            Ok(match uid {
                Some(uid) if uid != *at(&before, "/metadata/uid") => Ok(()),
                other => Err(other),
            })
        })
        .await?;
    }
    place.kubectl("wait --for=condition=Running function/kept --timeout=300s").await?;
    pods(&place, "kept", 1).await?;
    // and with the Function all goes
    place.kubectl("delete function kept").await?;
    for (kind, child) in
        [("hpa", name.as_str()), ("service", "kept"), ("configmap", &name), ("deployment", &name)]
    {
        place.until_gone(kind, child).await?;
    }
    Ok(())
}

pub async fn bad_manifests_are_refused_by_the_api(cluster: &Cluster) -> Result<()> {
    let place = place(cluster, "refused").await?;
    let git = json!({"gitRepository": {"url": "https://git.example/a", "reference": " "}});
    for (what, spec, words) in [
        (
            "min above max",
            json!({"scaleConfig": {"minReplicas": 3, "maxReplicas": 2}}),
            "minReplicas must not be above",
        ),
        ("min 0", json!({"scaleConfig": {"minReplicas": 0, "maxReplicas": 2}}), "greater than or equal to 1"),
        ("negative count", json!({"replicas": -1}), "greater than or equal to 0"),
        ("no such runtime", json!({"runtime": "cobol85"}), "Unsupported value"),
        ("no source", json!({"source": {}}), "exactly one of inline and gitRepository"),
        (
            "two sources",
            json!({"source": {"inline": {"source": "x"}, "gitRepository": {"url": "https://a/b", "reference": "main"}}}),
            "exactly one of inline and gitRepository",
        ),
        ("empty source", json!({"source": {"inline": {"source": ""}}}), "spec.source.inline.source"),
        ("blank reference", json!({"source": git}), "reference must not be blank"),
        ("reserved variable", json!({"env": [{"name": "FUNC_PORT", "value": "1"}]}), "reserved"),
        (
            "profile and resources",
            json!({"resourceConfiguration": {"function": {"profile": "S", "resources": {}}}}),
            "not both",
        ),
        (
            "no such profile",
            json!({"resourceConfiguration": {"function": {"profile": "XXL"}}}),
            "Unsupported value",
        ),
        ("our label", json!({"labels": {"serverless.kyma-project.io/a": "b"}}), "may not begin with"),
        ("a long label", json!({"labels": {"a".repeat(64): "b"}}), "at most 63"),
        (
            "our annotation",
            json!({"annotations": {"serverless.kyma-project.io/a": "b"}}),
            "may not begin with",
        ),
        ("sidecar annotation", json!({"annotations": {"proxy.istio.io/config": "b"}}), "is not allowed"),
        ("template", json!({"template": {"labels": {"a": "b"}}}), "spec.labels"),
        (
            "one Secret twice",
            json!({"secretMounts": [{"secretName": "a", "mountPath": "/a"}, {"secretName": "a", "mountPath": "/b"}]}),
            "Duplicate value",
        ),
    ] {
        let refusal = place.apply(&manifest("bad", spec)).await;
        let words_of_it = refusal.err().map(|error| format!("{error:#}"));
        ensure!(words_of_it.as_ref().is_some_and(|said| said.contains(words)), "{what}: {words_of_it:?}");
    }
    Ok(())
}

pub async fn what_only_the_controller_can_see_is_a_condition(cluster: &Cluster) -> Result<()> {
    let place = place(cluster, "conditions").await?;
    place.apply(&manifest("judged", json!({}))).await?;
    pods(&place, "judged", 1).await?;
    let small = json!({"resourceConfiguration": {"function": {"resources": {"requests": {"cpu": "1m"}}}}, "replicas": 2});
    place.apply(&manifest("judged", small)).await?;
    let judged = until_condition(&place, "judged", "ConfigurationReady", "False/InvalidFunctionSpec").await?;
    ensure!(condition(&judged, "Running") == "True/DeploymentReady", "the running version runs on: {judged}");
    ensure!(at(&judged, "/status/conditions").to_string().contains("resources.requests.cpu"), "{judged}");
    place.ready_pods(&selector("judged"), 1).await?;
    place.apply(&manifest("judged", json!({"replicas": 2}))).await?;
    until_condition(&place, "judged", "ConfigurationReady", "True/FunctionSpecValidated").await?;
    pods(&place, "judged", 2).await?;
    // demand scaling and built-in scaling would undo each other's work
    place.kubectl("annotate function judged SlimFaas/Function=true").await?;
    place.apply(&manifest("judged", json!({"scaleConfig": {"minReplicas": 1, "maxReplicas": 2}}))).await?;
    until_condition(&place, "judged", "ConfigurationReady", "False/InvalidFunctionSpec").await?;
    until_autoscalers(&place, 0, 0).await
}

/// About a third of a core from `/start` to `/stop`, of a pod that asks for a hundredth.
const BUSY: &str = "
let timer;
function burn() { const end = Date.now() + 30; while (Date.now() < end); }
exports.main = (event) => {
  clearInterval(timer);
  if (event.extensions.request.path === '/start') timer = setInterval(burn, 100);
  return 'ok';
};";

pub async fn built_in_scaling_follows_the_load(cluster: &Cluster) -> Result<()> {
    cluster.serve_metrics().await?;
    let place = place(cluster, "load").await?;
    let spec = json!({
        "source": {"inline": {"source": BUSY}},
        "scaleConfig": {"minReplicas": 1, "maxReplicas": 3},
    });
    place.apply(&manifest("busy", spec)).await?;
    let pod = pods(&place, "busy", 1).await?.remove(0);
    ensure!(get(&pod, "/start").await?.status == 200);
    place.ready_pods(&selector("busy"), 3).await?;
    let (ours, _) = autoscalers(&place).await?;
    place
        .until("hpa", &ours[0], |hpa| {
            let conditions = at(hpa, "/status/conditions").to_string();
            conditions.contains("ValidMetricFound") && conditions.contains("TooManyReplicas")
        })
        .await?;
    ensure!(get(&pod, "/stop").await?.status == 200);
    pods(&place, "busy", 1).await?;
    let function = place.until("function", "busy", |_| true).await?;
    ensure!(at(&function, "/spec/replicas") == &json!(1), "{function}");
    Ok(())
}
