//! A controller as a value: all that the program knows of it. The program's table of components has one row for each;
//! which of them run, what they may do, which kinds are installed and what `/ready` tells follow from the rows.

use std::{collections::BTreeMap, path::PathBuf, sync::Arc, time::Duration};

use engine::{Engine, Fence, Scope};
use futures::future::BoxFuture;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use metrics::{Database, Gauge};
use ondemand::Activity;
use scaling::{Claims, History};
use tokio::sync::watch;

use crate::{catalog::View, data_plane::DataPlane};

#[derive(Clone, Copy, Debug)]
pub struct Component {
    /// As it is given to `--controllers`.
    pub name: &'static str,
    /// What it does, in a line.
    pub about: &'static str,
    /// Kinds that it adds to the API server.
    pub crds: fn() -> Vec<CustomResourceDefinition>,
    /// What it has to be allowed, and where.
    pub rules: &'static [Rule],
    pub reach: Reach,
    pub runs: Runs,
}

/// When a component runs.
#[derive(Clone, Copy, Debug)]
pub enum Runs {
    /// On every node, also on one that only takes calls. It cannot be switched off.
    Everywhere,
    /// On every node that may become the master. It cannot be switched off either.
    WithControllers,
    /// On the master, from the beginning of its term to the end.
    Leading(Lead),
    /// In `ballast up` only: elsewhere kube-controller-manager does it.
    Embedded,
}

#[derive(Clone, Copy, Debug)]
pub struct Lead {
    /// What every node watches that may become the master, so that a new one begins with full caches.
    pub watch: Option<fn(&Engine, &Settings) -> Scope>,
    /// Whatever it does ends with what it returns.
    pub start: fn(Context) -> BoxFuture<'static, Running>,
}

/// A rule of a role, as in RBAC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    pub group: &'static str,
    pub resources: &'static [&'static str],
    pub verbs: &'static [&'static str],
}

/// In which namespaces the rules have to hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// In the one whose functions on demand are served.
    Served,
    /// In all, or in the one that `--function-namespace` names.
    Chosen,
    /// In all, and for objects that are in none.
    Cluster,
}

/// What a controller is started with. Cheap to clone.
#[derive(Clone)]
pub struct Context {
    pub engine: Engine,
    /// Asked right before each write.
    pub fence: Fence,
    pub store: store::Shared,
    /// Where decisions are noted.
    pub history: History,
    /// Which policy has which object.
    pub claims: Claims,
    pub settings: Arc<Settings>,
    pub on_demand: OnDemand,
}

/// What the command line says to controllers, in terms that belong to none of them.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// Objects of this namespace only; without it, of all. For those whose reach is [`Reach::Chosen`].
    pub only_namespace: Option<String>,
    /// Workloads of all namespaces may be read.
    pub sees_all_namespaces: bool,
    /// A directory for what is of no use after a restart.
    pub scratch: PathBuf,
    /// Git servers may be on loopback, link-local and private addresses.
    pub git_private_addresses: bool,
    /// User names and passwords may be sent to Git servers unencrypted.
    pub git_credentials_over_http: bool,
    /// All that git sees of the environment.
    pub git_environment: BTreeMap<String, String>,
    /// What moves the messages of pipelines; without it there are none.
    pub pipelines: Option<DataPlane>,
}

/// The functions on demand of this node, and what is measured of them.
#[derive(Clone)]
pub struct OnDemand {
    /// The namespace that is served.
    pub namespace: Arc<str>,
    pub view: watch::Receiver<Arc<View>>,
    pub activity: Activity,
    pub database: Database,
    /// Changes with every scrape, or snapshot of another node's scrapes.
    pub scraped: watch::Receiver<u64>,
    pub scrape_interval: Duration,
}

/// A controller that runs, for as long as this is there.
pub struct Running {
    pub scope: Scope,
    /// What it shows on pages of metrics.
    pub gauges: Option<Gauges>,
}

pub type Gauges = Arc<dyn Fn() -> Vec<Gauge> + Send + Sync>;

// === impl Component ===

impl Component {
    /// Whether `--controllers` may leave it out.
    pub fn is_optional(&self) -> bool {
        matches!(self.runs, Runs::Leading(_) | Runs::Embedded)
    }
}

// === impl Rule ===

impl Rule {
    pub const fn new(
        group: &'static str,
        resources: &'static [&'static str],
        verbs: &'static [&'static str],
    ) -> Self {
        Self { group, resources, verbs }
    }
}

// === impl Running ===

impl From<Scope> for Running {
    fn from(scope: Scope) -> Self {
        Self { scope, gauges: None }
    }
}
