//! One node of Ballast: what `ballast up` and `ballast serve` have in common.
//!
//! ```text
//! watches ──▶ catalog ──▶ gateway ◀── calls
//!                │           │ activity, shared with the other nodes through the store
//!                ▼           ▼
//!            scraping ──▶ demand ──▶ scale writes (the master's)
//! ```

mod actions;
mod exposed;
mod mastership;
mod objects;

use std::{
    net::{Ipv4Addr, SocketAddr},
    sync::{Arc, OnceLock},
    time::Duration,
};

use admin::Operator;
use anyhow::{Context, Result};
use controllers::{
    Context as Start, OnDemand, Settings, catalog,
    roles::{self, Handle},
    scraping,
};
use engine::{Engine, Scope, Supervisor};
use exposed::Figures;
pub use exposed::LAST_CALL;
use gateway::{Dispatcher, Gateway, OperatorPaths};
use mastership::{Led, Mastership};
use metrics::{
    Database,
    scrape::{self, Scraper, SystemClock},
};
use objects::Objects;
use ondemand::{
    Activity, Catalog,
    sharing::{self, Sharing},
};
use scaling::{Claims, History};
use tokio::{net::TcpListener, sync::watch, task::JoinHandle};
use tokio_util::sync::CancellationToken;

use crate::{components::Chosen, what_if::WhatIf};

#[derive(Clone, Debug)]
pub struct Options {
    pub namespace: String,
    /// Unique among the nodes, and the same after a restart.
    pub node: String,
    pub gateway: Listen,
    pub gateway_options: gateway::Options,
    pub operator: Listen,
    pub operator_token: Option<String>,
    pub leadership: Leadership,
    pub scrape_interval: Duration,
    /// What it runs beside the gateway, and what these are told.
    pub components: Chosen,
    pub settings: Settings,
    /// Whether pods may have addresses of this machine, as those of the process node do.
    pub loopback_pods: bool,
    /// Where decisions are noted; others in this process may add theirs.
    pub history: History,
    /// What `/ready` asks too.
    pub also_ready: Check,
}

/// Whether something is as it should be, or why not.
#[derive(Clone)]
pub struct Check(Arc<dyn Fn() -> Result<(), String> + Send + Sync>);

impl Check {
    pub fn new(check: impl Fn() -> Result<(), String> + Send + Sync + 'static) -> Self {
        Self(Arc::new(check))
    }

    pub fn run(&self) -> Result<(), String> {
        (self.0)()
    }
}

impl std::fmt::Debug for Check {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Check")
    }
}

/// Where to listen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listen {
    At(SocketAddr),
    /// This port of 127.0.0.1, or a free one if it is in use.
    Usually(u16),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leadership {
    /// There is only this node.
    Alone,
    /// Others decide and write: this node only takes calls.
    Never,
    /// Leases decide, each for so long.
    Lease(Duration),
}

impl Listen {
    pub fn is_loopback(&self) -> bool {
        match self {
            Listen::At(addr) => addr.ip().to_canonical().is_loopback(),
            Listen::Usually(_) => true,
        }
    }
}

/// A running node.
pub struct ControlPlane {
    pub gateway: SocketAddr,
    pub operator: SocketAddr,
    view: watch::Receiver<Arc<catalog::View>>,
    stop_serving: CancellationToken,
    served: Vec<JoinHandle<()>>,
    stop: CancellationToken,
    roles: Option<JoinHandle<()>>,
    supervisor: Supervisor,
    /// What is watched, for as long as the node runs.
    _scopes: Vec<Scope>,
}

impl ControlPlane {
    pub async fn start(engine: Engine, store: store::Shared, options: Options) -> Result<Self> {
        let (stop, stop_serving) = (CancellationToken::new(), CancellationToken::new());
        let supervisor = engine.supervisor().clone();
        let mut scopes = Vec::new();
        let (catalog, activity, led) = (Catalog::default(), Activity::default(), Led::default());
        let history = options.history.clone();

        let sharing = Sharing {
            activity: activity.clone(),
            catalog: catalog.clone(),
            store: store.clone(),
            node: options.node.as_str().into(),
        };
        // Before anything is decided: a function that was called a minute ago is not idle because we have just started.
        sharing::recall(&sharing).await;
        let stopped = stop.clone();
        supervisor.keep("sharing", move || sharing::run(sharing.clone(), stopped.clone()));

        // Before the catalog, which reads a part of it.
        let leading: Arc<[_]> = options.components.leading().collect();
        let watches = leading.iter().filter_map(|(_, lead)| lead.watch);
        scopes.extend(watches.map(|watch| watch(&engine, &options.settings)));
        let (view, watches, scope) = catalog::start(&engine, &options.namespace, catalog.clone());
        scopes.push(scope);
        let (roles, keep) = match options.leadership {
            Leadership::Alone => (Handle::alone(&options.node), None),
            Leadership::Never => (Handle::none(), None),
            Leadership::Lease(lease) => {
                let (namespace, node) = (options.namespace.clone(), options.node.clone());
                let options = roles::Options { namespace, node, lease };
                let (handle, keep) = roles::keep(engine.clone(), options, stop.clone().cancelled_owned());
                (handle, Some(keep))
            }
        };

        // It gives back the roles at the end, so it is not ended with the other tasks.
        let roles_kept = keep.map(|keep| {
            let (told, kept) = tokio::sync::oneshot::channel();
            let task = tokio::spawn(async move {
                keep.await;
                let _ = told.send(());
            });
            supervisor.run("roles", async move {
                // an error means that it panicked
                if kept.await.is_err() {
                    tracing::error!("the task that keeps the roles is gone");
                }
            });
            task
        });

        let database = Database::default();
        let scrape_options = scrape::Options {
            interval: options.scrape_interval,
            loopback: options.loopback_pods,
            ..scrape::Options::default()
        };
        let (scraper, scraping_handle) =
            Scraper::new(database.clone(), scrape_options, Arc::new(SystemClock));
        supervisor.run("scraper", scraper.run(stop.clone().cancelled_owned()));

        let objects = Objects::new(&engine, &history, &led, &options);
        let operator_options = admin::Options {
            token: options.operator_token.clone(),
            decisions: Some(exposed::decisions(&history)),
            objects: Some(objects.feed()),
            ..admin::Options::default()
        };
        let figures = Figures {
            led: led.clone(),
            history: history.clone(),
            namespace: options.namespace.as_str().into(),
            scraper: scraping_handle.clone(),
            gateway: Arc::new(OnceLock::new()),
            catalog: catalog.clone(),
            roles: roles.clone(),
            watches,
            supervisor: supervisor.clone(),
        };
        let of_operator = figures.clone();
        let exposed = move || [of_operator.of_node(), of_operator.of_gateway()].concat();
        let operator = Operator::new(
            database.clone(),
            Some(scraping_handle.clone()),
            vec![Arc::new(exposed)],
            operator_options,
        );

        let what_if = WhatIf::new(&history, &catalog, &database, engine.client(), options.scrape_interval);
        let actions = actions::answer(what_if, objects, engine.client().clone());
        let operator = exposed::with_gateway(operator, actions, &figures, &options);
        let mounted = (options.gateway_options.operator_paths != OperatorPaths::Off).then_some(&operator);
        let hooks = exposed::hooks(&figures, mounted, &view, options.also_ready.clone());
        let gateway = Gateway::new(gateway::Parts {
            catalog: catalog.clone(),
            activity: activity.clone(),
            store: store.clone(),
            options: options.gateway_options.clone(),
            hooks,
        });

        let (dispatching, may_dispatch) = watch::channel(false);
        let changes = roles.changes();
        supervisor.keep("mastership", move || mastership::follow(changes.clone(), dispatching.clone()));
        let dispatcher = Dispatcher::new(gateway.clone(), options.node.clone(), may_dispatch);
        // set once: it was just made
        let _ = figures.gateway.set((gateway.clone(), dispatcher.gauges()));
        supervisor.run("dispatcher", dispatcher.run(stop.clone()));
        let (scraped, keep) = scraping::keep(
            scraping::Parts {
                view: view.clone(),
                database: database.clone(),
                scraper: scraping_handle,
                roles: roles.clone(),
                store: store.clone(),
                node: options.node.clone(),
                interval: options.scrape_interval,
                own: exposed::own_gauges(
                    catalog,
                    activity.clone(),
                    store.clone(),
                    history.clone(),
                    database.clone(),
                ),
            },
            stop.clone().cancelled_owned(),
        );
        supervisor.run("scraping", keep);
        let followed = (history.clone(), store.clone());
        supervisor.keep("decision history", move || {
            let (history, store) = followed.clone();
            async move { history.follow(&store).await }
        });
        if options.leadership != Leadership::Never {
            let on_demand = OnDemand {
                namespace: options.namespace.as_str().into(),
                view: view.clone(),
                activity,
                database,
                scraped,
                scrape_interval: options.scrape_interval,
            };
            let settings = Arc::new(options.settings.clone());
            let (fence, claims) = (roles.fence(), Claims::default());
            let context = Start { engine, fence, store, history, claims, settings, on_demand };
            let mastership = Mastership { controllers: leading, context, roles, led };
            supervisor.keep("controllers", move || mastership.clone().run());
        }

        let (gateway_addr, gateway_task) =
            listen(options.gateway, "gateway", async |addr| gateway.listen(addr, stop_serving.clone()).await)
                .await?;
        let (operator_addr, operator_task) = listen(options.operator, "operator", async |addr| {
            let listener = TcpListener::bind(addr).await?;
            let addr = listener.local_addr()?;
            let serve = admin::listen(listener, operator.clone(), stop.clone().cancelled_owned());
            Ok((addr, tokio::spawn(serve)))
        })
        .await?;
        Ok(ControlPlane {
            gateway: gateway_addr,
            operator: operator_addr,
            view,
            stop_serving,
            served: vec![gateway_task, operator_task],
            stop,
            roles: roles_kept,
            supervisor,
            _scopes: scopes,
        })
    }

    /// Until the functions of the cluster are known: before, a call is told to come again.
    pub async fn known(&self) {
        // the sender ends with this node
        let _ = self.view.clone().wait_for(|view| view.complete).await;
    }

    /// Resolves when a part is gone that the node cannot do without, with what happened.
    pub async fn failed(&self) -> anyhow::Error {
        anyhow::anyhow!("{}: ending, so that this node is started anew", self.supervisor.failed().await)
    }

    /// Lets calls under way end, then gives back the roles.
    pub async fn stop(mut self) {
        self.supervisor.begin_stop();
        self.stop_serving.cancel();
        if let Some(gateway) = self.served.first_mut() {
            let _ = gateway.await;
        }
        self.stop.cancel();
        if let Some(roles) = self.roles {
            let _ = roles.await;
        }
        self.supervisor.shutdown().await;
        for task in self.served {
            task.abort();
        }
    }
}

async fn listen(
    listen: Listen,
    what: &str,
    at: impl AsyncFn(SocketAddr) -> std::io::Result<(SocketAddr, JoinHandle<()>)>,
) -> Result<(SocketAddr, JoinHandle<()>)> {
    let local = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    match listen {
        Listen::At(addr) => at(addr)
            .await
            .with_context(|| format!("failed to serve the {what} on {addr}: choose another --{what}-addr")),
        Listen::Usually(port) => match at(local(port)).await {
            Ok(listening) => Ok(listening),
            Err(_) => at(local(0)).await.with_context(|| format!("failed to serve the {what}")),
        },
    }
}
