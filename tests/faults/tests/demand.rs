//! Functions on demand under each kind of fault: they fall asleep, are woken with what they depend on, grow and shrink by a
//! trigger. Every end state must be that of an undisturbed run, and no function may be woken before what it depends on.
//! Calls and measurements are the gateway's and the scraper's: they outlive the controllers.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use anyhow::{Result, ensure};
use controllers::{
    Context, Lead, OnDemand, Runs, Settings,
    catalog::{self, View},
    demand,
};
use engine::{Cached, Engine, Fence, Scope, Selection, Supervisor};
use faults::{
    Faults, Plan, RELIST_PERIOD, Start, World, eventually,
    trials::{self, Told, Undisturbed},
};
use futures::FutureExt;
use jiff::Timestamp;
use k8s_openapi::{
    api::{apps::v1::Deployment, core::v1::Pod},
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, ListParams, PostParams},
};
use localkube::ApiServer;
use metrics::{Database, Gauge};
use ondemand::{Activity, Catalog};
use promql::Labels;
use serde_json::json;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

const SCRAPE_INTERVAL: Duration = Duration::from_millis(100);

/// What the controllers do not lose when they die.
#[derive(Clone)]
struct Surroundings {
    store: store::Shared,
    activity: Activity,
    database: Database,
    scraped: watch::Sender<u64>,
    work: Arc<Mutex<f64>>,
    /// What the controllers of the present life see.
    view: Arc<Mutex<Option<watch::Receiver<Arc<View>>>>>,
}

impl Surroundings {
    async fn new() -> Result<Self> {
        Ok(Self {
            store: store::open("memory:", store::Options::default()).await?,
            activity: Activity::default(),
            database: Database::new(metrics::store::Options::default()),
            scraped: watch::Sender::default(),
            work: Arc::new(Mutex::new(1.0)),
            view: Arc::default(),
        })
    }

    fn set_work(&self, work: f64) {
        *self.work.lock().unwrap_or_else(PoisonError::into_inner) = work;
    }

    async fn scrape(self, stop: CancellationToken) {
        let names = promql::parse("work").map(|query| query.metric_names());
        while !stop.is_cancelled() {
            let value = *self.work.lock().unwrap_or_else(PoisonError::into_inner);
            let work = Gauge { name: "work".to_owned(), labels: Vec::new(), value };
            let now = Timestamp::now().as_millisecond();
            names.iter().for_each(|names| self.database.ask(names, now));
            // refused if the clock has not moved: then the next one is taken
            let _ = self.database.feed("pod", &Labels::empty(), now, &[work]);
            self.scraped.send_modify(|count| *count += 1);
            tokio::time::sleep(SCRAPE_INTERVAL).await;
        }
    }

    /// Until the controllers know that no pod of the function is left: to them its pods of before would still be ready.
    async fn seen_asleep(&self, name: &str) -> Result<()> {
        eventually(format!("the controllers to see {name} without pods"), || async {
            let view = self.view.lock().unwrap_or_else(PoisonError::into_inner).clone();
            let view = view.map(|view| view.borrow().clone()).filter(|view| view.complete);
            let pods = view.and_then(|view| Some(view.snapshot.functions.get(name)?.pods.clone()));
            Ok(if pods.as_ref().is_some_and(|pods| pods.is_empty()) { Ok(()) } else { Err(pods) })
        })
        .await
    }

    /// One life of the controllers.
    async fn control(self, client: Client, end: CancellationToken) {
        let Runs::Leading(Lead { start, .. }) = demand::COMPONENT.runs else { return };
        let engine = Engine::new(client, Supervisor::default(), RELIST_PERIOD);
        let (view, _, catalog) = catalog::start(&engine, "default", Catalog::default());
        *self.view.lock().unwrap_or_else(PoisonError::into_inner) = Some(view.clone());
        let on_demand = OnDemand {
            namespace: "default".into(),
            view,
            activity: self.activity,
            database: self.database,
            scraped: self.scraped.subscribe(),
            scrape_interval: SCRAPE_INTERVAL,
        };
        let context = Context {
            engine,
            fence: Fence::open(),
            store: self.store,
            history: scaling::History::default(),
            claims: scaling::Claims::default(),
            settings: Arc::new(Settings::default()),
            on_demand,
        };
        let running = tokio::select! {
            running = start(context) => running,
            () = end.cancelled() => return,
        };
        end.cancelled().await;
        running.scope.stop().await;
        catalog.stop().await;
    }
}

fn function(name: &str, annotations: &[(&str, &str)]) -> Result<Deployment> {
    let own = annotations.iter().map(|(key, value)| (format!("SlimFaas/{key}"), json!(value)));
    let always = ("SlimFaas/Function".to_owned(), json!("true"));
    let annotations: serde_json::Map<_, _> = own.chain([always]).collect();
    Ok(serde_json::from_value(json!({
        "metadata": {"name": name, "annotations": annotations},
        "spec": {"selector": {"matchLabels": {"app": name}}, "template": {
            "metadata": {"labels": {"app": name}},
            "spec": {"containers": [{
                "name": "main", "image": "none", "ports": [{"containerPort": 8080}],
            }]},
        }},
    }))?)
}

const SCALE: &str = r#"{"ReplicaMax": 8,
    "Triggers": [{"MetricType": "AverageValue", "MetricName": "work", "Query": "work", "Threshold": 2}],
    "Behavior": {
        "ScaleUp": {"StabilizationWindowSeconds": 0, "Policies": [{"Type": "Pods", "Value": 8, "PeriodSeconds": 1}]},
        "ScaleDown": {"StabilizationWindowSeconds": 1, "Policies": [{"Type": "Pods", "Value": 8, "PeriodSeconds": 1}]}
    }}"#;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Seen {
    PodOfDbReady,
    ShopWoken,
    ShopAsleep,
}

/// What happened, by the version that it gave the API.
type Log = Arc<Mutex<BTreeSet<(u64, Seen)>>>;

fn observe_the_order(engine: &Engine) -> (Scope, Log) {
    let scope = engine.scope("observer");
    let log = Log::default();
    let note = |log: &Log| {
        let log = log.clone();
        move |meta: &ObjectMeta, seen| {
            let version = meta.resource_version.as_deref().and_then(|version| version.parse().ok());
            log.lock().unwrap_or_else(PoisonError::into_inner).insert((version.unwrap_or(0), seen));
        }
    };
    let noted = note(&log);
    let deployments: Cached<Deployment> = scope.cache(Selection::all());
    deployments.listen(move |change| {
        let requested = |one: &Deployment| one.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(0);
        let (Some(old), Some(new)) = (&change.old, &change.new) else { return };
        if new.name_any() == "shop" && (requested(old) > 0) != (requested(new) > 0) {
            noted(&new.metadata, if requested(new) > 0 { Seen::ShopWoken } else { Seen::ShopAsleep });
        }
    });
    let noted = note(&log);
    let pods: Cached<Pod> = scope.cache(Selection::labelled(("app", "db")));
    pods.listen(move |change| {
        let is_ready = |pod: &Arc<Pod>| engine::pods::can_be_called(pod);
        if let Some(new) = change.new.as_ref().filter(|new| is_ready(new))
            && !change.old.as_ref().is_some_and(is_ready)
        {
            noted(&new.metadata, Seen::PodOfDbReady);
        }
    });
    (scope, log)
}

/// Since it fell asleep, a pod of what it depends on must have become ready before the function is woken.
fn order_kept(log: &Log) -> Result<()> {
    let log = log.lock().unwrap_or_else(PoisonError::into_inner);
    let happened: Vec<Seen> = log.iter().map(|(_, seen)| *seen).collect();
    ensure!(happened.contains(&Seen::ShopWoken), "never woken: {happened:?}");
    for before in happened.split_inclusive(|seen| *seen == Seen::ShopWoken) {
        let since = before.iter().rposition(|seen| *seen == Seen::ShopAsleep).unwrap_or(0);
        let is_woken = before.last() == Some(&Seen::ShopWoken);
        ensure!(!is_woken || before[since..].contains(&Seen::PodOfDbReady), "woken too early: {happened:?}");
    }
    Ok(())
}

/// Until these are asked for and ready.
async fn counts(deployments: &Api<Deployment>, expected: &[(&str, i32)]) -> Result<()> {
    eventually(format!("{expected:?}"), || async {
        let mut seen = Vec::new();
        for (name, _) in expected {
            let deployment = deployments.get(name).await?;
            let ready = deployment.status.and_then(|status| status.ready_replicas).unwrap_or(0);
            seen.push((deployment.spec.and_then(|spec| spec.replicas).unwrap_or(0), ready));
        }
        let is_so = seen.iter().zip(expected).all(|(seen, (_, count))| *seen == (*count, *count));
        Ok(if is_so { Ok(()) } else { Err(seen) })
    })
    .await
}

/// What callers and load do, and what is there in the end.
async fn story(plans: Vec<Plan>, expected: Option<&str>) -> Told {
    let begins_in_the_past = plans.iter().any(|plan| plan.stale_lists);
    let client = ApiServer::open(localkube::Options::default()).await?.client("default");
    let surroundings = Surroundings::new().await?;
    let own = surroundings.clone();
    let start: Start = Arc::new(move |client, end| own.clone().control(client, end).boxed());
    let mut world = World::new(client.clone(), plans, start);
    world.beside(|client, stop| {
        workloads::Controllers::new(client, workloads::Options::default()).run(stop.cancelled_owned()).boxed()
    });
    let scraper = surroundings.clone();
    world.beside(move |_, stop| scraper.scrape(stop).boxed());
    let engine = Engine::new(client.clone(), Supervisor::default(), RELIST_PERIOD * 1000);
    let (observer, log) = observe_the_order(&engine);

    let deployments: Api<Deployment> = Api::default_namespaced(client);
    let idle = ("TimeoutSecondBeforeSetReplicasMin", "1");
    for function in [
        function("db", &[idle])?,
        function("shop", &[idle, ("DependsOn", "db"), ("ReplicasAtStart", "2")])?,
        function("busy", &[("ReplicasMin", "1"), ("Scale", SCALE)])?,
        function("goes", &[idle])?,
    ] {
        deployments.create(&PostParams::default(), &function).await?;
    }
    counts(&deployments, &[("db", 0), ("shop", 0), ("busy", 1), ("goes", 0)]).await?;
    surroundings.seen_asleep("db").await?;

    let call = surroundings.activity.begin(&"shop".into());
    surroundings.set_work(7.0);
    counts(&deployments, &[("db", 1), ("shop", 2), ("busy", 4), ("goes", 0)]).await?;
    deployments.delete("goes", &DeleteParams::background()).await?;
    drop(call);
    surroundings.set_work(3.0);
    let state = trials::lasting(expected, async || {
        counts(&deployments, &[("db", 0), ("shop", 0), ("busy", 2)]).await?;
        let all = deployments.list(&ListParams::default()).await?;
        let spec = |one: &Deployment| (one.name_any(), one.spec.as_ref().and_then(|spec| spec.replicas));
        Ok(format!("{:?}", all.iter().map(spec).collect::<Vec<_>>()))
    })
    .await?;
    observer.stop().await;
    // who begins in the past sees pods there that are long gone
    if !begins_in_the_past {
        order_kept(&log)?;
    }
    Ok((state, world.end().await?))
}

async fn undisturbed() -> Result<Undisturbed> {
    let (state, lives) = story(Vec::new(), None).await?;
    Ok((state, lives.iter().map(Faults::writes).sum()))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crash_after_every_second_write() -> Result<()> {
    trials::crash_after_each(story, undisturbed().await?, 2).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_life_that_starts_in_the_past() -> Result<()> {
    trials::new_life_that_starts_in_the_past(story, undisturbed().await?).await
}

#[tokio::test(flavor = "multi_thread")]
async fn refused_requests() -> Result<()> {
    trials::refused_requests(story, undisturbed().await?, &[3]).await
}

#[tokio::test(flavor = "multi_thread")]
async fn events_lost_repeated_and_late() -> Result<()> {
    let plans = vec![
        Plan { lose_event: Some(2), ..Plan::default() },
        Plan { repeat_event: Some(1), ..Plan::default() },
        Plan {
            lose_event: Some(3),
            repeat_event: Some(2),
            delay: Duration::from_millis(5),
            ..Plan::default()
        },
    ];
    trials::disturbed_events(story, undisturbed().await?, plans).await
}
