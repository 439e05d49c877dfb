//! `/metrics`: figures as text.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::Write;

use metrics::{Database, Gauge};

/// Whoever has figures to show. Asked at every scrape, so it should be quick.
pub trait Exposed: Send + Sync {
    fn families(&self) -> Vec<Family>;
}

impl<F: Fn() -> Vec<Family> + Send + Sync> Exposed for F {
    fn families(&self) -> Vec<Family> {
        self()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Counter,
    Gauge,
    /// Its figures are `_bucket` (with `le`), `_sum` and `_count`.
    Histogram,
    Untyped,
}

/// All figures of one name.
#[derive(Debug, Clone, PartialEq)]
pub struct Family {
    pub name: Cow<'static, str>,
    pub help: Cow<'static, str>,
    pub kind: Kind,
    pub figures: Vec<Figure>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Figure {
    /// What comes after the family's name: empty, or `_bucket`, `_sum`, `_count` of a histogram.
    pub suffix: &'static str,
    pub labels: Vec<(String, String)>,
    pub value: f64,
}

// === impl Family ===

impl Family {
    pub fn new(name: impl Into<Cow<'static, str>>, help: impl Into<Cow<'static, str>>, kind: Kind) -> Self {
        Self { name: name.into(), help: help.into(), kind, figures: Vec::new() }
    }

    pub fn with(self, labels: &[(&str, &str)], value: f64) -> Self {
        self.figure("", labels, value)
    }

    /// A histogram's figures: upper bounds with the number of observations up to each, their sum and their number.
    pub fn observed(
        mut self,
        labels: &[(&str, &str)],
        buckets: impl IntoIterator<Item = (f64, u64)>,
        sum: f64,
        count: u64,
    ) -> Self {
        let infinite = [(f64::INFINITY, count)];
        for (bound, n) in buckets.into_iter().filter(|(bound, _)| bound.is_finite()).chain(infinite) {
            let le = promql::format_value(bound);
            self = self.figure("_bucket", &[labels, &[("le", &le)]].concat(), n as f64);
        }
        self.figure("_sum", labels, sum).figure("_count", labels, count as f64)
    }

    fn figure(mut self, suffix: &'static str, labels: &[(&str, &str)], value: f64) -> Self {
        let labels = labels.iter().map(|(n, v)| (n.to_string(), v.to_string())).collect();
        self.figures.push(Figure { suffix, labels, value });
        self
    }

    /// Families of figures that only have names: what they are is read off the ending.
    pub fn of_gauges(gauges: &[Gauge]) -> Vec<Self> {
        let has_buckets = |base: &str| {
            gauges.iter().any(|g| g.name.strip_suffix("_bucket").is_some_and(|name| name == base))
        };
        let mut families: BTreeMap<&str, Self> = BTreeMap::new();
        for gauge in gauges {
            let part = ["_bucket", "_sum", "_count"]
                .into_iter()
                .find_map(|suffix| Some((gauge.name.strip_suffix(suffix)?, suffix)))
                .filter(|(base, _)| has_buckets(base));
            let (name, suffix, kind) = match part {
                Some((base, suffix)) => (base, suffix, Kind::Histogram),
                None if gauge.name.ends_with("_total") => (gauge.name.as_str(), "", Kind::Counter),
                None => (gauge.name.as_str(), "", Kind::Gauge),
            };
            let family = families.entry(name).or_insert_with(|| Self::new(name.to_string(), "", kind));
            family.figures.push(Figure { suffix, labels: gauge.labels.clone(), value: gauge.value });
        }
        families.into_values().collect()
    }
}

pub(crate) fn of_store(database: &Database) -> Vec<Family> {
    let figures = database.view().figures();
    let counters = database.counters();
    let gauge = |name: &'static str, help: &'static str, n: usize| {
        Family::new(name, help, Kind::Gauge).with(&[], n as f64)
    };
    let counter = |name: &'static str, help: &'static str, n: u64| {
        Family::new(name, help, Kind::Counter).with(&[], n as f64)
    };
    vec![
        gauge("ballast_store_series", "Series with samples in the metric store.", figures.series_count),
        gauge("ballast_store_points", "Samples in the metric store.", figures.total_points),
        counter(
            "ballast_store_evicted_series_total",
            "Ended series that made room before they expired.",
            counters.evicted,
        ),
        counter(
            "ballast_store_refused_series_total",
            "New series that found the store full.",
            counters.refused,
        ),
        counter(
            "ballast_store_duplicate_samples_total",
            "Samples of a series that its scrape had brought already.",
            counters.duplicates,
        ),
    ]
}

/// The text format. Families of one name become one, in the order of names.
pub fn render(families: Vec<Family>) -> String {
    let mut by_name: BTreeMap<String, Family> = BTreeMap::new();
    for family in families {
        match by_name.get_mut(&*family.name) {
            Some(known) => known.figures.extend(family.figures),
            None => drop(by_name.insert(family.name.to_string(), family)),
        }
    }
    let mut out = String::new();
    for (name, family) in &by_name {
        if !family.help.is_empty() {
            let help = family.help.replace('\\', "\\\\").replace('\n', "\\n");
            let _ = writeln!(out, "# HELP {name} {help}");
        }
        let kind = match family.kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
            Kind::Untyped => "untyped",
        };
        let _ = writeln!(out, "# TYPE {name} {kind}");
        for Figure { suffix, labels, value } in &family.figures {
            let _ = write!(out, "{name}{suffix}");
            for (at, (label, value)) in labels.iter().enumerate() {
                let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
                let _ = write!(out, "{}{label}=\"{value}\"", if at == 0 { "{" } else { "," });
            }
            let end = if labels.is_empty() { "" } else { "}" };
            let _ = writeln!(out, "{end} {}", promql::format_value(*value));
        }
    }
    out
}
