//! What containers use, read from `/proc` when somebody asks, as the kubelet's `/metrics/resource`.

use std::{
    collections::{BTreeMap, HashMap},
    fmt::Write as _,
    fs,
    sync::{Mutex, PoisonError},
};

use jiff::Timestamp;

use crate::{
    process::table::{self, TICKS_PER_SECOND},
    registry::Named,
};

/// Counters must not go back: a process that ends without being waited for takes its time along.
#[derive(Debug, Default)]
pub struct Usage {
    highest: Mutex<HashMap<String, u64>>,
}

#[derive(Debug, Clone, PartialEq)]
struct Sample {
    namespace: String,
    pod: String,
    container: String,
    since: Timestamp,
    cpu_ticks: u64,
    memory: u64,
}

// === impl Usage ===

impl Usage {
    /// The metrics page. Reads `/proc`: for a blocking thread.
    pub fn page(&self, running: &[Named]) -> String {
        let at = Timestamp::now();
        let samples = self.sample(running);
        let (node_cpu, node_memory) = machine();
        render(&samples, node_cpu, node_memory, at)
    }

    fn sample(&self, running: &[Named]) -> Vec<Sample> {
        let entries = table::scan().unwrap_or_default();
        let sessions =
            running.iter().map(|named| (named.running.session, named.running.id.as_str())).collect();
        let members = table::attribute(&entries, &sessions);
        let mut highest = self.highest.lock().unwrap_or_else(PoisonError::into_inner);
        highest.retain(|id, _| running.iter().any(|named| named.running.id == *id));
        running
            .iter()
            .map(|named| {
                let own = members.get(named.running.id.as_str()).map(Vec::as_slice).unwrap_or_default();
                let ticks = highest.entry(named.running.id.clone()).or_default();
                *ticks = (*ticks).max(own.iter().map(|entry| entry.cpu_ticks).sum());
                Sample {
                    namespace: named.namespace.clone(),
                    pod: named.pod.clone(),
                    container: named.container.clone(),
                    since: named.running.since,
                    cpu_ticks: *ticks,
                    memory: own.iter().map(|entry| table::memory(entry.pid)).sum(),
                }
            })
            .collect()
    }
}

/// The whole machine: busy CPU ticks, and memory in use that is not just cache, in bytes.
fn machine() -> (u64, u64) {
    let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
    let ticks: Vec<u64> = stat
        .lines()
        .next()
        .into_iter()
        .flat_map(|line| line.split_ascii_whitespace().skip(1).filter_map(|n| n.parse().ok()))
        .collect();
    // user nice system idle iowait irq softirq steal; guest time is part of user time.
    let busy = ticks.iter().take(8).sum::<u64>() - ticks.iter().skip(3).take(2).sum::<u64>();
    let meminfo = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let kib = |field: &str| -> u64 {
        let line = meminfo.lines().find_map(|line| line.strip_prefix(field));
        line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse().ok()).unwrap_or(0)
    };
    (busy, kib("MemTotal:").saturating_sub(kib("MemAvailable:")) * 1024)
}

fn render(samples: &[Sample], node_cpu: u64, node_memory: u64, at: Timestamp) -> String {
    let mut page = Page { text: String::new(), at: at.as_millisecond() };
    let seconds = |ticks: u64| ticks as f64 / TICKS_PER_SECOND;
    let mut pods: BTreeMap<(&str, &str), (u64, u64)> = BTreeMap::new();
    for sample in samples {
        let (cpu, memory) = pods.entry((&sample.namespace, &sample.pod)).or_default();
        *cpu += sample.cpu_ticks;
        *memory += sample.memory;
    }
    let of_container = |s: &Sample| {
        format!("{{container=\"{}\",namespace=\"{}\",pod=\"{}\"}}", s.container, s.namespace, s.pod)
    };
    let of_pod = |(namespace, pod): (&str, &str)| format!("{{namespace=\"{namespace}\",pod=\"{pod}\"}}");

    page.family(
        "container_cpu_usage_seconds_total",
        "counter",
        "Cumulative cpu time consumed by the container in core-seconds",
    );
    for sample in samples {
        page.line("container_cpu_usage_seconds_total", &of_container(sample), seconds(sample.cpu_ticks));
    }
    page.family(
        "container_memory_working_set_bytes",
        "gauge",
        "Current working set of the container in bytes",
    );
    for sample in samples {
        page.line("container_memory_working_set_bytes", &of_container(sample), sample.memory as f64);
    }
    page.family(
        "container_start_time_seconds",
        "gauge",
        "Start time of the container since unix epoch in seconds",
    );
    for sample in samples {
        page.line(
            "container_start_time_seconds",
            &of_container(sample),
            sample.since.as_millisecond() as f64 / 1000.0,
        );
    }
    page.family(
        "node_cpu_usage_seconds_total",
        "counter",
        "Cumulative cpu time consumed by the node in core-seconds",
    );
    page.line("node_cpu_usage_seconds_total", "", seconds(node_cpu));
    page.family("node_memory_working_set_bytes", "gauge", "Current working set of the node in bytes");
    page.line("node_memory_working_set_bytes", "", node_memory as f64);
    page.family(
        "pod_cpu_usage_seconds_total",
        "counter",
        "Cumulative cpu time consumed by the pod in core-seconds",
    );
    for (pod, (cpu, _)) in &pods {
        page.line("pod_cpu_usage_seconds_total", &of_pod(*pod), seconds(*cpu));
    }
    page.family("pod_memory_working_set_bytes", "gauge", "Current working set of the pod in bytes");
    for (pod, (_, memory)) in &pods {
        page.line("pod_memory_working_set_bytes", &of_pod(*pod), *memory as f64);
    }
    page.family(
        "resource_scrape_error",
        "gauge",
        "1 if there was an error while getting container metrics, 0 otherwise",
    );
    let _ = writeln!(page.text, "resource_scrape_error 0");
    page.text
}

struct Page {
    text: String,
    at: i64,
}

// === impl Page ===

impl Page {
    fn family(&mut self, name: &str, kind: &str, help: &str) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.text, "# HELP {name} [STABLE] {help}\n# TYPE {name} {kind}");
    }

    fn line(&mut self, name: &str, labels: &str, value: f64) {
        let _ = writeln!(self.text, "{name}{labels} {value} {}", self.at);
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    #[test]
    fn the_page_is_a_kubelets() {
        let sample = |pod: &str, container: &str, cpu_ticks, memory| Sample {
            namespace: "default".to_owned(),
            pod: pod.to_owned(),
            container: container.to_owned(),
            since: Timestamp::from_millisecond(1_700_000_000_500).unwrap(),
            cpu_ticks,
            memory,
        };
        let samples =
            [sample("a", "app", 150, 1000), sample("a", "sidecar", 25, 24), sample("b", "app", 0, 7)];
        let page = render(&samples, 1234, 5678, Timestamp::from_second(1_700_000_100).unwrap());
        let values: Vec<&str> = page.lines().filter(|line| !line.starts_with("# HELP")).collect();
        expect![[r#"
            # TYPE container_cpu_usage_seconds_total counter
            container_cpu_usage_seconds_total{container="app",namespace="default",pod="a"} 1.5 1700000100000
            container_cpu_usage_seconds_total{container="sidecar",namespace="default",pod="a"} 0.25 1700000100000
            container_cpu_usage_seconds_total{container="app",namespace="default",pod="b"} 0 1700000100000
            # TYPE container_memory_working_set_bytes gauge
            container_memory_working_set_bytes{container="app",namespace="default",pod="a"} 1000 1700000100000
            container_memory_working_set_bytes{container="sidecar",namespace="default",pod="a"} 24 1700000100000
            container_memory_working_set_bytes{container="app",namespace="default",pod="b"} 7 1700000100000
            # TYPE container_start_time_seconds gauge
            container_start_time_seconds{container="app",namespace="default",pod="a"} 1700000000.5 1700000100000
            container_start_time_seconds{container="sidecar",namespace="default",pod="a"} 1700000000.5 1700000100000
            container_start_time_seconds{container="app",namespace="default",pod="b"} 1700000000.5 1700000100000
            # TYPE node_cpu_usage_seconds_total counter
            node_cpu_usage_seconds_total 12.34 1700000100000
            # TYPE node_memory_working_set_bytes gauge
            node_memory_working_set_bytes 5678 1700000100000
            # TYPE pod_cpu_usage_seconds_total counter
            pod_cpu_usage_seconds_total{namespace="default",pod="a"} 1.75 1700000100000
            pod_cpu_usage_seconds_total{namespace="default",pod="b"} 0 1700000100000
            # TYPE pod_memory_working_set_bytes gauge
            pod_memory_working_set_bytes{namespace="default",pod="a"} 1024 1700000100000
            pod_memory_working_set_bytes{namespace="default",pod="b"} 7 1700000100000
            # TYPE resource_scrape_error gauge
            resource_scrape_error 0"#]]
        .assert_eq(&values.join("\n"));
    }

    #[test]
    fn the_machine_uses_something() {
        let (cpu, memory) = machine();
        assert!(cpu > 0 && memory > 0);
    }
}
