//! The metrics APIs: `metrics.k8s.io`, `custom.metrics.k8s.io` and `external.metrics.k8s.io`.

use std::collections::BTreeMap;

use decide::quantity::Figure;
use engine::{Universe, kind::group_of};
use futures::future::join_all;
use jiff::Timestamp;
use k8s_openapi::{
    api::autoscaling::v2::{
        CrossVersionObjectReference, HorizontalPodAutoscalerSpec, MetricIdentifier, MetricSpec,
    },
    apimachinery::pkg::apis::meta::v1::LabelSelector,
};
use kube::{
    Client,
    core::{Expression, Selector},
};
use serde::Deserialize;

use crate::object::selector;

pub(super) struct Metrics<'a> {
    pub client: &'a Client,
    pub kinds: &'a Universe,
    pub namespace: &'a str,
}

/// What the APIs answered, or why they did not.
pub(super) struct Answers {
    /// Usage by pod; read only if a metric needs it.
    pub usage: Result<BTreeMap<String, Usage>, String>,
    /// In the order of the spec's metrics; none for resource metrics.
    pub others: Vec<Option<Result<Vec<Value>, String>>>,
}

/// What one pod used.
#[derive(Clone, Debug, PartialEq)]
pub struct Usage {
    /// The end of the time that it is an average over.
    pub at: Option<Timestamp>,
    pub window_seconds: u32,
    /// By container and resource.
    pub containers: BTreeMap<String, BTreeMap<String, Figure>>,
}

pub(super) struct Value {
    /// Whose value it is; empty for external ones.
    pub object: String,
    pub value: Figure,
    pub at: Option<Timestamp>,
    pub window_seconds: i64,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct List<T> {
    #[serde(default = "Vec::new")]
    items: Vec<T>,
}

#[derive(Deserialize)]
struct PodMetrics {
    metadata: Named,
    #[serde(default)]
    timestamp: Option<Timestamp>,
    #[serde(default)]
    window: Option<String>,
    #[serde(default)]
    containers: Vec<ContainerMetrics>,
}

#[derive(Deserialize, Default)]
struct Named {
    #[serde(default)]
    name: String,
}

#[derive(Deserialize)]
struct ContainerMetrics {
    name: String,
    #[serde(default)]
    usage: BTreeMap<String, Figure>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct MetricValue {
    #[serde(default)]
    described_object: Named,
    #[serde(default)]
    timestamp: Option<Timestamp>,
    #[serde(default)]
    window_seconds: Option<i64>,
    value: Figure,
}

/// The custom metrics API exists in two versions that differ in nothing read here.
const CUSTOM: [&str; 2] = ["/apis/custom.metrics.k8s.io/v1beta2", "/apis/custom.metrics.k8s.io/v1beta1"];
const EXTERNAL: &str = "/apis/external.metrics.k8s.io/v1beta1";
const RESOURCE: &str = "/apis/metrics.k8s.io/v1beta1";

impl Metrics<'_> {
    pub async fn fetch(&self, spec: &HorizontalPodAutoscalerSpec, pods: &str) -> Answers {
        let metrics = spec.metrics.as_deref().unwrap_or_default();
        let reads_usage = metrics.is_empty()
            || metrics.iter().any(|metric| matches!(metric.type_.as_str(), "Resource" | "ContainerResource"));
        let usage = async { if reads_usage { self.usage(pods).await } else { Ok(BTreeMap::new()) } };
        let (usage, others) = futures::join!(usage, self.others(spec, pods));
        Answers { usage, others }
    }

    /// Of all metrics that are no resources of pods.
    pub async fn others(
        &self,
        spec: &HorizontalPodAutoscalerSpec,
        pods: &str,
    ) -> Vec<Option<Result<Vec<Value>, String>>> {
        let metrics = spec.metrics.as_deref().unwrap_or_default();
        join_all(metrics.iter().map(|metric| self.other(metric, pods))).await
    }

    pub async fn usage(&self, pods: &str) -> Result<BTreeMap<String, Usage>, String> {
        let path = format!("{RESOURCE}/namespaces/{}/pods?labelSelector={}", self.namespace, escaped(pods));
        let list: List<PodMetrics> = self.get(&path).await.map_err(|error| {
            format!("unable to fetch metrics from resource metrics API: {}", words(&error))
        })?;
        if list.items.is_empty() {
            return Err("no metrics returned from resource metrics API".into());
        }
        let usage = |pod: PodMetrics| Usage {
            at: pod.timestamp,
            window_seconds: pod.window.as_deref().map_or(0, seconds),
            containers: pod
                .containers
                .into_iter()
                .map(|container| (container.name, container.usage))
                .collect(),
        };
        Ok(list.items.into_iter().map(|pod| (pod.metadata.name.clone(), usage(pod))).collect())
    }

    async fn other(&self, metric: &MetricSpec, pods: &str) -> Option<Result<Vec<Value>, String>> {
        if let Some(source) = &metric.pods {
            let rest = format!(
                "/namespaces/{}/pods/*/{}?labelSelector={}",
                self.namespace,
                escaped(&source.metric.name),
                escaped(pods)
            );
            return Some(self.custom(&rest, &source.metric).await);
        }
        if let Some(source) = &metric.object {
            let rest = match self.object_path(&source.described_object) {
                Ok(object) => format!("{object}/{}?", escaped(&source.metric.name)),
                Err(why) => return Some(Err(why)),
            };
            let values = self.custom(&rest, &source.metric).await;
            return Some(values.map(|values| values.into_iter().take(1).collect()));
        }
        let source = metric.external.as_ref()?;
        let mut path = format!("{EXTERNAL}/namespaces/{}/{}?", self.namespace, escaped(&source.metric.name));
        match selector_text(&source.metric) {
            Ok(None) => {}
            Ok(Some(text)) => path += &format!("labelSelector={}", escaped(&text)),
            Err(why) => return Some(Err(why)),
        }
        Some(self.values(&path, "external").await)
    }

    async fn custom(&self, rest: &str, metric: &MetricIdentifier) -> Result<Vec<Value>, String> {
        let selector = selector_text(metric)?
            .map(|text| format!("&metricLabelSelector={}", escaped(&text)))
            .unwrap_or_default();
        let mut answer = Err(String::new());
        for base in CUSTOM {
            answer = self.values(&format!("{base}{rest}{selector}"), "custom").await;
            if answer.is_ok() {
                break;
            }
        }
        answer
    }

    async fn values(&self, path: &str, which: &str) -> Result<Vec<Value>, String> {
        let list: List<MetricValue> = self.get(path).await.map_err(|error| {
            format!("unable to fetch metrics from {which} metrics API: {}", words(&error))
        })?;
        if list.items.is_empty() {
            return Err(format!("no metrics returned from {which} metrics API"));
        }
        let value = |item: MetricValue| Value {
            object: item.described_object.name,
            value: item.value,
            at: item.timestamp,
            window_seconds: item.window_seconds.unwrap_or(60),
        };
        Ok(list.items.into_iter().map(value).collect())
    }

    fn object_path(&self, object: &CrossVersionObjectReference) -> Result<String, String> {
        let group = group_of(object.api_version.as_deref().unwrap_or("v1"));
        let name = escaped(&object.name);
        if group.is_empty() && object.kind == "Namespace" {
            return Ok(format!("/namespaces/{name}/metrics"));
        }
        let kind = self
            .kinds
            .find(group, &object.kind)
            .ok_or_else(|| format!("no matches for kind {:?} in group {group:?}", object.kind))?;
        let resource =
            if group.is_empty() { kind.plural.to_string() } else { format!("{}.{group}", kind.plural) };
        Ok(match kind.namespaced {
            true => format!("/namespaces/{}/{resource}/{name}", self.namespace),
            false => format!("/{resource}/{name}"),
        })
    }

    async fn get<T: serde::de::DeserializeOwned>(&self, path: &str) -> Result<T, kube::Error> {
        let request = http::Request::get(path).body(Vec::new()).map_err(kube::Error::HttpError)?;
        self.client.request(request).await
    }
}

/// An error as a person wants it in a condition.
pub(super) fn words(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => status.message.clone(),
        other => other.to_string(),
    }
}

/// `1m30.5s`, in whole seconds.
fn seconds(duration: &str) -> u32 {
    let parsed: Option<jiff::SignedDuration> = duration.parse().ok();
    parsed.and_then(|duration| u32::try_from(duration.as_secs()).ok()).unwrap_or(0)
}

fn selector_text(metric: &MetricIdentifier) -> Result<Option<String>, String> {
    let Some(given) = metric.selector.as_ref().filter(|given| **given != LabelSelector::default()) else {
        return Ok(None);
    };
    let parsed = selector::parse(given);
    parsed
        .map(|parsed| Some(parsed.to_string()))
        .ok_or_else(|| format!("metric {:?} has a selector that cannot be understood", metric.name))
}

/// The text form of a selector, as a scale's status has it: `a=b,c!=d,e in (f,g),h,!i`.
///
/// # Errors
/// In words, if it is no selector.
pub fn parse_selector(text: &str) -> Result<Selector, String> {
    let mut expressions = Vec::new();
    let mut rest = text.trim();
    while !rest.is_empty() {
        // a comma inside parentheses does not end a requirement
        let open = rest.find('(').filter(|open| rest.find(',').is_none_or(|comma| *open < comma));
        let search_from = match open {
            Some(open) => {
                rest[open..].find(')').map(|close| open + close).ok_or("a parenthesis is not closed")?
            }
            None => 0,
        };
        let end = rest[search_from..].find(',').map_or(rest.len(), |comma| search_from + comma);
        expressions.push(parse_requirement(rest[..end].trim())?);
        rest = rest.get(end + 1..).unwrap_or_default().trim();
    }
    Ok(expressions.into_iter().collect())
}

fn parse_requirement(text: &str) -> Result<Expression, String> {
    let values = |list: &str| {
        let list = list.trim().strip_prefix('(').and_then(|list| list.strip_suffix(')'));
        let list = list.ok_or_else(|| format!("{text:?}: expected a list in parentheses"))?;
        Ok::<_, String>(list.split(',').map(|value| value.trim().to_owned()).collect())
    };
    let key = |key: &str| key.trim().to_owned();
    if let Some((name, list)) = text.split_once(" notin ") {
        return Ok(Expression::NotIn(key(name), values(list)?));
    }
    if let Some((name, list)) = text.split_once(" in ") {
        return Ok(Expression::In(key(name), values(list)?));
    }
    if let Some((name, value)) = text.split_once("!=") {
        return Ok(Expression::NotEqual(key(name), key(value)));
    }
    if let Some((name, value)) = text.split_once("==").or_else(|| text.split_once('=')) {
        return Ok(Expression::Equal(key(name), key(value)));
    }
    if text.is_empty() || text.contains(|c: char| c.is_whitespace() || c == '(') {
        return Err(format!("{text:?} is no requirement"));
    }
    Ok(match text.strip_prefix('!') {
        Some(name) => Expression::DoesNotExist(key(name)),
        None => Expression::Exists(key(text)),
    })
}

/// Percent-encoding of everything but unreserved characters.
fn escaped(text: &str) -> String {
    use std::fmt::Write;
    text.bytes().fold(String::with_capacity(text.len()), |mut out, byte| {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            let _ = write!(out, "%{byte:02X}");
        }
        out
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selectors_from_text() {
        for (text, parsed) in [
            ("app=web", Ok("app=web")),
            ("app==web, tier!=db", Ok("app=web,tier!=db")),
            ("a in (x,y),b notin (z),c,!d", Ok("a in (x,y),b notin (z),c,!d")),
            ("", Ok("")),
            ("a in (x", Err("a parenthesis is not closed")),
            ("a b", Err("\"a b\" is no requirement")),
        ] {
            let found = parse_selector(text).map(|selector| selector.to_string());
            assert_eq!(found.as_deref().map_err(String::as_str), parsed, "{text}");
        }
    }

    #[test]
    fn text_in_paths() {
        assert_eq!(escaped("app in (a,b)/ü"), "app%20in%20%28a%2Cb%29%2F%C3%BC");
        assert_eq!([seconds("15s"), seconds("1m30.5s"), seconds("30.123s"), seconds("x")], [15, 90, 30, 0]);
    }
}
