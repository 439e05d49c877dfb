//! A VerticalPodAutoscaler alone: the recommender, and an updater that resizes whenever a target differs by a tenth.

use api::hvpa::{EmbeddedVpa, EmbeddedVpaSpec, Hpa, HpaTemplate, HpaTemplateSpec, Mode, Spec, TargetRef};
use serde_json::Value;

use super::{hpa, hvpa, part};
use crate::{
    Error,
    scenario::{Metrics, Pods},
};

/// What an Hvpa does that may not touch the replicas.
pub fn scaler(manifest: &Value, pods: &Pods, metrics: &Metrics) -> Result<hvpa::Scaler, Error> {
    hvpa::ensure_sizes(pods)?;
    let mut spec: EmbeddedVpaSpec = part(manifest, "/spec")?;
    // Here it does update: that is what an Hvpa of which it is a part would refuse.
    spec.update_policy = None;
    let hpa = Hpa {
        selector: None,
        deploy: false,
        scale_up: Default::default(),
        scale_down: Default::default(),
        template: HpaTemplate {
            metadata: None,
            spec: HpaTemplateSpec { min_replicas: None, max_replicas: i32::MAX, metrics: Vec::new() },
        },
    };
    let target_ref =
        TargetRef { api_version: None, kind: "Deployment".to_owned(), name: "simulated".to_owned() };
    let vpa = EmbeddedVpa { spec, ..EmbeddedVpa::default() };
    let whole =
        Spec { mode: Some(Mode::VpaBiased), hpa: Some(hpa), vpa_spec: Some(vpa), ..Spec::of(target_ref) };
    let resolved = whole.resolve().map_err(|error| {
        let mut error = error;
        error.path = error.path.trim_start_matches("vpaSpec.").to_owned();
        Error::from(error)
    })?;
    Ok(hvpa::Scaler::of(resolved.spec, hpa::Scaler::from_spec(resolved.horizontal, metrics)?))
}
