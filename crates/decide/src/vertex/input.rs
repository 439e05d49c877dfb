//! The JSON form: one vertex, what was seen of it, and the pipeline around it.

use std::collections::HashMap;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    Buffer, Decision, Edge, Kind, Limits, Memory, Observed, Partition, Sample, Scale, Spec, VertexModel,
    downstream, spec::percent_of,
};
use crate::{
    input::{InputError, check_range, maybe_moment, moment},
    number::Number,
};

/// More looks than 10 minutes, the longest lookback, can hold at two a second.
const MAX_SAMPLES: usize = 1200;

/// Whether a vertex goes by the formulas alone.
pub const MODEL_ANNOTATION: &str = "ballast.dev/vertex-model";

/// The share of what a busy pod does that is aimed at.
pub const SATURATION_ANNOTATION: &str = "ballast.dev/target-saturation";

/// Everything one vertex decision depends on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Input {
    /// The time of the decision.
    #[serde(deserialize_with = "moment")]
    pub now: Timestamp,
    /// The vertex as its manifest has it.
    pub vertex: VertexForm,
    /// What annotations and the operator's settings add to it.
    #[serde(default)]
    pub settings: SettingsForm,
    /// What was seen of it.
    pub observed: ObservedForm,
    /// Needed for back pressure only.
    #[serde(default)]
    pub pipeline: PipelineForm,
    /// What the decision before returned; `{}` for the first.
    #[serde(default)]
    pub memory: Memory,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct VertexForm {
    /// As edges name it.
    #[serde(default)]
    pub name: String,
    /// What the vertex does.
    pub kind: Kind,
    /// `spec.scale`.
    #[serde(default)]
    pub scale: Scale,
    /// `spec.limits`.
    #[serde(default)]
    pub limits: Limits,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct SettingsForm {
    /// Share of a buffer's usable length from which on it pushes back.
    #[schemars(range(min = 0))]
    pub back_pressure_threshold: f64,
    /// `Learned`: never fewer pods than what arrives needs, by what a busy pod has been seen to do; `Formula`: the formulas
    /// alone. The annotation `ballast.dev/vertex-model`.
    pub model: VertexModel,
    /// Share of what a busy pod does that is aimed at: with 0.85, 1000 messages a second and pods of 100 need 12. The
    /// annotation `ballast.dev/target-saturation`.
    #[schemars(range(min = 0.1, max = 1))]
    pub target_saturation: f64,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ObservedForm {
    /// `status.replicas`.
    #[schemars(range(min = 0))]
    pub replicas: i32,
    /// `status.desiredReplicas`; the same as `replicas` if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub desired_replicas: Option<i32>,
    /// `status.readyReplicas`; all of them if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready_replicas: Option<i32>,
    /// `status.phase`; only a vertex that is `Running` is scaled.
    #[serde(default = "running")]
    pub phase: String,
    /// Whether pods of two templates are there.
    #[serde(default)]
    pub rolling_update: bool,
    /// `status.lastScaledAt`; cooldowns begin with it.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "maybe_moment")]
    pub last_scaled_at: Option<Timestamp>,
    /// Since when one of the pods has been ready without a break. A vertex is stuck once such a pod did nothing for a whole
    /// lookback; left out, `lastScaledAt` alone counts.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "maybe_moment")]
    pub ready_since: Option<Timestamp>,
    /// One for each of the vertex's buffers; a single one for a source.
    #[serde(default)]
    pub partitions: Vec<PartitionForm>,
    /// Looks at the whole vertex over the last lookback, oldest first, such as one every 5 s. From them the policy learns
    /// what a busy pod does and what arrives, and keeps it in the memory. Leave a look out if a pod did not answer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 1200))]
    pub samples: Vec<SampleForm>,
    /// What tells these pods from those of another template, such as `status.currentHash`: what was learned holds for one
    /// template. Left out, it is taken to be the same as before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub template: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PartitionForm {
    /// For explanations; its number if left out.
    #[serde(default)]
    pub name: String,
    /// Messages delivered to nobody yet, over the lookback; unknown if left out or negative.
    #[serde(default)]
    pub pending: Option<i64>,
    /// Messages delivered, but not acknowledged.
    #[serde(default)]
    pub ack_pending: i64,
    /// Messages a second over the lookback; unknown if left out, negative or not finite.
    #[serde(default)]
    pub rate: Option<Number>,
    /// When this was seen; now if left out.
    #[serde(default, deserialize_with = "maybe_moment")]
    pub at: Option<Timestamp>,
}

/// One look at the vertex, all partitions and pods together.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SampleForm {
    #[serde(deserialize_with = "moment")]
    pub at: Timestamp,
    /// Messages delivered to nobody yet.
    #[schemars(range(min = 0))]
    pub pending: i64,
    /// Messages delivered, but not acknowledged.
    #[serde(default)]
    #[schemars(range(min = 0))]
    pub ack_pending: i64,
    /// Messages processed so far by all pods, a counter: only its growth counts, and what lies before a fall is ignored.
    #[schemars(range(min = 0))]
    pub processed: f64,
    /// Pods that were ready.
    #[schemars(range(min = 0))]
    pub ready: i32,
    /// The highest share of its usable length that a buffer directly downstream had: pods that wait for room say nothing
    /// about what they can do.
    #[serde(default)]
    #[schemars(range(min = 0))]
    pub downstream_usage: f64,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct PipelineForm {
    /// All edges of the pipeline, or those from this vertex on.
    pub edges: Vec<Edge>,
    /// The buffers of the vertices downstream, one for each partition.
    pub buffers: Vec<BufferForm>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct BufferForm {
    /// The vertex that reads it.
    pub vertex: String,
    /// Messages delivered to nobody yet, over the lookback; unknown if left out or negative.
    #[serde(default)]
    pub pending: Option<i64>,
    /// Messages delivered, but not acknowledged.
    #[serde(default)]
    pub ack_pending: i64,
    /// Messages that it has room for.
    #[serde(default = "default_length")]
    pub buffer_max_length: u64,
    /// Percent of that which may be used.
    #[serde(default = "default_limit")]
    #[schemars(range(min = 1, max = 100))]
    pub buffer_usage_limit: u32,
    /// When this was seen; now if left out.
    #[serde(default, deserialize_with = "maybe_moment")]
    pub at: Option<Timestamp>,
}

impl Input {
    /// # Errors
    /// If bounds contradict each other or a count is out of range.
    pub fn resolve(&self) -> Result<(Spec, Observed), InputError> {
        let VertexForm { name, .. } = &self.vertex;
        let spec = self.vertex.resolve(&self.settings)?;
        let seen = &self.observed;
        check_range("observed.replicas", seen.replicas, 0..=i32::MAX)?;
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
            ready_since: seen.ready_since,
            partitions: seen.partitions.iter().enumerate().map(|(idx, form)| form.resolve(idx)).collect(),
            downstream: downstream(name, &self.pipeline.edges, &buffers),
            samples: samples(&seen.samples)?,
            template: seen.template.as_deref().map(Into::into),
        };
        Ok((spec, observed))
    }

    /// # Errors
    /// As [`Input::resolve`].
    pub fn decide(self) -> Result<Decision, InputError> {
        let (spec, observed) = self.resolve()?;
        Ok(super::decide(self.now, &spec, &observed, &self.memory))
    }
}

fn samples(forms: &[SampleForm]) -> Result<Vec<Sample>, InputError> {
    let path = |idx: usize, field: &str| format!("observed.samples[{idx}].{field}");
    if forms.len() > MAX_SAMPLES {
        let message = format!("expected at most {MAX_SAMPLES} looks, found {}", forms.len());
        return Err(InputError::new("observed.samples", message));
    }
    for (idx, form) in forms.iter().enumerate() {
        check_range(&path(idx, "pending"), form.pending, 0..=i64::MAX)?;
        check_range(&path(idx, "ackPending"), form.ack_pending, 0..=i64::MAX)?;
        check_range(&path(idx, "processed"), form.processed, 0.0..=f64::MAX)?;
        check_range(&path(idx, "ready"), form.ready, 0..=i32::MAX)?;
        check_range(&path(idx, "downstreamUsage"), form.downstream_usage, 0.0..=f64::MAX)?;
        if idx > 0 && form.at <= forms[idx - 1].at {
            return Err(InputError::new(
                path(idx, "at"),
                "expected a later time than that of the look before",
            ));
        }
    }
    let resolve = |form: &SampleForm| Sample {
        at: form.at,
        pending: form.pending,
        ack_pending: form.ack_pending,
        processed: form.processed,
        ready: form.ready,
        downstream_usage: form.downstream_usage,
    };
    Ok(forms.iter().map(resolve).collect())
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

impl VertexForm {
    /// What the vertex asks for.
    ///
    /// # Errors
    /// If bounds contradict each other or a number is out of range.
    pub fn resolve(&self, settings: &SettingsForm) -> Result<Spec, InputError> {
        let VertexForm { kind, scale, limits, .. } = self;
        check_scale(*kind, scale).map_err(|error| error.under("vertex.scale"))?;
        check_range("vertex.limits.readBatchSize", limits.read_batch_size, 1..=u64::MAX)?;
        check_range("vertex.limits.bufferMaxLength", limits.buffer_max_length, 1..=u64::MAX)?;
        check_range("vertex.limits.bufferUsageLimit", limits.buffer_usage_limit, 1..=100)?;
        let SettingsForm { back_pressure_threshold, model, target_saturation } = *settings;
        check_range("settings.backPressureThreshold", back_pressure_threshold, 0.0..=f64::MAX)?;
        check_range("settings.targetSaturation", target_saturation, 0.1..=1.0)?;
        Ok(Spec {
            kind: *kind,
            scale: scale.clone(),
            limits: *limits,
            back_pressure_threshold,
            model,
            target_saturation,
        })
    }
}

impl SettingsForm {
    /// The settings that a manifest's annotations make.
    ///
    /// # Errors
    /// If an annotation of ours has a value that it cannot have.
    pub fn from_annotations<'a>(
        annotations: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Result<Self, InputError> {
        let mut settings = SettingsForm::default();
        for (key, value) in annotations {
            let refused = |expected: &str| {
                InputError::new(
                    format!("annotations[{key}]"),
                    format!("expected {expected}, found {value:?}"),
                )
            };
            match key {
                MODEL_ANNOTATION => {
                    settings.model = match value {
                        "Learned" => VertexModel::Learned,
                        "Formula" => VertexModel::Formula,
                        _ => return Err(refused("Learned or Formula")),
                    };
                }
                SATURATION_ANNOTATION => {
                    let share = value.parse().ok().filter(|share| (0.1..=1.0).contains(share));
                    settings.target_saturation = share.ok_or_else(|| refused("a share from 0.1 to 1"))?;
                }
                _ => {}
            }
        }
        Ok(settings)
    }
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
        SettingsForm { back_pressure_threshold: 0.9, model: VertexModel::Learned, target_saturation: 0.85 }
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
