//! What a node shows of itself: metrics, status, debug paths.

use std::{
    sync::{Arc, OnceLock},
    time::Instant,
};

use controllers::{catalog, demand, roles, scraping};
use functions::Catalog;
use gateway::{Gateway, Hooks, Mount, QueueGauges};
use jiff::Timestamp;
use metrics::{Gauge, scrape};
use operator::{Family, Figure, Operator};
use tokio::sync::watch;

/// Whoever has figures. The gateway comes later than those who ask for its figures.
#[derive(Clone)]
pub struct Figures {
    pub decisions: demand::Decisions,
    pub scraper: scrape::Handle,
    pub gateway: Arc<OnceLock<(Gateway, QueueGauges)>>,
    pub catalog: Catalog,
    pub roles: roles::Handle,
    pub watches: catalog::Watches,
}

impl Figures {
    /// Decisions, roles, watches and queues; the operator adds the scraper's, and the gateway's own page has its own.
    pub fn of_node(&self) -> Vec<Family> {
        let now = Instant::now();
        let gauges = [self.decisions.gauges(), self.roles.gauges(now), self.watches.gauges(now)];
        let mut families = Family::of_gauges(&gauges.concat());
        if let Some((_, queues)) = self.gateway.get() {
            families.extend(queues.families(&self.catalog, Timestamp::now()).iter().map(family));
        }
        families
    }

    pub fn of_gateway(&self) -> Vec<Family> {
        let families = self.gateway.get().map(|(gateway, _)| gateway.metrics().families());
        families.unwrap_or_default().iter().map(family).collect()
    }
}

fn family(family: &gateway::Family) -> Family {
    let kind = match family.kind {
        gateway::Kind::Counter => operator::Kind::Counter,
        gateway::Kind::Gauge => operator::Kind::Gauge,
        gateway::Kind::Histogram => operator::Kind::Histogram,
    };
    let figure = |sample: &gateway::Sample| Figure {
        suffix: sample.suffix,
        labels: sample.labels.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect(),
        value: sample.value,
    };
    let mut of_operator = Family::new(family.name, family.help, kind);
    of_operator.figures = family.samples.iter().map(figure).collect();
    of_operator
}

/// What the gateway serves beside functions.
pub fn hooks(
    figures: &Figures,
    operator: Option<&Operator>,
    view: &watch::Receiver<Arc<catalog::View>>,
) -> Hooks {
    let (for_metrics, decisions, view) = (figures.clone(), figures.decisions.clone(), view.clone());
    let (roles, watches) = (figures.roles.clone(), figures.watches.clone());
    let mounts =
        operator.map(|operator| ["/debug/", "/api/v1/"].map(|prefix| mount(prefix, operator)).to_vec());
    Hooks {
        mounts: mounts.unwrap_or_default(),
        metrics: Some(Arc::new(move |out: &mut String| {
            let mut families = for_metrics.of_node();
            families.extend(Family::of_gauges(&for_metrics.scraper.gauges()));
            out.push_str(&operator::render(families));
        })),
        status: Some(Arc::new(move |name: &str| {
            decisions.last(name).map(|last| ("LastDecision".to_owned(), last)).into_iter().collect()
        })),
        ready: Some(Arc::new(move || {
            if !view.borrow().complete {
                return Err("the functions of the cluster are not known yet".into());
            }
            let now = Instant::now();
            roles.check(now).and_then(|()| watches.check(now))
        })),
    }
}

/// To whoever reaches the gateway: no token is asked for.
fn mount(prefix: &str, operator: &Operator) -> Mount {
    let operator = operator.without_token();
    Mount {
        prefix: prefix.to_owned(),
        serve: Arc::new(move |request, _| {
            let operator = operator.clone();
            Box::pin(async move { operator.handle(request).await.map(gateway::Body::new) })
        }),
    }
}

/// The queues of asynchronous calls, as triggers can ask for them.
pub fn queue_gauges(catalog: Catalog, store: store::Shared) -> scraping::OwnGauges {
    Arc::new(move || {
        let (catalog, store) = (catalog.clone(), store.clone());
        Box::pin(async move {
            let mut gauges = Vec::new();
            let now = Timestamp::now().as_millisecond();
            for name in catalog.current().functions.keys() {
                let Ok(counts) = store.counts(name).await else { continue };
                let oldest_ms = counts.oldest_unix_ms.map_or(0, |oldest| (now - oldest).max(0));
                for (what, value) in [
                    ("slimfaas_function_queue_ready_items", counts.ready as f64),
                    ("slimfaas_function_queue_in_flight_items", counts.in_flight as f64),
                    ("slimfaas_function_queue_retry_pending_items", counts.retry_pending as f64),
                    ("ballast_function_queue_oldest_seconds", oldest_ms as f64 / 1000.0),
                ] {
                    let labels = vec![("function".to_owned(), name.to_string())];
                    gauges.push(Gauge { name: what.to_owned(), labels, value });
                }
            }
            gauges
        })
    })
}

#[cfg(test)]
mod tests {
    use functions::{Function, Snapshot, Target};

    use super::*;

    #[tokio::test]
    async fn triggers_can_ask_for_the_queue_and_its_age() {
        let fib = Function {
            target: Target {
                api_version: "apps/v1".into(),
                kind: "Deployment".into(),
                namespace: "shop".into(),
                name: "fib".into(),
            },
            settings: Arc::default(),
            problems: Vec::new(),
            requested: 0,
            pods: Vec::new(),
            is_scaled: true,
            unschedulable: None,
            autoscaler: None,
        };
        let catalog = Catalog::default();
        catalog
            .publish(Snapshot { functions: [("fib".into(), Arc::new(fib))].into(), ..Snapshot::default() });
        let store = store::open("memory:", store::Options::default()).await.unwrap();
        let call = store::NewItem { id: "1".to_owned(), head: Default::default(), body: Default::default() };
        store.enqueue("fib", call).await.unwrap();
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        let gauges = queue_gauges(catalog, store)().await;
        let value = |name: &str| gauges.iter().find(|gauge| gauge.name == name).map(|gauge| gauge.value);
        assert_eq!(value("slimfaas_function_queue_ready_items"), Some(1.0));
        assert_eq!(value("slimfaas_function_queue_in_flight_items"), Some(0.0));
        assert!(value("ballast_function_queue_oldest_seconds").is_some_and(|age| age >= 0.02), "{gauges:?}");
    }
}
