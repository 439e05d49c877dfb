//! Which node does what only one may do: Leases give out the roles.
//!
//! - `ballast-master` decides and writes replica counts and sends out queued calls,
//! - `ballast-scraper` asks pods for their metrics; another node than the master's if there is one,
//! - `ballast-node-{name}` tells that a node is there.
//!
//! A lease counts as expired when this node has not seen it renewed for its duration, by this node's own clock: clocks
//! of different nodes are never compared. A master stops writing when its own last renewal is that old, so an old master
//! that was paused finds its time over before anybody else's begins.

mod held;
mod plan;
mod shown;
#[cfg(test)]
mod tests;

use std::{
    collections::HashMap,
    future::Future,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use engine::{Cached, Engine, Fence, Reflects, Scope, Selection};
use jiff::Timestamp;
use k8s_openapi::{
    api::coordination::v1::{Lease, LeaseSpec},
    apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta},
};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, PostParams},
};
use tokio::sync::{Notify, watch};

use crate::component::{Component, Reach, Rule, Runs};
use held::{Held, holds, lapse, lock};
use plan::{Action, Seen, plan};

pub const MASTER: &str = "ballast-master";
pub const SCRAPER: &str = "ballast-scraper";
const PRESENCE: &str = "ballast-node-";
/// On every lease of ours.
const LABEL: (&str, &str) = ("app.kubernetes.io/part-of", "ballast");

pub const COMPONENT: Component = Component {
    name: "roles",
    about: "which node decides and writes, and which one scrapes: Leases",
    crds: Vec::new,
    rules: &[Rule::new("coordination.k8s.io", &["leases"], &["list", "watch", "create", "update", "delete"])],
    reach: Reach::Served,
    runs: Runs::WithControllers,
};

#[derive(Clone, Debug)]
pub struct Options {
    pub namespace: String,
    /// Unique among the nodes. A process that starts under the name of a dead one takes over its leases at once.
    pub node: String,
    pub lease: Duration,
}

/// What this node is, as others on it see it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Roles {
    pub master: bool,
    pub scraper: bool,
    /// Who is the master, as far as this node knows.
    pub master_name: Option<String>,
    /// Nodes that are there, this one included.
    pub nodes: usize,
}

/// How others on this node learn of its roles. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Handle {
    roles: watch::Receiver<Roles>,
    held: Arc<Mutex<Held>>,
    /// How long a lease lasts, if there are any.
    lease: Option<Duration>,
    began: Instant,
}

impl Handle {
    pub fn current(&self) -> Roles {
        self.roles.borrow().clone()
    }

    pub fn changes(&self) -> watch::Receiver<Roles> {
        self.roles.clone()
    }

    /// Whether this node may write now. To be asked right before a write.
    pub fn is_master(&self) -> bool {
        holds(lock(&self.held).master, Instant::now())
    }

    /// For a node that only serves: it is never master nor scraper, and writes no lease.
    pub fn none() -> Self {
        Handle {
            roles: watch::channel(Roles::default()).1,
            held: Arc::default(),
            lease: None,
            began: Instant::now(),
        }
    }

    /// Asked right before each write.
    pub fn fence(&self) -> Fence {
        if self.lease.is_none() && self.is_master() {
            return Fence::open();
        }
        let roles = self.clone();
        Fence::new(move || roles.is_master())
    }

    /// For a node that is all there is, and for tests: always master and scraper.
    pub fn alone(name: &str) -> Self {
        let roles = Roles { master: true, scraper: true, master_name: Some(name.to_owned()), nodes: 1 };
        let began = Instant::now();
        let far = Some(began + Duration::from_secs(100 * 365 * 24 * 3600));
        let held = Held { master: far, scraper: far, renewed: None };
        Handle { roles: watch::channel(roles).1, held: Arc::new(Mutex::new(held)), lease: None, began }
    }
}

struct Keeper {
    api: Api<Lease>,
    options: Options,
    cache: Cached<Lease>,
    _scope: Scope,
    changed: Arc<Notify>,
    /// When each lease was last seen to change.
    seen: HashMap<String, (LeaseSpec, Instant)>,
    /// What this node wrote last, until the watch shows it.
    written: HashMap<String, Lease>,
    held: Arc<Mutex<Held>>,
    roles: watch::Sender<Roles>,
}

/// The handle, and what keeps it true until `shutdown`; then roles are given back.
pub fn keep(
    engine: Engine,
    options: Options,
    shutdown: impl Future<Output = ()> + Send,
) -> (Handle, impl Future<Output = ()> + Send) {
    let (sender, roles) = watch::channel(Roles::default());
    let handle = Handle { roles, held: Arc::default(), lease: Some(options.lease), began: Instant::now() };
    let changed = Arc::new(Notify::new());
    let scope = engine.scope("roles");
    let cache: Cached<Lease> = scope.cache(Selection::namespace(&options.namespace).and_label(LABEL));
    let told = changed.clone();
    cache.listen(move |_| told.notify_one());
    let keeper = Keeper {
        api: Api::namespaced(engine.client().clone(), &options.namespace),
        options,
        cache,
        _scope: scope,
        changed,
        seen: HashMap::new(),
        written: HashMap::new(),
        held: handle.held.clone(),
        roles: sender.clone(),
    };
    let (held, look_every) = (handle.held.clone(), keeper.options.lease / 3);
    let run = async move {
        let mut keeper = keeper;
        tokio::select! {
            () = keeper.run() => {}
            () = lapse(&held, &sender, look_every) => {}
            () = shutdown => {}
        }
        keeper.give_back().await;
    };
    (handle, run)
}

impl Keeper {
    async fn run(&mut self) {
        self.cache.synced().await;
        // A third, so that two renewals may fail before anybody notices.
        let mut renew = tokio::time::interval(self.options.lease / 3);
        renew.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            self.turn().await;
            let expiry = self.next_expiry();
            tokio::select! {
                _ = renew.tick() => {}
                () = self.changed.notified() => {}
                () = tokio::time::sleep_until(expiry.into()) => {}
            }
        }
    }

    async fn turn(&mut self) {
        let now = Instant::now();
        let leases = self.observe(now);
        let fresh_enough = self.options.lease / 4;
        for action in plan(&self.options.node, fresh_enough, now, &leases) {
            self.carry_out(&action, now).await;
        }
        self.tell();
    }

    /// What the cache holds, each with the moment of its last change as seen from here.
    fn observe(&mut self, now: Instant) -> HashMap<String, Seen> {
        let mut leases = HashMap::new();
        let cached: HashMap<String, Arc<Lease>> =
            self.cache.all().into_iter().map(|lease| (lease.name_any(), lease)).collect();
        self.written.retain(|name, own| cached.get(name).is_none_or(|known| version(known) < version(own)));
        let own = self.written.values().map(|own| Arc::new(own.clone()));
        let known = cached.values().filter(|lease| !self.written.contains_key(&lease.name_any())).cloned();
        for lease in own.chain(known).collect::<Vec<_>>() {
            let name = lease.name_any();
            if name != MASTER && name != SCRAPER && !name.starts_with(PRESENCE) {
                continue;
            }
            let spec = lease.spec.clone().unwrap_or_default();
            let since = match self.seen.get(&name) {
                Some((known, since)) if *known == spec => *since,
                _ => now,
            };
            self.seen.insert(name.clone(), (spec.clone(), since));
            leases.insert(name, Seen::new(&spec, since, lease.resource_version()));
        }
        self.seen.retain(|name, _| leases.contains_key(name));
        leases
    }

    /// When a lease that another node holds may have run out.
    fn next_expiry(&self) -> Instant {
        let others = self.seen.iter().filter(|(name, (spec, _))| {
            (*name == MASTER || *name == SCRAPER)
                && spec.holder_identity.as_deref().is_some_and(|holder| holder != self.options.node)
        });
        let now = Instant::now();
        let expiries = others.map(|(_, (spec, since))| *since + plan::duration(spec)).filter(|at| *at > now);
        expiries.min().unwrap_or(now + self.options.lease) + Duration::from_millis(1)
    }

    async fn carry_out(&mut self, action: &Action, now: Instant) {
        let patience = self.options.lease;
        let (name, result) = match action {
            Action::Hold { name, version, transitions } => {
                let lease = self.lease(name, version.as_deref(), *transitions, Some(&self.options.node));
                (name, in_time(patience, self.write(lease)).await.map(Some))
            }
            Action::Release { name, version, transitions } => {
                // Stops acting before others may begin.
                self.forget(name);
                let lease = self.lease(name, Some(version), *transitions, None);
                (name, in_time(patience, self.write(lease)).await.map(Some))
            }
            Action::Remove { name } => {
                self.written.remove(name);
                let params = DeleteParams::default();
                (name, in_time(patience, self.api.delete(name, &params)).await.map(|_| None))
            }
        };
        match result {
            Ok(written) => {
                if let Some(written) = written {
                    self.written.insert(name.clone(), written);
                }
                if matches!(action, Action::Hold { .. }) {
                    // From before it was written, as others cannot have seen it earlier.
                    lock(&self.held).renewed = Some(now);
                    self.hold(name, now + self.options.lease);
                }
            }
            Err(error) => {
                self.written.remove(name);
                match error {
                    WriteError::Api(kube::Error::Api(status)) if status.code == 409 => {
                        tracing::debug!(lease = name, "somebody else was faster");
                        // or the watch has lost an event, and would go on to show an old version
                        self.cache.request_relist();
                    }
                    error => tracing::warn!(lease = name, %error, "could not write the lease"),
                }
            }
        }
    }

    fn lease(&self, name: &str, version: Option<&str>, transitions: i32, holder: Option<&str>) -> Lease {
        let now = MicroTime(Timestamp::now());
        let acquired = self.seen.get(name).and_then(|(spec, _)| {
            let same = spec.holder_identity.as_deref() == holder;
            spec.acquire_time.clone().filter(|_| same)
        });
        Lease {
            metadata: ObjectMeta {
                name: Some(name.to_owned()),
                resource_version: version.map(str::to_owned),
                labels: Some([(LABEL.0.to_owned(), LABEL.1.to_owned())].into()),
                ..ObjectMeta::default()
            },
            spec: Some(LeaseSpec {
                holder_identity: Some(holder.unwrap_or_default().to_owned()),
                lease_duration_seconds: i32::try_from(self.options.lease.as_secs().max(1)).ok(),
                acquire_time: acquired.or_else(|| Some(now.clone())),
                renew_time: Some(now),
                lease_transitions: Some(transitions),
                ..LeaseSpec::default()
            }),
        }
    }

    async fn write(&self, lease: Lease) -> Result<Lease, kube::Error> {
        let params = PostParams::default();
        match lease.metadata.resource_version.is_some() {
            true => self.api.replace(&lease.name_any(), &params, &lease).await,
            false => self.api.create(&params, &lease).await,
        }
    }

    fn hold(&mut self, name: &str, until: Instant) {
        match name {
            MASTER => lock(&self.held).master = Some(until),
            SCRAPER => lock(&self.held).scraper = Some(until),
            _ => {}
        }
    }

    fn forget(&mut self, name: &str) {
        match name {
            MASTER => lock(&self.held).master = None,
            SCRAPER => lock(&self.held).scraper = None,
            _ => {}
        }
    }

    fn tell(&self) {
        let now = Instant::now();
        let held = *lock(&self.held);
        let me = &self.options.node;
        let leases: HashMap<String, Seen> = self
            .seen
            .iter()
            .map(|(name, (spec, since))| (name.clone(), Seen::new(spec, *since, None)))
            .collect();
        let master = holds(held.master, now);
        let known = leases.get(MASTER).filter(|seen| !seen.is_free(now)).and_then(|seen| seen.holder.clone());
        let roles = Roles {
            master,
            scraper: holds(held.scraper, now),
            master_name: if master { Some(me.clone()) } else { known.filter(|holder| holder != me) },
            nodes: plan::nodes(me, now, &leases),
        };
        self.roles.send_if_modified(|known| {
            let is_new = *known != roles;
            if is_new {
                tracing::info!(master = roles.master, scraper = roles.scraper, nodes = roles.nodes, "roles");
                *known = roles;
            }
            is_new
        });
    }

    /// So that others need not wait for the leases to run out.
    async fn give_back(&mut self) {
        let leases = self.observe(Instant::now());
        self.forget(MASTER);
        self.forget(SCRAPER);
        self.tell();
        for action in plan::leave(&self.options.node, &leases) {
            self.carry_out(&action, Instant::now()).await;
        }
    }
}

#[derive(Debug, thiserror::Error)]
enum WriteError {
    #[error(transparent)]
    Api(#[from] kube::Error),
    #[error("no answer within {0:?}")]
    NoAnswer(Duration),
}

/// A lease that is written later than it lasts is of no use, and until then nothing else could be written.
async fn in_time<T>(
    patience: Duration,
    write: impl Future<Output = Result<T, kube::Error>>,
) -> Result<T, WriteError> {
    match tokio::time::timeout(patience, write).await {
        Ok(written) => Ok(written?),
        Err(_) => Err(WriteError::NoAnswer(patience)),
    }
}

/// Versions are compared as numbers, which the API promises since 1.35.
fn version(lease: &Lease) -> u64 {
    lease.resource_version().and_then(|version| version.parse().ok()).unwrap_or(0)
}
