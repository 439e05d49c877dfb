//! LimitRanges: what a container gets that asks for nothing, and the least and most that anybody gets.

use schema::{
    Quantity,
    quota::{Amounts, read, usage},
};
use serde_json::{Map, Value};

use super::values;
use crate::{
    ApiServer,
    call::Call,
    error::{ApiError, Result},
    object,
};

const NOTE: &str = "kubernetes.io/limit-ranger";

/// Gives the containers of a new pod the default requests and limits of its namespace, and notes which.
pub fn fill_in(pod: &mut Value, server: &ApiServer) {
    let namespace = object::namespace(pod).to_owned();
    let mut notes = Vec::new();
    for range in values(server, "limitranges", &namespace) {
        for limit in items(&range).filter(|limit| limit["type"] == "Container") {
            for (list, word) in [("containers", "container"), ("initContainers", "init container")] {
                let containers = pod["spec"].get_mut(list).and_then(Value::as_array_mut);
                for container in containers.into_iter().flatten() {
                    fill_container(container, limit, word, &mut notes);
                }
            }
        }
    }
    if !notes.is_empty() {
        let note = format!("LimitRanger plugin set: {}", notes.join("; "));
        object::map_at(pod, &["metadata", "annotations"]).insert(NOTE.to_owned(), note.into());
    }
}

fn items(range: &Value) -> impl Iterator<Item = &Value> {
    range["spec"]["limits"].as_array().into_iter().flatten()
}

fn fill_container(container: &mut Value, limit: &Value, word: &str, notes: &mut Vec<String>) {
    let name = container["name"].as_str().unwrap_or_default().to_owned();
    for (section, from, what) in [("requests", "defaultRequest", "request"), ("limits", "default", "limit")] {
        let given = object::map_at(container, &["resources", section]);
        let absent: Map<String, Value> = limit[from]
            .as_object()
            .into_iter()
            .flatten()
            .filter(|(resource, _)| !given.contains_key(*resource))
            .map(|(resource, amount)| (resource.clone(), amount.clone()))
            .collect();
        let mut set: Vec<&str> = absent.keys().map(String::as_str).collect();
        set.sort_unstable();
        if !set.is_empty() {
            notes.push(format!("{} {what} for {word} {name}", set.join(", ")));
        }
        given.extend(absent);
        if given.is_empty()
            && let Some(resources) = container["resources"].as_object_mut()
        {
            resources.remove(section);
        }
    }
}

/// Refuses a pod or a claim that asks for less or more than its namespace allows.
pub fn check(call: &Call, object: &Value) -> Result<()> {
    let plural = call.kind.plural.as_ref();
    if !call.kind.group.is_empty() || !matches!(plural, "pods" | "persistentvolumeclaims") {
        return Ok(());
    }
    for range in values(&call.server, "limitranges", object::namespace(object)) {
        let mut faults = Vec::new();
        for limit in items(&range) {
            match (plural, limit["type"].as_str().unwrap_or_default()) {
                ("pods", "Container") => {
                    for container in containers(object) {
                        let resources = &container["resources"];
                        bounds(
                            limit,
                            "Container",
                            &read(&resources["requests"]),
                            &read(&resources["limits"]),
                            &mut faults,
                        );
                    }
                }
                ("pods", "Pod") => {
                    let used = usage("", "pods", object);
                    let section = |prefix: &str| -> Amounts {
                        let strip = |(name, amount): (&String, &Quantity)| {
                            Some((name.strip_prefix(prefix)?.to_owned(), *amount))
                        };
                        used.iter().filter_map(strip).collect()
                    };
                    bounds(limit, "Pod", &section("requests."), &section("limits."), &mut faults);
                }
                ("persistentvolumeclaims", "PersistentVolumeClaim") => {
                    claim(limit, &read(&object["spec"]["resources"]["requests"]), &mut faults);
                }
                _ => {}
            }
        }
        if !faults.is_empty() {
            let why = match faults.as_slice() {
                [one] => one.clone(),
                many => format!("[{}]", many.join(", ")),
            };
            return Err(ApiError::forbidden(&call.subject(), object::name(object), &why));
        }
    }
    Ok(())
}

fn containers(pod: &Value) -> impl Iterator<Item = &Value> {
    ["containers", "initContainers"]
        .into_iter()
        .flat_map(|list| pod["spec"][list].as_array().into_iter().flatten())
}

fn bounds(limit: &Value, what: &str, requests: &Amounts, limits: &Amounts, faults: &mut Vec<String>) {
    for (name, least) in read(&limit["min"]) {
        let start = format!("minimum {name} usage per {what} is {least}");
        match (requests.get(&name), limits.get(&name)) {
            (None, _) => faults.push(format!("{start}.  No request is specified")),
            (Some(request), _) if *request < least => {
                faults.push(format!("{start}, but request is {request}"))
            }
            (_, Some(limit)) if *limit < least => faults.push(format!("{start}, but limit is {limit}")),
            _ => {}
        }
    }
    for (name, most) in read(&limit["max"]) {
        let start = format!("maximum {name} usage per {what} is {most}");
        match (requests.get(&name), limits.get(&name)) {
            (_, None) => faults.push(format!("{start}.  No limit is specified")),
            (_, Some(limit)) if *limit > most => faults.push(format!("{start}, but limit is {limit}")),
            (Some(request), _) if *request > most => {
                faults.push(format!("{start}, but request is {request}"))
            }
            _ => {}
        }
    }
    for (name, most) in read(&limit["maxLimitRequestRatio"]) {
        let start = format!("{name} max limit to request ratio per {what} is {most}, but");
        let amount = |amounts: &Amounts| amounts.get(&name).copied().filter(|amount| !amount.is_zero());
        match (amount(requests), amount(limits)) {
            (None, _) => faults.push(format!("{start} no request is specified or request is 0")),
            (_, None) => faults.push(format!("{start} no limit is specified or limit is 0")),
            (Some(request), Some(limit)) => {
                let ratio = limit.milli() as f64 / request.milli() as f64;
                if ratio * 1000.0 > most.milli() as f64 {
                    faults.push(format!("{start} provided ratio is {ratio:.6}"));
                }
            }
        }
    }
}

fn claim(limit: &Value, requests: &Amounts, faults: &mut Vec<String>) {
    let what = "PersistentVolumeClaim";
    for (bound, word) in [("min", "minimum"), ("max", "maximum")] {
        for (name, amount) in read(&limit[bound]) {
            let start = format!("{word} {name} usage per {what} is {amount}");
            match requests.get(&name) {
                None => faults.push(format!("{start}.  No request is specified")),
                Some(request)
                    if (bound == "min" && *request < amount) || (bound == "max" && *request > amount) =>
                {
                    faults.push(format!("{start}, but request is {request}"));
                }
                Some(_) => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn defaults_are_noted_and_bounds_named() {
        let limit = json!({ "type": "Container", "default": { "cpu": "1" }, "defaultRequest": { "cpu": "100m", "memory": "1Mi" },
            "min": { "cpu": "200m" }, "max": { "memory": "1Gi" }, "maxLimitRequestRatio": { "cpu": "4" } });
        let mut container = json!({ "name": "c", "resources": { "requests": { "memory": "2Mi" } } });
        let mut notes = Vec::new();
        fill_container(&mut container, &limit, "container", &mut notes);
        assert_eq!(notes, ["cpu request for container c", "cpu limit for container c"]);
        assert_eq!(
            container["resources"],
            json!({ "requests": { "cpu": "100m", "memory": "2Mi" }, "limits": { "cpu": "1" } })
        );
        let mut faults = Vec::new();
        let section = |name: &str| read(&container["resources"][name]);
        bounds(&limit, "Container", &section("requests"), &section("limits"), &mut faults);
        assert_eq!(
            faults,
            [
                "minimum cpu usage per Container is 200m, but request is 100m",
                "maximum memory usage per Container is 1Gi.  No limit is specified",
                "cpu max limit to request ratio per Container is 4, but provided ratio is 10.000000",
            ]
        );
    }
}
