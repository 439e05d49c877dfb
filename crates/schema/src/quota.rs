//! What an object uses of a ResourceQuota. Pure: an API server admits by it, a controller counts by it.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::{Quantity, json};

/// Amounts by the names that a quota limits them under.
pub type Amounts = BTreeMap<String, Quantity>;

/// Kinds that are also counted under their bare name.
const COUNTED: [&str; 7] = [
    "configmaps",
    "persistentvolumeclaims",
    "pods",
    "replicationcontrollers",
    "resourcequotas",
    "secrets",
    "services",
];

/// What the object counts for. A pod that ended takes nothing but its place among all pods.
pub fn usage(group: &str, plural: &str, object: &Value) -> Amounts {
    let mut used = Amounts::new();
    let one = || Quantity::whole(1);
    used.insert(count_name(group, plural), one());
    if !group.is_empty() {
        return used;
    }
    match plural {
        "pods" if !matches!(json::text(&object["status"], "phase"), "Succeeded" | "Failed") => {
            used.insert("pods".to_owned(), one());
            let spec = &object["spec"];
            used.extend(compute(&pod_total(spec, "requests"), &pod_total(spec, "limits")));
        }
        "pods" => {}
        "services" => {
            used.insert("services".to_owned(), one());
            let kind = json::text(&object["spec"], "type");
            let ports = json::list(&object["spec"], "ports");
            let allocates = object["spec"]["allocateLoadBalancerNodePorts"] != false;
            let node_ports = match kind {
                "NodePort" => ports.len(),
                "LoadBalancer" if allocates => ports.len(),
                "LoadBalancer" => ports
                    .iter()
                    .filter(|port| json::int(port, "nodePort").is_some_and(|port| port != 0))
                    .count(),
                _ => 0,
            };
            used.insert("services.nodeports".to_owned(), Quantity::whole(node_ports as i64));
            used.insert(
                "services.loadbalancers".to_owned(),
                Quantity::whole(i64::from(kind == "LoadBalancer")),
            );
        }
        "persistentvolumeclaims" => claim(&object["spec"], &mut used),
        plural if COUNTED.contains(&plural) => {
            used.insert(plural.to_owned(), one());
        }
        _ => {}
    }
    used
}

/// `count/deployments.apps`, `count/pods`.
pub fn count_name(group: &str, plural: &str) -> String {
    if group.is_empty() { format!("count/{plural}") } else { format!("count/{plural}.{group}") }
}

fn claim(spec: &Value, used: &mut Amounts) {
    let mut names = vec![String::new()];
    let class = json::text(spec, "storageClassName");
    if !class.is_empty() {
        names.push(format!("{class}.storageclass.storage.k8s.io/"));
    }
    let size = spec["resources"]["requests"]["storage"].as_str().and_then(|text| Quantity::parse(text).ok());
    for prefix in names {
        used.insert(format!("{prefix}persistentvolumeclaims"), Quantity::whole(1));
        if let Some(size) = size {
            used.insert(format!("{prefix}requests.storage"), size);
        }
    }
}

/// Containers run side by side, init containers one after the other before them; those that keep running count on.
fn pod_total(spec: &Value, section: &str) -> Amounts {
    let of = |container: &Value| amounts(&container["resources"][section]);
    let mut total = Amounts::new();
    for container in json::list(spec, "containers") {
        add(&mut total, &of(container));
    }
    let mut before = Amounts::new();
    let mut peak = Amounts::new();
    for container in json::list(spec, "initContainers") {
        let mut needed = of(container);
        add(&mut needed, &before);
        if container["restartPolicy"] == "Always" {
            add(&mut total, &of(container));
            before = needed.clone();
        }
        raise(&mut peak, needed);
    }
    raise(&mut total, peak);
    // what is said for the pod as a whole holds instead
    total.extend(amounts(&spec["resources"][section]));
    total
}

fn amounts(section: &Value) -> Amounts {
    let parse =
        |(name, value): (&String, &Value)| Some((name.clone(), Quantity::parse(value.as_str()?).ok()?));
    section.as_object().into_iter().flatten().filter_map(parse).collect()
}

/// Reads a list of amounts, such as a quota's `spec.hard`.
pub fn read(section: &Value) -> Amounts {
    amounts(section)
}

pub fn add(to: &mut Amounts, more: &Amounts) {
    for (name, amount) in more {
        let sum = to.get(name).map_or(*amount, |known| known.plus(*amount));
        to.insert(name.clone(), sum);
    }
}

fn raise(to: &mut Amounts, other: Amounts) {
    for (name, amount) in other {
        let most = to.get(&name).map_or(amount, |known| (*known).max(amount));
        to.insert(name, most);
    }
}

fn compute(requests: &Amounts, limits: &Amounts) -> Amounts {
    let mut used = Amounts::new();
    for (name, amount) in requests {
        let basic = matches!(name.as_str(), "cpu" | "memory" | "ephemeral-storage");
        if basic || name.starts_with("hugepages-") {
            used.insert(name.clone(), *amount);
        }
        if basic || name.starts_with("hugepages-") || name.contains('/') {
            used.insert(format!("requests.{name}"), *amount);
        }
    }
    for name in ["cpu", "memory", "ephemeral-storage"] {
        if let Some(amount) = limits.get(name) {
            used.insert(format!("limits.{name}"), *amount);
        }
    }
    used
}

/// What each container of a pod must say when the quota limits it.
///
/// # Errors
/// Names what is missing, in the API's words.
pub fn check_complete(pod: &Value, limited: &BTreeSet<&str>) -> Result<(), String> {
    const MUST: [&str; 6] =
        ["cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory"];
    if json::some(&pod["spec"], "resources").is_some() {
        return Ok(());
    }
    let mut missing: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    let lists = ["containers", "initContainers"];
    for container in lists.iter().flat_map(|list| json::list(&pod["spec"], list)) {
        let resources = &container["resources"];
        let said = compute(&amounts(&resources["requests"]), &amounts(&resources["limits"]));
        for name in MUST.iter().filter(|name| limited.contains(**name) && !said.contains_key(**name)) {
            missing.entry(name).or_default().insert(json::text(container, "name"));
        }
    }
    if missing.is_empty() {
        return Ok(());
    }
    let parts: Vec<String> = missing
        .into_iter()
        .map(|(name, containers)| {
            format!("{name} for: {}", containers.into_iter().collect::<Vec<_>>().join(","))
        })
        .collect();
    Err(format!("must specify {}", parts.join("; ")))
}

/// Whether the object is among those that the quota's scopes select. Only pods have scopes.
pub fn covers(quota: &Value, group: &str, plural: &str, object: &Value) -> bool {
    let spec = &quota["spec"];
    let simple =
        json::list(spec, "scopes").iter().filter_map(Value::as_str).map(|scope| (scope, "Exists", &[][..]));
    let selected = json::list(&spec["scopeSelector"], "matchExpressions").iter().map(|expression| {
        let values = json::list(expression, "values");
        (json::text(expression, "scopeName"), json::text(expression, "operator"), values)
    });
    let is_pod = group.is_empty() && plural == "pods";
    simple
        .chain(selected)
        .all(|(scope, operator, values)| is_pod && in_scope(object, scope, operator, values))
}

fn in_scope(pod: &Value, scope: &str, operator: &str, values: &[Value]) -> bool {
    let spec = &pod["spec"];
    let terminating = json::int(spec, "activeDeadlineSeconds").is_some_and(|seconds| seconds >= 0);
    let best_effort = || {
        ["requests", "limits"].iter().all(|section| {
            pod_total(spec, section).keys().all(|name| !matches!(name.as_str(), "cpu" | "memory"))
        })
    };
    match scope {
        "Terminating" => terminating,
        "NotTerminating" => !terminating,
        "BestEffort" => best_effort(),
        "NotBestEffort" => !best_effort(),
        "PriorityClass" => {
            let class = json::text(spec, "priorityClassName");
            let listed = values.iter().any(|value| value == class);
            match operator {
                "Exists" => !class.is_empty(),
                "DoesNotExist" => class.is_empty(),
                "In" => listed,
                "NotIn" => !listed,
                _ => false,
            }
        }
        _ => false,
    }
}

/// `limits.cpu=1,pods=3`
pub fn shown(amounts: &Amounts) -> String {
    let parts: Vec<String> = amounts.iter().map(|(name, amount)| format!("{name}={amount}")).collect();
    parts.join(",")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_objects_use() {
        let resources =
            |cpu: &str| json!({ "requests": { "cpu": cpu, "memory": "1Gi" }, "limits": { "cpu": "1" } });
        let pod = json!({ "spec": {
            "containers": [{ "name": "a", "resources": resources("200m") }, { "name": "b", "resources": resources("300m") }],
            "initContainers": [{ "name": "i", "resources": { "requests": { "cpu": "700m" } } }],
        } });
        let used =
            "count/pods=1,cpu=700m,limits.cpu=2,memory=2Gi,pods=1,requests.cpu=700m,requests.memory=2Gi";
        assert_eq!(shown(&usage("", "pods", &pod)), used);
        let mut over = pod.clone();
        over["status"] = json!({ "phase": "Succeeded" });
        assert_eq!(shown(&usage("", "pods", &over)), "count/pods=1");
        let claim = json!({ "spec": { "storageClassName": "fast", "resources": { "requests": { "storage": "5Gi" } } } });
        assert_eq!(
            shown(&usage("", "persistentvolumeclaims", &claim)),
            "count/persistentvolumeclaims=1,fast.storageclass.storage.k8s.io/persistentvolumeclaims=1,fast.storageclass.storage.k8s.io/requests.storage=5Gi,persistentvolumeclaims=1,requests.storage=5Gi"
        );
        let service = json!({ "spec": { "type": "NodePort", "ports": [{}, {}] } });
        assert_eq!(
            shown(&usage("", "services", &service)),
            "count/services=1,services=1,services.loadbalancers=0,services.nodeports=2"
        );
        assert_eq!(shown(&usage("apps", "deployments", &json!({}))), "count/deployments.apps=1");
    }

    #[test]
    fn scopes_select_pods() {
        let quota = |scope: &str| json!({ "spec": { "scopes": [scope] } });
        let plain = json!({ "spec": { "containers": [{ "name": "a" }] } });
        let bounded = json!({ "spec": { "activeDeadlineSeconds": 5, "containers": [{ "resources": { "requests": { "cpu": "1" } } }] } });
        for (scope, expected) in [
            ("BestEffort", (true, false)),
            ("NotBestEffort", (false, true)),
            ("Terminating", (false, true)),
            ("NotTerminating", (true, false)),
        ] {
            let found =
                (covers(&quota(scope), "", "pods", &plain), covers(&quota(scope), "", "pods", &bounded));
            assert_eq!(found, expected, "{scope}");
        }
        assert!(!covers(&quota("BestEffort"), "", "services", &json!({})));
        assert!(covers(&json!({ "spec": {} }), "", "services", &json!({})));
    }

    #[test]
    fn containers_say_what_is_limited() {
        let pod = json!({ "spec": { "containers": [{ "name": "a", "resources": { "requests": { "cpu": "1" } } }, { "name": "b" }] } });
        let limited = BTreeSet::from(["requests.cpu", "limits.memory", "pods"]);
        let why = check_complete(&pod, &limited).unwrap_err();
        assert_eq!(why, "must specify limits.memory for: a,b; requests.cpu for: b");
        assert_eq!(check_complete(&pod, &BTreeSet::from(["pods"])), Ok(()));
    }
}
