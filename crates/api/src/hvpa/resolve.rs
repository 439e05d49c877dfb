//! What an Hvpa means in the terms of `decide`.

use std::collections::BTreeMap;

use decide::{
    hpa::input::SpecForm,
    hvpa::{self, Axis, Interval, LimitRange, MaintenanceWindow, Ratio, TimeOfDay},
    input::InputError,
    quantity,
    recommender::{
        self, ContainerMode, ControlledValues,
        amount::{self, Resources},
    },
};
use jiff::SignedDuration;
use k8s_openapi::apimachinery::pkg::{api::resource::Quantity, apis::meta::v1::LabelSelector};
use kube::core::{Selector, SelectorExt};
use serde_json::json;

use super::{
    ChangeParams, Combination, ContainerPolicy, Coupling, Mode, ResourceAmounts, ResourcePolicy, ScaleParams,
    ScaleType, ScalingType, Spec, TemplateMetadata, UpdateMode,
};

/// How old a recommendation may be, and how much a need must differ, where nothing can be said about it.
const STALENESS_SECONDS: i64 = 300;
const TOLERANCE: f64 = 0.1;

/// A spec that can be decided on.
#[derive(Clone, Debug, PartialEq)]
pub struct Resolved {
    pub spec: hvpa::Spec,
    /// The HorizontalPodAutoscaler that recommends replicas.
    pub horizontal: SpecForm,
    pub update_mode: UpdateMode,
    /// A VerticalPodAutoscaler, or a recommender of ours, is wanted.
    pub has_vertical: bool,
}

impl Spec {
    /// # Errors
    /// If a field cannot work, alone or beside another; the path is relative to the spec.
    pub fn resolve(&self) -> Result<Resolved, InputError> {
        let (horizontal, horizontal_sides, bounds_path) = self.horizontal()?;
        let mut vertical = self.vertical()?;
        if self.update_mode == UpdateMode::Off {
            vertical.scale_up.update_mode = hvpa::UpdateMode::Off;
            vertical.scale_down.update_mode = hvpa::UpdateMode::Off;
        }
        let spec = hvpa::Spec {
            mode: self.mode()?,
            min_replicas: horizontal.min_replicas.unwrap_or(1),
            max_replicas: horizontal.max_replicas,
            horizontal: horizontal_sides,
            vertical,
            maintenance_time_window: self.maintenance_window()?,
            coupling: match self.coupling {
                Coupling::Auto => hvpa::Coupling::Auto,
                Coupling::Off => hvpa::Coupling::Off,
            },
            oom_override: self.oom_override,
            staleness_seconds: STALENESS_SECONDS,
            tolerance: TOLERANCE,
        };
        spec.validate().map_err(|error| self.renamed(error, bounds_path))?;
        let has_vertical = self.vpa_spec.is_some() || self.vpa.as_ref().is_some_and(|vpa| vpa.deploy);
        Ok(Resolved { spec, horizontal, update_mode: self.update_mode, has_vertical })
    }

    fn horizontal(&self) -> Result<(SpecForm, hvpa::Horizontal, &'static str), InputError> {
        match (&self.hpa, &self.hpa_spec) {
            (Some(hpa), None) => {
                check_selector(&hpa.selector, &hpa.template.metadata, "hpa")?;
                let template = &hpa.template.spec;
                let metrics: Vec<_> = template.metrics.iter().map(super::Metric::v2).collect();
                let path = "hpa.template.spec";
                let form = json!({
                    "minReplicas": template.min_replicas,
                    "maxReplicas": template.max_replicas,
                    "metrics": metrics,
                });
                let form = decide::input::parse(&form.to_string()).map_err(|error| error.under(path))?;
                let sides = hvpa::Horizontal {
                    deployed: hpa.deploy,
                    scale_up: hpa.scale_up.resolve().map_err(|error| error.under("hpa.scaleUp"))?,
                    scale_down: hpa.scale_down.resolve().map_err(|error| error.under("hpa.scaleDown"))?,
                };
                Ok((form, sides, path))
            }
            (None, Some(embedded)) => {
                let spec = &embedded.spec;
                let metrics = spec.target_cpu_utilization_percentage.map(|percent| {
                    json!({"type": "Resource", "resource": {
                        "name": "cpu", "target": {"type": "Utilization", "averageUtilization": percent},
                    }})
                });
                let form = json!({
                    "minReplicas": spec.min_replicas,
                    "maxReplicas": spec.max_replicas,
                    "metrics": metrics.into_iter().collect::<Vec<_>>(),
                });
                let path = "hpaSpec.spec";
                let form = decide::input::parse(&form.to_string()).map_err(|error| error.under(path))?;
                Ok((form, hvpa::Horizontal::default(), path))
            }
            (Some(_), Some(_)) => Err(InputError::new("hpaSpec", "expected hpa or hpaSpec, found both")),
            (None, None) => Err(InputError::new("hpa", "expected hpa or hpaSpec, found neither")),
        }
    }

    fn vertical(&self) -> Result<hvpa::Vertical, InputError> {
        let policies = |policy: &Option<ResourcePolicy>, path: &str| {
            let policies =
                policy.as_ref().map(|policy| policy.container_policies.as_slice()).unwrap_or_default();
            let resolved = policies.iter().enumerate().map(|(idx, policy)| {
                policy.resolve().map_err(|error| error.under(format!("{path}.containerPolicies[{idx}]")))
            });
            resolved.collect::<Result<Vec<_>, _>>()
        };
        if let Some(vpa) = &self.vpa {
            check_selector(&vpa.selector, &vpa.template.metadata, "vpa")?;
        }
        match (&self.vpa, &self.vpa_spec) {
            (Some(_), Some(_)) => Err(InputError::new("vpaSpec", "expected vpa or vpaSpec, found both")),
            (Some(vpa), None) => Ok(hvpa::Vertical {
                scale_up: vpa.scale_up.resolve().map_err(|error| error.under("vpa.scaleUp"))?,
                scale_down: vpa.scale_down.resolve().map_err(|error| error.under("vpa.scaleDown"))?,
                container_policies: policies(
                    &vpa.template.spec.resource_policy,
                    "vpa.template.spec.resourcePolicy",
                )?,
                limits_requests_gap: vpa
                    .limits_requests_gap_scale_params
                    .resolve()
                    .map_err(|error| error.under("vpa.limitsRequestsGapScaleParams"))?,
                limit_range: LimitRange::default(),
            }),
            (None, Some(embedded)) => {
                let mode =
                    embedded.spec.update_policy.as_ref().and_then(|policy| policy.update_mode.as_deref());
                if let Some(other) = mode.filter(|&mode| mode != "Off") {
                    return Err(expected(
                        "vpaSpec.spec.updatePolicy.updateMode",
                        "Off: an Hvpa applies it",
                        other,
                    ));
                }
                Ok(hvpa::Vertical {
                    container_policies: policies(
                        &embedded.spec.resource_policy,
                        "vpaSpec.spec.resourcePolicy",
                    )?,
                    ..hvpa::Vertical::default()
                })
            }
            (None, None) => Ok(hvpa::Vertical::default()),
        }
    }

    fn mode(&self) -> Result<hvpa::Mode, InputError> {
        if self.mixed.is_some() && self.mode != Some(Mode::Mixed) {
            return Err(InputError::new("mixed", "expected it only beside mode Mixed"));
        }
        Ok(match self.mode.unwrap_or_default() {
            Mode::HpaPreferred => hvpa::Mode::HpaPreferred {
                require_scaling_limited: self.hpa_preferred.unwrap_or_default().require_scaling_limited,
            },
            Mode::HpaBiased => hvpa::Mode::HpaBiased,
            Mode::VpaBiased => hvpa::Mode::VpaBiased {
                max_suppression_seconds: seconds(
                    self.vpa_biased.as_ref().and_then(|biased| biased.max_suppression.as_deref()),
                    "vpaBiased.maxSuppression",
                )?,
            },
            Mode::Mixed => {
                let Some(mixed) = &self.mixed else {
                    return Err(InputError::new("mixed", "expected it beside mode Mixed"));
                };
                let change = |params: &ChangeParams, name: &str| {
                    params.resolve().map_err(|error| error.under(format!("mixed.{name}")))
                };
                hvpa::Mode::Mixed {
                    preference: mixed.preference.axis(),
                    replicas: mixed.replicas,
                    thresholds: hvpa::ScaleParams {
                        cpu: change(&mixed.cpu, "cpu")?,
                        memory: change(&mixed.memory, "memory")?,
                    },
                }
            }
            Mode::RatioBased => hvpa::Mode::Ratio(self.ratio()?),
        })
    }

    fn ratio(&self) -> Result<Ratio, InputError> {
        let intervals = &self.weight_based_scaling_intervals;
        let combination = match self.combination {
            Combination::Path => hvpa::Combination::Path,
            Combination::Additive => hvpa::Combination::Additive,
            Combination::Multiplicative => hvpa::Combination::Multiplicative,
        };
        match &self.ratio_based_scaling_spec {
            Some(_) if !intervals.is_empty() => Err(InputError::new(
                "weightBasedScalingIntervals",
                "expected ratioBasedScalingSpec or weightBasedScalingIntervals, found both",
            )),
            None if intervals.is_empty() => Err(InputError::new(
                "ratioBasedScalingSpec",
                "expected mode, ratioBasedScalingSpec or weightBasedScalingIntervals",
            )),
            None => Ok(Ratio {
                intervals: intervals
                    .iter()
                    .map(|interval| Interval {
                        vpa_weight: interval.vpa_weight.into(),
                        start_replica_count: interval.start_replica_count.unwrap_or(0),
                        last_replica_count: interval.last_replica_count.unwrap_or(0),
                    })
                    .collect(),
                combination,
                ..Ratio::default()
            }),
            Some(ratio) => Ok(Ratio {
                v_to_h_scaling_ratio: ratio.v_to_h_scaling_ratio,
                vpa_weight: ratio.vpa_weight,
                start_replica_count: ratio.start_replica_count.unwrap_or(0),
                finish_replica_count: ratio.finish_replica_count.unwrap_or(0),
                initial_scaling: self.initial_scaling.map(ScalingType::axis),
                final_scaling: self.final_scaling.map(ScalingType::axis),
                intervals: Vec::new(),
                combination,
            }),
        }
    }

    fn maintenance_window(&self) -> Result<Option<MaintenanceWindow>, InputError> {
        let Some(window) = &self.maintenance_time_window else { return Ok(None) };
        let time = |text: &str, field: &str| {
            TimeOfDay::parse(text).ok_or_else(|| {
                expected(&format!("maintenanceTimeWindow.{field}"), "a time such as 220000+0100", text)
            })
        };
        Ok(Some(MaintenanceWindow { begin: time(&window.begin, "begin")?, end: time(&window.end, "end")? }))
    }

    /// `decide` names its own fields; the user knows those of the manifest.
    fn renamed(&self, error: InputError, bounds_path: &str) -> InputError {
        let InputError { path, message } = error;
        let under_ratio = |rest: &str| match rest {
            "initialScaling" | "finalScaling" => rest.to_owned(),
            _ if rest.starts_with("intervals") => {
                rest.replacen("intervals", "weightBasedScalingIntervals", 1)
            }
            _ => format!("ratioBasedScalingSpec.{rest}"),
        };
        let path = match path.split_once('.') {
            _ if path == "minReplicas" || path == "maxReplicas" => format!("{bounds_path}.{path}"),
            Some(("mode", rest)) if self.mode.unwrap_or_default() == Mode::RatioBased => under_ratio(rest),
            Some(("mode", rest)) => format!("mixed.{}", rest.trim_start_matches("thresholds.")),
            Some(("horizontal", rest)) => {
                format!("hpa.{}", rest.replace("updateMode", "updatePolicy.updateMode"))
            }
            Some(("vertical", rest)) => {
                format!("vpa.{}", rest.replace("updateMode", "updatePolicy.updateMode"))
            }
            _ => path,
        };
        InputError::new(path, message)
    }
}

impl ScalingType {
    fn axis(self) -> Axis {
        match self {
            ScalingType::Vertical => Axis::Vertical,
            ScalingType::Horizontal => Axis::Horizontal,
        }
    }
}

impl ScaleType {
    fn resolve(&self) -> Result<hvpa::ScaleType, InputError> {
        let update_mode = match self.update_policy.update_mode.as_deref() {
            None | Some("Auto" | "") => hvpa::UpdateMode::Auto,
            Some("Off") => hvpa::UpdateMode::Off,
            Some("MaintenanceWindow") => hvpa::UpdateMode::MaintenanceWindow,
            Some(other) => {
                return Err(expected("updatePolicy.updateMode", "Auto, Off or MaintenanceWindow", other));
            }
        };
        Ok(hvpa::ScaleType {
            update_mode,
            stabilization_seconds: seconds(self.stabilization_duration.as_deref(), "stabilizationDuration")?
                .unwrap_or(0),
            min_change: self.min_change.resolve().map_err(|error| error.under("minChange"))?,
        })
    }
}

impl ScaleParams {
    fn resolve(&self) -> Result<hvpa::ScaleParams, InputError> {
        Ok(hvpa::ScaleParams {
            cpu: self.cpu.resolve().map_err(|error| error.under("cpu"))?,
            memory: self.memory.resolve().map_err(|error| error.under("memory"))?,
        })
    }
}

impl ChangeParams {
    fn resolve(&self) -> Result<hvpa::ChangeParams, InputError> {
        Ok(hvpa::ChangeParams { value: parsed(&self.value, "value")?, percentage: self.percentage })
    }
}

impl ContainerPolicy {
    fn resolve(&self) -> Result<recommender::ContainerPolicy, InputError> {
        let mode = match self.mode.as_deref() {
            None | Some("Auto") => ContainerMode::Auto,
            Some("Off") => ContainerMode::Off,
            Some(other) => return Err(expected("mode", "Auto or Off", other)),
        };
        let controlled_values = match self.controlled_values.as_deref() {
            None | Some("RequestsAndLimits") => ControlledValues::RequestsAndLimits,
            Some("RequestsOnly") => ControlledValues::RequestsOnly,
            Some(other) => {
                return Err(expected("controlledValues", "RequestsAndLimits or RequestsOnly", other));
            }
        };
        let mut controlled_resources = Vec::new();
        for (idx, name) in self.controlled_resources.iter().flatten().enumerate() {
            let known = amount::Resource::ALL.into_iter().find(|resource| resource.name() == name);
            let resource = known
                .ok_or_else(|| expected(&format!("controlledResources[{idx}]"), "cpu or memory", name))?;
            controlled_resources.push(resource);
        }
        if self.controlled_resources.is_none() {
            controlled_resources = amount::Resource::ALL.to_vec();
        }
        let (min_allowed, max_allowed) =
            (self.min_allowed.resolve("minAllowed")?, self.max_allowed.resolve("maxAllowed")?);
        for resource in amount::Resource::ALL {
            if let (Some(min), Some(max)) = (min_allowed.get(resource), max_allowed.get(resource))
                && min > max
            {
                let message =
                    format!("expected no less than minAllowed, which is {}", resource.quantity(min));
                return Err(InputError::new(format!("maxAllowed.{resource}"), message));
            }
        }
        Ok(recommender::ContainerPolicy {
            container_name: self.container_name.clone(),
            mode,
            min_allowed,
            max_allowed,
            controlled_resources,
            controlled_values,
        })
    }
}

impl ResourceAmounts {
    fn resolve(&self, path: &str) -> Result<Resources, InputError> {
        let amount = |value: &Option<Quantity>, resource: amount::Resource| {
            let quantity = parsed(value, resource.name()).map_err(|error| error.under(path))?;
            Ok::<_, InputError>(quantity.map(|quantity| resource.amount_of(quantity)))
        };
        Ok(Resources {
            cpu: amount(&self.cpu, amount::Resource::Cpu)?,
            memory: amount(&self.memory, amount::Resource::Memory)?,
        })
    }
}

fn parsed(value: &Option<Quantity>, path: &str) -> Result<Option<quantity::Quantity>, InputError> {
    let Some(Quantity(text)) = value else { return Ok(None) };
    let quantity: quantity::Quantity =
        text.parse().map_err(|error: quantity::ParseError| InputError::new(path, error.to_string()))?;
    if quantity.0 < 0 {
        return Err(expected(path, "a quantity of 0 or more", text));
    }
    Ok(Some(quantity))
}

/// What is made from a template has to be found again by the selector beside it, and nothing else by an empty one.
fn check_selector(
    selector: &Option<LabelSelector>,
    metadata: &Option<TemplateMetadata>,
    side: &str,
) -> Result<(), InputError> {
    let Some(selector) = selector else { return Ok(()) };
    let wrong = |message: String| Err(InputError::new(format!("{side}.selector"), message));
    let n_labels = selector.match_labels.as_ref().map_or(0, BTreeMap::len);
    if n_labels + selector.match_expressions.as_ref().map_or(0, Vec::len) == 0 {
        return wrong("expected matchLabels or matchExpressions, found neither".to_owned());
    }
    let labels = metadata.as_ref().map(|metadata| metadata.labels.clone()).unwrap_or_default();
    match Selector::try_from(selector.clone()) {
        Err(error) => wrong(error.to_string()),
        Ok(selector) if !selector.matches(&labels) => {
            wrong(format!("expected it to match the labels of {side}.template.metadata"))
        }
        Ok(_) => Ok(()),
    }
}

fn seconds(text: Option<&str>, path: &str) -> Result<Option<i64>, InputError> {
    let Some(text) = text else { return Ok(None) };
    let length: SignedDuration =
        text.parse().map_err(|_| expected(path, "a length of time such as 3m", text))?;
    if length.is_negative() {
        return Err(expected(path, "a length of time of 0 or more", text));
    }
    Ok(Some(length.as_secs()))
}

fn expected(path: &str, what: &str, found: &str) -> InputError {
    InputError::new(path, format!("expected {what}, found {found:?}"))
}
