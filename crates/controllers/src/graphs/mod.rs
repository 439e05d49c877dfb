//! Resource graphs: definitions become kinds, instances become their resources, Sets keep a number of instances.
//!
//! ```text
//! ResourceGraphDefinition ─ compile ─▶ CRDs ─ established ─▶ registry ─┬─▶ instance controller, one for each definition
//!                                                                    └─▶ Set controller, where `scaling` asks for it
//! ```
//!
//! What is decided is decided elsewhere, by the crate `graph` (what a definition means, what an instance wants) and by
//! `decide::rollout` (which instances of a Set are made, changed and deleted now). Here that becomes effects.

mod definition;
mod discovery;
mod figures;
mod instance;
mod object;
mod registry;
mod set;

use std::{
    future::{Future, ready},
    sync::Arc,
    time::Duration,
};

use api::kro::ResourceGraphDefinition;
use engine::{Engine, Fence, Key, Queue, Scope, Supervisor};
use futures::FutureExt;
use kube::{Client, CustomResourceExt};
use scaling::History;

use crate::component::{Component, Lead, Reach, Rule, Running, Runs};
pub use figures::Figures;

pub const NAME: &str = "graph";

/// What instances of the examples are made of. Other kinds have to be granted beside it, by who wants graphs of them.
const RESOURCES: &[&str] = &["get", "list", "watch", "create", "patch", "delete"];

pub const COMPONENT: Component = Component {
    name: NAME,
    about: "resource graphs: kinds of your own that stand for other resources, with a scale, and Sets of them",
    crds: || vec![ResourceGraphDefinition::crd()],
    rules: &[
        // definitions, and the kinds that they generate in the usual group
        Rule::new(api::kro::GROUP, &["*"], RESOURCES),
        Rule::new(
            "apiextensions.k8s.io",
            &["customresourcedefinitions"],
            &["get", "list", "watch", "create", "patch"],
        ),
        Rule::new("", &["events"], &["create", "patch"]),
        Rule::new("", &["configmaps", "services"], RESOURCES),
        Rule::new("apps", &["deployments"], RESOURCES),
        Rule::new("autoscaling", &["horizontalpodautoscalers"], RESOURCES),
    ],
    reach: Reach::Cluster,
    runs: Runs::Leading(Lead {
        watch: None,
        start: |context| {
            let figures = Figures::default();
            let scope = start(&context.engine, context.fence, &figures, &context.history);
            ready(Running { scope, gauges: Some(Arc::new(move || figures.gauges())) }).boxed()
        },
    }),
};

/// The name under which the API notes which fields are ours, and who tells in Events.
const MANAGER: &str = "ballast-graphs";
/// Of the fields of instances that their Set wants: an instance may be the child of a graph as well.
const SET_MANAGER: &str = "ballast-sets";

/// Runs on an engine of its own until `shutdown` resolves. The CRD has to be installed (see [`api::crds`]).
pub async fn run(client: Client, relist_period: Duration, shutdown: impl Future<Output = ()>) {
    let engine = Engine::new(client, Supervisor::default(), relist_period);
    let scope = start(&engine, Fence::open(), &Figures::default(), &History::default());
    shutdown.await;
    scope.stop().await;
}

/// Runs in the scope that is returned, for as long as that is there.
pub fn start(engine: &Engine, fence: Fence, figures: &Figures, history: &History) -> Scope {
    let scope = engine.scope(NAME);
    let queue: Arc<Queue<Key>> = Arc::default();
    let registry = registry::Registry::new(engine, &scope, &fence, figures, history);
    let controller = definition::Controller::new(engine.client().clone(), &scope, registry, &queue);
    scope.run(controller, queue, engine.executor(MANAGER, fence));
    scope
}
