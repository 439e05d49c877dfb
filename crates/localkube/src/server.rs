//! The server itself: what all requests share.

use std::{
    collections::HashMap,
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock},
    time::Duration,
};

use jiff::Timestamp;
use serde_json::Value;

use crate::{
    bootstrap,
    call::{Call, Warnings},
    crd, expiry,
    http::{ListenError, ListenOptions, Listener, Query, Target, User},
    object,
    registry::{Kind, Registry},
    service_ips::Taken,
    storage::{self, Draft, Storage, Store, Stored},
};

#[derive(Clone, Debug)]
pub struct Options {
    pub storage: Storage,
    /// How long Events are kept.
    pub event_ttl: Duration,
    /// What nodes ask for before they tell logs and metrics.
    pub kubelet_token: Option<String>,
}

impl Default for Options {
    fn default() -> Self {
        Self { storage: Storage::Memory, event_ttl: Duration::from_secs(3600), kubelet_token: None }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error(transparent)]
    Storage(#[from] storage::Error),
    #[error("the stored object {table}/{key} cannot be read: {why}")]
    Corrupt { table: String, key: String, why: String },
    #[error("cannot create what every cluster has: {0}")]
    Bootstrap(String),
}

/// An API server. Clones are cheap and are the same server.
#[derive(Clone)]
pub struct ApiServer(Arc<Inner>);

struct Inner {
    store: Store,
    registry: RwLock<Arc<Registry>>,
    tokens: RwLock<HashMap<String, (User, Option<Timestamp>)>>,
    address: Mutex<Option<SocketAddr>>,
    metrics: crate::metrics_api::Samples,
    taken_by_services: Mutex<Taken>,
    kubelet_token: Option<String>,
}

// === impl ApiServer ===

impl ApiServer {
    pub async fn open(options: Options) -> Result<Self, OpenError> {
        let (store, stored) = Store::open(&options.storage)?;
        let registry = Registry::builtin(&store);
        let server = Self(Arc::new(Inner {
            registry: RwLock::new(Arc::new(registry)),
            tokens: RwLock::default(),
            address: Mutex::default(),
            metrics: crate::metrics_api::Samples::default(),
            taken_by_services: Mutex::default(),
            kubelet_token: options.kubelet_token,
            store,
        }));
        server.restore(stored)?;
        bootstrap::run(&server).await.map_err(|error| OpenError::Bootstrap(error.to_string()))?;
        tokio::spawn(expiry::run(server.downgrade(), options.event_ttl));
        Ok(server)
    }

    /// A client of this server that needs no socket.
    pub fn client(&self, default_namespace: impl Into<String>) -> kube::Client {
        kube::Client::new(self.clone(), default_namespace)
    }

    pub async fn listen(&self, options: ListenOptions) -> Result<Listener, ListenError> {
        Listener::start(self.clone(), options).await
    }

    /// Whether writes are accepted.
    ///
    /// # Errors
    /// When they are not, with the reason and what to do.
    pub fn ready(&self) -> Result<(), String> {
        self.0.store.trouble().map_or(Ok(()), |trouble| Err(trouble.to_string()))
    }

    /// Forgets the past, as etcd does from time to time: watches and lists from before answer 410.
    pub fn compact(&self) {
        self.0.store.compact();
    }

    fn restore(&self, stored: Vec<Stored>) -> Result<(), OpenError> {
        // Definitions first: they tell what is selectable in the objects of their kinds.
        let (definitions, objects): (Vec<_>, Vec<_>) =
            stored.into_iter().partition(|one| one.table == crd::TABLE);
        for group in [definitions, objects] {
            for Stored { table, key, json } in group {
                let corrupt =
                    |why: String| OpenError::Corrupt { table: table.clone(), key: key.clone(), why };
                let value: Value =
                    serde_json::from_slice(&json).map_err(|error| corrupt(error.to_string()))?;
                let revision = object::resource_version(&value)
                    .parse()
                    .map_err(|_| corrupt("it has no resource version".to_owned()))?;
                let registry = self.registry();
                let selectable = registry.of_table(&table).map_or(&[][..], |kind| &kind.selectable);
                let record = Draft::new(&key, &value, selectable).finish(revision);
                self.0.store.restore(self.0.store.table(&table), [record]);
                if table == crd::TABLE {
                    self.definition_changed(&value);
                }
            }
        }
        Ok(())
    }

    pub(crate) fn store(&self) -> &Store {
        &self.0.store
    }

    pub(crate) fn registry(&self) -> Arc<Registry> {
        self.0.registry.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The kind in whose form the objects of `kind`'s table are kept.
    pub(crate) fn table_kind(&self, kind: &Arc<Kind>) -> Arc<Kind> {
        self.registry().of_table(&kind.table_name).unwrap_or(kind).clone()
    }

    pub(crate) fn kubelet_token(&self) -> Option<&str> {
        self.0.kubelet_token.as_deref()
    }

    pub(crate) fn metrics(&self) -> &crate::metrics_api::Samples {
        &self.0.metrics
    }

    pub(crate) fn taken_by_services(&self) -> MutexGuard<'_, Taken> {
        self.0.taken_by_services.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Serves the kind of a definition from now on, or starts to clean up behind it.
    pub(crate) fn definition_changed(&self, definition: &Value) {
        let name = object::name(definition).to_owned();
        let mut registry = self.0.registry.write().unwrap_or_else(PoisonError::into_inner);
        // Of two writes at the same time the later one counts, whoever comes here first.
        let table = self.0.store.table(crd::TABLE);
        let latest = self.0.store.get(table, &name).map(|record| record.to_value());
        let latest = latest.as_ref().unwrap_or(definition);
        *registry = Arc::new(if crd::is_established(latest) {
            registry.with_custom(latest, &self.0.store)
        } else {
            registry.without_custom(latest)
        });
        drop(registry);
        if crd::needs_cleanup(latest) {
            tokio::spawn(crd::clean_up(self.clone(), name));
        }
    }

    pub(crate) fn definition_removed(&self, definition: &Value) {
        let mut registry = self.0.registry.write().unwrap_or_else(PoisonError::into_inner);
        *registry = Arc::new(registry.without_custom(definition));
        drop(registry);
        // Whoever watches the kind has to hear that it is gone.
        self.0.store.wake(self.0.store.table(object::name(definition)));
    }

    pub(crate) fn admit_token(&self, token: &str, user: User, until: Option<Timestamp>) {
        let mut tokens = self.0.tokens.write().unwrap_or_else(PoisonError::into_inner);
        let now = Timestamp::now();
        tokens.retain(|_, (_, until)| until.is_none_or(|until| until > now));
        tokens.insert(token.to_owned(), (user, until));
    }

    pub(crate) fn issue_token(&self, user: User, until: Option<Timestamp>) -> String {
        let token = new_token();
        self.admit_token(&token, user, until);
        token
    }

    pub(crate) fn user_of(&self, token: &str) -> Option<User> {
        let tokens = self.0.tokens.read().unwrap_or_else(PoisonError::into_inner);
        let (user, until) = tokens.get(token)?;
        until.is_none_or(|until| until > Timestamp::now()).then(|| user.clone())
    }

    pub(crate) fn set_address(&self, addr: SocketAddr) {
        *self.0.address.lock().unwrap_or_else(PoisonError::into_inner) = Some(addr);
    }

    /// Where the listener is; empty without one.
    pub(crate) fn address(&self) -> String {
        let address = self.0.address.lock().unwrap_or_else(PoisonError::into_inner);
        address.map(|addr| addr.to_string()).unwrap_or_default()
    }

    pub(crate) fn downgrade(&self) -> WeakServer {
        WeakServer(Arc::downgrade(&self.0))
    }
}

/// For background work that must not keep the server alive.
pub(crate) struct WeakServer(std::sync::Weak<Inner>);

impl WeakServer {
    pub fn upgrade(&self) -> Option<ApiServer> {
        self.0.upgrade().map(ApiServer)
    }
}

impl Call {
    /// A request of the server to itself, in the version in which the kind is kept.
    pub fn internal(server: &ApiServer, kind: &Arc<Kind>, namespace: &str, name: &str) -> Self {
        Self {
            server: server.clone(),
            version: kind.storage_version,
            target: Target {
                group: kind.group.to_string(),
                version: kind.versions[kind.storage_version].name.to_string(),
                namespace: namespace.to_owned(),
                resource: kind.plural.to_string(),
                name: name.to_owned(),
                ..Target::default()
            },
            kind: kind.clone(),
            query: Query::default(),
            headers: ::http::HeaderMap::new(),
            user: User::admin(),
            manager: "ballast".to_owned(),
            now: Timestamp::now(),
            warnings: Arc::new(Warnings::default()),
            upgrade: None,
        }
    }
}

/// 256 random bits.
pub fn new_token() -> String {
    use rand::Rng;
    let mut bytes = [0_u8; 32];
    rand::rng().fill(&mut bytes);
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
