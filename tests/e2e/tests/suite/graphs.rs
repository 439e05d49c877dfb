//! Resource graphs: definitions, instances with a scale, Sets, and what becomes of them when something is deleted.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use cluster::{Cluster, Flavor};
use controllers::graphs;
use e2e::{Place, at, eventually};
use serde_json::{Value, json};
use tokio::sync::OnceCell;

/// A namespace on a cluster in which the controllers of graphs run.
async fn place<'a>(cluster: &'a Cluster, name: &str) -> Result<Place<'a>> {
    run(cluster).await?;
    Place::new(cluster, name).await
}

pub(super) async fn run(cluster: &Cluster) -> Result<()> {
    static EMBEDDED: OnceCell<()> = OnceCell::const_new();
    static REAL: OnceCell<()> = OnceCell::const_new();
    let cell = if cluster.flavor == Flavor::Embedded { &EMBEDDED } else { &REAL };
    cell.get_or_try_init(|| async {
        controllers::crds::install(&cluster.client()).await?;
        tokio::spawn(graphs::run(cluster.client(), Duration::from_secs(300), std::future::pending()));
        anyhow::Ok(())
    })
    .await?;
    Ok(())
}

/// An application of three resources with a scale, as a kind of this name, and a Set of it.
fn application(kind: &str) -> String {
    r#"
apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata: {name: NAME}
spec:
  scaling: {kind: KINDSet, method: replicas}
  schema:
    apiVersion: v1alpha1
    kind: KIND
    group: e2e.kro.run
    spec:
      replicas: integer | scale default=1
      greeting: string | default=hello
    status:
      replicas: ${deployment.status.replicas} | scale
      selector: ${labelSelector(deployment.spec.selector)} | scaleSelector
      greeting: ${config.data.greeting}
  resources:
  - id: config
    template:
      apiVersion: v1
      kind: ConfigMap
      metadata: {name: "${schema.metadata.name}-config"}
      data: {greeting: "${schema.spec.greeting}"}
  - id: deployment
    readyWhen:
    - ${deployment.status.observedGeneration == deployment.metadata.generation}
    - ${deployment.status.?availableReplicas.orValue(0) == deployment.spec.replicas}
    - ${deployment.status.?updatedReplicas.orValue(0) == deployment.spec.replicas}
    template:
      apiVersion: apps/v1
      kind: Deployment
      metadata: {name: "${schema.metadata.name}"}
      spec:
        replicas: ${schema.spec.replicas}
        selector: {matchLabels: {app: "${schema.metadata.name}"}}
        template:
          metadata:
            labels: {app: "${schema.metadata.name}"}
            annotations: {greeting: "${config.data.greeting}"}
          spec:
            terminationGracePeriodSeconds: 0
            containers:
            - name: main
              image: none
              command: [sleep, infinity]
              resources: {requests: {cpu: 10m}}
  - id: service
    template:
      apiVersion: v1
      kind: Service
      metadata: {name: "${schema.metadata.name}"}
      spec:
        selector: ${deployment.spec.selector.matchLabels}
        ports: [{port: 80}]
"#
    .replace("KIND", kind)
    .replace("NAME", &kind.to_lowercase())
}

async fn accepted(place: &Place<'_>, kind: &str) -> Result<()> {
    place.apply(&application(kind)).await?;
    let name = kind.to_lowercase();
    place.until("rgd", &name, |rgd| at(rgd, "/status/state") == "Active").await?;
    Ok(())
}

fn instance(kind: &str, name: &str, spec: Value) -> String {
    json!({
        "apiVersion": "e2e.kro.run/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec,
    })
    .to_string()
}

fn is_current_and_ready(object: &Value) -> bool {
    let all = at(object, "/status/conditions").as_array().cloned().unwrap_or_default();
    all.iter().any(|one| {
        one["type"] == "Ready"
            && one["status"] == "True"
            && one["observedGeneration"] == *at(object, "/metadata/generation")
    })
}

async fn names(place: &Place<'_>, kinds: &str) -> Result<Vec<String>> {
    let text = place.kubectl(&format!("get {kinds} -o name")).await?;
    Ok(text.lines().map(str::to_owned).collect())
}

pub async fn an_instance_becomes_its_resources_scales_and_goes_in_order(cluster: &Cluster) -> Result<()> {
    let place = place(cluster, "graph").await?;
    accepted(&place, "Shop").await?;
    place.apply(&instance("Shop", "a", json!({}))).await?;
    let shop = place.until("shop", "a", is_current_and_ready).await?;
    ensure!(at(&shop, "/status/state") == "ACTIVE", "{shop}");
    ensure!(at(&shop, "/status/greeting") == "hello" && at(&shop, "/status/selector") == "app=a", "{shop}");
    place.ready_pods("app=a", 1).await?;

    place.kubectl("scale shop/a --replicas=2").await?;
    place.ready_pods("app=a", 2).await?;
    place.until("shop", "a", |shop| at(shop, "/status/replicas") == &json!(2)).await?;
    place.kubectl("autoscale shop a --min=3 --max=4 --cpu=50%").await?;
    place.ready_pods("app=a", 3).await?;
    let shop = place.until("shop", "a", |shop| at(shop, "/status/replicas") == &json!(3)).await?;
    ensure!(at(&shop, "/spec/replicas") == &json!(3), "the autoscaler writes the instance: {shop}");
    place.kubectl("delete hpa a").await?;

    // what somebody changes or deletes comes back
    place.kubectl(r#"patch configmap a-config --type=merge -p {"data":{"greeting":"changed"}}"#).await?;
    place.until("configmap", "a-config", |map| at(map, "/data/greeting") == "hello").await?;
    let before = place.until("service", "a", |_| true).await?;
    place.kubectl("delete service a").await?;
    eventually("another Service", || async {
        let text = place.kubectl("get service a --ignore-not-found -o json").await?;
        let uid = serde_json::from_str::<Value>(&text).map(|service| at(&service, "/metadata/uid").clone());
        let is_new = uid.as_ref().is_ok_and(|uid| uid != at(&before, "/metadata/uid"));
        Ok(if is_new { Ok(()) } else { Err(text) })
    })
    .await?;

    // a count that is set on the Deployment itself is left to whoever has set it
    place.kubectl("scale deployment/a --replicas=1").await?;
    place.apply(&instance("Shop", "a", json!({"greeting": "good day", "replicas": 2}))).await?;
    place.until("configmap", "a-config", |map| at(map, "/data/greeting") == "good day").await?;
    let deployment = place
        .until("deployment", "a", |deployment| {
            at(deployment, "/spec/template/metadata/annotations/greeting") == "good day"
        })
        .await?;
    ensure!(at(&deployment, "/spec/replicas") == &json!(1), "{deployment}");

    // the Service goes first, and as long as it stays, so does the rest
    let hold =
        |held: &str| format!(r#"patch service a --type=merge -p {{"metadata":{{"finalizers":[{held}]}}}}"#);
    place.kubectl(&hold(r#""e2e.kro.run/hold""#)).await?;
    place.kubectl("delete shop a --wait=false").await?;
    place.until("service", "a", |service| !at(service, "/metadata/deletionTimestamp").is_null()).await?;
    place.until("shop", "a", |shop| at(shop, "/status/state") == "DELETING").await?;
    let deployment = place.until("deployment", "a", |_| true).await?;
    ensure!(at(&deployment, "/metadata/deletionTimestamp").is_null(), "{deployment}");
    place.kubectl(&hold("")).await?;
    place.until_gone("shop", "a").await?;
    ensure!(names(&place, "deployment,service").await?.is_empty());
    place.until_gone("configmap", "a-config").await?;
    Ok(())
}

pub async fn a_set_grows_rolls_out_and_shrinks(cluster: &Cluster) -> Result<()> {
    let place = place(cluster, "graph-set").await?;
    accepted(&place, "Stand").await?;
    let set = |replicas: u32, greeting: &str| {
        let template = json!({"spec": {"greeting": greeting}});
        instance("StandSet", "row", json!({"replicas": replicas, "template": template}))
    };
    place.apply(&set(0, "hello")).await?;
    place.until("standset", "row", is_current_and_ready).await?;
    ensure!(names(&place, "stand").await?.is_empty());
    place.kubectl("scale standset/row --replicas=3").await?;
    place.kubectl("wait standset/row --for=jsonpath={.status.readyReplicas}=3 --timeout=-1s").await?;
    let before = names(&place, "stand").await?;
    ensure!(before.len() == 3, "{before:?}");

    place.apply(&set(3, "good day")).await?;
    place
        .until("standset", "row", |set| {
            is_current_and_ready(set)
                && at(set, "/status/updatedReadyReplicas") == &json!(3)
                && at(set, "/status/observedGeneration") == at(set, "/metadata/generation")
        })
        .await?;
    ensure!(names(&place, "stand").await? == before, "updated in place");
    for name in &before {
        let name = name.rsplit('/').next().context("a name")?;
        place.until("stand", name, |stand| at(stand, "/status/greeting") == "good day").await?;
    }

    place.kubectl("scale standset/row --replicas=1").await?;
    eventually("the oldest alone", || async {
        let left = names(&place, "stand").await?;
        Ok(if left.len() == 1 { Ok(()) } else { Err(left) })
    })
    .await?;
    eventually("an event of each change", || async {
        let events = place.kubectl("get events --field-selector involvedObject.kind=StandSet").await?;
        let all = ["SuccessfulCreate", "SuccessfulUpdate", "SuccessfulDelete"];
        Ok(if all.iter().all(|reason| events.contains(reason)) { Ok(()) } else { Err(events) })
    })
    .await?;
    place.kubectl("delete standset row").await?;
    eventually("no instance and none of its resources", || async {
        let left = names(&place, "stand,deployment,service").await?;
        Ok(if left.is_empty() { Ok(()) } else { Err(left) })
    })
    .await
}

pub async fn deleting_a_generated_kind_takes_its_instances_along(cluster: &Cluster) -> Result<()> {
    let place = place(cluster, "graph-crd").await?;
    accepted(&place, "Kiosk").await?;
    place.apply(&instance("Kiosk", "a", json!({}))).await?;
    let kiosk = place.until("kiosk", "a", is_current_and_ready).await?;
    let crd = place.until("crd", "kiosks.e2e.kro.run", |_| true).await?;
    place.kubectl("delete crd kiosks.e2e.kro.run --wait=false").await?;
    place.until_gone("deployment", "a").await?;
    place.until_gone("service", "a").await?;
    // the definition is still there, so the kind comes back, and nobody is in it
    eventually("the kind to come back", || async {
        let text = place.kubectl("get crd kiosks.e2e.kro.run --ignore-not-found -o json").await?;
        let found = serde_json::from_str::<Value>(&text).unwrap_or_default();
        let is_new = at(&found, "/metadata/uid") != at(&crd, "/metadata/uid") && !found.is_null();
        Ok(if is_new { Ok(()) } else { Err(text) })
    })
    .await?;
    eventually("no instance", || async {
        let left = place.kubectl("get kiosks -o json").await;
        let is_empty = left
            .as_ref()
            .is_ok_and(|text| !text.contains(at(&kiosk, "/metadata/uid").as_str().unwrap_or("?")));
        Ok(if is_empty { Ok(()) } else { Err(left.map_err(|error| error.to_string())) })
    })
    .await
}

pub async fn invalid_definitions_are_refused_with_their_path(cluster: &Cluster) -> Result<()> {
    let place = place(cluster, "graph-bad").await?;
    let condition = |rgd: &Value, type_: &str| {
        let all = at(rgd, "/status/conditions").as_array().cloned().unwrap_or_default();
        all.iter().find(|one| one["type"] == type_).cloned().unwrap_or_default()
    };
    accepted(&place, "Booth").await?;
    place.apply(&instance("Booth", "a", json!({}))).await?;
    place.until("booth", "a", is_current_and_ready).await?;
    let good = application("Booth");
    let bad = [
        (
            "${schema.spec.replicas}\n        selector",
            "${schema.spec.replicaz}\n        selector",
            "spec.resources[1].template.spec.replicas",
        ),
        ("integer | scale default=1", "string | scale", "spec.schema.spec.replicas"),
        ("kind: ConfigMap", "kind: ConfigMop", "spec.resources[0].template"),
        ("ports: [{port: 80}]", "portz: [{port: 80}]", "spec.resources[2].template.spec.portz"),
    ];
    for (right, wrong, path) in bad {
        ensure!(good.contains(right), "{right}");
        place.apply(&good.replace(right, wrong)).await?;
        let rgd = place
            .until("rgd", "booth", |rgd| {
                let accepted = condition(rgd, "GraphAccepted");
                accepted["status"] == "False"
                    && accepted["observedGeneration"] == *at(rgd, "/metadata/generation")
            })
            .await?;
        let message = condition(&rgd, "GraphAccepted")["message"].to_string();
        ensure!(message.contains(path), "{path}: {message}");
        ensure!(at(&rgd, "/status/state") == "Inactive", "{rgd}");
    }
    // a change that would break what exists is refused as well
    place
        .apply(
            &good
                .replace("      greeting: string | default=hello\n", "")
                .replace("${schema.spec.greeting}", "hello"),
        )
        .await?;
    let rgd = place.until("rgd", "booth", |rgd| condition(rgd, "KindReady")["status"] == "False").await?;
    ensure!(condition(&rgd, "KindReady")["message"].to_string().contains("spec.greeting"), "{rgd}");
    // what was accepted last looks after its instances all the while
    place.kubectl("delete service a").await?;
    place.until("booth", "a", is_current_and_ready).await?;
    eventually("the Service", || async {
        let found = names(&place, "service").await?;
        Ok(if found.is_empty() { Err(found) } else { Ok(()) })
    })
    .await?;
    place.apply(&good).await?;
    place.until("rgd", "booth", |rgd| at(rgd, "/status/state") == "Active").await?;
    Ok(())
}
