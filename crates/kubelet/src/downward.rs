//! The downward API: what a pod may know of itself, as environment variables and as files.

use std::{collections::BTreeMap, net::Ipv4Addr};

use k8s_openapi::{
    api::core::v1::{Container, ObjectFieldSelector, Pod, ResourceFieldSelector},
    apimachinery::pkg::api::resource::Quantity,
};

/// What the node knows of the pod beside its manifest.
#[derive(Debug, Clone)]
pub struct Facts {
    pub pod_ip: Ipv4Addr,
    pub host_ip: Ipv4Addr,
    /// Stands in for limits that a container does not set.
    pub allocatable: BTreeMap<String, Quantity>,
}

/// # Errors
/// Names the field path that has no meaning here.
pub fn field(pod: &Pod, facts: &Facts, selector: &ObjectFieldSelector) -> Result<String, String> {
    let meta = &pod.metadata;
    let spec = pod.spec.as_ref();
    let path = selector.field_path.as_str();
    let entry = |map: &Option<BTreeMap<String, String>>, key: &str| {
        map.as_ref().and_then(|m| m.get(key)).cloned().unwrap_or_default()
    };
    if let Some((map, key)) = path.strip_suffix("']").and_then(|p| p.split_once("['")) {
        match map {
            "metadata.labels" => return Ok(entry(&meta.labels, key)),
            "metadata.annotations" => return Ok(entry(&meta.annotations, key)),
            _ => {}
        }
    }
    Ok(match path {
        "metadata.name" => meta.name.clone().unwrap_or_default(),
        "metadata.namespace" => meta.namespace.clone().unwrap_or_default(),
        "metadata.uid" => meta.uid.clone().unwrap_or_default(),
        "metadata.labels" => listing(meta.labels.as_ref()),
        "metadata.annotations" => listing(meta.annotations.as_ref()),
        "spec.nodeName" => spec.and_then(|s| s.node_name.clone()).unwrap_or_default(),
        "spec.serviceAccountName" => spec.and_then(|s| s.service_account_name.clone()).unwrap_or_default(),
        "status.hostIP" | "status.hostIPs" => facts.host_ip.to_string(),
        "status.podIP" | "status.podIPs" => facts.pod_ip.to_string(),
        _ => return Err(format!("unsupported fieldPath: {path}")),
    })
}

/// # Errors
/// Names the container or resource that is not there.
pub fn resource(
    pod: &Pod,
    own: Option<&Container>,
    facts: &Facts,
    selector: &ResourceFieldSelector,
) -> Result<String, String> {
    let spec = pod.spec.as_ref();
    let by_name = |name: &String| {
        spec.into_iter()
            .flat_map(|s| s.init_containers.iter().flatten().chain(&s.containers))
            .find(|c| &c.name == name)
            .ok_or_else(|| format!("container {name} not found"))
    };
    let container = match (&selector.container_name, own) {
        (Some(name), _) if !name.is_empty() => by_name(name)?,
        (_, Some(own)) => own,
        _ => return Err("resourceFieldRef in a volume needs a containerName".to_owned()),
    };
    let (which, name) = selector
        .resource
        .split_once('.')
        .ok_or_else(|| format!("unsupported container resource: {}", selector.resource))?;
    let resources = container.resources.as_ref();
    let value = match which {
        "limits" => resources
            .and_then(|r| r.limits.as_ref())
            .and_then(|l| l.get(name))
            .or_else(|| facts.allocatable.get(name)),
        "requests" => resources.and_then(|r| r.requests.as_ref()).and_then(|l| l.get(name)),
        _ => return Err(format!("unsupported container resource: {}", selector.resource)),
    };
    let value = value.map_or("0", |q| q.0.as_str());
    let divisor = selector.divisor.as_ref().map_or("1", |q| q.0.as_str());
    divide(value, divisor)
        .map(|whole| whole.to_string())
        .map_err(|_| format!("cannot divide {value} by {divisor} for {}", selector.resource))
}

/// In whole units, rounded up. No divisor is one.
fn divide(value: &str, divisor: &str) -> Result<i64, quantity::Error> {
    let divisor = quantity::Quantity::parse(divisor)?;
    let divisor = if divisor.is_zero() { quantity::Quantity::whole(1) } else { divisor };
    Ok(quantity::Quantity::parse(value)?.divided_by(divisor))
}

/// `key="value"` lines in key order, values quoted as Go quotes them.
fn listing(map: Option<&BTreeMap<String, String>>) -> String {
    let lines: Vec<String> =
        map.into_iter().flatten().map(|(key, value)| format!("{key}={}", quoted(value))).collect();
    lines.join("\n")
}

fn quoted(value: &str) -> String {
    let mut out = String::with_capacity(value.len() + 2);
    out.push('"');
    for c in value.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c.is_control() => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn division_rounds_up_and_treats_no_divisor_as_one() {
        assert_eq!(divide("250m", "1"), Ok(1));
        assert_eq!(divide("250m", "1m"), Ok(250));
        assert_eq!(divide("64Mi", "1Mi"), Ok(64));
        assert_eq!(divide("2", "0"), Ok(2));
        assert_eq!(divide("2", "x"), Err(quantity::Error::Format));
    }
}
