//! What a vertex asks for, in the names of its manifest.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{cron::Cron, decision::sooner, window::cooling, zone::Zone};

#[derive(Clone, Debug, PartialEq)]
pub struct Spec {
    pub kind: Kind,
    pub scale: Scale,
    pub limits: Limits,
    /// Share of the usable buffer from which on a vertex pushes back, 0.9 by default.
    pub back_pressure_threshold: f64,
    pub model: VertexModel,
    /// Share of what a busy pod does that is aimed at, 0.85 by default.
    pub target_saturation: f64,
}

/// Whether a vertex goes by the formulas alone; the annotation `ballast.dev/vertex-model`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum VertexModel {
    /// Never fewer pods than what arrives needs, by what a busy pod has been seen to do.
    #[default]
    Learned,
    /// The formulas alone.
    Formula,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Kind {
    Source,
    #[serde(rename = "UDF")]
    Udf,
    Sink,
    /// Its replicas are its partitions; it is never scaled.
    Reduce,
    /// Source and sink in one pod, without buffers.
    MonoVertex,
}

/// `spec.scale`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Scale {
    #[serde(default)]
    pub disabled: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min: Option<i32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max: Option<i32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lookback_seconds: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zero_replica_sleep_seconds: Option<u32>,
    /// On a UDF or sink this chooses the hybrid model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_processing_seconds: Option<u32>,
    /// Percent of the buffer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_buffer_availability: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scale_up_cooldown_seconds: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scale_down_cooldown_seconds: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas_per_scale_up: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas_per_scale_down: Option<u32>,
    /// The older name for both of the above.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas_per_scale: Option<u32>,
    /// No longer a setting; old manifests still carry it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cooldown_seconds: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cron: Option<CronScale>,
}

/// Bounds by the clock; the first window that is open counts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CronScale {
    #[serde(default = "Zone::utc")]
    pub timezone: Zone,
    pub schedules: Vec<CronWindow>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CronWindow {
    pub start: Cron,
    pub end: Cron,
    pub min: i32,
    pub max: i32,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Limits {
    pub read_batch_size: u64,
    pub buffer_max_length: u64,
    /// Percent of the buffer that may be used.
    pub buffer_usage_limit: u32,
    pub rate_limit: Option<RateLimit>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RateLimit {
    /// Messages a second; for a source, batches a second.
    pub max: u64,
}

/// The bounds in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    pub min: i32,
    pub max: i32,
    /// Which cron window set them.
    pub window: Option<u32>,
}

// === impl Spec ===

impl Spec {
    pub fn bounds(&self, now: Timestamp) -> Bounds {
        let open = self.scale.cron.iter().flat_map(|cron| {
            cron.schedules.iter().enumerate().filter(|(_, window)| window.is_open(now, &cron.timezone))
        });
        match open.into_iter().next() {
            Some((idx, window)) => {
                Bounds { min: window.min.max(0), max: window.max.max(0), window: u32::try_from(idx).ok() }
            }
            None => Bounds {
                min: self.scale.min.unwrap_or(0).max(0),
                max: self.scale.max.unwrap_or(50).max(0),
                window: None,
            },
        }
    }

    /// When a cron window next opens or closes.
    pub fn next_window(&self, now: Timestamp) -> Option<Timestamp> {
        let cron = self.scale.cron.as_ref()?;
        let edges = cron.schedules.iter().flat_map(|window| [&window.start, &window.end]);
        edges.map(|edge| edge.next(now, &cron.timezone)).fold(None, sooner)
    }

    pub(super) fn learns(&self) -> bool {
        self.model == VertexModel::Learned
    }

    pub fn is_source(&self) -> bool {
        matches!(self.kind, Kind::Source | Kind::MonoVertex)
    }

    /// Messages that the buffer may hold: 50000 at 80 % are 40000.
    pub fn usable_length(&self) -> i64 {
        percent_of(self.limits.buffer_max_length, self.limits.buffer_usage_limit)
    }

    /// Whether messages count as they were last seen, and not as a mean over the lookback, in which 24000 that came at once are
    /// 1000 at first: they fill the buffer, so that its writers wait, and the count has not changed for a lookback. After a
    /// change the mean tells what it has brought. The formulas alone have the mean always, as the public controller does.
    pub fn counts_at_once(&self, now: Timestamp, last_scaled_at: Option<Timestamp>, waiting: i64) -> bool {
        let is_full = !self.is_source() && waiting >= self.usable_length();
        self.learns() && is_full && cooling(now, last_scaled_at, self.scale.lookback_seconds()).is_none()
    }

    /// Free places in the buffer that are aimed at.
    pub fn target_available(&self) -> i64 {
        percent_of(self.limits.buffer_max_length, self.scale.target_buffer_availability.unwrap_or(50))
    }

    /// From this rate on the limit and not a lack of pods holds a vertex back.
    pub fn rate_limit(&self) -> Option<u64> {
        let max = self.limits.rate_limit?.max;
        Some(if self.is_source() { max.saturating_mul(self.limits.read_batch_size) } else { max })
    }
}

/// `percent` of `whole`, rounded down, held at `i64::MAX`.
pub(super) fn percent_of(whole: u64, percent: u32) -> i64 {
    i64::try_from(u128::from(whole) * u128::from(percent) / 100).unwrap_or(i64::MAX)
}

// === impl Scale ===

impl Scale {
    pub fn lookback_seconds(&self) -> i64 {
        i64::from(self.lookback_seconds.unwrap_or(120).min(600))
    }

    pub fn zero_replica_sleep_seconds(&self) -> i64 {
        self.zero_replica_sleep_seconds.unwrap_or(120).into()
    }

    /// At least a second, as nothing is done in none.
    pub fn target_processing_seconds(&self) -> i64 {
        self.target_processing_seconds.unwrap_or(20).max(1).into()
    }

    pub fn up_cooldown_seconds(&self) -> i64 {
        self.scale_up_cooldown_seconds.unwrap_or(90).into()
    }

    pub fn down_cooldown_seconds(&self) -> i64 {
        self.scale_down_cooldown_seconds.unwrap_or(90).into()
    }

    pub fn step_up(&self) -> i32 {
        step(self.replicas_per_scale_up.or(self.replicas_per_scale))
    }

    pub fn step_down(&self) -> i32 {
        step(self.replicas_per_scale_down.or(self.replicas_per_scale))
    }
}

fn step(replicas: Option<u32>) -> i32 {
    i32::try_from(replicas.unwrap_or(2)).unwrap_or(i32::MAX)
}

impl CronWindow {
    /// The start belongs to the window, the end does not; windows across midnight need no care.
    fn is_open(&self, now: Timestamp, zone: &Zone) -> bool {
        match (self.end.next(now, zone), self.start.next(now, zone)) {
            (Some(end), Some(start)) => end < start,
            (Some(_), None) => true,
            (None, _) => false,
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Limits { read_batch_size: 500, buffer_max_length: 30_000, buffer_usage_limit: 80, rate_limit: None }
    }
}
