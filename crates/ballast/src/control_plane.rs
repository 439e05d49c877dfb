//! One node of Ballast: what `ballast up` and `ballast serve` have in common.
//!
//! ```text
//! watches ──▶ catalog ──▶ gateway ◀── calls
//!                │           │ activity, shared with the other nodes through the store
//!                ▼           ▼
//!            scraping ──▶ demand ──▶ scale writes (the master's)
//! ```

mod exposed;
mod mastership;

use std::{
    net::{Ipv4Addr, SocketAddr},
    sync::{Arc, OnceLock},
    time::Duration,
};

use anyhow::{Context, Result};
use controllers::{
    catalog, demand, function,
    roles::{self, Handle},
    scraping,
};
use exposed::Figures;
use functions::{
    Activity, Catalog,
    sharing::{self, Sharing},
};
use gateway::{Dispatcher, Gateway};
use metrics::{
    Database,
    scrape::{self, Scraper, SystemClock},
};
use operator::Operator;
use tokio::{
    net::TcpListener,
    sync::watch,
    task::{JoinHandle, JoinSet},
};
use tokio_util::sync::CancellationToken;

#[derive(Clone, Debug)]
pub struct Options {
    pub namespace: String,
    /// Unique among the nodes, and the same after a restart.
    pub node: String,
    pub gateway: Listen,
    pub gateway_options: gateway::Options,
    pub operator: Listen,
    pub operator_token: Option<String>,
    /// Whether debug and query paths are served on the gateway's port too.
    pub debug_on_gateway: bool,
    pub leadership: Leadership,
    pub scrape_interval: Duration,
    /// Whether Kyma's Functions are looked after too.
    pub functions: Option<function::Options>,
    /// Whether pods may have addresses of this machine, as those of the process node do.
    pub loopback_pods: bool,
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
    /// Leases decide, each for so long.
    Lease(Duration),
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
    tasks: JoinSet<()>,
}

impl ControlPlane {
    pub async fn start(client: kube::Client, store: store::Shared, options: Options) -> Result<Self> {
        let (stop, stop_serving) = (CancellationToken::new(), CancellationToken::new());
        let mut tasks = JoinSet::new();
        let (catalog, activity, decisions) =
            (Catalog::default(), Activity::default(), demand::Decisions::default());

        let sharing = Sharing {
            activity: activity.clone(),
            catalog: catalog.clone(),
            store: store.clone(),
            node: options.node.as_str().into(),
        };
        // Before anything is decided: a function that was called a minute ago is not idle because we have just started.
        sharing::recall(&sharing).await;
        tasks.spawn(sharing::run(sharing, stop.clone()));

        let (view, watches) = catalog::start(&client, &options.namespace, catalog.clone(), &mut tasks);
        let (roles, keeping) = match options.leadership {
            Leadership::Alone => (Handle::alone(&options.node), None),
            Leadership::Lease(lease) => {
                let (namespace, node) = (options.namespace.clone(), options.node.clone());
                let options = roles::Options { namespace, node, lease };
                let (handle, keep) = roles::keep(client.clone(), options, stop.clone().cancelled_owned());
                (handle, Some(tokio::spawn(keep)))
            }
        };

        let database = Database::default();
        let scrape_options = scrape::Options {
            interval: options.scrape_interval,
            loopback: options.loopback_pods,
            ..scrape::Options::default()
        };
        let (scraper, scraping_handle) =
            Scraper::new(database.clone(), scrape_options, Arc::new(SystemClock));
        tasks.spawn(scraper.run(stop.clone().cancelled_owned()));

        let operator_options =
            operator::Options { token: options.operator_token.clone(), ..operator::Options::default() };
        let figures = Figures {
            decisions: decisions.clone(),
            scraper: scraping_handle.clone(),
            gateway: Arc::new(OnceLock::new()),
            catalog: catalog.clone(),
            roles: roles.clone(),
            watches,
        };
        let of_operator = figures.clone();
        let exposed = move || [of_operator.of_node(), of_operator.of_gateway()].concat();
        let operator = Operator::new(
            database.clone(),
            Some(scraping_handle.clone()),
            vec![Arc::new(exposed)],
            operator_options,
        );

        let mounted = options.debug_on_gateway.then_some(&operator);
        let hooks = exposed::hooks(&figures, mounted, &view);
        let gateway = Gateway::new(gateway::Parts {
            catalog: catalog.clone(),
            activity: activity.clone(),
            store: store.clone(),
            options: options.gateway_options.clone(),
            hooks,
        });

        let (dispatching, may_dispatch) = watch::channel(false);
        tasks.spawn(mastership::follow(roles.changes(), dispatching));
        let dispatcher = Dispatcher::new(gateway.clone(), options.node.clone(), may_dispatch.clone());
        // set once: it was just made
        let _ = figures.gateway.set((gateway.clone(), dispatcher.gauges()));
        tasks.spawn(dispatcher.run(stop.clone()));
        if let Some(options) = options.functions.clone() {
            tasks.spawn(mastership::function_controller(client.clone(), options, may_dispatch));
        }

        let (scraped, keep) = scraping::keep(
            scraping::Parts {
                view: view.clone(),
                database: database.clone(),
                scraper: scraping_handle,
                roles: roles.clone(),
                store: store.clone(),
                node: options.node.clone(),
                interval: options.scrape_interval,
                own: exposed::queue_gauges(catalog, store.clone()),
            },
            stop.clone().cancelled_owned(),
        );
        tasks.spawn(keep);
        tasks.spawn(demand::run(
            demand::Parts {
                client,
                view: view.clone(),
                activity,
                database,
                scraped,
                scrape_interval: options.scrape_interval,
                store,
                roles,
                decisions,
            },
            stop.clone().cancelled_owned(),
        ));

        let (gateway_addr, gateway_task) =
            listen(options.gateway, "gateway", async |addr| gateway.listen(addr, stop_serving.clone()).await)
                .await?;
        let (operator_addr, operator_task) = listen(options.operator, "operator", async |addr| {
            let listener = TcpListener::bind(addr).await?;
            let addr = listener.local_addr()?;
            let serve = operator::listen(listener, operator.clone(), stop.clone().cancelled_owned());
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
            roles: keeping,
            tasks,
        })
    }

    /// Until the functions of the cluster are known: before, a call is told to come again.
    pub async fn known(&self) {
        // the sender ends with this node
        let _ = self.view.clone().wait_for(|view| view.complete).await;
    }

    /// Lets calls under way end, then gives back the roles.
    pub async fn stop(mut self) {
        self.stop_serving.cancel();
        if let Some(gateway) = self.served.first_mut() {
            let _ = gateway.await;
        }
        self.stop.cancel();
        if let Some(roles) = self.roles {
            let _ = roles.await;
        }
        self.tasks.shutdown().await;
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
