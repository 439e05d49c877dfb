//! Containers: ports, environment, mounts, resources, probes.

use std::collections::HashSet;

use serde_json::Value;

use super::{Errors, invalid_each, non_negative, one_of, port};
use crate::{FieldError, Path, Quantity, json, names};

const PROTOCOLS: [&str; 3] = ["SCTP", "TCP", "UDP"];

/// What holds for regular and init containers.
pub(super) fn common(container: &Value, volumes: &HashSet<String>, path: &Path<'_>, errors: &mut Errors) {
    let name = json::text(container, "name");
    if name.is_empty() {
        errors.push(FieldError::required(path.child("name"), ""));
    } else {
        invalid_each(names::dns1123_label(name), name, &path.child("name"), errors);
    }
    if json::text(container, "image").is_empty() {
        errors.push(FieldError::required(path.child("image"), ""));
    }
    one_of(
        json::text(container, "terminationMessagePolicy"),
        &["File", "FallbackToLogsOnError"],
        &path.child("terminationMessagePolicy"),
        errors,
    );
    ports(json::list(container, "ports"), &path.child("ports"), errors);
    environment(json::list(container, "env"), &path.child("env"), errors);
    environment_from(json::list(container, "envFrom"), &path.child("envFrom"), errors);
    mounts(json::list(container, "volumeMounts"), volumes, &path.child("volumeMounts"), errors);
    one_of(
        json::text(container, "imagePullPolicy"),
        &["Always", "IfNotPresent", "Never"],
        &path.child("imagePullPolicy"),
        errors,
    );
    let policy = json::text(container, "restartPolicy");
    if !policy.is_empty() {
        one_of(policy, &["Always", "Never", "OnFailure"], &path.child("restartPolicy"), errors);
    }
    resources(container.get("resources").unwrap_or(&Value::Null), &path.child("resources"), errors);
}

/// What holds for containers that keep running.
pub(super) fn running(container: &Value, path: &Path<'_>, errors: &mut Errors) {
    let lifecycle_path = path.child("lifecycle");
    for hook in ["postStart", "preStop"] {
        if let Some(handler) = container.get("lifecycle").and_then(|lifecycle| json::some(lifecycle, hook)) {
            handle(handler, &lifecycle_path.child(hook), errors);
        }
    }
    for (field, once) in [("livenessProbe", true), ("readinessProbe", false), ("startupProbe", true)] {
        let Some(probe) = json::some(container, field) else { continue };
        let at = path.child(field);
        handle(probe, &at, errors);
        for number in
            ["initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"]
        {
            non_negative(probe, number, &at, errors);
        }
        if let Some(grace) = json::int(probe, "terminationGracePeriodSeconds") {
            let grace_path = at.child("terminationGracePeriodSeconds");
            if field == "readinessProbe" {
                errors.push(FieldError::invalid(grace_path, grace, "must not be set for readinessProbes"));
            } else if grace <= 0 {
                errors.push(FieldError::invalid(grace_path, grace, "must be greater than 0"));
            }
        }
        if let Some(threshold) = json::int(probe, "successThreshold").filter(|n| once && *n != 1) {
            errors.push(FieldError::invalid(at.child("successThreshold"), threshold, "must be 1"));
        }
    }
}

/// What becomes of a container when its sizes change, for each resource once. In a pod whose containers are never restarted
/// a change may not ask for it.
pub(super) fn resize_policy(container: &Value, pod_restarts: &str, path: &Path<'_>, errors: &mut Errors) {
    let path = path.child("resizePolicy");
    let mut seen = HashSet::new();
    for (index, policy) in json::list(container, "resizePolicy").iter().enumerate() {
        let (resource, restart) = (json::text(policy, "resourceName"), json::text(policy, "restartPolicy"));
        if !seen.insert(resource) {
            errors.push(FieldError::duplicate(path.index(index), resource));
        }
        for (text, allowed) in [(resource, ["cpu", "memory"]), (restart, ["NotRequired", "RestartContainer"])]
        {
            if text.is_empty() {
                errors.push(FieldError::required(path, ""));
            } else if !allowed.contains(&text) {
                errors.push(FieldError::not_supported(path, text, &allowed));
            }
        }
        if pod_restarts == "Never" && restart != "NotRequired" {
            let detail = "must be 'NotRequired' when pod `restartPolicy` is 'Never'";
            errors.push(FieldError::invalid(path, restart, detail));
        }
    }
}

fn ports(ports: &[Value], path: &Path<'_>, errors: &mut Errors) {
    let mut seen = HashSet::new();
    for (index, item) in ports.iter().enumerate() {
        let at = path.index(index);
        let name = json::text(item, "name");
        if !name.is_empty() {
            let faults = names::port_name(name);
            if faults.is_empty() && !seen.insert(name) {
                errors.push(FieldError::duplicate(at.child("name"), name));
            }
            invalid_each(faults, name, &at.child("name"), errors);
        }
        match json::int(item, "containerPort").unwrap_or(0) {
            0 => errors.push(FieldError::required(at.child("containerPort"), "")),
            number => invalid_each(names::port_number(number), number, &at.child("containerPort"), errors),
        }
        if let Some(number) = json::int(item, "hostPort").filter(|number| *number != 0) {
            invalid_each(names::port_number(number), number, &at.child("hostPort"), errors);
        }
        one_of(json::text(item, "protocol"), &PROTOCOLS, &at.child("protocol"), errors);
    }
}

/// Two containers of a pod cannot have one port of the host.
pub(super) fn host_ports(containers: &[Value], path: &Path<'_>, errors: &mut Errors) {
    let mut seen = HashSet::new();
    for (index, container) in containers.iter().enumerate() {
        let base = path.index(index);
        let base = base.child("ports");
        for (index, item) in json::list(container, "ports").iter().enumerate() {
            let Some(number) = json::int(item, "hostPort").filter(|number| *number != 0) else { continue };
            let key = format!("{}/{}/{number}", json::text(item, "protocol"), json::text(item, "hostIP"));
            if !seen.insert(key.clone()) {
                let at = base.index(index);
                errors.push(FieldError::duplicate(at.child("hostPort"), key));
            }
        }
    }
}

fn environment(variables: &[Value], path: &Path<'_>, errors: &mut Errors) {
    const SOURCES: [&str; 5] =
        ["fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef"];
    for (index, variable) in variables.iter().enumerate() {
        let at = path.index(index);
        let name = json::text(variable, "name");
        if name.is_empty() {
            errors.push(FieldError::required(at.child("name"), ""));
        } else {
            invalid_each(names::env_name(name), name, &at.child("name"), errors);
        }
        let Some(from) = json::some(variable, "valueFrom") else { continue };
        let at = at.child("valueFrom");
        let sources = SOURCES.iter().filter(|source| json::some(from, source).is_some()).count();
        if let Some(field) = json::some(from, "fieldRef") {
            field_reference(field, &at.child("fieldRef"), errors);
        }
        for source in ["configMapKeyRef", "secretKeyRef"] {
            if let Some(reference) = json::some(from, source) {
                key_reference(reference, &at.child(source), errors);
            }
        }
        let detail = match (sources, json::text(variable, "value").is_empty()) {
            (0, _) => {
                "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"
            }
            (_, false) => "may not be specified when `value` is not empty",
            (1, true) => continue,
            _ => "may not have more than one field specified at a time",
        };
        errors.push(FieldError::invalid(at, "", detail));
    }
}

fn field_reference(reference: &Value, path: &Path<'_>, errors: &mut Errors) {
    const FIELDS: [&str; 9] = [
        "metadata.name",
        "metadata.namespace",
        "metadata.uid",
        "spec.nodeName",
        "spec.serviceAccountName",
        "status.hostIP",
        "status.hostIPs",
        "status.podIP",
        "status.podIPs",
    ];
    let text = json::text(reference, "fieldPath");
    let at = path.child("fieldPath");
    if text.is_empty() {
        errors.push(FieldError::required(at, ""));
        return;
    }
    if let Some((map, key)) = text.strip_suffix("']").and_then(|text| text.split_once("['")) {
        match map {
            "metadata.annotations" => {
                invalid_each(names::qualified_name(&key.to_lowercase()), key, path, errors)
            }
            "metadata.labels" => invalid_each(names::qualified_name(key), key, path, errors),
            other => errors.push(FieldError::invalid(path, other, "does not support subscript")),
        }
    } else if matches!(text, "metadata.labels" | "metadata.annotations") {
        errors.push(FieldError::not_supported(at, text, &FIELDS));
    } else if !FIELDS.contains(&text) {
        let detail = format!("error converting fieldPath: field label not supported: {text}");
        errors.push(FieldError::invalid(at, text, detail));
    }
}

fn key_reference(reference: &Value, path: &Path<'_>, errors: &mut Errors) {
    let name = json::text(reference, "name");
    invalid_each(names::dns1123_subdomain(name), name, &path.child("name"), errors);
    let key = json::text(reference, "key");
    if key.is_empty() {
        errors.push(FieldError::required(path.child("key"), ""));
    } else {
        invalid_each(names::config_key(key), key, &path.child("key"), errors);
    }
}

fn environment_from(sources: &[Value], path: &Path<'_>, errors: &mut Errors) {
    for (index, source) in sources.iter().enumerate() {
        let at = path.index(index);
        let prefix = json::text(source, "prefix");
        if !prefix.is_empty() {
            invalid_each(names::env_name(prefix), prefix, &at.child("prefix"), errors);
        }
        let mut found = 0;
        for field in ["configMapRef", "secretRef"] {
            let Some(reference) = json::some(source, field) else { continue };
            found += 1;
            let base = at.child(field);
            let name = json::text(reference, "name");
            if name.is_empty() {
                errors.push(FieldError::required(base.child("name"), ""));
            } else {
                invalid_each(names::dns1123_subdomain(name), name, &base.child("name"), errors);
            }
        }
        match found {
            1 => {}
            0 => {
                let detail = "must specify one of: `configMapRef` or `secretRef`";
                errors.push(FieldError::invalid(path, "", detail));
            }
            _ => {
                let detail = "may not have more than one field specified at a time";
                errors.push(FieldError::invalid(path, "", detail));
            }
        }
    }
}

fn mounts(mounts: &[Value], volumes: &HashSet<String>, path: &Path<'_>, errors: &mut Errors) {
    let mut seen = HashSet::new();
    for (index, mount) in mounts.iter().enumerate() {
        let at = path.index(index);
        let name = json::text(mount, "name");
        if name.is_empty() {
            errors.push(FieldError::required(at.child("name"), ""));
        }
        if !volumes.contains(name) {
            errors.push(FieldError::not_found(at.child("name"), name));
        }
        let target = json::text(mount, "mountPath");
        if target.is_empty() {
            errors.push(FieldError::required(at.child("mountPath"), ""));
        }
        if !seen.insert(target) {
            errors.push(FieldError::invalid(at.child("mountPath"), target, "must be unique"));
        }
        for field in ["subPath", "subPathExpr"] {
            let sub = json::text(mount, field);
            if sub.starts_with('/') {
                errors.push(FieldError::invalid(path.child(field), sub, "must be a relative path"));
            }
            if sub.split('/').any(|part| part == "..") {
                errors.push(FieldError::invalid(path.child(field), sub, "must not contain '..'"));
            }
        }
    }
}

fn is_overcommittable(name: &str) -> bool {
    !name.contains('/') && !name.starts_with("hugepages-")
}

fn resources(resources: &Value, path: &Path<'_>, errors: &mut Errors) {
    let quantity = |value: &Value| value.as_str().and_then(|text| Quantity::parse(text).ok());
    let empty = serde_json::Map::new();
    let limits = json::object(resources, "limits").unwrap_or(&empty);
    let requests = json::object(resources, "requests").unwrap_or(&empty);
    for (list, amounts) in [("limits", limits), ("requests", requests)] {
        let base = path.child(list);
        for (name, value) in amounts {
            let at = base.key(name);
            resource_name(name, &at, errors);
            let Some(amount) = quantity(value) else { continue };
            if amount.is_negative() {
                let detail = "must be greater than or equal to 0";
                errors.push(FieldError::invalid(at, value.clone(), detail));
            }
            if name.contains('/') && !amount.is_whole() {
                errors.push(FieldError::invalid(at, value.clone(), "must be an integer"));
            }
        }
    }
    let requests_path = path.child("requests");
    for (name, value) in requests {
        let limit = limits.get(name);
        match (quantity(value), limit.and_then(quantity)) {
            (Some(request), Some(limit)) if request != limit && !is_overcommittable(name) => {
                let detail = format!("must be equal to {name} limit of {limit}");
                errors.push(FieldError::invalid(requests_path, value.clone(), detail));
            }
            (Some(request), Some(limit)) if request > limit => {
                let detail = format!("must be less than or equal to {name} limit of {limit}");
                errors.push(FieldError::invalid(requests_path, value.clone(), detail));
            }
            (Some(_), None) if !is_overcommittable(name) => {
                let detail = "Limit must be set for non overcommitable resources";
                errors.push(FieldError::required(path.child("limits"), detail));
            }
            _ => {}
        }
    }
}

fn resource_name(name: &str, path: &Path<'_>, errors: &mut Errors) {
    let faults = names::qualified_name(name);
    if !faults.is_empty() {
        invalid_each(faults, name, path, errors);
    } else if !name.contains('/') {
        const STANDARD: [&str; 16] = [
            "cpu",
            "memory",
            "ephemeral-storage",
            "requests.cpu",
            "requests.memory",
            "requests.ephemeral-storage",
            "limits.cpu",
            "limits.memory",
            "limits.ephemeral-storage",
            "pods",
            "services",
            "replicationcontrollers",
            "secrets",
            "configmaps",
            "persistentvolumeclaims",
            "storage",
        ];
        if !STANDARD.contains(&name) && !name.starts_with("hugepages-") {
            let detail = "must be a standard resource type or fully qualified";
            errors.push(FieldError::invalid(path, name, detail));
        }
        if !matches!(name, "cpu" | "memory" | "ephemeral-storage") && !name.starts_with("hugepages-") {
            let detail = "must be a standard resource for containers";
            errors.push(FieldError::invalid(path, name, detail));
        }
    } else if !name.contains("kubernetes.io/") && name.starts_with("requests.") {
        let detail = "doesn't follow extended resource name standard";
        errors.push(FieldError::invalid(path, name, detail));
    }
}

/// What a probe or a hook does: exactly one thing.
fn handle(handler: &Value, path: &Path<'_>, errors: &mut Errors) {
    let mut found = 0;
    for field in ["exec", "httpGet", "tcpSocket", "grpc", "sleep"] {
        let Some(action) = json::some(handler, field) else { continue };
        let at = path.child(field);
        found += 1;
        if found > 1 {
            errors.push(FieldError::forbidden(at, "may not specify more than 1 handler type"));
            continue;
        }
        match field {
            "exec" if json::list(action, "command").is_empty() => {
                errors.push(FieldError::required(at.child("command"), ""));
            }
            "httpGet" => {
                if json::text(action, "path").is_empty() {
                    errors.push(FieldError::required(at.child("path"), ""));
                }
                port(&action["port"], &at.child("port"), errors);
                let scheme = json::text(action, "scheme");
                if !matches!(scheme, "HTTP" | "HTTPS") {
                    errors.push(FieldError::not_supported(at.child("scheme"), scheme, &["HTTP", "HTTPS"]));
                }
                for header in json::list(action, "httpHeaders") {
                    let name = json::text(header, "name");
                    invalid_each(names::http_header_name(name), name, &at.child("httpHeaders"), errors);
                }
            }
            "tcpSocket" | "grpc" => port(&action["port"], &at.child("port"), errors),
            _ => {}
        }
    }
    if found == 0 {
        errors.push(FieldError::required(path, "must specify a handler type"));
    }
}
