//! Pipelines: vertices that hand messages on to one another, each scaled by what is waiting for it.
//!
//! ```text
//! Pipeline ──▶ Vertex ──spec.replicas──▶ pods ──metrics──▶ ┐
//!    │            ▲                                        ├─▶ scaler ──▶ decide::vertex
//!    └─▶ buffers  └──────────── /scale ◀────────────────── ┤
//!           └──────────────── pending, ack-pending ───────▶┘
//! ```
//!
//! - `pipeline`: a Pipeline becomes Vertices and buffers; pause, resume, drain
//! - `vertex`: a Vertex or a MonoVertex becomes numbered pods and Services
//! - `isbsvc`: where the buffers are
//! - `scaler`: how many pods, as a policy of `scaling`
//!
//! What is asked of the data plane is in [`crate::data_plane`].

mod isbsvc;
mod pipeline;
mod scaler;
mod vertex;

pub use scaler::{PENDING, RATE};

use std::sync::Arc;

use api::numaflow::{InterStepBufferService, MonoVertex, Pipeline, Vertex};
use engine::{Cached, Engine, Fence, Key, Queue, Scope, Selection, kind::Kind, object::controller_of};
use futures::future::{BoxFuture, FutureExt};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod, Secret, Service};
use kube::{CustomResourceExt, Resource};
use scaling::{Claims, History};

use crate::{
    component::{Component, Context, Lead, Reach, Rule, Running, Runs, Settings},
    data_plane::{DataPlane, Services},
};

pub const NAME: &str = "pipelines";
/// The name under which the API notes which fields are ours.
const MANAGER: &str = "ballast-pipelines";
/// On all that is made here.
const PART_OF: (&str, &str) = ("app.kubernetes.io/part-of", "numaflow");
const API: &str = "numaflow.numaproj.io";

pub(crate) const PIPELINE: Kind = Kind::namespaced(API, "v1alpha1", "Pipeline", "pipelines");
pub(crate) const VERTEX: Kind = Kind::namespaced(API, "v1alpha1", "Vertex", "vertices");
pub(crate) const MONO_VERTEX: Kind = Kind::namespaced(API, "v1alpha1", "MonoVertex", "monovertices");
pub(crate) const ISB_SERVICE: Kind =
    Kind::namespaced(API, "v1alpha1", "InterStepBufferService", "interstepbufferservices");

pub const COMPONENT: Component = Component {
    name: NAME,
    about: "Numaflow's Pipelines and MonoVertices: vertices become pods, scaled by what is pending and what is downstream",
    crds: || vec![Pipeline::crd(), Vertex::crd(), MonoVertex::crd(), InterStepBufferService::crd()],
    rules: &[
        Rule::new(
            API,
            &["pipelines", "vertices", "monovertices", "interstepbufferservices"],
            &["get", "list", "watch"],
        ),
        Rule::new(API, &["pipelines", "interstepbufferservices"], &["patch"]),
        Rule::new(API, &["vertices"], &["create", "patch", "delete"]),
        Rule::new(
            API,
            &["pipelines/status", "vertices/status", "monovertices/status", "interstepbufferservices/status"],
            &["patch"],
        ),
        Rule::new(API, &["vertices/scale", "monovertices/scale"], &["patch"]),
        Rule::new("", &["pods"], &["list", "watch", "create", "delete"]),
        Rule::new("", &["services"], &["get", "list", "watch", "create", "patch", "delete"]),
        Rule::new("", &["events"], &["create", "patch"]),
    ],
    reach: Reach::Chosen,
    runs: Runs::Leading(Lead { watch: Some(watches), start: lead }),
};

#[derive(Clone, Debug)]
pub struct Options {
    /// Pipelines of this namespace only; without it, of all.
    pub namespace: Option<String>,
    /// What moves messages: the main container of a vertex's pods.
    pub image: String,
    pub command: Vec<String>,
    /// Where embedded buffers are served, if they are.
    pub embedded_buffers: Option<String>,
    /// Whether pods may have addresses of this machine, as those of the process node do.
    pub loopback_pods: bool,
}

/// What the controllers work with.
#[derive(Clone)]
pub struct Parts {
    pub engine: Engine,
    pub fence: Fence,
    pub store: store::Shared,
    pub history: History,
    /// Which policy has which object.
    pub claims: Claims,
    pub services: Arc<dyn Services>,
    pub options: Options,
}

/// Runs for as long as what is returned is there.
pub async fn start(parts: Parts) -> Running {
    let remembered = scaler::remember(&parts.store).await;
    let scope = parts.engine.scope(NAME);
    let options = &parts.options;
    let caches = Caches::new(&scope, options.namespace.as_deref(), options.embedded_buffers.is_some());
    let executor = || parts.engine.executor(MANAGER, parts.fence.clone());
    let queue: Arc<Queue<Key>> = Arc::default();
    let controller = isbsvc::Controller::new(&caches, &parts.options, &queue);
    scope.run(controller, queue, executor());
    let queue: Arc<Queue<Key>> = Arc::default();
    let controller = pipeline::Controller::new(&caches, &parts, &queue);
    scope.run(controller, queue, executor());
    for kind in [vertex::Which::Vertex, vertex::Which::MonoVertex] {
        let queue: Arc<Queue<Key>> = Arc::default();
        let controller = vertex::Controller::new(kind, &caches, &parts.options, &queue);
        scope.run(controller, queue, executor());
    }
    let windows = scaler::Windows::default();
    scaler::start(&parts, &windows, &scope, &caches, remembered);
    Running { scope, gauges: Some(Arc::new(move || windows.gauges(Timestamp::now()))) }
}

/// What the controllers watch. Held by every node, so that a new leader begins with full caches.
fn watches(engine: &Engine, settings: &Settings) -> Scope {
    let scope = engine.scope(NAME);
    if let Some(options) = options(settings) {
        drop(Caches::new(&scope, options.namespace.as_deref(), options.embedded_buffers.is_some()));
    }
    scope
}

fn options(settings: &Settings) -> Option<Options> {
    let DataPlane { image, command, embedded_buffers, loopback_pods, .. } = settings.pipelines.clone()?;
    let namespace = settings.only_namespace.clone();
    Some(Options { namespace, image, command, embedded_buffers, loopback_pods })
}

fn lead(context: Context) -> BoxFuture<'static, Running> {
    async move {
        let Context { engine, fence, store, history, claims, settings, .. } = context;
        let (Some(options), Some(data_plane)) = (options(&settings), &settings.pipelines) else {
            tracing::warn!("pipelines have no data plane here: nothing is done for them");
            return Running::from(engine.scope(NAME));
        };
        let services = data_plane.services.clone();
        start(Parts { engine, fence, store, history, claims, services, options }).await
    }
    .boxed()
}

#[derive(Clone)]
struct Caches {
    pipelines: Cached<Pipeline>,
    vertices: Cached<Vertex>,
    mono_vertices: Cached<MonoVertex>,
    isb_services: Cached<InterStepBufferService>,
    pods: Cached<Pod>,
    services: Cached<Service>,
    /// With tokens for embedded buffers, where there are any.
    secrets: Option<Cached<Secret>>,
}

impl Caches {
    fn new(scope: &Scope, namespace: Option<&str>, has_embedded_buffers: bool) -> Self {
        let within = |selection| Selection { namespace: namespace.map(str::to_owned), ..selection };
        let all = || within(Selection::all());
        // there may be any number of others
        let ours = || within(Selection::labelled(PART_OF));
        Self {
            pipelines: scope.cache(all()),
            vertices: scope.cache(all()),
            mono_vertices: scope.cache(all()),
            isb_services: scope.cache(all()),
            pods: scope.cache(ours()),
            services: scope.cache(ours()),
            secrets: has_embedded_buffers.then(|| scope.cache(ours())),
        }
    }
}

/// A child's change concerns the object of this kind that controls it.
fn listen_to_children<K: Resource + Send + Sync + 'static>(
    cache: &Cached<K>,
    owner: &'static str,
    queue: &Arc<Queue<Key>>,
) {
    let queue = queue.clone();
    cache.listen(move |change| {
        for child in change.sides() {
            let meta = child.meta();
            if let Some(owner) = controller_of(meta).filter(|found| found.kind == owner) {
                queue.add(Key::new(meta.namespace.clone().unwrap_or_default(), &owner.name));
            }
        }
    });
}
