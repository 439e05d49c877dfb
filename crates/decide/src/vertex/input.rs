//! The JSON form: one vertex, what was seen of it, and the pipeline around it.

use std::collections::HashMap;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    Buffer, Decision, Edge, Kind, Limits, Memory, Observed, Partition, Scale, Spec, downstream,
    spec::percent_of,
};
use crate::{
    input::{InputError, check_range, maybe_moment, moment},
    number::Number,
};

/// Everything one vertex decision depends on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Input {
    #[serde(deserialize_with = "moment")]
    pub now: Timestamp,
    pub vertex: VertexForm,
    #[serde(default)]
    pub settings: SettingsForm,
    pub observed: ObservedForm,
    /// Needed for back pressure only.
    #[serde(default)]
    pub pipeline: PipelineForm,
    /// Accepted like everywhere else; a vertex remembers nothing.
    #[serde(default)]
    pub memory: Memory,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct VertexForm {
    #[serde(default)]
    pub name: String,
    pub kind: Kind,
    #[serde(default)]
    pub scale: Scale,
    #[serde(default)]
    pub limits: Limits,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct SettingsForm {
    /// Share of a buffer's usable length from which on it pushes back.
    pub back_pressure_threshold: f64,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ObservedForm {
    /// `status.replicas`.
    pub replicas: i32,
    /// `status.desiredReplicas`; the same as `replicas` if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub desired_replicas: Option<i32>,
    /// All of them if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready_replicas: Option<i32>,
    #[serde(default = "running")]
    pub phase: String,
    #[serde(default)]
    pub rolling_update: bool,
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "maybe_moment")]
    pub last_scaled_at: Option<Timestamp>,
    #[serde(default)]
    pub partitions: Vec<PartitionForm>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PartitionForm {
    #[serde(default)]
    pub name: String,
    /// Unknown if left out or negative.
    #[serde(default)]
    pub pending: Option<i64>,
    #[serde(default)]
    pub ack_pending: i64,
    /// Messages a second; unknown if left out, negative or not finite.
    #[serde(default)]
    pub rate: Option<Number>,
    /// When this was seen; now if left out.
    #[serde(default, deserialize_with = "maybe_moment")]
    pub at: Option<Timestamp>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct PipelineForm {
    pub edges: Vec<Edge>,
    /// The buffers of the vertices downstream, one for each partition.
    pub buffers: Vec<BufferForm>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct BufferForm {
    /// The vertex that reads it.
    pub vertex: String,
    #[serde(default)]
    pub pending: Option<i64>,
    #[serde(default)]
    pub ack_pending: i64,
    #[serde(default = "default_length")]
    pub buffer_max_length: u64,
    #[serde(default = "default_limit")]
    pub buffer_usage_limit: u32,
    #[serde(default, deserialize_with = "maybe_moment")]
    pub at: Option<Timestamp>,
}

impl Input {
    /// # Errors
    /// If bounds contradict each other or a count is out of range.
    pub fn resolve(&self) -> Result<(Spec, Observed), InputError> {
        let VertexForm { name, kind, scale, limits } = &self.vertex;
        check_scale(*kind, scale).map_err(|error| error.under("vertex.scale"))?;
        check_range("vertex.limits.readBatchSize", limits.read_batch_size, 1..=u64::MAX)?;
        check_range("vertex.limits.bufferMaxLength", limits.buffer_max_length, 1..=u64::MAX)?;
        check_range("vertex.limits.bufferUsageLimit", limits.buffer_usage_limit, 1..=100)?;
        check_range("settings.backPressureThreshold", self.settings.back_pressure_threshold, 0.0..=f64::MAX)?;
        let seen = &self.observed;
        check_range("observed.replicas", seen.replicas, 0..=i32::MAX)?;
        let spec = Spec {
            kind: *kind,
            scale: scale.clone(),
            limits: *limits,
            back_pressure_threshold: self.settings.back_pressure_threshold,
        };
        let mut buffers: HashMap<&str, Vec<Buffer>> = HashMap::new();
        for form in &self.pipeline.buffers {
            buffers.entry(&form.vertex).or_default().push(form.resolve());
        }
        let observed = Observed {
            current: seen.replicas,
            desired: seen.desired_replicas.unwrap_or(seen.replicas),
            ready: seen.ready_replicas.unwrap_or(seen.replicas),
            phase: seen.phase.as_str().into(),
            rolling_update: seen.rolling_update,
            last_scaled_at: seen.last_scaled_at,
            partitions: seen.partitions.iter().enumerate().map(|(idx, form)| form.resolve(idx)).collect(),
            downstream: downstream(name, &self.pipeline.edges, &buffers),
        };
        Ok((spec, observed))
    }

    /// # Errors
    /// As [`Input::resolve`].
    pub fn decide(self) -> Result<Decision, InputError> {
        let (spec, observed) = self.resolve()?;
        Ok(super::decide(self.now, &spec, &observed))
    }
}

fn check_scale(kind: Kind, scale: &Scale) -> Result<(), InputError> {
    let min = scale.min.unwrap_or(0);
    check_range("min", min, 0..=i32::MAX)?;
    check_range("max", scale.max.unwrap_or(50.max(min)), min..=i32::MAX)?;
    if let Some(seconds) = scale.target_processing_seconds {
        check_range("targetProcessingSeconds", seconds, 1..=u32::MAX)?;
    }
    if let Some(percent) = scale.target_buffer_availability {
        check_range("targetBufferAvailability", percent, 1..=100)?;
    }
    let Some(cron) = &scale.cron else { return Ok(()) };
    if !matches!(kind, Kind::Source | Kind::MonoVertex) {
        return Err(InputError::new("cron", "only sources and MonoVertices can have cron windows"));
    }
    if scale.disabled {
        return Err(InputError::new("cron", "does not go with disabled: true; remove one of them"));
    }
    if cron.schedules.is_empty() {
        return Err(InputError::new("cron.schedules", "expected at least one schedule"));
    }
    for (idx, window) in cron.schedules.iter().enumerate() {
        let path = format!("cron.schedules[{idx}]");
        check_range(&format!("{path}.min"), window.min, 0..=i32::MAX)?;
        check_range(&format!("{path}.max"), window.max, window.min..=i32::MAX)?;
        if window.start == window.end {
            return Err(InputError::new(format!("{path}.end"), "expected another time than start"));
        }
        if !window.start.same_days(&window.end) {
            let message = "expected the same day, month and weekday fields as start";
            return Err(InputError::new(format!("{path}.end"), message));
        }
    }
    Ok(())
}

impl PartitionForm {
    fn resolve(&self, idx: usize) -> Partition {
        Partition {
            name: match self.name.as_str() {
                "" => format!("partition {idx}").into(),
                name => name.into(),
            },
            pending: self.pending,
            ack_pending: self.ack_pending,
            rate: self.rate.map(|rate| rate.0),
            at: self.at,
        }
    }
}

impl BufferForm {
    fn resolve(&self) -> Buffer {
        let pending = self.pending.filter(|pending| *pending >= 0 && self.ack_pending >= 0);
        Buffer {
            pending: pending.map(|pending| pending.saturating_add(self.ack_pending)),
            usable: percent_of(self.buffer_max_length, self.buffer_usage_limit),
            at: self.at,
        }
    }
}

impl Default for SettingsForm {
    fn default() -> Self {
        SettingsForm { back_pressure_threshold: 0.9 }
    }
}

fn running() -> String {
    "Running".to_owned()
}

fn default_length() -> u64 {
    Limits::default().buffer_max_length
}

fn default_limit() -> u32 {
    Limits::default().buffer_usage_limit
}
