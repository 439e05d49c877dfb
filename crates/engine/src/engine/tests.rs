use std::{
    collections::HashMap,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
};

use futures::future::BoxFuture;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use localkube::ApiServer;
use serde_json::json;

use super::*;
use crate::{
    Failure, PlanError,
    effect::{Effect, Plan, Target},
    kind::{CONFIG_MAP, SECRET},
    testing::from_json,
};

async fn engine() -> (Engine, Client) {
    let api = ApiServer::open(localkube::Options::default()).await.unwrap();
    let client = api.client("default");
    (Engine::new(client.clone(), Supervisor::default(), Duration::from_secs(300)), client)
}

fn config_map(name: &str, label: &str) -> ConfigMap {
    from_json(json!({"metadata": {"name": name, "namespace": "default", "labels": {"app": label}}}))
}

/// Copies each ConfigMap into a Secret of the same name, and counts its plans.
struct Copier {
    config_maps: Cached<ConfigMap>,
    n_plans: Arc<Mutex<HashMap<String, usize>>>,
}

impl Copier {
    fn new(scope: &Scope, queue: &Arc<Queue<Key>>) -> Self {
        let config_maps: Cached<ConfigMap> = scope.cache(Selection::labelled(("app", "ours")));
        let own = queue.clone();
        config_maps.listen(move |change| own.add(Key::of(&change.either().unwrap().metadata)));
        Self { config_maps, n_plans: Arc::default() }
    }
}

impl Reconcile for Copier {
    fn name(&self) -> &'static str {
        "copier"
    }

    fn kind(&self, _: &Key) -> Option<Kind> {
        Some(CONFIG_MAP)
    }

    fn plan<'a>(
        &'a self,
        key: &'a Key,
        _: Option<&'a Failure>,
        _: Timestamp,
    ) -> BoxFuture<'a, Result<Plan, PlanError>> {
        Box::pin(async move {
            let n = {
                let mut all = self.n_plans.lock().unwrap();
                let n = all.entry(key.name.clone()).or_default();
                *n += 1;
                *n
            };
            assert!(key.name != "cursed" || n > 1, "the first plan for it always panics");
            let Some(_) = self.config_maps.get(key) else { return Ok(Plan::default()) };
            let target = Target::absent(&SECRET, Some(&key.namespace), &key.name);
            let body = json!({"stringData": {"copied": "yes"}});
            Ok(vec![Effect::Apply { target, must_be_absent: false, body }].into())
        })
    }
}

async fn until_there(secrets: &Api<Secret>, name: &str) {
    while secrets.get_opt(name).await.unwrap().is_none() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn a_key_that_panics_comes_again_and_stops_no_other() {
    let (engine, client) = engine().await;
    let scope = engine.scope("copier");
    let queue = Arc::default();
    let copier = Copier::new(&scope, &queue);
    scope.run(copier, queue, engine.executor("test", Fence::open()));
    let config_maps: Api<ConfigMap> = Api::default_namespaced(client.clone());
    let secrets: Api<Secret> = Api::default_namespaced(client);
    for name in ["cursed", "a", "b", "c", "d", "e"] {
        config_maps.create(&PostParams::default(), &config_map(name, "ours")).await.unwrap();
    }
    for name in ["a", "b", "c", "d", "e", "cursed"] {
        until_there(&secrets, name).await;
    }
    assert_eq!(engine.supervisor().figures()["copier"].panics, 1);
    assert_eq!(engine.supervisor().check(), Ok(()), "no task was lost");
}

#[tokio::test]
async fn who_is_no_longer_the_leader_writes_nothing() {
    let (engine, client) = engine().await;
    let (leads, n_asked) = (Arc::new(AtomicBool::new(true)), Arc::new(AtomicUsize::new(0)));
    let (lease, asked) = (leads.clone(), n_asked.clone());
    let fence = Fence::new(move || {
        asked.fetch_add(1, Ordering::SeqCst);
        lease.load(Ordering::SeqCst)
    });
    let executor = engine.executor("test", fence);
    let create = |name: &str| Effect::Create {
        kind: CONFIG_MAP,
        namespace: Some("default".into()),
        body: json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}),
        announce: None,
    };
    assert!(executor.execute(vec![create("before")]).await.failure.is_none());
    leads.store(false, Ordering::SeqCst);
    let config_maps: Api<ConfigMap> = Api::default_namespaced(client);
    let before = config_maps.get("before").await.unwrap();
    let target = Target::of(&CONFIG_MAP, &before.metadata);
    let asked_before = n_asked.load(Ordering::SeqCst);
    let refused = [
        create("after"),
        Effect::patch(target.clone(), json!({"data": {"a": "b"}})),
        Effect::Apply { target: target.clone(), must_be_absent: false, body: json!({"data": {"a": "b"}}) },
        Effect::Replace { target: target.clone(), subresource: "status", body: json!({}) },
        Effect::Delete { target, propagation: None, announce: None },
        Effect::DeleteCollection { kind: CONFIG_MAP, namespace: "default".into() },
    ];
    let n_refused = refused.len();
    for effect in refused {
        let outcome = executor.execute(vec![effect.clone()]).await;
        let failure = outcome.failure.unwrap_or_else(|| panic!("{effect} was written"));
        assert_eq!(failure.message, "this process is no longer the leader", "{effect}");
    }
    assert_eq!(n_asked.load(Ordering::SeqCst) - asked_before, n_refused, "asked at each write");
    let there: Vec<ConfigMap> = config_maps.list(&Default::default()).await.unwrap().items;
    let ours: Vec<_> = there.iter().filter(|object| !object.name_any().starts_with("kube-")).collect();
    assert_eq!(ours.len(), 1);
    assert_eq!(ours[0].metadata.resource_version, before.metadata.resource_version);
    // two leaders in a row would make two of these
    leads.store(true, Ordering::SeqCst);
    let nameless = Effect::Create {
        kind: CONFIG_MAP,
        namespace: Some("default".into()),
        body: json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "a-"}}),
        announce: None,
    };
    let failure = executor.execute(vec![nameless]).await.failure.unwrap();
    assert_eq!(failure.message, "an object without a fixed name may be made twice by two leaders: name it");
}

/// Wants something impossible until it is told that it failed, then nothing; and notes what it was told.
struct Complainer(Arc<Mutex<Vec<bool>>>);

impl Reconcile for Complainer {
    fn name(&self) -> &'static str {
        "complainer"
    }

    fn kind(&self, _: &Key) -> Option<Kind> {
        None
    }

    fn plan<'a>(
        &'a self,
        _: &'a Key,
        failure: Option<&'a Failure>,
        _: Timestamp,
    ) -> BoxFuture<'a, Result<Plan, PlanError>> {
        let is_first = {
            let mut told = self.0.lock().unwrap();
            told.push(failure.is_some());
            told.len() == 1
        };
        let target = Target::absent(&CONFIG_MAP, Some("default"), "Not A Name");
        let impossible = Effect::Apply { target, must_be_absent: false, body: json!({}) };
        let effects = if is_first { vec![impossible] } else { Vec::new() };
        Box::pin(async move { Ok(effects.into()) })
    }
}

#[tokio::test]
async fn a_plan_that_knew_of_a_failure_is_followed_by_one_without_it() {
    let (engine, _) = engine().await;
    let scope = engine.scope("complainer");
    let queue: Arc<Queue<Key>> = Arc::default();
    let told = Arc::default();
    queue.add(Key::new("default", "one"));
    scope.run(Complainer(Arc::clone(&told)), queue, engine.executor("test", Fence::open()));
    while told.lock().unwrap().len() < 3 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(told.lock().unwrap().as_slice(), [false, true, false]);
}

/// A finalizer that comes too late holds nothing: what is made after it would stay for ever.
#[tokio::test]
async fn nothing_is_made_for_an_object_that_is_gone() {
    let (engine, client) = engine().await;
    let executor = engine.executor("test", Fence::open());
    let config_maps: Api<ConfigMap> = Api::default_namespaced(client);
    let owner = config_maps.create(&PostParams::default(), &config_map("owner", "ours")).await.unwrap();
    config_maps.delete("owner", &DeleteParams::default()).await.unwrap();
    let child = Effect::Create {
        kind: CONFIG_MAP,
        namespace: Some("default".into()),
        body: json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "child"}}),
        announce: None,
    };
    let hold = json!({"metadata": {"finalizers": ["ballast.dev/test"]}});
    let hold = Effect::patch(Target::of(&CONFIG_MAP, &owner.metadata), hold);
    let failure = executor.execute(vec![hold, child]).await.failure.unwrap();
    assert!(failure.conflict, "{failure:?}");
    assert!(config_maps.get_opt("child").await.unwrap().is_none());
}

#[tokio::test]
async fn each_selection_has_its_own_cache_and_a_kind_is_watched_once() {
    let (engine, client) = engine().await;
    let config_maps: Api<ConfigMap> = Api::default_namespaced(client);
    config_maps.create(&PostParams::default(), &config_map("a", "ours")).await.unwrap();
    config_maps.create(&PostParams::default(), &config_map("b", "theirs")).await.unwrap();
    let (first, second, third) = (engine.scope("first"), engine.scope("second"), engine.scope("third"));
    let ours: Cached<ConfigMap> = first.cache(Selection::labelled(("app", "ours")));
    let all: Cached<ConfigMap> = second.cache(Selection::all());
    let here: Cached<ConfigMap> = third.cache(Selection::namespace("default"));
    let nowhere: Cached<ConfigMap> = third.cache(Selection::namespace("elsewhere"));
    all.synced().await;
    ours.synced().await;
    let names = |cache: &Cached<ConfigMap>| -> Vec<String> {
        let all = cache.all().into_iter().map(|object| object.name_any());
        all.filter(|name| !name.starts_with("kube-")).collect()
    };
    assert_eq!(names(&ours), ["a"], "the first to ask does not choose for the others");
    assert_eq!(names(&all), ["a", "b"]);
    assert_eq!(names(&here), ["a", "b"]);
    assert_eq!(names(&nowhere), [""; 0]);
    let watched = ["v1/configmaps in all namespaces", "v1/configmaps in all namespaces with app=ours"];
    assert_eq!(engine.watched(), watched);
    drop(second);
    assert_eq!(engine.watched(), watched, "the third still reads it");
    drop(third);
    assert_eq!(engine.watched(), watched[1..]);
    drop(first);
    assert_eq!(engine.watched(), [""; 0]);
}

#[tokio::test]
async fn a_kind_that_is_missing_stops_nobody_else_and_is_found_when_it_comes() {
    let (engine, client) = engine().await;
    let waits = engine.scope("waits");
    let widgets = Kind::namespaced("example.org", "v1", "Widget", "widgets");
    let missing = waits.dynamic(&widgets, Selection::all());
    let scope = engine.scope("copier");
    let queue = Arc::default();
    let copier = Copier::new(&scope, &queue);
    scope.run(copier, queue, engine.executor("test", Fence::open()));
    let config_maps: Api<ConfigMap> = Api::default_namespaced(client.clone());
    config_maps.create(&PostParams::default(), &config_map("a", "ours")).await.unwrap();
    until_there(&Api::default_namespaced(client.clone()), "a").await;
    missing.settled().await;
    assert!(!missing.is_synced());
    assert_eq!(waits.watching().missing(), ["widgets.example.org"]);

    let crd = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.org"},
        "spec": {"group": "example.org", "scope": "Namespaced",
            "names": {"kind": "Widget", "plural": "widgets", "singular": "widget"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                "type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]},
    });
    let definitions =
        Kind::cluster("apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions");
    let api = crate::execute::api(&client, &definitions, None);
    api.patch("widgets.example.org", &PatchParams::apply("test"), &Patch::Apply(&crd)).await.unwrap();
    missing.synced().await;
    assert!(waits.watching().missing().is_empty());
}

#[tokio::test]
async fn a_stopped_controller_writes_no_more_and_another_takes_over_where_it_was() {
    let (engine, client) = engine().await;
    let config_maps: Api<ConfigMap> = Api::default_namespaced(client.clone());
    let secrets: Api<Secret> = Api::default_namespaced(client);
    for (round, name) in ["a", "b"].into_iter().enumerate() {
        let scope = engine.scope("copier");
        let queue = Arc::default();
        let copier = Copier::new(&scope, &queue);
        let plans = copier.n_plans.clone();
        scope.run(copier, queue, engine.executor("test", Fence::open()));
        config_maps.create(&PostParams::default(), &config_map(name, "ours")).await.unwrap();
        until_there(&secrets, name).await;
        scope.stop().await;
        let n_plans = plans.lock().unwrap().values().sum::<usize>();
        config_maps.create(&PostParams::default(), &config_map(&format!("{name}2"), "ours")).await.unwrap();
        assert_eq!(plans.lock().unwrap().values().sum::<usize>(), n_plans, "round {round}");
        assert_eq!(engine.supervisor().figures()["copier"].wanted, 0);
    }
    let scope = engine.scope("copier");
    let queue = Arc::default();
    let copier = Copier::new(&scope, &queue);
    scope.run(copier, queue, engine.executor("test", Fence::open()));
    until_there(&secrets, "a2").await;
    until_there(&secrets, "b2").await;
}
