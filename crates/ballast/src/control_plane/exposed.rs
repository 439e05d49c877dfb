//! What a node shows of itself: metrics, status, debug paths.

use std::{
    cmp::Reverse,
    sync::{Arc, OnceLock},
    time::Instant,
};

use admin::{Family, Figure, Operator};
use controllers::{catalog, roles, scraping};
use engine::Supervisor;
use futures::{
    StreamExt,
    stream::{self, BoxStream},
};
use gateway::{Gateway, Hooks, Mount, QueueGauges};
use jiff::Timestamp;
use metrics::{Database, Gauge, scrape};
use ondemand::{Activity, Catalog};
use scaling::{History, Object, Record};
use serde_json::{Value, json};
use tokio::sync::watch;

use super::{Check, Options, mastership::Led};

/// When a function was last called, in seconds since 1970; 0 if never. For replays of what was.
pub const LAST_CALL: &str = "ballast_function_last_call_seconds";
/// The policy whose decisions stand in a function's status.
const POLICY: &str = "demand";

/// Whoever has figures. The gateway comes later than those who ask for its figures.
#[derive(Clone)]
pub struct Figures {
    pub led: Led,
    pub history: History,
    pub namespace: Arc<str>,
    pub scraper: scrape::Handle,
    pub gateway: Arc<OnceLock<(Gateway, QueueGauges)>>,
    pub catalog: Catalog,
    pub roles: roles::Handle,
    pub watches: catalog::Watches,
    pub supervisor: Supervisor,
}

impl Figures {
    /// Decisions, roles, watches and queues; the operator adds the scraper's, and the gateway's own page has its own.
    pub fn of_node(&self) -> Vec<Family> {
        let now = Instant::now();
        let gauges = [self.led.gauges(), self.roles.gauges(now), self.watches.gauges(now)];
        let mut families = Family::of_gauges(&gauges.concat());
        families.push(self.led.family());
        families.extend(tasks(&self.supervisor));
        if let Some((_, queues)) = self.gateway.get() {
            families.extend(queues.families(&self.catalog, Timestamp::now()).iter().map(family));
        }
        families
    }

    pub fn of_gateway(&self) -> Vec<Family> {
        let families = self.gateway.get().map(|(gateway, _)| gateway.families());
        families.unwrap_or_default().iter().map(family).collect()
    }
}

/// Whether the tasks of this node run, and how often they failed.
fn tasks(supervisor: &Supervisor) -> [Family; 3] {
    let mut up = Family::new("ballast_task_up", "Share of a task's instances that run", admin::Kind::Gauge);
    let mut panics = Family::new(
        "ballast_task_panics_total",
        "Panics, those included that ended the work on one object only",
        admin::Kind::Counter,
    );
    let mut restarts = Family::new(
        "ballast_task_restarts_total",
        "Times a task ended and was started again",
        admin::Kind::Counter,
    );
    for (name, figures) in supervisor.figures() {
        let labels = vec![("task".to_owned(), name.to_string())];
        let figure = |value: f64| Figure { suffix: "", labels: labels.clone(), value };
        if figures.wanted > 0 {
            up.figures.push(figure(figures.running as f64 / figures.wanted as f64));
        }
        panics.figures.push(figure(figures.panics as f64));
        restarts.figures.push(figure(figures.restarts as f64));
    }
    [up, panics, restarts]
}

fn family(family: &gateway::Family) -> Family {
    let kind = match family.kind {
        gateway::Kind::Counter => admin::Kind::Counter,
        gateway::Kind::Gauge => admin::Kind::Gauge,
        gateway::Kind::Histogram => admin::Kind::Histogram,
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

/// What the gateway serves beside functions, to operators.
pub fn hooks(
    figures: &Figures,
    operator: Option<&Operator>,
    view: &watch::Receiver<Arc<catalog::View>>,
    also_ready: Check,
) -> Hooks {
    let (for_metrics, view) = (figures.clone(), view.clone());
    let (history, namespace) = (figures.history.clone(), figures.namespace.clone());
    let of_gateway = figures.gateway.clone();
    let (roles, watches, supervisor, led) =
        (figures.roles.clone(), figures.watches.clone(), figures.supervisor.clone(), figures.led.clone());
    let mounts =
        operator.map(|operator| ["/debug/", "/api/v1/"].map(|prefix| mount(prefix, operator)).to_vec());
    Hooks {
        mounts: mounts.unwrap_or_default(),
        metrics: Some(Arc::new(move |out: &mut String| {
            let mut families = for_metrics.of_node();
            families.extend(Family::of_gauges(&for_metrics.scraper.gauges()));
            out.push_str(&admin::render(families));
        })),
        status: Some(Arc::new(move |name: &str| {
            let last = last(&history, &namespace, name);
            let last = last.map(|last| ("LastDecision".to_owned(), last));
            let counts = of_gateway.get().and_then(|(_, queues)| queues.of(name));
            let queue = counts.map(|counts| ("Queue".to_owned(), queue_lengths(&counts)));
            last.into_iter().chain(queue).collect()
        })),
        ready: Some(Arc::new(move || {
            if !view.borrow().complete {
                return Err("the functions of the cluster are not known yet".into());
            }
            let now = Instant::now();
            roles
                .check(now)
                .and_then(|()| watches.check(now))
                .and_then(|()| supervisor.check())
                .and_then(|()| also_ready.run())
                .map(|()| led.waiting())
        })),
    }
}

/// The last decision about a function as people read it in its status, whichever node made it.
fn last(history: &History, namespace: &str, name: &str) -> Option<Value> {
    let object =
        |kind: &str| Object { kind: kind.to_owned(), namespace: namespace.to_owned(), name: name.to_owned() };
    let mut kinds = ["Deployment", "StatefulSet", "Function"].into_iter();
    let record =
        kinds.find_map(|kind| history.last(&object(kind)).filter(|record| record.policy == POLICY))?;
    Some(json!({
        "At": record.at,
        "Current": record.current,
        "Desired": record.desired,
        "Reason": record.reason,
        "Why": record.why,
        "Outcome": record.outcome,
        "Conflict": record.conflict,
        "Steps": record.steps,
        "NextCheck": record.next_check,
    }))
}

fn queue_lengths(counts: &store::Counts) -> Value {
    json!({
        "Ready": counts.ready,
        "InFlight": counts.in_flight,
        "RetryPending": counts.retry_pending,
        "Dead": counts.dead,
    })
}

/// The operators' port serves the dashboard, and what the gateway has for operators. Where a token is asked for, or the
/// port can be reached by other names, only that no page of another origin is behind a request can be checked.
pub fn with_gateway(
    operator: Operator,
    actions: admin::Actions,
    figures: &Figures,
    options: &Options,
) -> Operator {
    let operator = operator.with_actions(actions);
    let gateway = figures.gateway.clone();
    let operator = operator.with_pages(Arc::new(web::answer)).with_more(Arc::new(move |head| {
        let (gateway, _) = gateway.get()?;
        let answer = gateway.for_operator(&head.method, &head.uri)?;
        Some(Box::pin(async move { answer.await.map(http_body_util::BodyExt::boxed_unsync) }))
    }));
    if options.operator_token.is_some() || !options.operator.is_loopback() {
        return operator;
    }
    operator.with_guard(Arc::new(|head| gateway::check_local(&head.headers, &head.uri)))
}

/// The last decisions, for `ballast explain` and whoever else asks the operator's port.
pub fn decisions(history: &History) -> admin::Feed {
    let (history, followed) = (history.clone(), history.clone());
    admin::Feed {
        tell: Arc::new(move |filters: &[(String, String)]| {
            let (limits, filters): (Vec<_>, Vec<_>) =
                filters.iter().cloned().partition(|(name, _)| matches!(name.as_str(), "limit" | "each"));
            let limit = |asked: &str| {
                let found = limits.iter().find(|(name, _)| name == asked);
                found.map(|(_, limit)| limit.parse::<usize>().unwrap_or(0))
            };
            let mut records = history.select(|record| all_pass(record, &filters));
            if let Some(each) = limit("each") {
                let of_objects = records.chunk_by(|a, b| a.object == b.object);
                let last = of_objects.flat_map(|all| &all[all.len().saturating_sub(each)..]);
                records = last.cloned().collect();
            }
            if let Some(limit) = limit("limit") {
                records.sort_by_key(|record| Reverse(record.at));
                records.truncate(limit);
            }
            serde_json::to_value(records).unwrap_or_default()
        }),
        follow: Arc::new(move |filters| follow(followed.clone(), filters)),
    }
}

/// What is known, oldest first, then each decision as it is made.
fn follow(history: History, filters: admin::Filters) -> BoxStream<'static, admin::Event> {
    let mut position = history.position();
    // Before the records are looked at: told twice is better than never.
    let told = *position.borrow_and_update();
    let mut known = history.select(|record| all_pass(record, &filters));
    known.sort_by_key(|record| record.at);
    let event = |record: &Arc<Record>| ("decision", serde_json::to_value(record).unwrap_or_default());
    let news = stream::unfold((history, position, told), move |(history, mut position, told)| {
        let filters = filters.clone();
        async move {
            // the sender lives as long as the history
            position.changed().await.ok()?;
            let now = *position.borrow_and_update();
            let (records, n_missed) = history.after(told);
            let missed = (n_missed > 0).then(|| ("missed", json!(n_missed)));
            let new = records.iter().filter(|record| all_pass(record, &filters)).map(event);
            let events: Vec<_> = missed.into_iter().chain(new).collect();
            Some((stream::iter(events), (history, position, now)))
        }
    });
    let known: Vec<_> = known.iter().map(event).collect();
    stream::iter(known).chain(news.flatten()).boxed()
}

fn all_pass(record: &Record, filters: &[(String, String)]) -> bool {
    filters.iter().all(|(name, value)| passes(record, name, value))
}

/// What no filter is known for passes nothing: a typing error must not look like an answer.
fn passes(record: &Record, filter: &str, value: &str) -> bool {
    match filter {
        // kubectl is as generous with kinds
        "kind" => {
            let kind = record.object.kind.to_lowercase();
            let value = value.to_lowercase();
            value == kind || value == format!("{kind}s")
        }
        "namespace" => record.object.namespace == value,
        "name" => record.object.name == value,
        "policy" => record.policy == value,
        "reason" => record.reason == value,
        "since" => value.parse().is_ok_and(|since: Timestamp| record.at > since),
        _ => false,
    }
}

/// To whoever the gateway lets through: no token is asked for.
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

/// Figures of this node's own, as triggers and the dashboard can ask for them: the queues of asynchronous calls, the
/// replicas of functions, and when they were last called.
pub fn own_gauges(
    catalog: Catalog,
    activity: Activity,
    store: store::Shared,
    history: History,
    database: Database,
) -> scraping::OwnGauges {
    Arc::new(move || {
        let (catalog, activity, store, history) =
            (catalog.clone(), activity.clone(), store.clone(), history.clone());
        let wanted = database.wanted();
        Box::pin(async move {
            let mut gauges = queue_gauges(&catalog, &store, |name| wanted.contains(name)).await;
            gauges.extend(replica_gauges(&catalog, &history, |name| wanted.contains(name)));
            if wanted.contains(LAST_CALL) {
                gauges.extend(last_calls(&catalog, &activity));
            }
            gauges
        })
    })
}

/// Now for a function with calls under way: it is in use.
fn last_calls(catalog: &Catalog, activity: &Activity) -> Vec<Gauge> {
    let now = Timestamp::now();
    let of_function = |name: &Arc<str>| {
        let calls = activity.of(name);
        let last = if calls.is_active() { Some(now) } else { calls.latest() };
        let labels = vec![("function".to_owned(), name.to_string())];
        Gauge { name: LAST_CALL.to_owned(), labels, value: last.map_or(0.0, |last| last.as_second() as f64) }
    };
    catalog.current().functions.keys().map(of_function).collect()
}

/// By the names under which the master exposes them; here every node knows them, so whichever scrapes has them.
fn replica_gauges(catalog: &Catalog, history: &History, is_wanted: impl Fn(&str) -> bool) -> Vec<Gauge> {
    let names = ["desired", "current", "ready"].map(|what| format!("slimfaas_autoscaler_{what}_replicas"));
    if !names.iter().any(|name| is_wanted(name)) {
        return Vec::new();
    }
    let snapshot = catalog.current();
    let of_function = |(name, function): (&Arc<str>, &Arc<ondemand::Function>)| {
        let ondemand::Target { kind, namespace, name: object, .. } = &function.target;
        let object =
            Object { kind: kind.to_string(), namespace: namespace.to_string(), name: object.to_string() };
        let desired = history.last(&object).map_or(function.requested, |record| record.desired);
        let values = [f64::from(desired), f64::from(function.requested), function.ready().count() as f64];
        let labels = vec![("function".to_owned(), name.to_string())];
        let gauges = names.iter().zip(values).map(|(metric, value)| Gauge {
            name: metric.clone(),
            labels: labels.clone(),
            value,
        });
        gauges.collect::<Vec<_>>()
    };
    snapshot.functions.iter().flat_map(of_function).collect()
}

/// With many functions this is much work for what hardly anybody asks for.
async fn queue_gauges(
    catalog: &Catalog,
    store: &store::Shared,
    is_wanted: impl Fn(&str) -> bool,
) -> Vec<Gauge> {
    let now = Timestamp::now().as_millisecond();
    let values = |counts: &store::Counts| {
        let oldest_ms = counts.oldest_unix_ms.map_or(0, |oldest| (now - oldest).max(0));
        [
            ("slimfaas_function_queue_ready_items", counts.ready as f64),
            ("slimfaas_function_queue_in_flight_items", counts.in_flight as f64),
            ("slimfaas_function_queue_retry_pending_items", counts.retry_pending as f64),
            ("ballast_function_queue_oldest_seconds", oldest_ms as f64 / 1000.0),
        ]
    };
    let is_any_wanted = values(&store::Counts::default()).iter().any(|(name, _)| is_wanted(name));
    let mut gauges = Vec::new();
    if !is_any_wanted {
        return gauges;
    }
    for name in catalog.current().functions.keys() {
        let Ok(counts) = store.counts(name).await else { continue };
        gauges.extend(values(&counts).map(|(what, value)| Gauge {
            name: what.to_owned(),
            labels: vec![("function".to_owned(), name.to_string())],
            value,
        }));
    }
    gauges
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;
    use scaling::Outcome;

    #[test]
    fn decisions_are_found_by_what_they_are_about() {
        let history = History::default();
        for name in ["fib", "shop"] {
            let target = engine::effect::Target::absent(&engine::kind::DEPLOYMENT, Some("default"), name);
            let decision = scaling::fixed(0, 1, "test");
            let record = Record::new(Timestamp::UNIX_EPOCH, "demand", &target, &decision, Outcome::Written);
            history.note(record, "up".into());
        }
        let admin::Feed { tell, follow } = decisions(&history);
        let found = |query: &str| {
            let filters: Vec<(String, String)> = query
                .split_whitespace()
                .map(|pair| pair.split_once('=').unwrap())
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .collect();
            tell(&filters).as_array().map_or(0, Vec::len)
        };
        let rows = [
            ("", 2),
            ("name=fib", 1),
            ("kind=deployment name=fib namespace=default", 1),
            ("kind=deployments", 2),
            ("kind=StatefulSet", 0),
            ("policy=demand reason=FixedCount", 2),
            ("since=1970-01-01T00:00:00Z", 0),
            ("nmae=fib", 0),
            ("each=1", 2),
            ("each=0", 0),
            ("each=1 limit=1", 1),
        ];
        for (query, n) in rows {
            assert_eq!(found(query), n, "{query}");
        }
        // the same ones are followed, then those that come
        let target = engine::effect::Target::absent(&engine::kind::DEPLOYMENT, Some("default"), "fib");
        let mut followed = follow(vec![("name".to_owned(), "fib".to_owned())]);
        assert!(followed.next().now_or_never().is_some());
        assert!(followed.next().now_or_never().is_none());
        let at = Timestamp::from_second(60).unwrap();
        let down = Record::new(at, "demand", &target, &scaling::fixed(1, 0, "test"), Outcome::Written);
        history.note(down, "down".into());
        assert_eq!((found("name=fib"), found("name=fib each=1"), found("each=1")), (2, 1, 2));
        let (name, record) = followed.next().now_or_never().flatten().unwrap();
        assert_eq!((name, &record["desired"]), ("decision", &json!(0)));
        assert!(followed.next().now_or_never().is_none());
    }

    /// The dashboard's types are checked against the same file.
    #[test]
    fn the_queue_of_a_status_has_the_shape_that_the_dashboard_reads() {
        let counts =
            store::Counts { ready: 4, in_flight: 3, retry_pending: 2, dead: 1, oldest_unix_ms: None };
        let shape: serde_json::Value =
            serde_json::from_str(include_str!("../../../../web/src/fixtures/queue.json")).unwrap();
        assert_eq!(queue_lengths(&counts), shape);
    }

    use ondemand::{Function, Snapshot, Target};

    use super::*;

    #[tokio::test]
    async fn triggers_and_the_dashboard_can_ask_for_queues_and_replicas() {
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
        let (history, database) = (History::default(), Database::default());
        let own = own_gauges(catalog, Activity::default(), store, history.clone(), database.clone());
        assert!(own().await.is_empty(), "nobody has asked for anything");
        let waiting = "slimfaas_function_queue_ready_items";
        database.ask(&promql::parse(waiting).unwrap().metric_names(), 0);
        let gauges = own().await;
        let value = |name: &str| gauges.iter().find(|gauge| gauge.name == name).map(|gauge| gauge.value);
        assert_eq!(value(waiting), Some(1.0));
        assert_eq!(value("slimfaas_function_queue_in_flight_items"), Some(0.0));
        assert!(value("ballast_function_queue_oldest_seconds").is_some_and(|age| age >= 0.02), "{gauges:?}");

        let desired = "slimfaas_autoscaler_desired_replicas";
        assert_eq!(value(desired), None, "nobody has asked for it");
        let target = engine::effect::Target::absent(&engine::kind::DEPLOYMENT, Some("shop"), "fib");
        let decision = scaling::fixed(0, 3, "test");
        history
            .note(Record::new(Timestamp::now(), "demand", &target, &decision, Outcome::Written), "up".into());
        database.ask(&promql::parse(desired).unwrap().metric_names(), 0);
        let gauges = own().await;
        let value = |name: &str| gauges.iter().find(|gauge| gauge.name == name).map(|gauge| gauge.value);
        assert_eq!(value(desired), Some(3.0));
        assert_eq!(value("slimfaas_autoscaler_current_replicas"), Some(0.0));
        assert_eq!(value("slimfaas_autoscaler_ready_replicas"), Some(0.0));
    }
}
