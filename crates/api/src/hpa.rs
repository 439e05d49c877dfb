//! A HorizontalPodAutoscaler as the API has it, in the terms of `decide`.

use decide::{
    hpa::{
        Settings, Spec,
        input::{
            BehaviorForm, ContainerResourceForm, ExternalForm, IdentifierForm, LabelSelector, MetricForm,
            MetricType, ObjectForm, ObjectRef, PodsForm, Requirement, ResourceForm, RulesForm, SpecForm,
            TargetForm, TargetType,
        },
    },
    input::{InputError, shown},
    quantity::Quantity,
    window::{Policy, PolicyType, Select},
};
use k8s_openapi::{
    api::autoscaling::v2::{
        CrossVersionObjectReference, HPAScalingRules, HorizontalPodAutoscalerBehavior,
        HorizontalPodAutoscalerSpec, MetricIdentifier, MetricSpec, MetricTarget,
    },
    apimachinery::pkg::{api::resource, apis::meta::v1 as meta},
};

/// The spec with every default filled in, and its form, which tells readings apart.
///
/// # Errors
/// If it contradicts itself, or something in it is not known.
pub fn spec(spec: &HorizontalPodAutoscalerSpec, settings: Settings) -> Result<(Spec, SpecForm), InputError> {
    let form = form(spec)?;
    Ok((form.resolve(settings)?, form))
}

fn form(spec: &HorizontalPodAutoscalerSpec) -> Result<SpecForm, InputError> {
    let metrics = spec.metrics.iter().flatten().enumerate();
    let metrics = metrics
        .map(|(idx, metric)| metric_form(metric).map_err(|error| error.under(format!("metrics[{idx}]"))));
    Ok(SpecForm {
        scale_target_ref: Some(object(&spec.scale_target_ref)),
        min_replicas: spec.min_replicas,
        max_replicas: spec.max_replicas,
        metrics: metrics.collect::<Result<_, _>>()?,
        behavior: spec
            .behavior
            .as_ref()
            .map(behavior)
            .transpose()
            .map_err(|error| error.under("behavior"))?,
    })
}

fn metric_form(metric: &MetricSpec) -> Result<MetricForm, InputError> {
    let kind = one_of(
        "type",
        &metric.type_,
        &[
            ("Resource", MetricType::Resource),
            ("ContainerResource", MetricType::ContainerResource),
            ("Pods", MetricType::Pods),
            ("Object", MetricType::Object),
            ("External", MetricType::External),
        ],
    )?;
    let mut form = MetricForm {
        kind,
        resource: None,
        container_resource: None,
        pods: None,
        object: None,
        external: None,
    };
    if let Some(of) = &metric.resource {
        let target = target(&of.target).map_err(|error| error.under("resource.target"))?;
        form.resource = Some(ResourceForm { name: of.name.clone(), target });
    }
    if let Some(of) = &metric.container_resource {
        let target = target(&of.target).map_err(|error| error.under("containerResource.target"))?;
        form.container_resource =
            Some(ContainerResourceForm { name: of.name.clone(), container: of.container.clone(), target });
    }
    if let Some(of) = &metric.pods {
        let target = target(&of.target).map_err(|error| error.under("pods.target"))?;
        form.pods = Some(PodsForm { metric: identifier(&of.metric), target });
    }
    if let Some(of) = &metric.object {
        let target = target(&of.target).map_err(|error| error.under("object.target"))?;
        let described_object = object(&of.described_object);
        form.object = Some(ObjectForm { described_object, metric: identifier(&of.metric), target });
    }
    if let Some(of) = &metric.external {
        let target = target(&of.target).map_err(|error| error.under("external.target"))?;
        form.external = Some(ExternalForm { metric: identifier(&of.metric), target });
    }
    Ok(form)
}

fn target(target: &MetricTarget) -> Result<TargetForm, InputError> {
    let kinds = [
        ("Utilization", TargetType::Utilization),
        ("Value", TargetType::Value),
        ("AverageValue", TargetType::AverageValue),
    ];
    Ok(TargetForm {
        kind: one_of("type", &target.type_, &kinds)?,
        average_utilization: target.average_utilization,
        average_value: quantity("averageValue", target.average_value.as_ref())?,
        value: quantity("value", target.value.as_ref())?,
    })
}

fn behavior(behavior: &HorizontalPodAutoscalerBehavior) -> Result<BehaviorForm, InputError> {
    let side = |name: &'static str, of: Option<&HPAScalingRules>| {
        of.map(rules).transpose().map_err(|error| error.under(name))
    };
    Ok(BehaviorForm {
        scale_up: side("scaleUp", behavior.scale_up.as_ref())?,
        scale_down: side("scaleDown", behavior.scale_down.as_ref())?,
    })
}

fn rules(rules: &HPAScalingRules) -> Result<RulesForm, InputError> {
    let selects = [("Max", Select::Max), ("Min", Select::Min), ("Disabled", Select::Disabled)];
    let select = rules.select_policy.as_deref();
    let policies = rules.policies.as_ref().map(|policies| {
        let policies = policies.iter().enumerate().map(|(idx, policy)| {
            let kinds = [("Pods", PolicyType::Pods), ("Percent", PolicyType::Percent)];
            let kind = one_of("type", &policy.type_, &kinds)
                .map_err(|error| error.under(format!("policies[{idx}]")))?;
            Ok(Policy { kind, value: policy.value, period_seconds: policy.period_seconds })
        });
        policies.collect::<Result<Vec<_>, InputError>>()
    });
    Ok(RulesForm {
        stabilization_window_seconds: rules.stabilization_window_seconds,
        select_policy: select.map(|select| one_of("selectPolicy", select, &selects)).transpose()?,
        policies: policies.transpose()?,
        tolerance: quantity("tolerance", rules.tolerance.as_ref())?,
    })
}

fn object(reference: &CrossVersionObjectReference) -> ObjectRef {
    ObjectRef {
        api_version: reference.api_version.clone(),
        kind: reference.kind.clone(),
        name: reference.name.clone(),
    }
}

fn identifier(metric: &MetricIdentifier) -> IdentifierForm {
    IdentifierForm { name: metric.name.clone(), selector: metric.selector.as_ref().map(selector) }
}

fn selector(selector: &meta::LabelSelector) -> LabelSelector {
    let requirement = |of: &meta::LabelSelectorRequirement| Requirement {
        key: of.key.clone(),
        operator: of.operator.clone(),
        values: of.values.clone().unwrap_or_default(),
    };
    LabelSelector {
        match_labels: selector.match_labels.clone().unwrap_or_default(),
        match_expressions: selector.match_expressions.iter().flatten().map(requirement).collect(),
    }
}

fn quantity(path: &str, quantity: Option<&resource::Quantity>) -> Result<Option<Quantity>, InputError> {
    let parse = |text: &resource::Quantity| {
        text.0.parse::<Quantity>().map_err(|error| InputError::new(path, error.to_string()))
    };
    quantity.map(parse).transpose()
}

fn one_of<T: Copy>(path: &str, text: &str, choices: &[(&str, T)]) -> Result<T, InputError> {
    choices.iter().find(|(name, _)| *name == text).map(|(_, value)| *value).ok_or_else(|| {
        let names: Vec<&str> = choices.iter().map(|(name, _)| *name).collect();
        InputError::new(path, format!("expected one of {}, found {}", names.join(", "), shown(text)))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// Every field, so that none is lost on the way: the form from the typed spec is the form from its JSON.
    #[test]
    fn nothing_is_lost_on_the_way() {
        let target = json!({ "type": "AverageValue", "averageValue": "1500m" });
        let metric = json!({ "name": "m", "selector": { "matchLabels": { "a": "b" },
            "matchExpressions": [{ "key": "k", "operator": "In", "values": ["v"] }] } });
        let reference = json!({ "apiVersion": "apps/v1", "kind": "Deployment", "name": "web" });
        let rules = |select: &str| {
            json!({ "stabilizationWindowSeconds": 7, "selectPolicy": select, "tolerance": "50m",
                "policies": [{ "type": "Pods", "value": 4, "periodSeconds": 60 }, { "type": "Percent", "value": 5, "periodSeconds": 61 }] })
        };
        let manifest = json!({
            "scaleTargetRef": reference, "minReplicas": 2, "maxReplicas": 9,
            "metrics": [
                { "type": "Resource", "resource": { "name": "cpu", "target": { "type": "Utilization", "averageUtilization": 50 } } },
                { "type": "ContainerResource", "containerResource": { "name": "memory", "container": "c", "target": target } },
                { "type": "Pods", "pods": { "metric": metric, "target": target } },
                { "type": "Object", "object": { "describedObject": reference, "metric": metric, "target": { "type": "Value", "value": "3" } } },
                { "type": "External", "external": { "metric": metric, "target": target } }],
            "behavior": { "scaleUp": rules("Min"), "scaleDown": rules("Disabled") },
        });
        let typed: HorizontalPodAutoscalerSpec = serde_json::from_value(manifest.clone()).unwrap();
        let (resolved, form) = spec(&typed, Settings::default()).unwrap();
        let read: SpecForm = serde_json::from_value(manifest).unwrap();
        assert_eq!(form, read);
        assert_eq!(resolved, read.resolve(Settings::default()).unwrap());
    }

    #[test]
    fn what_is_not_known_is_refused_with_its_place() {
        let error = |metric: Value| {
            let typed = json!({ "scaleTargetRef": { "kind": "D", "name": "w" }, "maxReplicas": 3, "metrics": [metric] });
            let typed: HorizontalPodAutoscalerSpec = serde_json::from_value(typed).unwrap();
            spec(&typed, Settings::default()).unwrap_err().to_string()
        };
        assert_eq!(
            error(json!({ "type": "Weather" })),
            "metrics[0].type: expected one of Resource, ContainerResource, Pods, Object, External, found \"Weather\""
        );
        assert_eq!(
            error(
                json!({ "type": "Resource", "resource": { "name": "cpu", "target": { "type": "AverageValue", "averageValue": "x" } } })
            ),
            "metrics[0].resource.target.averageValue: \"x\" is not a quantity; expected a number with an optional suffix, such as 100m, 2 or 1Gi"
        );
    }
}
