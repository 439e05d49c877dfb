//! What stands in the columns of built-in kinds.

use jiff::Timestamp;
use serde_json::Value;

use crate::{object, selectors::structured_to_text};

/// How long ago, with two or three significant figures: `45s`, `3m20s`, `5h`, `12d`, `3y40d`.
pub fn since(at: Timestamp, now: Timestamp) -> String {
    human((now.as_millisecond() - at.as_millisecond()).div_euclid(1000))
}

pub fn human(seconds: i64) -> String {
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86400);
    let pair = |large: i64, unit: &str, small: i64, small_unit: &str| {
        if small == 0 { format!("{large}{unit}") } else { format!("{large}{unit}{small}{small_unit}") }
    };
    // A clock that is two seconds off is as good as right.
    if seconds < -1 {
        "<invalid>".to_owned()
    } else if seconds < 120 {
        format!("{}s", seconds.max(0))
    } else if minutes < 10 {
        pair(minutes, "m", seconds % 60, "s")
    } else if minutes < 180 {
        format!("{minutes}m")
    } else if hours < 8 {
        pair(hours, "h", minutes % 60, "m")
    } else if hours < 48 {
        format!("{hours}h")
    } else if hours < 24 * 8 {
        pair(days, "d", hours % 24, "h")
    } else if hours < 24 * 365 * 2 {
        format!("{days}d")
    } else if hours < 24 * 365 * 8 {
        pair(days / 365, "y", days % 365, "d")
    } else {
        format!("{}y", days / 365)
    }
}

pub(super) fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

pub(super) fn plain(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

pub(super) fn or(value: &Value, otherwise: &str) -> Value {
    let text = plain(value);
    if text.is_empty() { otherwise.into() } else { text.into() }
}

pub fn name(object: &Value, _: Timestamp) -> Value {
    object::name(object).into()
}

/// An RFC 3339 time as how long ago that was.
fn ago(value: &Value, now: Timestamp) -> String {
    match value.as_str().and_then(object::parse_timestamp) {
        Some(at) => since(at, now),
        None => "<unknown>".to_owned(),
    }
}

pub fn age(object: &Value, now: Timestamp) -> Value {
    ago(&object["metadata"]["creationTimestamp"], now).into()
}

pub fn text(object: &Value, pointer: &str) -> Value {
    object.pointer(pointer).map(plain).unwrap_or_default().into()
}

pub fn number(object: &Value, pointer: &str) -> Value {
    object.pointer(pointer).and_then(Value::as_i64).unwrap_or_default().into()
}

pub fn or_none(value: &Value) -> Value {
    or(value, "<none>")
}

pub fn or_unknown(value: &Value) -> Value {
    or(value, "<unknown>")
}

pub fn or_not_applicable(value: &Value) -> Value {
    or(value, "N/A")
}

pub fn count(object: &Value, fields: &[&str]) -> Value {
    fields
        .iter()
        .filter_map(|field| object[*field].as_object())
        .map(serde_json::Map::len)
        .sum::<usize>()
        .into()
}

pub fn ready_of_desired(object: &Value, _: Timestamp) -> Value {
    let at = |pointer: &str| object.pointer(pointer).and_then(Value::as_i64).unwrap_or_default();
    format!("{}/{}", at("/status/readyReplicas"), at("/spec/replicas")).into()
}

fn of_containers(object: &Value, field: &str) -> Value {
    let texts: Vec<&str> = list(&object["spec"]["template"]["spec"]["containers"])
        .filter_map(|one| one[field].as_str())
        .collect();
    texts.join(",").into()
}

pub fn containers(object: &Value, _: Timestamp) -> Value {
    of_containers(object, "name")
}

pub fn images(object: &Value, _: Timestamp) -> Value {
    of_containers(object, "image")
}

pub fn selector(object: &Value, _: Timestamp) -> Value {
    let text = structured_to_text(&object["spec"]["selector"]);
    if text.is_empty() { "<none>".into() } else { text.into() }
}

pub fn labels(labels: &Value) -> String {
    let pairs: Vec<String> = labels
        .as_object()
        .into_iter()
        .flatten()
        .map(|(key, value)| format!("{key}={}", plain(value)))
        .collect();
    if pairs.is_empty() { "<none>".to_owned() } else { pairs.join(",") }
}

pub fn external_ip(service: &Value, _: Timestamp) -> Value {
    let spec = &service["spec"];
    let mut addresses: Vec<String> = Vec::new();
    match spec["type"].as_str().unwrap_or_default() {
        "ExternalName" => return spec["externalName"].clone(),
        "LoadBalancer" => addresses.extend(list(&service["status"]["loadBalancer"]["ingress"]).map(|one| {
            let ip = plain(&one["ip"]);
            if ip.is_empty() { plain(&one["hostname"]) } else { ip }
        })),
        _ => {}
    }
    addresses.extend(list(&spec["externalIPs"]).map(plain));
    match (addresses.is_empty(), spec["type"] == "LoadBalancer") {
        (false, _) => addresses.join(",").into(),
        (true, true) => "<pending>".into(),
        (true, false) => "<none>".into(),
    }
}

pub fn service_ports(service: &Value, _: Timestamp) -> Value {
    let ports: Vec<String> = list(&service["spec"]["ports"])
        .map(|port| {
            let (number, protocol) = (plain(&port["port"]), plain(&port["protocol"]));
            match port["nodePort"].as_u64().unwrap_or_default() {
                0 => format!("{number}/{protocol}"),
                node => format!("{number}:{node}/{protocol}"),
            }
        })
        .collect();
    if ports.is_empty() { "<none>".into() } else { ports.join(",").into() }
}

/// The first three, and how many more there are.
fn first_three(all: Vec<String>, otherwise: &str) -> Value {
    const SHOWN: usize = 3;
    match all.len() {
        0 => otherwise.into(),
        count if count > SHOWN => format!("{} + {} more...", all[..SHOWN].join(","), count - SHOWN).into(),
        _ => all.join(",").into(),
    }
}

pub fn endpoints(endpoints: &Value, _: Timestamp) -> Value {
    let mut all = Vec::new();
    for subset in list(&endpoints["subsets"]) {
        let ports: Vec<&Value> = list(&subset["ports"]).collect();
        for address in list(&subset["addresses"]).filter(|_| ports.is_empty()) {
            all.push(plain(&address["ip"]));
        }
        for port in ports {
            all.extend(
                list(&subset["addresses"]).map(|one| format!("{}:{}", plain(&one["ip"]), port["port"])),
            );
        }
    }
    first_three(all, "<none>")
}

pub fn slice_ports(slice: &Value, _: Timestamp) -> Value {
    let ports = list(&slice["ports"]).map(|port| match (&port["port"], &port["name"]) {
        (Value::Null, Value::Null) => "*".to_owned(),
        (Value::Null, name) => plain(name),
        (number, _) => plain(number),
    });
    first_three(ports.collect(), "<unset>")
}

pub fn slice_endpoints(slice: &Value, _: Timestamp) -> Value {
    let addresses = list(&slice["endpoints"]).flat_map(|endpoint| list(&endpoint["addresses"]).map(plain));
    first_three(addresses.collect(), "<unset>")
}

pub fn node_status(node: &Value, _: Timestamp) -> Value {
    let ready = list(&node["status"]["conditions"]).find(|one| one["type"] == "Ready");
    let mut status = match ready {
        Some(one) if one["status"] == "True" => "Ready",
        Some(_) => "NotReady",
        None => "Unknown",
    }
    .to_owned();
    if node["spec"]["unschedulable"] == true {
        status.push_str(",SchedulingDisabled");
    }
    status.into()
}

pub fn node_roles(node: &Value, _: Timestamp) -> Value {
    let mut roles: Vec<String> = Vec::new();
    for (key, value) in node["metadata"]["labels"].as_object().into_iter().flatten() {
        match key.strip_prefix("node-role.kubernetes.io/") {
            Some(role) if !role.is_empty() => roles.push(role.to_owned()),
            None if key == "kubernetes.io/role" && value != "" => roles.push(plain(value)),
            _ => {}
        }
    }
    roles.sort();
    if roles.is_empty() { "<none>".into() } else { roles.join(",").into() }
}

pub fn node_address(node: &Value, kind: &str) -> Value {
    let found = list(&node["status"]["addresses"]).find(|one| one["type"] == kind);
    or_none(found.map_or(&Value::Null, |one| &one["address"]))
}

pub fn kernel(node: &Value, _: Timestamp) -> Value {
    let info = &node["status"]["nodeInfo"];
    let version = or_unknown(&info["kernelVersion"]);
    match info["architecture"].as_str().unwrap_or_default() {
        "" => version,
        architecture => format!("{} ({architecture})", plain(&version)).into(),
    }
}

pub fn controller(object: &Value, _: Timestamp) -> Value {
    match list(&object["metadata"]["ownerReferences"]).find(|owner| owner["controller"] == true) {
        Some(owner) => {
            let version = plain(&owner["apiVersion"]);
            let kind = plain(&owner["kind"]).to_lowercase();
            let group = version.split_once('/').map(|(group, _)| format!(".{group}")).unwrap_or_default();
            format!("{kind}{group}/{}", plain(&owner["name"])).into()
        }
        None => "<none>".into(),
    }
}

/// `pods: 1/4, …`, either of what limits restrict or of the rest.
pub fn quota(quota: &Value, limits: bool) -> Value {
    let status = &quota["status"];
    let parts: Vec<String> = status["hard"]
        .as_object()
        .into_iter()
        .flatten()
        .filter(|(name, _)| name.starts_with("limits.") == limits)
        .map(|(name, hard)| format!("{name}: {}/{}", plain(&or(&status["used"][name], "0")), plain(hard)))
        .collect();
    parts.join(", ").into()
}

pub fn subjects(binding: &Value, kind: &str) -> Value {
    let names: Vec<String> = list(&binding["subjects"])
        .filter(|subject| subject["kind"] == kind)
        .map(|subject| match subject["namespace"].as_str() {
            Some(namespace) if kind == "ServiceAccount" => format!("{namespace}/{}", plain(&subject["name"])),
            _ => plain(&subject["name"]),
        })
        .collect();
    names.join(", ").into()
}

pub struct EventCells {
    pub first: String,
    pub last: String,
    pub count: i64,
    pub target: String,
    pub source: String,
}

/// Events come in an old form (timestamps and a count) and in a new one (a time and perhaps a series).
pub fn event(event: &Value, now: Timestamp) -> EventCells {
    let first = match &event["firstTimestamp"] {
        Value::Null => ago(&event["eventTime"], now),
        time => ago(time, now),
    };
    let mut last = match &event["lastTimestamp"] {
        Value::Null => first.clone(),
        time => ago(time, now),
    };
    let mut count = event["count"].as_i64().unwrap_or_default().max(1);
    if let Some(series) = event.get("series").filter(|series| series.is_object()) {
        last = ago(&series["lastObservedTime"], now);
        count = series["count"].as_i64().unwrap_or_default();
    }
    let involved = &event["involvedObject"];
    let kind = plain(&involved["kind"]).to_lowercase();
    let target = match involved["name"].as_str().unwrap_or_default() {
        "" => kind,
        name => format!("{kind}/{name}"),
    };
    let pick = |old: &Value, new: &Value| if plain(old).is_empty() { plain(new) } else { plain(old) };
    let component = pick(&event["source"]["component"], &event["reportingComponent"]);
    let host = pick(&event["source"]["host"], &event["reportingInstance"]);
    let source = if host.is_empty() { component } else { format!("{component}, {host}") };
    EventCells { first, last, count, target, source }
}

pub fn autoscaler_targets(autoscaler: &Value, _: Timestamp) -> Value {
    const SHOWN: usize = 2;
    const SOURCES: [(&str, &str); 5] = [
        ("External", "external"),
        ("Pods", "pods"),
        ("Object", "object"),
        ("Resource", "resource"),
        ("ContainerResource", "containerResource"),
    ];
    let all: Vec<String> = list(&autoscaler["spec"]["metrics"])
        .enumerate()
        .map(|(index, metric)| {
            let Some((_, field)) = SOURCES.iter().find(|(kind, _)| metric["type"] == *kind) else {
                return "<unknown type>".to_owned();
            };
            let (target, current) = (
                &metric[*field]["target"],
                &autoscaler["status"]["currentMetrics"][index][*field]["current"],
            );
            let shown = |key: &str, suffix: &str, value: &Value, otherwise: &str| match value.get(key) {
                Some(value) if !value.is_null() => format!("{}{suffix}", plain(value)),
                _ => otherwise.to_owned(),
            };
            let pair = |key: &str, suffix: &str, otherwise: &str| {
                format!(
                    "{}/{}",
                    shown(key, suffix, current, "<unknown>"),
                    shown(key, suffix, target, otherwise)
                )
            };
            let resource = field.to_lowercase().contains("resource");
            let text = match (target.get("averageValue").is_some(), resource) {
                (true, true) => pair("averageValue", "", ""),
                (false, true) => pair("averageUtilization", "%", "<auto>"),
                (true, false) if *field == "pods" => pair("averageValue", "", ""),
                (true, false) => format!("{} (avg)", pair("averageValue", "", "")),
                (false, false) => pair("value", "", ""),
            };
            if resource { format!("{}: {text}", plain(&metric[*field]["name"])) } else { text }
        })
        .collect();
    match all.len() {
        0 => "<none>".into(),
        count if count > SHOWN => format!("{} + {} more...", all[..SHOWN].join(", "), count - SHOWN).into(),
        _ => all.join(", ").into(),
    }
}
