use std::{collections::BTreeMap, fmt, sync::Arc};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::spec::{Behavior, Metric, ResourceTarget, Rules, Settings, Source, Spec, TotalTarget};
use crate::{
    input::{InputError, check_range},
    quantity::Quantity,
    window::{Policy, Select},
};

/// `spec` of an `autoscaling/v2` HorizontalPodAutoscaler.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SpecForm {
    /// Accepted so that a manifest's spec can be pasted whole; a decision does not depend on it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scale_target_ref: Option<ObjectRef>,
    /// 1 if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_replicas: Option<i32>,
    pub max_replicas: i32,
    /// CPU at 80 % of requests if left out.
    #[serde(default)]
    pub metrics: Vec<MetricForm>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub behavior: Option<BehaviorForm>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ObjectRef {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_version: Option<String>,
    pub kind: String,
    pub name: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MetricForm {
    #[serde(rename = "type")]
    pub kind: MetricType,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource: Option<ResourceForm>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub container_resource: Option<ContainerResourceForm>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pods: Option<PodsForm>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub object: Option<ObjectForm>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub external: Option<ExternalForm>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum MetricType {
    Resource,
    ContainerResource,
    Pods,
    Object,
    External,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ResourceForm {
    pub name: String,
    pub target: TargetForm,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ContainerResourceForm {
    pub name: String,
    pub container: String,
    pub target: TargetForm,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PodsForm {
    pub metric: IdentifierForm,
    pub target: TargetForm,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ObjectForm {
    pub described_object: ObjectRef,
    pub metric: IdentifierForm,
    pub target: TargetForm,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ExternalForm {
    pub metric: IdentifierForm,
    pub target: TargetForm,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct IdentifierForm {
    pub name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<LabelSelector>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LabelSelector {
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub match_labels: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub match_expressions: Vec<Requirement>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Requirement {
    pub key: String,
    pub operator: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TargetForm {
    #[serde(rename = "type")]
    pub kind: TargetType,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub average_utilization: Option<i32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub average_value: Option<Quantity>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<Quantity>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum TargetType {
    Utilization,
    Value,
    AverageValue,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct BehaviorForm {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scale_up: Option<RulesForm>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scale_down: Option<RulesForm>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RulesForm {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stabilization_window_seconds: Option<i32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub select_policy: Option<Select>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policies: Option<Vec<Policy>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tolerance: Option<Quantity>,
}

// === resolve ===

impl SpecForm {
    /// # Errors
    /// If it contradicts itself.
    pub fn resolve(&self, settings: Settings) -> Result<Spec, InputError> {
        let min = self.min_replicas.unwrap_or(1);
        check_range("minReplicas", min, 0..=i32::MAX)?;
        check_range("maxReplicas", self.max_replicas, min.max(1)..=i32::MAX)?;
        let mut metrics = Vec::with_capacity(self.metrics.len());
        for (idx, metric) in self.metrics.iter().enumerate() {
            metrics.push(metric.resolve().map_err(|error| error.under(format!("metrics[{idx}]")))?);
        }
        if metrics.is_empty() {
            metrics.push(Metric {
                label: "cpu".into(),
                source: Source::Resource {
                    resource: "cpu".into(),
                    container: None,
                    target: ResourceTarget::Utilization(80),
                },
            });
        }
        let works_without_pods = |metric: &Metric| metric.source.works_without_pods();
        if min == 0 && !metrics.iter().any(works_without_pods) {
            return Err(InputError::new(
                "metrics",
                "expected at least one Object or External metric with minReplicas 0: without pods no other has a value",
            ));
        }
        let behavior = match &self.behavior {
            None => None,
            Some(form) => {
                let up = rules(form.scale_up.as_ref(), Rules::default_up(), "scaleUp");
                let down = rules(form.scale_down.as_ref(), Rules::default_down(&settings), "scaleDown");
                let under = |error: InputError| error.under("behavior");
                Some(Behavior { up: up.map_err(under)?, down: down.map_err(under)? })
            }
        };
        Ok(Spec { min, max: self.max_replicas, metrics, behavior, settings })
    }
}

/// Fields that are given replace the defaults one by one.
fn rules(form: Option<&RulesForm>, mut rules: Rules, path: &str) -> Result<Rules, InputError> {
    let Some(form) = form else { return Ok(rules) };
    if let Some(seconds) = form.stabilization_window_seconds {
        check_range(&format!("{path}.stabilizationWindowSeconds"), seconds, 0..=3600)?;
        rules.window_seconds = seconds.into();
    }
    if let Some(select) = form.select_policy {
        rules.select = select;
    }
    if let Some(policies) = &form.policies {
        if policies.is_empty() {
            return Err(InputError::new(
                format!("{path}.policies"),
                "expected at least one policy, or leave it out",
            ));
        }
        for (idx, policy) in policies.iter().enumerate() {
            check_range(&format!("{path}.policies[{idx}].value"), policy.value, 1..=i32::MAX)?;
            check_range(&format!("{path}.policies[{idx}].periodSeconds"), policy.period_seconds, 1..=1800)?;
        }
        rules.policies.clone_from(policies);
    }
    if let Some(tolerance) = form.tolerance {
        if tolerance.0 < 0 {
            return Err(InputError::new(format!("{path}.tolerance"), "expected zero or more"));
        }
        rules.tolerance = Some(tolerance.0 as f64 / 1000.0);
    }
    Ok(rules)
}

impl MetricForm {
    fn resolve(&self) -> Result<Metric, InputError> {
        for (field, given, belongs) in [
            ("resource", self.resource.is_some(), self.kind == MetricType::Resource),
            (
                "containerResource",
                self.container_resource.is_some(),
                self.kind == MetricType::ContainerResource,
            ),
            ("pods", self.pods.is_some(), self.kind == MetricType::Pods),
            ("object", self.object.is_some(), self.kind == MetricType::Object),
            ("external", self.external.is_some(), self.kind == MetricType::External),
        ] {
            match (given, belongs) {
                (true, false) => {
                    return Err(InputError::new(
                        field,
                        format!("does not belong to type {:?}; remove it", self.kind),
                    ));
                }
                (false, true) => {
                    return Err(InputError::new(
                        field,
                        format!("expected with type {:?}, but missing", self.kind),
                    ));
                }
                _ => {}
            }
        }
        if let Some(form) = &self.resource {
            let target = form.target.of_resource().map_err(|error| error.under("resource.target"))?;
            let source = Source::Resource { resource: form.name.as_str().into(), container: None, target };
            return Ok(Metric { label: form.name.as_str().into(), source });
        }
        if let Some(form) = &self.container_resource {
            let target =
                form.target.of_resource().map_err(|error| error.under("containerResource.target"))?;
            let container: Option<Arc<str>> = Some(form.container.as_str().into());
            let label = format!("{} of container {}", form.name, form.container).into();
            return Ok(Metric {
                label,
                source: Source::Resource { resource: form.name.as_str().into(), container, target },
            });
        }
        if let Some(form) = &self.pods {
            let target =
                form.target.only(TargetType::AverageValue).map_err(|error| error.under("pods.target"))?;
            let label = format!("pods metric {}", form.metric.name).into();
            return Ok(Metric { label, source: Source::Pods { target } });
        }
        if let Some(form) = &self.object {
            let target = form.target.of_total().map_err(|error| error.under("object.target"))?;
            let ObjectRef { kind, name, .. } = &form.described_object;
            let label = format!("{} of {kind}/{name}", form.metric.name).into();
            return Ok(Metric { label, source: Source::Object { target } });
        }
        let Some(form) = &self.external else {
            return Err(InputError::new("type", "no metric source is given"));
        };
        let target = form.target.of_total().map_err(|error| error.under("external.target"))?;
        Ok(Metric {
            label: format!("external metric {}", form.metric.name).into(),
            source: Source::External { target },
        })
    }

    /// What a reading must name to belong to this metric.
    pub(super) fn identity(&self) -> (&str, Option<&LabelSelector>, Option<&ObjectRef>) {
        match (&self.resource, &self.container_resource, &self.pods, &self.object, &self.external) {
            (Some(form), ..) => (&form.name, None, None),
            (_, Some(form), ..) => (&form.name, None, None),
            (_, _, Some(form), ..) => (&form.metric.name, form.metric.selector.as_ref(), None),
            (_, _, _, Some(form), _) => {
                (&form.metric.name, form.metric.selector.as_ref(), Some(&form.described_object))
            }
            (_, _, _, _, Some(form)) => (&form.metric.name, form.metric.selector.as_ref(), None),
            _ => ("", None, None),
        }
    }
}

impl TargetForm {
    fn of_resource(&self) -> Result<ResourceTarget, InputError> {
        match self.kind {
            TargetType::Utilization => {
                self.refuse("averageValue", self.average_value)?;
                self.refuse("value", self.value)?;
                let percent = self.average_utilization.ok_or_else(|| self.missing("averageUtilization"))?;
                check_range("averageUtilization", percent, 1..=i32::MAX)?;
                Ok(ResourceTarget::Utilization(percent))
            }
            TargetType::AverageValue => {
                Ok(ResourceTarget::AverageValue(self.only(TargetType::AverageValue)?))
            }
            TargetType::Value => {
                Err(InputError::new("type", "expected Utilization or AverageValue, found Value"))
            }
        }
    }

    fn of_total(&self) -> Result<TotalTarget, InputError> {
        match self.kind {
            TargetType::Value => Ok(TotalTarget::Value(self.only(TargetType::Value)?)),
            TargetType::AverageValue => Ok(TotalTarget::AverageValue(self.only(TargetType::AverageValue)?)),
            TargetType::Utilization => {
                Err(InputError::new("type", "expected Value or AverageValue, found Utilization"))
            }
        }
    }

    /// The positive quantity that goes with `kind`, and nothing beside it.
    fn only(&self, kind: TargetType) -> Result<Quantity, InputError> {
        if self.kind != kind {
            return Err(InputError::new("type", format!("expected {kind:?}, found {:?}", self.kind)));
        }
        self.refuse("averageUtilization", self.average_utilization)?;
        let (field, wanted, other_field, other) = match kind {
            TargetType::Value => ("value", self.value, "averageValue", self.average_value),
            _ => ("averageValue", self.average_value, "value", self.value),
        };
        self.refuse(other_field, other)?;
        match wanted {
            None => Err(self.missing(field)),
            Some(quantity) if quantity.0 <= 0 => {
                Err(InputError::new(field, format!("expected more than zero, found {quantity}")))
            }
            Some(quantity) => Ok(quantity),
        }
    }

    fn missing(&self, field: &str) -> InputError {
        InputError::new(field, format!("expected with type {:?}, but missing", self.kind))
    }

    fn refuse<T: fmt::Debug>(&self, field: &str, value: Option<T>) -> Result<(), InputError> {
        match value {
            None => Ok(()),
            Some(_) => {
                Err(InputError::new(field, format!("does not belong to type {:?}; remove it", self.kind)))
            }
        }
    }
}
