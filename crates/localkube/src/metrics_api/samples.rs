//! Two samples of every node, and the use in between.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
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
/// How old a sample may be that is still shown.
const KEPT: Duration = Duration::from_secs(120);

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
    /// Which node told of a pod.
    node_of: HashMap<String, String>,
}

/// The state of sampling, shared by all requests.
#[derive(Default)]
pub struct Samples {
    measured: SyncMutex<Arc<Measured>>,
    asked: SyncMutex<Option<Instant>>,
    /// Held while the first samples are taken, so that others wait for them.
    starting: Mutex<bool>,
}

/// One round of questions.
#[derive(Clone, Debug, Default)]
struct Sampled {
    sample: Sample,
    /// Which node told of what.
    answered: HashMap<Subject, String>,
    /// Nodes that did not answer, or not in time.
    silent: HashSet<String>,
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

// === impl Sampled ===

impl Sampled {
    /// What a silent node said last stays the base of its next difference.
    fn replace_with(&mut self, next: Sampled) {
        let last = std::mem::replace(self, next);
        for (subject, node) in last.answered {
            if self.silent.contains(&node)
                && let Some(reading) = last.sample.get(&subject)
            {
                self.sample.entry(subject.clone()).or_insert_with(|| reading.clone());
                self.answered.entry(subject).or_insert(node);
            }
        }
    }
}

// === impl Measured ===

impl Measured {
    /// What is new, and where nothing new can be told (the node was silent, or told the same sample again) what was
    /// known before, which shows its age by its own time: whoever scales by it rather uses a number that is some
    /// seconds old than none.
    fn followed_by(&self, mut new: Measured, sampled: &Sampled, now: Timestamp) -> Measured {
        let is_fresh = |usage: &Usage| {
            Duration::try_from(now.duration_since(usage.at)).is_ok_and(|age| age <= KEPT) || usage.at > now
        };
        new.node_of = self.node_of.clone();
        new.node_of.retain(|_, node| sampled.silent.contains(node));
        for (subject, node) in &sampled.answered {
            if let Subject::Container { pod, .. } = subject {
                new.node_of.insert(pod.clone(), node.clone());
            }
        }
        for (node, usage) in &self.nodes {
            let is_there =
                sampled.silent.contains(node) || sampled.answered.contains_key(&Subject::Node(node.clone()));
            if is_there && is_fresh(usage) {
                new.nodes.entry(node.clone()).or_insert_with(|| usage.clone());
            }
        }
        for (pod, containers) in &self.pods {
            if new.node_of.contains_key(pod) && containers.values().all(is_fresh) {
                new.pods.entry(pod.clone()).or_insert_with(|| containers.clone());
            }
        }
        new
    }
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
            self.publish(self.latest().followed_by(
                compare(&first.sample, &second.sample),
                &second,
                Timestamp::now(),
            ));
            *running = true;
            tokio::spawn(keep_sampling(server.downgrade(), second));
        }
        drop(running);
        self.latest()
    }

    fn latest(&self) -> Arc<Measured> {
        self.measured.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn publish(&self, measured: Measured) {
        *self.measured.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(measured);
    }
}

async fn keep_sampling(server: crate::server::WeakServer, mut last: Sampled) {
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
        samples.publish(samples.latest().followed_by(
            compare(&last.sample, &next.sample),
            &next,
            Timestamp::now(),
        ));
        last.replace_with(next);
    }
}

async fn sample(server: &ApiServer) -> Sampled {
    let registry = server.registry();
    let Some(nodes) = registry.resource("", "nodes") else { return Sampled::default() };
    let Ok(listing) = server.store().list(nodes.table, "", None, ReadAt::Latest, usize::MAX, |_| true) else {
        return Sampled::default();
    };
    let kubelets = listing.records.iter().filter_map(|record| Kubelet::of_node(&record.to_value()));
    let answers = kubelets.map(|kubelet| async move {
        let ask = async { kubelet::text(kubelet::get(server, &kubelet, "/metrics/resource").await?).await };
        let why = match tokio::time::timeout(TIMEOUT, ask).await {
            Ok(Ok(text)) => {
                return (kubelet.node.clone(), Some(parse(&text, &kubelet.node, Timestamp::now())));
            }
            Ok(Err(error)) => error.to_string(),
            Err(_) => format!("no answer within {TIMEOUT:?}"),
        };
        tracing::debug!(node = kubelet.node, why, "a node does not tell its metrics; the last ones are kept");
        (kubelet.node, None)
    });
    let mut sampled = Sampled::default();
    for (node, sample) in futures::future::join_all(answers).await {
        match sample {
            Some(sample) => {
                sampled.answered.extend(sample.keys().cloned().map(|subject| (subject, node.clone())));
                sampled.sample.extend(sample);
            }
            None => drop(sampled.silent.insert(node)),
        }
    }
    sampled
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

    /// `silent`, or what a node told of itself and of a pod, half a core in the seconds from `from` to `to`.
    fn round(text: &str) -> Sampled {
        let mut sampled = Sampled::default();
        match text.split_whitespace().collect::<Vec<_>>()[..] {
            ["silent"] => drop(sampled.silent.insert("n".to_owned())),
            ["gone"] => {}
            [second] => {
                let second: i64 = second.parse().unwrap();
                let (cpu, millis) = (second as f64 / 2.0, second * 1000);
                let text = format!(
                    "container_cpu_usage_seconds_total{{container=\"c\",namespace=\"a\",pod=\"p\"}} {cpu} {millis}\n\
                     container_memory_working_set_bytes{{container=\"c\",namespace=\"a\",pod=\"p\"}} 1024 {millis}\n\
                     node_cpu_usage_seconds_total {cpu} {millis}\nnode_memory_working_set_bytes 4096 {millis}\n"
                );
                sampled.sample = parse(&text, "n", Timestamp::UNIX_EPOCH);
                let subjects = sampled.sample.keys().cloned();
                sampled.answered = subjects.map(|subject| (subject, "n".to_owned())).collect();
            }
            _ => {}
        }
        sampled
    }

    /// Rounds of samples, and what is shown after each: the time of the node's and the pod's use, and the window.
    #[test]
    fn a_silent_node_keeps_its_last_use() {
        let mut last = Sampled::default();
        let mut measured = Measured::default();
        let mut story = String::new();
        for (now, told) in [
            (5, "5"),
            (10, "10"),
            (15, "silent"),
            (20, "silent"),
            (25, "25"),
            (30, "25"),
            (35, "35"),
            (150, "silent"),
            (160, "silent"),
            (165, "gone"),
        ] {
            let next = round(told);
            let now_at = Timestamp::from_second(now).unwrap();
            measured = measured.followed_by(compare(&last.sample, &next.sample), &next, now_at);
            last.replace_with(next);
            let shown = |usage: Option<&Usage>| {
                usage.map_or("-".to_owned(), |usage| {
                    format!("{} cores at {} over {:?}", usage.cores, usage.at.as_second(), usage.window)
                })
            };
            let pod = measured.pods.get("a/p").and_then(|pod| pod.get("c"));
            assert_eq!(shown(pod), shown(measured.nodes.get("n")));
            story.push_str(&format!("{now:>3} {told:<7} {}\n", shown(pod)));
        }
        expect![[r#"
               5 5       -
              10 10      0.5 cores at 10 over 5s
              15 silent  0.5 cores at 10 over 5s
              20 silent  0.5 cores at 10 over 5s
              25 25      0.5 cores at 25 over 15s
              30 25      0.5 cores at 25 over 15s
              35 35      0.5 cores at 35 over 10s
             150 silent  0.5 cores at 35 over 10s
             160 silent  -
             165 gone    -
        "#]]
        .assert_eq(&story);
    }
}
