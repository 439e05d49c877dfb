//! What controllers do, through `kube::Client` without a socket.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use futures::{StreamExt, TryStreamExt};
use k8s_openapi::{
    api::{
        apps::v1::Deployment,
        core::v1::{ConfigMap, Namespace, Pod},
    },
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api, Client, ResourceExt,
    api::{
        ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams, WatchEvent,
        WatchParams,
    },
    core::GroupVersionKind,
};
use localkube::{ApiServer, Options};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

async fn server() -> ApiServer {
    ApiServer::open(Options::default()).await.unwrap()
}

fn object<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

fn config(name: &str, value: &str) -> ConfigMap {
    object(json!({"metadata": {"name": name, "labels": {"value": value}}, "data": {"key": value}}))
}

fn deployment(name: &str) -> Deployment {
    object(json!({
        "metadata": {"name": name},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [{"name": "main", "image": "none", "command": ["sleep", "1000"]}]},
            },
        },
    }))
}

fn code<T>(result: kube::Result<T>) -> u16 {
    match result {
        Ok(_) => 200,
        Err(kube::Error::Api(status)) => status.code,
        Err(error) => panic!("{error}"),
    }
}

#[tokio::test]
async fn create_read_update_delete() {
    let api: Api<ConfigMap> = Api::default_namespaced(server().await.client("default"));
    let made = api.create(&PostParams::default(), &config("a", "1")).await.unwrap();
    assert!(made.uid().is_some() && made.resource_version().is_some() && made.creation_timestamp().is_some());
    assert_eq!(code(api.create(&PostParams::default(), &config("a", "1")).await), 409);

    let mut read = api.get("a").await.unwrap();
    assert_eq!(read, made);
    read.data.as_mut().unwrap().insert("key".into(), "2".into());
    let written = api.replace("a", &PostParams::default(), &read).await.unwrap();
    assert_ne!(written.resource_version(), made.resource_version());
    assert_eq!(code(api.replace("a", &PostParams::default(), &read).await), 409, "the version is stale now");

    let same =
        api.patch("a", &PatchParams::default(), &Patch::Merge(json!({"data": {"key": "2"}}))).await.unwrap();
    assert_eq!(same.resource_version(), written.resource_version(), "nothing changed, so nothing is written");

    api.delete("a", &DeleteParams::default()).await.unwrap();
    assert_eq!(code(api.get("a").await), 404);
    let elsewhere: Api<ConfigMap> = Api::namespaced(api.into_client(), "nowhere");
    assert_eq!(code(elsewhere.create(&PostParams::default(), &config("a", "1")).await), 404);
}

#[tokio::test]
async fn lists_in_pages_and_by_labels() {
    let server = server().await;
    let api: Api<ConfigMap> = Api::default_namespaced(server.client("default"));
    for index in 0..5 {
        api.create(
            &PostParams::default(),
            &config(&format!("c{index}"), if index < 2 { "low" } else { "high" }),
        )
        .await
        .unwrap();
    }
    let low = api.list(&ListParams::default().labels("value=low")).await.unwrap();
    assert_eq!(low.items.len(), 2);

    let first = api.list(&ListParams::default().limit(2)).await.unwrap();
    assert_eq!(first.metadata.remaining_item_count, Some(3));
    let token = first.metadata.continue_.clone().unwrap();
    // The next page shows the state of the first, whatever happened since.
    api.delete("c2", &DeleteParams::default()).await.unwrap();
    api.create(&PostParams::default(), &config("c2b", "new")).await.unwrap();
    let rest = api.list(&ListParams::default().continue_token(&token)).await.unwrap();
    let names: Vec<String> = rest.items.iter().map(ResourceExt::name_any).collect();
    assert_eq!(names, ["c2", "c3", "c4"]);
    server.compact();
    assert_eq!(code(api.list(&ListParams::default().continue_token(&token)).await), 410);
}

#[tokio::test]
async fn watches_see_every_change_in_order() {
    let server = server().await;
    let api: Api<ConfigMap> = Api::default_namespaced(server.client("default"));
    let start = api.list(&ListParams::default()).await.unwrap().metadata.resource_version.unwrap();
    let events = api.watch(&WatchParams::default().labels("value=1"), &start).await.unwrap();
    api.create(&PostParams::default(), &config("a", "1")).await.unwrap();
    api.create(&PostParams::default(), &config("b", "2")).await.unwrap();
    let relabel = |value: &str| Patch::Merge(json!({"metadata": {"labels": {"value": value}}}));
    api.patch("b", &PatchParams::default(), &relabel("1")).await.unwrap();
    api.patch("a", &PatchParams::default(), &relabel("3")).await.unwrap();
    api.delete("b", &DeleteParams::default()).await.unwrap();
    let seen: Vec<String> = events
        .take(4)
        .map_ok(|event| match event {
            WatchEvent::Added(one) => format!("+{}", one.name_any()),
            WatchEvent::Modified(one) => format!("~{}", one.name_any()),
            WatchEvent::Deleted(one) => format!("-{}", one.name_any()),
            other => format!("{other:?}"),
        })
        .try_collect()
        .await
        .unwrap();
    assert_eq!(seen, ["+a", "+b", "-a", "-b"]);

    server.compact();
    let mut gone = api.watch(&WatchParams::default(), &start).await.unwrap().boxed();
    let WatchEvent::Error(status) = gone.next().await.unwrap().unwrap() else {
        panic!("too old to watch from")
    };
    assert_eq!((status.code, status.reason.as_str()), (410, "Expired"));
}

#[tokio::test]
async fn generation_status_and_scale() {
    let api: Api<Deployment> = Api::default_namespaced(server().await.client("default"));
    let made = api.create(&PostParams::default(), &deployment("web")).await.unwrap();
    assert_eq!(made.metadata.generation, Some(1));
    let status = json!({"status": {"replicas": 2, "observedGeneration": 1}, "spec": {"replicas": 9}});
    let after = api.patch_status("web", &PatchParams::default(), &Patch::Merge(status)).await.unwrap();
    assert_eq!(after.metadata.generation, Some(1));
    assert_eq!(after.spec.unwrap().replicas, Some(2), "a status update changes the status only");
    assert_eq!(after.status.unwrap().replicas, Some(2));

    let scale = json!({"spec": {"replicas": 5}});
    let scaled = api.patch_scale("web", &PatchParams::default(), &Patch::Merge(scale)).await.unwrap();
    assert_eq!(scaled.spec.unwrap().replicas, Some(5));
    assert_eq!(scaled.status.unwrap().selector.as_deref(), Some("app=web"));
    let after = api.get("web").await.unwrap();
    assert_eq!((after.metadata.generation, after.status.unwrap().replicas), (Some(2), Some(2)));
    let labelled = json!({"metadata": {"labels": {"a": "b"}}, "status": {"replicas": 7}});
    let after = api.patch("web", &PatchParams::default(), &Patch::Merge(labelled)).await.unwrap();
    assert_eq!((after.metadata.generation, after.status.unwrap().replicas), (Some(2), Some(2)));
}

#[tokio::test]
async fn finalizers_hold_and_pods_get_time() {
    let client = server().await.client("default");
    let configs: Api<ConfigMap> = Api::default_namespaced(client.clone());
    let mut held = config("held", "1");
    held.metadata.finalizers = Some(vec!["test/wait".into()]);
    configs.create(&PostParams::default(), &held).await.unwrap();
    configs.delete("held", &DeleteParams::default()).await.unwrap();
    assert!(configs.get("held").await.unwrap().metadata.deletion_timestamp.is_some());
    let free = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    configs.patch("held", &PatchParams::default(), &free).await.unwrap();
    assert_eq!(code(configs.get("held").await), 404);

    let pods: Api<Pod> = Api::default_namespaced(client.clone());
    let pod = |name: &str, node: Value| -> Pod {
        object(
            json!({"metadata": {"name": name}, "spec": {"nodeName": node, "containers": [{"name": "c", "image": "i"}]}}),
        )
    };
    pods.create(&PostParams::default(), &pod("bound", "n1".into())).await.unwrap();
    pods.create(&PostParams::default(), &pod("loose", Value::Null)).await.unwrap();
    pods.delete("bound", &DeleteParams::default()).await.unwrap();
    pods.delete("loose", &DeleteParams::default()).await.unwrap();
    assert_eq!(code(pods.get("loose").await), 404, "nobody runs it, so nobody has to stop it");
    let bound = pods.get("bound").await.unwrap();
    assert_eq!(bound.metadata.deletion_grace_period_seconds, Some(30));
    pods.delete("bound", &DeleteParams::default().grace_period(0)).await.unwrap();
    assert_eq!(code(pods.get("bound").await), 404);

    let namespaces: Api<Namespace> = Api::all(client.clone());
    let team: Namespace = object(json!({"metadata": {"name": "team"}}));
    namespaces.create(&PostParams::default(), &team).await.unwrap();
    namespaces.delete("team", &DeleteParams::default()).await.unwrap();
    let ending = namespaces.get("team").await.unwrap();
    assert_eq!(ending.status.unwrap().phase.as_deref(), Some("Terminating"));
    let configs: Api<ConfigMap> = Api::namespaced(client, "team");
    assert_eq!(code(configs.create(&PostParams::default(), &config("late", "1")).await), 403);
}

fn definition() -> CustomResourceDefinition {
    let schema = json!({"type": "object", "properties": {
        "spec": {"type": "object", "properties": {
            "size": {"type": "integer", "minimum": 0},
            "color": {"type": "string", "default": "red"},
        }},
        "status": {"type": "object", "properties": {"size": {"type": "integer"}, "selector": {"type": "string"}}},
    }});
    object(json!({
        "metadata": {"name": "boats.example.com"},
        "spec": {
            "group": "example.com",
            "names": {"kind": "Boat", "plural": "boats"},
            "scope": "Namespaced",
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": schema},
                "subresources": {"status": {}, "scale": {
                    "specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size", "labelSelectorPath": ".status.selector",
                }},
            }],
        },
    }))
}

fn boats(client: Client) -> Api<DynamicObject> {
    let kind = GroupVersionKind::gvk("example.com", "v1", "Boat");
    Api::default_namespaced_with(client, &ApiResource::from_gvk_with_plural(&kind, "boats"))
}

#[tokio::test]
async fn custom_kinds_come_and_go() {
    let client = server().await.client("default");
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    let api = boats(client);
    let boat: DynamicObject = object(json!({
        "apiVersion": "example.com/v1", "kind": "Boat", "metadata": {"name": "b"}, "spec": {"size": 3, "sail": true},
    }));
    assert_eq!(code(api.create(&PostParams::default(), &boat).await), 404);
    definitions.create(&PostParams::default(), &definition()).await.unwrap();
    let made = api.create(&PostParams::default(), &boat).await.unwrap();
    assert_eq!(made.data["spec"], json!({"size": 3, "color": "red"}), "pruned and defaulted");
    let bad = Patch::Merge(json!({"spec": {"size": -1}}));
    assert_eq!(code(api.patch("b", &PatchParams::default(), &bad).await), 422);
    let four = Patch::Merge(json!({"spec": {"replicas": 4}}));
    let scale = api.patch_scale("b", &PatchParams::default(), &four).await.unwrap();
    assert_eq!(scale.spec.unwrap().replicas, Some(4));
    assert_eq!(api.get("b").await.unwrap().data["spec"]["size"], 4);

    let watched = api.watch(&WatchParams::default(), &made.resource_version().unwrap()).await.unwrap();
    definitions.delete("boats.example.com", &DeleteParams::default()).await.unwrap();
    while code(definitions.get("boats.example.com").await) != 404 {
        tokio::task::yield_now().await;
    }
    assert_eq!(code(api.get("b").await), 404);
    // The watch of a kind that is gone ends; its last event is the end of the last object.
    let events: Vec<_> = watched.try_collect().await.unwrap();
    assert!(matches!(events.last(), Some(WatchEvent::Deleted(_))));
}

#[tokio::test]
async fn events_expire_and_are_the_same_in_both_groups() {
    let options = Options { event_ttl: std::time::Duration::from_millis(200), ..Options::default() };
    let client = ApiServer::open(options).await.unwrap().client("default");
    let new: Api<k8s_openapi::api::events::v1::Event> = Api::default_namespaced(client.clone());
    let old: Api<k8s_openapi::api::core::v1::Event> = Api::default_namespaced(client);
    let event = object(json!({
        "metadata": {"name": "e", "namespace": "default"},
        "involvedObject": {"kind": "Pod", "name": "p", "namespace": "default"},
        "message": "it happened", "reason": "Because", "type": "Normal",
    }));
    old.create(&PostParams::default(), &event).await.unwrap();
    let seen = new.list(&ListParams::default().fields("regarding.name=p")).await.unwrap();
    assert!(seen.items.iter().all(|one| one.note.as_deref() == Some("it happened")));
    while code(old.get("e").await) != 404 {
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
}
