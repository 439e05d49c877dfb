//! What a manifest means in the terms of `decide::vertex`.

use std::collections::BTreeMap;

use decide::{
    input::{InputError, parse},
    vertex::{
        Kind, Limits, Spec,
        input::{SettingsForm, VertexForm},
    },
};

use super::{MonoVertexSpec, Scale, VertexLimits, VertexSpec, VertexType};

/// How a vertex of a pipeline is scaled.
///
/// # Errors
/// If bounds contradict each other, a window of the clock cannot be read, or an annotation has a value that it cannot have.
pub fn vertex_policy(spec: &VertexSpec, annotations: &BTreeMap<String, String>) -> Result<Spec, InputError> {
    let kind = match spec.vertex.vertex_type() {
        VertexType::Source => Kind::Source,
        VertexType::MapUdf => Kind::Udf,
        VertexType::ReduceUdf => Kind::Reduce,
        VertexType::Sink => Kind::Sink,
    };
    let limits = spec.vertex.limits.clone().unwrap_or_default();
    resolve(&spec.vertex.name, kind, &spec.vertex.scale, &limits, annotations)
}

/// How a MonoVertex is scaled.
///
/// # Errors
/// As [`vertex_policy`].
pub fn mono_vertex_policy(
    name: &str,
    spec: &MonoVertexSpec,
    annotations: &BTreeMap<String, String>,
) -> Result<Spec, InputError> {
    resolve(name, Kind::MonoVertex, &spec.scale, &spec.limits(), annotations)
}

pub(super) fn resolve(
    name: &str,
    kind: Kind,
    scale: &Scale,
    limits: &VertexLimits,
    annotations: &BTreeMap<String, String>,
) -> Result<Spec, InputError> {
    let given = annotations.iter().map(|(key, value)| (key.as_str(), value.as_str()));
    let settings = SettingsForm::from_annotations(given)?;
    let text = serde_json::to_string(scale).map_err(|error| InputError::new("", error.to_string()))?;
    let form = VertexForm {
        name: name.to_owned(),
        kind,
        scale: parse(&text).map_err(|error| error.under("scale"))?,
        limits: Limits {
            read_batch_size: positive(limits.read_batch_size, Limits::default().read_batch_size),
            buffer_max_length: positive(limits.buffer_max_length, Limits::default().buffer_max_length),
            buffer_usage_limit: limits
                .buffer_usage_limit
                .and_then(|percent| u32::try_from(percent).ok())
                .unwrap_or(Limits::default().buffer_usage_limit),
            rate_limit: None,
        },
    };
    form.resolve(&settings).map_err(|error| InputError {
        path: error.path.strip_prefix("vertex.").unwrap_or(&error.path).to_owned(),
        ..error
    })
}

fn positive(given: Option<i64>, usual: u64) -> u64 {
    given.and_then(|given| u64::try_from(given).ok()).unwrap_or(usual)
}
