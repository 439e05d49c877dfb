//! Metrics of the horizontal side, as `autoscaling/v2` writes them or as `autoscaling/v2beta1` did: one form for both.

use k8s_openapi::{
    api::autoscaling::v2::{CrossVersionObjectReference, MetricIdentifier, MetricTarget},
    apimachinery::pkg::{api::resource::Quantity, apis::meta::v1::LabelSelector},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

#[derive(JsonSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Metric {
    #[serde(rename = "type")]
    #[schemars(extend("enum" = ["Resource", "ContainerResource", "Pods", "Object", "External"]))]
    pub kind: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource: Option<Resource>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub container_resource: Option<ContainerResource>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pods: Option<Pods>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub object: Option<Object>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub external: Option<External>,
}

#[derive(JsonSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Resource {
    pub name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<MetricTarget>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_average_utilization: Option<i32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_average_value: Option<Quantity>,
}

#[derive(JsonSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ContainerResource {
    pub name: String,
    pub container: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<MetricTarget>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_average_utilization: Option<i32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_average_value: Option<Quantity>,
}

#[derive(JsonSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Pods {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metric: Option<MetricIdentifier>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<MetricTarget>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metric_name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_average_value: Option<Quantity>,
}

#[derive(JsonSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Object {
    pub described_object: CrossVersionObjectReference,
    pub metric: MetricIdentifier,
    pub target: MetricTarget,
}

#[derive(JsonSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct External {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metric: Option<MetricIdentifier>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<MetricTarget>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metric_name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metric_selector: Option<LabelSelector>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_value: Option<Quantity>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_average_value: Option<Quantity>,
}

impl Metric {
    /// As `autoscaling/v2` writes it.
    pub(super) fn v2(&self) -> Value {
        let mut form = json!({"type": self.kind});
        let resource = |target: &Option<MetricTarget>, utilization: Option<i32>, value: &Option<Quantity>| {
            target.clone().or_else(|| {
                Some(MetricTarget {
                    type_: if utilization.is_some() { "Utilization" } else { "AverageValue" }.to_owned(),
                    average_utilization: utilization,
                    average_value: value.clone(),
                    value: None,
                })
                .filter(|_| utilization.is_some() || value.is_some())
            })
        };
        let named =
            |metric: &Option<MetricIdentifier>, name: &Option<String>, selector: &Option<LabelSelector>| {
                metric.clone().or_else(|| {
                    let name = name.clone()?;
                    Some(MetricIdentifier { name, selector: selector.clone() })
                })
            };
        if let Some(Resource { name, target, target_average_utilization, target_average_value }) =
            &self.resource
        {
            let target = resource(target, *target_average_utilization, target_average_value);
            form["resource"] = without_nulls(json!({"name": name, "target": target}));
        }
        if let Some(metric) = &self.container_resource {
            let ContainerResource {
                name,
                container,
                target,
                target_average_utilization,
                target_average_value,
            } = metric;
            let target = resource(target, *target_average_utilization, target_average_value);
            form["containerResource"] =
                without_nulls(json!({"name": name, "container": container, "target": target}));
        }
        if let Some(Pods { metric, target, metric_name, target_average_value }) = &self.pods {
            let target = resource(target, None, target_average_value);
            let metric = named(metric, metric_name, &None);
            form["pods"] = without_nulls(json!({"metric": metric, "target": target}));
        }
        if let Some(object) = &self.object {
            form["object"] = without_nulls(json!(object));
        }
        if let Some(External {
            metric,
            target,
            metric_name,
            metric_selector,
            target_value,
            target_average_value,
        }) = &self.external
        {
            let total = target_value.clone().map(|value| MetricTarget {
                type_: "Value".to_owned(),
                value: Some(value),
                ..MetricTarget::default()
            });
            let target = target.clone().or(total).or_else(|| resource(&None, None, target_average_value));
            let metric = named(metric, metric_name, metric_selector);
            form["external"] = without_nulls(json!({"metric": metric, "target": target}));
        }
        form
    }
}

/// What is missing is told by its name, not as a null of the wrong kind.
fn without_nulls(mut form: Value) -> Value {
    if let Some(fields) = form.as_object_mut() {
        fields.retain(|_, value| !value.is_null());
    }
    form
}
