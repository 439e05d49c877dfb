//! One node of Ballast: what `ballast up` and `ballast serve` have in common.
//!
//! ```text
//! watches ──▶ catalog ──▶ gateway ◀── calls
//!                │           │ activity, shared with the other nodes through the store
//!                ▼           ▼
//!            scraping ──▶ demand ──▶ scale writes (the master's)
//! ```

use std::{
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use anyhow::{Context, Result};
use controllers::{
    catalog, demand, function,
    roles::{self, Handle},
    scraping,
};
use functions::{Activity, Catalog};
use gateway::{Dispatcher, Gateway, Hooks};
use metrics::{
    Database, Gauge,
    scrape::{self, Scraper, SystemClock},
};
use serde_json::{Map, Value, json};
use tokio::{
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

        let view = catalog::start(&client, &options.namespace, catalog.clone(), &mut tasks);
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

        let hooks = hooks(&decisions, &view);
        let gateway = Gateway::new(gateway::Parts {
            catalog: catalog.clone(),
            activity: activity.clone(),
            store: store.clone(),
            options: gateway::Options::default(),
            hooks,
        });

        let (dispatching, may_dispatch) = watch::channel(false);
        tasks.spawn(follow_mastership(roles.changes(), dispatching));
        let dispatcher = Dispatcher::new(gateway.clone(), options.node.clone(), may_dispatch.clone());
        tasks.spawn(dispatcher.run(stop.clone()));
        if let Some(options) = options.functions.clone() {
            tasks.spawn(function_controller(client.clone(), options, may_dispatch));
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
                own: queue_gauges(catalog, store.clone()),
            },
            stop.clone().cancelled_owned(),
        );
        tasks.spawn(keep);
        tasks.spawn(demand::run(
            demand::Parts {
                client,
                view,
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
            listen(options.gateway, "gateway", |addr| gateway.listen(addr, stop_serving.clone())).await?;
        Ok(ControlPlane {
            gateway: gateway_addr,
            operator: gateway_addr,
            stop_serving,
            served: vec![gateway_task],
            stop,
            roles: keeping,
            tasks,
        })
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

async fn follow_mastership(mut roles: watch::Receiver<roles::Roles>, told: watch::Sender<bool>) {
    loop {
        let is_master = roles.borrow_and_update().master;
        told.send_if_modified(|known| std::mem::replace(known, is_master) != is_master);
        if roles.changed().await.is_err() {
            // a node that is alone stays what it is
            return std::future::pending().await;
        }
    }
}

/// Runs while this node is the master: two of them would argue about the same objects.
async fn function_controller(
    client: kube::Client,
    options: function::Options,
    mut is_master: watch::Receiver<bool>,
) {
    loop {
        if is_master.wait_for(|is_master| *is_master).await.is_err() {
            return;
        }
        let mut lost = is_master.clone();
        let until_lost = async move {
            let _ = lost.wait_for(|is_master| !*is_master).await;
        };
        function::run(client.clone(), options.clone(), until_lost).await;
    }
}

async fn listen<F>(
    listen: Listen,
    what: &str,
    mut at: impl FnMut(SocketAddr) -> F,
) -> Result<(SocketAddr, JoinHandle<()>)>
where
    F: Future<Output = std::io::Result<(SocketAddr, JoinHandle<()>)>>,
{
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

fn hooks(decisions: &demand::Decisions, view: &watch::Receiver<Arc<catalog::View>>) -> Hooks {
    let for_status = decisions.clone();
    let view = view.clone();
    Hooks {
        mounts: Vec::new(),
        metrics: None,
        status: Some(Arc::new(move |name: &str| last_decision(&for_status, name))),
        ready: Some(Arc::new(move || match view.borrow().complete {
            true => Ok(()),
            false => Err("the functions of the cluster are not known yet".into()),
        })),
    }
}

fn last_decision(decisions: &demand::Decisions, name: &str) -> Map<String, Value> {
    let Some(decided) = decisions.get(name) else { return Map::new() };
    let decision = &decided.decision;
    let last = json!({
        "At": decided.at,
        "Current": decision.current,
        "Desired": decision.desired,
        "Reason": decision.reason.code,
        "Why": decision.why(),
        "Steps": decision.steps,
        "NextCheck": decision.next_check,
    });
    Map::from_iter([("LastDecision".to_owned(), last)])
}

/// The queues of asynchronous calls, as triggers can ask for them.
fn queue_gauges(catalog: Catalog, store: store::Shared) -> scraping::OwnGauges {
    Arc::new(move || {
        let (catalog, store) = (catalog.clone(), store.clone());
        Box::pin(async move {
            let mut gauges = Vec::new();
            for name in catalog.current().functions.keys() {
                let Ok(counts) = store.counts(name).await else { continue };
                for (what, n) in [
                    ("ready", counts.ready),
                    ("in_flight", counts.in_flight),
                    ("retry_pending", counts.retry_pending),
                ] {
                    gauges.push(Gauge {
                        name: format!("slimfaas_function_queue_{what}_items"),
                        labels: vec![("function".to_owned(), name.to_string())],
                        value: n as f64,
                    });
                }
            }
            gauges
        })
    })
}
