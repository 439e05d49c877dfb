//! Two samples of every node, and the use in between.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex as SyncMutex, PoisonError},
    time::Duration,
};

use jiff::Timestamp;
use tokio::{sync::Mutex, time::Instant};

use crate::{
    ApiServer,
    storage::ReadAt,
    subresources::kubelet::{self, Kubelet},
};

const PERIOD: Duration = Duration::from_secs(5);
/// The pause between the very first two samples.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// Sampling ends when nobody asked for so long.
const IDLE: Duration = Duration::from_secs(120);
/// A node that does not answer must not hold up the others.
const TIMEOUT: Duration = Duration::from_secs(3);

#[derive(Clone, Debug, PartialEq)]
pub struct Usage {
    pub cores: f64,
    pub bytes: u64,
    pub at: Timestamp,
    pub window: Duration,
}

#[derive(Clone, Debug, Default)]
pub struct Measured {
    pub nodes: HashMap<String, Usage>,
    /// By `namespace/name`, then by container.
    pub pods: HashMap<String, BTreeMap<String, Usage>>,
}

/// The state of sampling, shared by all requests.
#[derive(Default)]
pub struct Samples {
    measured: SyncMutex<Arc<Measured>>,
    asked: SyncMutex<Option<Instant>>,
    /// Held while the first samples are taken, so that others wait for them.
    starting: Mutex<bool>,
}

/// What the nodes said at one moment: CPU seconds and memory by what they belong to.
type Sample = HashMap<Subject, Reading>;

#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Subject {
    Node(String),
    Container { pod: String, name: String },
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reading {
    pub cpu_seconds: Option<f64>,
    pub bytes: Option<u64>,
    pub at: Timestamp,
}

// === impl Samples ===

impl Samples {
    pub async fn measure(&self, server: &ApiServer) -> Arc<Measured> {
        *self.asked.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
        let mut running = self.starting.lock().await;
        if !*running {
            let first = sample(server).await;
            tokio::time::sleep(FIRST_PAUSE).await;
            let second = sample(server).await;
            self.publish(compare(&first, &second));
            *running = true;
            tokio::spawn(keep_sampling(server.downgrade(), second));
        }
        drop(running);
        self.measured.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn publish(&self, measured: Measured) {
        *self.measured.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(measured);
    }
}

async fn keep_sampling(server: crate::server::WeakServer, mut last: Sample) {
    loop {
        tokio::time::sleep(PERIOD).await;
        let Some(server) = server.upgrade() else { return };
        let samples = server.metrics();
        let asked = *samples.asked.lock().unwrap_or_else(PoisonError::into_inner);
        if asked.is_none_or(|at| at.elapsed() > IDLE) {
            *samples.starting.lock().await = false;
            return;
        }
        let next = sample(&server).await;
        samples.publish(compare(&last, &next));
        last = next;
    }
}

async fn sample(server: &ApiServer) -> Sample {
    let registry = server.registry();
    let Some(nodes) = registry.resource("", "nodes") else { return Sample::new() };
    let Ok(listing) = server.store().list(nodes.table, "", None, ReadAt::Latest, usize::MAX, |_| true) else {
        return Sample::new();
    };
    let kubelets = listing.records.iter().filter_map(|record| Kubelet::of_node(&record.to_value()));
    let answers = kubelets.map(|kubelet| async move {
        let ask = async { kubelet::text(kubelet::get(&kubelet, "/metrics/resource").await?).await };
        match tokio::time::timeout(TIMEOUT, ask).await {
            Ok(Ok(text)) => parse(&text, &kubelet.node, Timestamp::now()),
            Ok(Err(error)) => {
                tracing::debug!(node = kubelet.node, %error, "a node does not tell its metrics");
                Sample::new()
            }
            Err(_) => {
                tracing::debug!(node = kubelet.node, "a node takes too long to tell its metrics");
                Sample::new()
            }
        }
    });
    futures::future::join_all(answers).await.into_iter().flatten().collect()
}

/// The four series that matter, out of the text format of Prometheus.
pub fn parse(text: &str, node: &str, now: Timestamp) -> Sample {
    let mut sample = Sample::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let Some((name, rest)) = line.split_once(['{', ' ']) else { continue };
        let (labels, numbers) = match line[name.len()..].starts_with('{') {
            true => rest.rsplit_once('}').unwrap_or(("", rest)),
            false => ("", rest),
        };
        let (cpu, of_node) = match name {
            "container_cpu_usage_seconds_total" => (true, false),
            "container_memory_working_set_bytes" => (false, false),
            "node_cpu_usage_seconds_total" => (true, true),
            "node_memory_working_set_bytes" => (false, true),
            _ => continue,
        };
        let mut numbers = numbers.split_whitespace();
        let Some(value) =
            numbers.next().and_then(|text| text.parse::<f64>().ok()).filter(|value| *value >= 0.0)
        else {
            continue;
        };
        let at = numbers.next().and_then(|text| text.parse().ok());
        let at = at.and_then(|millis| Timestamp::from_millisecond(millis).ok()).unwrap_or(now);
        let subject = if of_node {
            Subject::Node(node.to_owned())
        } else {
            let (Some(namespace), Some(pod), Some(container)) =
                (label(labels, "namespace"), label(labels, "pod"), label(labels, "container"))
            else {
                continue;
            };
            Subject::Container { pod: format!("{namespace}/{pod}"), name: container.to_owned() }
        };
        let reading = sample.entry(subject).or_default();
        reading.at = reading.at.max(at);
        if cpu {
            reading.cpu_seconds = Some(value);
        } else {
            reading.bytes = Some(value as u64);
        }
    }
    sample
}

/// Names of Kubernetes need no escapes inside quotes.
fn label<'a>(labels: &'a str, name: &str) -> Option<&'a str> {
    labels.split(',').find_map(|pair| {
        let (key, value) = pair.split_once('=')?;
        (key.trim() == name).then(|| value.trim().trim_matches('"'))
    })
}

/// Use between two samples. What is in one of them only has none yet, or none any more; a counter that went back
/// belongs to a container that was restarted, and counts from zero.
pub fn compare(before: &Sample, after: &Sample) -> Measured {
    let mut measured = Measured::default();
    for (subject, new) in after {
        let Some(old) = before.get(subject) else { continue };
        let (Some(new_cpu), Some(old_cpu), Some(bytes)) = (new.cpu_seconds, old.cpu_seconds, new.bytes)
        else {
            continue;
        };
        let window = new.at.duration_since(old.at);
        if window.as_millis() <= 0 {
            continue;
        }
        let used = if new_cpu < old_cpu { new_cpu } else { new_cpu - old_cpu };
        let usage =
            Usage { cores: used / window.as_secs_f64(), bytes, at: new.at, window: window.unsigned_abs() };
        match subject {
            Subject::Node(name) => drop(measured.nodes.insert(name.clone(), usage)),
            Subject::Container { pod, name } => {
                measured.pods.entry(pod.clone()).or_default().insert(name.clone(), usage);
            }
        }
    }
    measured
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    #[test]
    fn use_is_a_difference() {
        let text = |cpu: f64, millis: i64| {
            format!(
                "# TYPE container_cpu_usage_seconds_total counter\n\
                 container_cpu_usage_seconds_total{{container=\"c\",namespace=\"a\",pod=\"p\"}} {cpu} {millis}\n\
                 container_memory_working_set_bytes{{container=\"c\",namespace=\"a\",pod=\"p\"}} 2.048e+06 {millis}\n\
                 node_cpu_usage_seconds_total 10\nnonsense\nnode_memory_working_set_bytes 4096\n"
            )
        };
        let at = |second: i64| Timestamp::from_second(second).unwrap();
        let before = parse(&text(1.0, 1_000), "n", at(1));
        let shown = |after: Sample| {
            let measured = compare(&before, &after);
            let pod = measured.pods.get("a/p").and_then(|pod| pod.get("c"));
            format!(
                "{:?} nodes={}",
                pod.map(|usage| (usage.cores, usage.bytes, usage.window)),
                measured.nodes.len()
            )
        };
        expect![[r#"Some((0.25, 2048000, 4s)) nodes=1"#]].assert_eq(&shown(parse(
            &text(2.0, 5_000),
            "n",
            at(5),
        )));
        // Restarted: the counter began anew.
        expect![[r#"Some((0.125, 2048000, 4s)) nodes=1"#]].assert_eq(&shown(parse(
            &text(0.5, 5_000),
            "n",
            at(5),
        )));
        // The node told the same sample twice.
        expect![[r#"None nodes=0"#]].assert_eq(&shown(before.clone()));
    }
}
