//! What the gateway counts, readable as families and as Prometheus text.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    sync::{
        Arc, PoisonError, RwLock,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use http::StatusCode;

/// A handle to all counts of one gateway.
#[derive(Clone, Debug, Default)]
pub struct Metrics(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    functions: RwLock<BTreeMap<Arc<str>, Arc<FunctionMetrics>>>,
    held: AtomicUsize,
    connections: AtomicUsize,
    refused_connections: AtomicU64,
    streams: AtomicUsize,
}

#[derive(Debug)]
pub(crate) struct FunctionMetrics {
    /// By the first digit of the status.
    answers: [AtomicU64; 5],
    durations: Histogram,
    cold_starts: Histogram,
    held: AtomicUsize,
    active: AtomicUsize,
    refused: AtomicU64,
    retried: AtomicU64,
    events_delivered: AtomicU64,
    events_failed: AtomicU64,
}

#[derive(Debug)]
struct Histogram {
    bounds: &'static [f64],
    /// One more than there are bounds; each counts only its own.
    counts: Vec<AtomicU64>,
    sum_micros: AtomicU64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Counter,
    Gauge,
    Histogram,
}

/// All samples of one name.
#[derive(Clone, Debug, PartialEq)]
pub struct Family {
    pub name: &'static str,
    pub help: &'static str,
    pub kind: Kind,
    pub samples: Vec<Sample>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// `_bucket`, `_sum`, `_count` of a histogram; empty otherwise.
    pub suffix: &'static str,
    pub labels: Vec<(&'static str, String)>,
    pub value: f64,
}

/// A gauge that is one higher until this is dropped.
#[derive(Debug)]
pub(crate) struct Up<T: AsRef<AtomicUsize>>(T);

const DURATIONS: &[f64] =
    &[0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0];
const COLD_STARTS: &[f64] = &[0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 3.0, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0];

// === impl Metrics ===

impl Metrics {
    pub(crate) fn of(&self, name: &Arc<str>) -> Arc<FunctionMetrics> {
        let mut functions = self.0.functions.write().unwrap_or_else(PoisonError::into_inner);
        functions.entry(name.clone()).or_default().clone()
    }

    /// What is no function any more would stay on the page for ever.
    pub(crate) fn forget(&self, name: &str) {
        self.0.functions.write().unwrap_or_else(PoisonError::into_inner).remove(name);
    }

    pub(crate) fn hold(&self) -> impl Send + use<> {
        Up::new(Of(self.clone(), |inner| &inner.held))
    }

    pub(crate) fn refuse_connection(&self) {
        self.0.refused_connections.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn connection(&self) -> impl Send + Sync + use<> {
        Up::new(Of(self.clone(), |inner| &inner.connections))
    }

    pub(crate) fn stream(&self) -> impl Send + use<> {
        Up::new(Of(self.clone(), |inner| &inner.streams))
    }

    pub(crate) fn streams(&self) -> usize {
        self.0.streams.load(Ordering::Relaxed)
    }

    /// Calls that wait for a pod, all functions together.
    pub fn held(&self) -> usize {
        self.0.held.load(Ordering::Relaxed)
    }

    pub fn families(&self) -> Vec<Family> {
        let each = self.each();
        let gauge = |name, help, read: fn(&FunctionMetrics) -> usize| {
            let samples = each.iter().map(|(name, one)| Sample::of_function(name, read(one) as f64));
            Family { name, help, kind: Kind::Gauge, samples: samples.collect() }
        };
        let counter = |name, help, read: fn(&FunctionMetrics) -> &AtomicU64| {
            let samples = each.iter().map(|(name, one)| Sample::of_function(name, count(read(one))));
            Family { name, help, kind: Kind::Counter, samples: samples.collect() }
        };
        let histogram = |name, help, read: fn(&FunctionMetrics) -> &Histogram| {
            let samples = each.iter().flat_map(|(name, one)| read(one).samples(name));
            Family { name, help, kind: Kind::Histogram, samples: samples.collect() }
        };
        let whole = |name, help, value: &AtomicUsize| {
            let value = value.load(Ordering::Relaxed) as f64;
            let samples = vec![Sample { suffix: "", labels: Vec::new(), value }];
            Family { name, help, kind: Kind::Gauge, samples }
        };
        let classes = each.iter().flat_map(|(name, one)| {
            ["1xx", "2xx", "3xx", "4xx", "5xx"].iter().zip(&one.answers).map(|(class, answers)| {
                let mut sample = Sample::of_function(name, count(answers));
                sample.labels.push(("code", (*class).to_owned()));
                sample
            })
        });
        vec![
            Family {
                name: "ballast_gateway_calls_total",
                help: "Synchronous calls that were answered, by class of status.",
                kind: Kind::Counter,
                samples: classes.collect(),
            },
            histogram(
                "ballast_gateway_call_duration_seconds",
                "From the arrival of a synchronous call to the head of its answer.",
                |one| &one.durations,
            ),
            histogram(
                "ballast_gateway_cold_start_seconds",
                "How long calls waited for the first ready pod.",
                |one| &one.cold_starts,
            ),
            gauge("ballast_gateway_held_calls", "Calls that wait for a ready pod.", FunctionMetrics::held),
            gauge("ballast_gateway_active_calls", "Synchronous calls under way.", FunctionMetrics::active),
            counter(
                "ballast_gateway_refused_calls_total",
                "Calls refused because too many were waiting.",
                |one| &one.refused,
            ),
            counter(
                "ballast_gateway_retried_calls_total",
                "Calls sent again because a pod had refused or closed the connection.",
                |one| &one.retried,
            ),
            counter("ballast_gateway_events_delivered_total", "Events that a pod took.", |one| {
                &one.events_delivered
            }),
            counter("ballast_gateway_events_failed_total", "Events that a pod did not take.", |one| {
                &one.events_failed
            }),
            whole("ballast_gateway_connections", "Connections of clients.", &self.0.connections),
            Family {
                name: "ballast_gateway_refused_connections_total",
                help: "Connections of clients beyond the bounds, in all and of one address.",
                kind: Kind::Counter,
                samples: vec![Sample {
                    suffix: "",
                    labels: Vec::new(),
                    value: count(&self.0.refused_connections),
                }],
            },
            whole("ballast_gateway_status_streams", "Clients of the status stream.", &self.0.streams),
        ]
    }

    fn each(&self) -> Vec<(Arc<str>, Arc<FunctionMetrics>)> {
        let functions = self.0.functions.read().unwrap_or_else(PoisonError::into_inner);
        functions.iter().map(|(name, one)| (name.clone(), one.clone())).collect()
    }
}

/// Appends families in the Prometheus text format.
pub fn render(families: &[Family], page: &mut String) {
    for Family { name, help, kind, samples } in families {
        if samples.is_empty() {
            continue;
        }
        let kind = match kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        };
        // Writing to a String cannot fail.
        let _ = write!(page, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
        for Sample { suffix, labels, value } in samples {
            let _ = write!(page, "{name}{suffix}");
            for (index, (label, value)) in labels.iter().enumerate() {
                let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
                let _ = write!(page, "{}{label}=\"{value}\"", if index == 0 { '{' } else { ',' });
            }
            let _ = writeln!(page, "{} {value}", if labels.is_empty() { "" } else { "}" });
        }
    }
}

fn count(counter: &AtomicU64) -> f64 {
    counter.load(Ordering::Relaxed) as f64
}

impl Sample {
    fn of_function(name: &Arc<str>, value: f64) -> Self {
        Sample { suffix: "", labels: vec![("function", name.to_string())], value }
    }
}

// === impl FunctionMetrics ===

impl Default for FunctionMetrics {
    fn default() -> Self {
        FunctionMetrics {
            answers: Default::default(),
            durations: Histogram::new(DURATIONS),
            cold_starts: Histogram::new(COLD_STARTS),
            held: AtomicUsize::new(0),
            active: AtomicUsize::new(0),
            refused: AtomicU64::new(0),
            retried: AtomicU64::new(0),
            events_delivered: AtomicU64::new(0),
            events_failed: AtomicU64::new(0),
        }
    }
}

impl FunctionMetrics {
    pub(crate) fn answered(&self, status: StatusCode, after: Duration) {
        if let Some(class) = self.answers.get(usize::from(status.as_u16() / 100).wrapping_sub(1)) {
            class.fetch_add(1, Ordering::Relaxed);
        }
        self.durations.observe(after);
    }

    pub(crate) fn cold_start(&self, after: Duration) {
        self.cold_starts.observe(after);
    }

    pub(crate) fn refused(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn retried(&self) {
        self.retried.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn event(&self, is_delivered: bool) {
        let counter = if is_delivered { &self.events_delivered } else { &self.events_failed };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn held(&self) -> usize {
        self.held.load(Ordering::Relaxed)
    }

    pub(crate) fn active(&self) -> usize {
        self.active.load(Ordering::Relaxed)
    }

    pub(crate) fn hold(self: &Arc<Self>) -> Up<Held> {
        Up::new(Held(self.clone()))
    }

    pub(crate) fn activate(self: &Arc<Self>) -> Up<Active> {
        Up::new(Active(self.clone()))
    }
}

// === impl Histogram ===

impl Histogram {
    fn new(bounds: &'static [f64]) -> Self {
        let counts = (0..=bounds.len()).map(|_| AtomicU64::new(0)).collect();
        Histogram { bounds, counts, sum_micros: AtomicU64::new(0) }
    }

    fn observe(&self, value: Duration) {
        let seconds = value.as_secs_f64();
        let bucket = self.bounds.iter().position(|bound| seconds <= *bound).unwrap_or(self.bounds.len());
        self.counts[bucket].fetch_add(1, Ordering::Relaxed);
        self.sum_micros.fetch_add(value.as_micros() as u64, Ordering::Relaxed);
    }

    fn samples(&self, name: &Arc<str>) -> Vec<Sample> {
        let mut samples = Vec::with_capacity(self.counts.len() + 2);
        let mut below = 0;
        let bounds = self.bounds.iter().map(f64::to_string).chain(["+Inf".to_owned()]);
        for (count, bound) in self.counts.iter().zip(bounds) {
            below += count.load(Ordering::Relaxed);
            let mut sample = Sample { suffix: "_bucket", ..Sample::of_function(name, below as f64) };
            sample.labels.push(("le", bound));
            samples.push(sample);
        }
        let sum = count(&self.sum_micros) / 1e6;
        samples.push(Sample { suffix: "_sum", ..Sample::of_function(name, sum) });
        samples.push(Sample { suffix: "_count", ..Sample::of_function(name, below as f64) });
        samples
    }
}

// === impl Up ===

#[derive(Debug)]
pub(crate) struct Held(Arc<FunctionMetrics>);
#[derive(Debug)]
pub(crate) struct Active(Arc<FunctionMetrics>);
struct Of(Metrics, fn(&Inner) -> &AtomicUsize);

impl AsRef<AtomicUsize> for Held {
    fn as_ref(&self) -> &AtomicUsize {
        &self.0.held
    }
}

impl AsRef<AtomicUsize> for Active {
    fn as_ref(&self) -> &AtomicUsize {
        &self.0.active
    }
}

impl AsRef<AtomicUsize> for Of {
    fn as_ref(&self) -> &AtomicUsize {
        (self.1)(&self.0.0)
    }
}

impl<T: AsRef<AtomicUsize>> Up<T> {
    fn new(gauge: T) -> Self {
        gauge.as_ref().fetch_add(1, Ordering::Relaxed);
        Up(gauge)
    }
}

impl<T: AsRef<AtomicUsize>> Drop for Up<T> {
    fn drop(&mut self) {
        self.0.as_ref().fetch_sub(1, Ordering::Relaxed);
    }
}
