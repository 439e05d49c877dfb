//! StatefulSets, disruption budgets and namespaces under each kind of fault: a StatefulSet with a budget is created,
//! rolled out, scaled, one of its pods evicted, and then its namespace is deleted. Every end state must be that of an
//! undisturbed run, and nothing may be left in the namespace.

use std::sync::Arc;

use anyhow::Result;
use faults::{
    Faults, Plan, RELIST_PERIOD, Start, World, eventually,
    trials::{self, Told, Undisturbed},
};
use futures::FutureExt;
use k8s_openapi::api::{
    apps::v1::StatefulSet,
    core::v1::{Namespace, Pod},
    policy::v1::PodDisruptionBudget,
};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, EvictParams, ListParams, Patch, PatchParams, PostParams},
};
use localkube::ApiServer;
use serde_json::{Value, json};

async fn world(plans: Vec<Plan>) -> Result<World> {
    let client = ApiServer::open(localkube::Options::default()).await?.client("default");
    let start: Start = Arc::new(|client, end| {
        let options = workloads::Options { relist_period: RELIST_PERIOD, ..workloads::Options::default() };
        workloads::Controllers::new(client, options).run(end.cancelled_owned()).boxed()
    });
    Ok(World::new(client, plans, start))
}

struct Shop {
    namespaces: Api<Namespace>,
    sets: Api<StatefulSet>,
    budgets: Api<PodDisruptionBudget>,
    pods: Api<Pod>,
}

impl Shop {
    fn new(world: &World) -> Self {
        let client = || world.client.clone();
        Self {
            namespaces: Api::all(client()),
            sets: Api::namespaced(client(), "shop"),
            budgets: Api::namespaced(client(), "shop"),
            pods: Api::namespaced(client(), "shop"),
        }
    }

    async fn open(&self) -> Result<()> {
        let post = PostParams::default();
        self.namespaces
            .create(&post, &serde_json::from_value(json!({"metadata": {"name": "shop"}}))?)
            .await?;
        let selector = json!({"matchLabels": {"app": "db"}});
        let budget = json!({"metadata": {"name": "db"}, "spec": {"minAvailable": 2, "selector": selector}});
        self.budgets.create(&post, &serde_json::from_value(budget)?).await?;
        let set = json!({
            "metadata": {"name": "db"},
            "spec": {"replicas": 3, "serviceName": "db", "selector": selector, "template": {
                "metadata": {"labels": {"app": "db"}},
                "spec": {"containers": [{"name": "main", "image": "one"}]},
            }},
        });
        self.sets.create(&post, &serde_json::from_value(set)?).await?;
        Ok(())
    }

    async fn patch(&self, spec: Value) -> Result<()> {
        let patch = Patch::Strategic(json!({ "spec": spec }));
        self.sets.patch("db", &PatchParams::default(), &patch).await?;
        Ok(())
    }

    /// Until set and budget report that they are done with the latest spec.
    async fn settled(&self) -> Result<()> {
        eventually("the StatefulSet and its budget to settle", || async {
            let (set, budget) = (self.sets.get("db").await?, self.budgets.get("db").await?);
            let desired = set.spec.as_ref().and_then(|spec| spec.replicas);
            let status = set.status.clone().unwrap_or_default();
            let counts = [Some(status.replicas), status.ready_replicas, status.updated_replicas];
            let told = budget.status.clone().unwrap_or_default();
            let is_settled = status.observed_generation == set.metadata.generation
                && status.current_revision == status.update_revision
                && counts.iter().all(|count| *count == desired)
                && told.observed_generation == budget.metadata.generation
                && told.current_healthy == desired
                && told.expected_pods == desired
                && told.disruptions_allowed == desired.map(|desired| desired - 2)
                && told.disrupted_pods.is_none_or(|pods| pods.is_empty());
            Ok(if is_settled { Ok(()) } else { Err((set, budget)) })
        })
        .await
    }

    /// What is there, without times and other chance.
    async fn state(&self) -> Result<String> {
        let mut lines = Vec::new();
        let set = self.sets.get("db").await?;
        let status = set.status.unwrap_or_default();
        lines.push(format!("set {} of {}", status.replicas, status.update_revision.unwrap_or_default()));
        let budget = self.budgets.get("db").await?.status.unwrap_or_default();
        lines.push(format!("{:?} of {:?} healthy", budget.current_healthy, budget.expected_pods));
        for pod in self.pods.list(&ListParams::default()).await? {
            let image = pod.spec.as_ref().and_then(|spec| spec.containers[0].image.clone());
            let revision = pod.labels().get("controller-revision-hash");
            lines.push(format!("pod {} {image:?} {revision:?}", pod.name_any()));
        }
        Ok(lines.join("\n"))
    }
}

/// What the user does, and what is there in the end.
async fn story(plans: Vec<Plan>, expected: Option<&str>) -> Told {
    let world = world(plans).await?;
    let shop = Shop::new(&world);
    shop.open().await?;
    shop.settled().await?;
    shop.patch(json!({"template": {"spec": {"containers": [{"name": "main", "image": "two"}]}}})).await?;
    shop.settled().await?;
    shop.patch(json!({"replicas": 4})).await?;
    shop.settled().await?;
    let evicted = shop.pods.get("db-1").await?;
    // what the budget says may have to be caught up with
    eventually("the eviction to be allowed", || async {
        match shop.pods.evict("db-1", &EvictParams::default()).await {
            Ok(_) => Ok(Ok(())),
            Err(kube::Error::Api(refusal)) if refusal.code == 429 => Ok(Err(refusal)),
            Err(error) => Err(error.into()),
        }
    })
    .await?;
    eventually("another pod of that name", || async {
        let pod = shop.pods.get_opt("db-1").await?;
        Ok(if pod.as_ref().is_some_and(|pod| pod.uid() != evicted.uid()) { Ok(()) } else { Err(pod) })
    })
    .await?;
    shop.patch(json!({"replicas": 3})).await?;
    let state = trials::lasting(expected, async || {
        shop.settled().await?;
        shop.state().await
    })
    .await?;

    shop.namespaces.delete("shop", &DeleteParams::background()).await?;
    eventually("the namespace to be gone", || async {
        let left = shop.namespaces.get_opt("shop").await?;
        Ok(if left.is_none() { Ok(()) } else { Err(left) })
    })
    .await?;
    assert_eq!(shop.pods.list(&ListParams::default()).await?.items.len(), 0, "pods without a namespace");
    assert_eq!(shop.sets.list(&ListParams::default()).await?.items.len(), 0, "sets without a namespace");
    Ok((state, world.end().await?))
}

async fn undisturbed() -> Result<Undisturbed> {
    let (state, lives) = story(Vec::new(), None).await?;
    assert_eq!(state.matches("Some(\"two\")").count(), 3, "{state}");
    assert!(state.contains("Some(3) of Some(3) healthy"), "{state}");
    Ok((state, lives.iter().map(Faults::writes).sum()))
}

/// A rollout is the same few writes for each pod: every third meets all kinds of them.
#[tokio::test(flavor = "multi_thread")]
async fn a_crash_after_many_a_write() -> Result<()> {
    trials::crash_after_each(story, undisturbed().await?, 3).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_life_that_starts_in_the_past() -> Result<()> {
    trials::new_life_in_the_past_after_each(story, undisturbed().await?, 5).await
}

#[tokio::test(flavor = "multi_thread")]
async fn refused_requests() -> Result<()> {
    trials::refused_requests(story, undisturbed().await?, &[4]).await
}

#[tokio::test(flavor = "multi_thread")]
async fn events_lost_and_repeated() -> Result<()> {
    let plans = vec![
        Plan { lose_event: Some(2), ..Plan::default() },
        Plan { lose_event: Some(3), repeat_event: Some(2), ..Plan::default() },
    ];
    trials::disturbed_events(story, undisturbed().await?, plans).await
}
