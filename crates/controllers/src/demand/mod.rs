//! How many replicas each function gets. `scaling` does the work of deciding and writing; here is what a decision about
//! a function depends on, and what is news to it.
//!
//! ```text
//! Activity, View, scrapes ──▶ news ──key──▶ scaling::Scaler ──▶ policy ──▶ decide::demand
//! ```
//!
//! - `policy`: functions on demand as a [`scaling::Policy`]
//! - `plan`: what one decision depends on, pure
//! - `neighbours`: whom news about a function concerns
//! - `news`: which functions to look at again
//! - `readings`: what the triggers' queries say
//! - `reported`: what people have been told already
//! - `elsewhere`: functions of namespaces that are not served
//! - `decisions`: the last decision about each function, for metrics

mod decisions;
mod elsewhere;
mod neighbours;
mod news;
mod plan;
mod policy;
mod readings;
mod reported;
#[cfg(test)]
mod tests;

use std::sync::{Arc, Mutex, RwLock};

use engine::{Key, Queue, Selection};
use futures::future::{BoxFuture, FutureExt};
use scaling::{Memories, Scaler};

use crate::{
    catalog::FUNCTION,
    component::{Component, Context, Lead, OnDemand, Reach, Rule, Running, Runs},
};
use decisions::{Decided, Decisions};
use policy::{Caches, Demand, NAME, Shared};
use reported::Reported;

const MEMORY: &str = "demand/";

pub const COMPONENT: Component = Component {
    name: NAME,
    about: "functions on demand: from 0 to N by calls, schedules and PromQL triggers",
    crds: Vec::new,
    // What it reads, the catalog reads on every node.
    rules: &[
        Rule::new("apps", &["deployments/scale", "statefulsets/scale"], &["patch"]),
        Rule::new("serverless.kyma-project.io", &["functions/scale"], &["patch"]),
        Rule::new("", &["events"], &["create", "patch"]),
    ],
    reach: Reach::Served,
    runs: Runs::Leading(Lead { watch: None, start }),
};

fn start(context: Context) -> BoxFuture<'static, Running> {
    term(context).boxed()
}

/// One term of leadership.
async fn term(context: Context) -> Running {
    let Context { engine, fence, store, history, claims, on_demand, settings } = context;
    let OnDemand { namespace, view, activity, database, scraped, scrape_interval } = on_demand;
    let memories = Memories::load(store, MEMORY, &namespace).await;
    let scope = engine.scope(NAME);
    let here = || Selection::namespace(&*namespace);
    let caches = Caches {
        deployments: scope.cache(here()),
        stateful_sets: scope.cache(here()),
        functions: scope.dynamic_if_served(&FUNCTION, here()),
    };
    let queue: Arc<Queue<Key>> = Arc::default();
    let decisions = Decisions::default();
    let executor = engine.executor(plan::COMPONENT, fence);
    if settings.sees_all_namespaces {
        elsewhere::start(&scope, namespace.clone(), executor.clone());
    }
    let shared = Arc::new(Shared {
        namespace,
        view,
        activity,
        decisions: decisions.clone(),
        answers: RwLock::default(),
        neighbours: RwLock::default(),
        asleep: Mutex::default(),
        reported: Mutex::new(Reported::new(scrape_interval)),
        caches,
    });
    // Some of them may be gone.
    for key in memories.keys() {
        queue.add(key);
    }
    let news = news::News { shared: shared.clone(), queue: queue.clone(), executor: executor.clone() };
    let of_workloads = news.clone();
    scope.keep("demand view", move || of_workloads.clone().of_workloads());
    let of_calls = news.clone();
    scope.keep("demand calls", move || of_calls.clone().of_calls());
    let metrics = news::Metrics { database, scraped, scrape_interval };
    scope.keep("demand metrics", move || news.clone().of_metrics(metrics.clone()));
    let scaler = Scaler::new(Demand(shared), memories, history).among(&claims, &queue);
    scope.run(scaler, queue, executor);
    Running { scope, gauges: Some(Arc::new(move || decisions.gauges())) }
}
