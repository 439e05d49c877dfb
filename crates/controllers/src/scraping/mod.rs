//! Metrics of functions' pods: one node asks them, all nodes know.
//!
//! ```text
//! triggers, debug queries ──▶ registry ◀── metrics:asked/{node} ──▶ registries of the other nodes
//! View.scraped ──▶ scraper (on the node with that role) ──▶ database ──▶ metrics:store ──▶ the others' databases
//! ```

mod share;
#[cfg(test)]
mod tests;

use std::{future::Future, sync::Arc, time::Duration};

use api::slimfaas::Settings;
use futures::{StreamExt, future::BoxFuture, stream::BoxStream};
use jiff::Timestamp;
use metrics::{Database, Gauge, scrape};
use ondemand::{Difference, Snapshot};
use promql::Labels;
use store::{Change, Shared};
use tokio::{
    sync::watch,
    time::{Instant, MissedTickBehavior, interval},
};

use crate::{
    catalog::View,
    component::{Component, Reach, Runs},
    roles,
};

/// Pods are asked, not the API.
pub const COMPONENT: Component = Component {
    name: "scraping",
    about: "metrics of functions' pods, for triggers and queries",
    crds: Vec::new,
    rules: &[],
    reach: Reach::Served,
    runs: Runs::Everywhere,
};

/// How often it is looked whether somebody asked for another metric.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Triggers' metrics are asked for again long before the registry forgets them.
const ASK_EVERY: Duration = Duration::from_secs(60);
/// A node that is alone keeps its metrics for its next life only.
const KEEP_EVERY: Duration = Duration::from_secs(30);
/// Scrapes of many pods are told together.
const TELL_EVERY: Duration = Duration::from_millis(100);
const RETRY_AFTER: Duration = Duration::from_secs(1);
/// What Ballast itself exports, in the store.
const OWN_TARGET: &str = "ballast";

/// Figures of this node that need no HTTP to be read.
pub type OwnGauges = Arc<dyn Fn() -> BoxFuture<'static, Vec<Gauge>> + Send + Sync>;

pub struct Parts {
    pub view: watch::Receiver<Arc<View>>,
    pub database: Database,
    pub scraper: scrape::Handle,
    pub roles: roles::Handle,
    pub store: Shared,
    /// This node's name.
    pub node: String,
    pub interval: Duration,
    pub own: OwnGauges,
}

struct Scraping {
    parts: Parts,
    changes: watch::Sender<u64>,
    shared: share::Sharing,
    /// Whose triggers have been asked for since then.
    asked: Arc<Snapshot>,
    asked_at: Instant,
    kept_at: Instant,
    fed_at: Option<Instant>,
}

/// Changes with whatever may change a query's answer, and what makes it so until `shutdown`.
pub fn keep(
    parts: Parts,
    shutdown: impl Future<Output = ()> + Send,
) -> (watch::Receiver<u64>, impl Future<Output = ()> + Send) {
    let (changes, receiver) = watch::channel(0);
    let shared = share::Sharing::new(parts.store.clone(), parts.node.clone());
    let now = Instant::now();
    let asked = Arc::default();
    let mut scraping = Scraping { parts, changes, shared, asked, asked_at: now, kept_at: now, fed_at: None };
    let run = async move {
        tokio::select! {
            () = scraping.run() => {}
            () = shutdown => {}
        }
    };
    (receiver, run)
}

impl Scraping {
    async fn run(&mut self) {
        self.restore().await;
        let mut view = self.parts.view.clone();
        let mut roles = self.parts.roles.changes();
        let mut done = self.parts.scraper.done();
        let mut look = interval(LOOK_EVERY.min(self.parts.interval));
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut news = self.watch().await;
        loop {
            tokio::select! {
                _ = look.tick() => self.look().await,
                Ok(()) = view.changed() => {}
                Ok(()) = roles.changed() => {}
                Ok(()) = done.changed() => {
                    tokio::time::sleep(TELL_EVERY).await;
                    done.mark_unchanged();
                    self.tell();
                    continue;
                }
                change = news.next() => match change {
                    Some(change) => self.heard(&change).await,
                    None => {
                        tokio::time::sleep(RETRY_AFTER).await;
                        news = self.watch().await;
                    }
                },
            }
            self.ask();
            self.aim();
        }
    }

    async fn look(&mut self) {
        if let Err(error) = self.shared.tell_asked(&self.parts.database).await {
            tracing::debug!(%error, "other nodes were not told which metrics are asked for");
        }
        if !self.parts.roles.current().scraper {
            return;
        }
        if self.fed_at.is_none_or(|at| at.elapsed() >= self.parts.interval) {
            self.fed_at = Some(Instant::now());
            self.feed().await;
        }
        let is_alone = self.parts.roles.current().nodes < 2;
        let every = if is_alone { KEEP_EVERY } else { self.parts.interval };
        if self.kept_at.elapsed() >= every && !self.parts.database.wanted().is_empty() {
            self.kept_at = Instant::now();
            if let Err(error) = self.shared.tell_metrics(&self.parts.database).await {
                tracing::warn!(%error, "other nodes were not told the metrics");
            }
        }
    }

    /// Queue lengths and the like: what a scrape of ourselves would find.
    async fn feed(&self) {
        let gauges = (self.parts.own)().await;
        let labels = Labels::from_pairs([("job", "slimfaas")]);
        let now = Timestamp::now().as_millisecond();
        if let Err(error) = self.parts.database.feed(OWN_TARGET, &labels, now, &gauges) {
            tracing::debug!(%error, "own gauges were not stored");
        }
        self.tell();
    }

    /// Notes what the triggers read, on every node, so that whoever scrapes knows it.
    fn ask(&mut self) {
        if self.asked_at.elapsed() >= ASK_EVERY {
            self.asked_at = Instant::now();
            self.asked = Arc::default();
        }
        let now = Timestamp::now().as_millisecond();
        let snapshot = self.parts.view.borrow().snapshot.clone();
        let asked = std::mem::replace(&mut self.asked, snapshot.clone());
        // Pods come and go with every wake: what they change is no reason to read all queries again.
        for settings in new_settings(&asked, &snapshot) {
            for trigger in settings.scaling.scale.iter().flat_map(|scale| &scale.triggers) {
                if let Ok(plan) = promql::parse(&trigger.query) {
                    self.parts.database.ask(&plan.metric_names(), now);
                }
            }
        }
    }

    /// Scrapes if it is this node's turn and anybody wants to know anything.
    fn aim(&self) {
        let wanted = self.parts.roles.current().scraper && !self.parts.database.wanted().is_empty();
        let scraped = self.parts.view.borrow().scraped.clone();
        self.parts.scraper.set_targets(if wanted { scraped } else { Arc::default() });
    }

    async fn watch(&self) -> BoxStream<'static, Change> {
        match self.parts.store.watch(share::PREFIX).await {
            Ok(changes) => changes,
            Err(error) => {
                tracing::debug!(%error, "cannot hear of other nodes' metrics");
                futures::stream::empty().boxed()
            }
        }
    }

    async fn heard(&mut self, change: &Change) {
        self.shared.merge_asked(change, &self.parts.database);
        if share::is_metrics(change) && !self.parts.roles.current().scraper {
            self.restore().await;
        }
    }

    async fn restore(&mut self) {
        match self.shared.restore(&self.parts.database).await {
            Ok(true) => self.tell(),
            Ok(false) => {}
            Err(message) => tracing::debug!(message, "the metrics of another node cannot be used"),
        }
    }

    fn tell(&self) {
        self.changes.send_modify(|n| *n = n.wrapping_add(1));
    }
}

/// Settings that are not among those of `before`; the catalog keeps the same object for as long as they say the same.
fn new_settings<'a>(before: &'a Snapshot, now: &'a Snapshot) -> impl Iterator<Item = &'a Settings> {
    Snapshot::differences(before, now).into_iter().filter_map(|Difference { before, after, .. }| {
        let after = after?;
        let is_known = before.is_some_and(|before| Arc::ptr_eq(&before.settings, &after.settings));
        (!is_known).then_some(&*after.settings)
    })
}
