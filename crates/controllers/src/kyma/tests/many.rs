//! Many Functions: what is done for one must not grow with how many others there are.

use std::{
    fmt::Debug,
    sync::atomic::{AtomicUsize, Ordering},
};

use kube::api::{ListParams, Patch, PatchParams, PostParams};
use localkube::ApiServer;

use super::*;

/// Not a limit of speed: after this long nothing is going to happen any more.
const STUCK: Duration = Duration::from_secs(300);
/// One for each change there is on the way (of the Function, its four children and both statuses), and some to spare
/// for a machine so slow that a start is worth a word. If each change concerned all Functions, it would be hundreds.
const MOST_PLANS: usize = 12;

struct Counting {
    controller: Controller,
    plans: Arc<AtomicUsize>,
}

impl Reconcile for Counting {
    fn name(&self) -> &'static str {
        self.controller.name()
    }

    fn kind(&self, key: &Key) -> Option<Kind> {
        self.controller.kind(key)
    }

    fn plan<'a>(
        &'a self,
        key: &'a Key,
        failure: Option<&'a Failure>,
        now: Timestamp,
    ) -> BoxFuture<'a, Result<Plan, PlanError>> {
        self.plans.fetch_add(1, Ordering::Relaxed);
        self.controller.plan(key, failure, now)
    }
}

async fn all_of<K>(api: &Api<K>, count: usize) -> Vec<K>
where
    K: Clone + serde::de::DeserializeOwned + Debug,
{
    let look = async {
        loop {
            let found = api.list(&ListParams::default()).await.unwrap().items;
            if found.len() >= count {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(STUCK, look).await.expect("the controller does not get on")
}

/// How often `count` Functions with built-in scaling are planned from their creation until all have an autoscaler.
async fn plans_of(count: usize) -> usize {
    let client = ApiServer::open(localkube::Options::default()).await.unwrap().client("default");
    crate::crds::install(&client).await.unwrap();
    let plans = Arc::<AtomicUsize>::default();
    let engine = Engine::new(client.clone(), Supervisor::default(), Duration::from_secs(3600));
    let scope = engine.scope("test");
    let queue: Arc<Queue<Key>> = Arc::default();
    let controller = Controller::new(client.clone(), &scope, &Options::new("/nonexistent"), &queue);
    scope.run(Counting { controller, plans: plans.clone() }, queue, engine.executor("test", Fence::open()));

    let functions: Api<Function> = Api::default_namespaced(client.clone());
    for index in 0..count {
        let function = World::new(json!({"scaleConfig": {"minReplicas": 1, "maxReplicas": 3}})).function;
        let manifest = json!({
            "apiVersion": function["apiVersion"], "kind": "Function",
            "metadata": {"name": format!("f{index}")}, "spec": function["spec"],
        });
        functions.create(&PostParams::default(), &from_json(manifest)).await.unwrap();
    }
    let deployments: Api<Deployment> = Api::default_namespaced(client.clone());
    for deployment in all_of(&deployments, count).await {
        let status = json!({"status": {
            "observedGeneration": 1, "replicas": 1,
            "conditions": [
                {"type": "Available", "status": "True", "reason": "MinimumReplicasAvailable"},
                {"type": "Progressing", "status": "True", "reason": "NewReplicaSetAvailable"},
            ],
        }});
        let params = PatchParams::default();
        deployments.patch_status(&deployment.name_any(), &params, &Patch::Merge(status)).await.unwrap();
    }
    all_of(&Api::<HorizontalPodAutoscaler>::default_namespaced(client), count).await;
    scope.stop().await;
    plans.load(Ordering::Relaxed)
}

#[tokio::test]
async fn a_function_is_planned_as_often_among_many_as_among_few() {
    for count in [2, 60] {
        let plans = plans_of(count).await;
        assert!(plans <= MOST_PLANS * count, "{plans} plans for {count} Functions");
    }
}
