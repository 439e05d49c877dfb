//! Ingresses, their classes, and NetworkPolicies: kept for whoever implements them.

use std::net::IpAddr;

use serde_json::Value;

use super::{Checks, Errors, invalid_each, port, selector, spec};
use crate::{FieldError, Path, json, meta, names};

pub(crate) const INGRESS: Checks = Checks { object: ingress, ..super::NONE };
pub(crate) const INGRESS_CLASS: Checks =
    Checks { object: ingress_class, change: ingress_class_change, ..super::NONE };
pub(crate) const NETWORK_POLICY: Checks = Checks { object: network_policy, ..super::NONE };

const MAX_CONTROLLER: u64 = 250;

fn ingress(object: &Value, errors: &mut Errors) {
    let spec = spec(object);
    let path = Path::ROOT.child("spec");
    let (rules, backend) = (json::list(spec, "rules"), json::some(spec, "defaultBackend"));
    if rules.is_empty() && backend.is_none() {
        let detail = "either `defaultBackend` or `rules` must be specified";
        errors.push(FieldError::invalid(path, Value::Null, detail));
    }
    if let Some(backend) = backend {
        ingress_backend(backend, &path.child("defaultBackend"), errors);
    }
    let base = path.child("rules");
    for (index, rule) in rules.iter().enumerate() {
        ingress_rule(rule, &base.index(index), errors);
    }
    let base = path.child("tls");
    for (index, tls) in json::list(spec, "tls").iter().enumerate() {
        let at = base.index(index);
        let hosts = at.child("hosts");
        for (index, name) in json::list(tls, "hosts").iter().filter_map(Value::as_str).enumerate() {
            invalid_each(host(name), name, &hosts.index(index), errors);
        }
        let secret = json::text(tls, "secretName");
        if !secret.is_empty() {
            invalid_each(names::dns1123_subdomain(secret), secret, &at.child("secretName"), errors);
        }
    }
    if let Some(class) = spec.get("ingressClassName").and_then(Value::as_str) {
        invalid_each(names::dns1123_subdomain(class), class, &path.child("ingressClassName"), errors);
    }
}

fn host(name: &str) -> Vec<String> {
    if name.contains('*') { names::wildcard_subdomain(name) } else { names::dns1123_subdomain(name) }
}

fn ingress_rule(rule: &Value, path: &Path<'_>, errors: &mut Errors) {
    let name = json::text(rule, "host");
    if !name.is_empty() {
        let at = path.child("host");
        if name.parse::<IpAddr>().is_ok() {
            errors.push(FieldError::invalid(at, name, "must be a DNS name, not an IP address"));
        }
        invalid_each(host(name), name, &at, errors);
    }
    let Some(http) = json::some(rule, "http") else { return };
    let base = path.child("http");
    let base = base.child("paths");
    let paths = json::list(http, "paths");
    if paths.is_empty() {
        errors.push(FieldError::required(base, ""));
    }
    for (index, one) in paths.iter().enumerate() {
        ingress_path(one, &base.index(index), errors);
    }
}

fn ingress_path(one: &Value, path: &Path<'_>, errors: &mut Errors) {
    const SEQUENCES: [&str; 5] = ["//", "/./", "/../", "%2f", "%2F"];
    let (text, at) = (json::text(one, "path"), path.child("path"));
    let absolute = text.starts_with('/');
    match json::text(one, "pathType") {
        "" => {
            errors.push(FieldError::required(path.child("pathType"), "pathType must be specified"));
            return;
        }
        "Exact" | "Prefix" => {
            if !absolute {
                errors.push(FieldError::invalid(at, text, "must be an absolute path"));
            }
            for sequence in SEQUENCES.iter().filter(|sequence| text.contains(**sequence)) {
                errors.push(FieldError::invalid(at, text, format!("must not contain '{sequence}'")));
            }
            for suffix in ["/..", "/."].iter().filter(|suffix| text.ends_with(**suffix)) {
                errors.push(FieldError::invalid(at, text, format!("cannot end with '{suffix}'")));
            }
        }
        "ImplementationSpecific" => {
            if !text.is_empty() && !absolute {
                errors.push(FieldError::invalid(at, text, "must be an absolute path"));
            }
        }
        other => {
            let types = ["Exact", "ImplementationSpecific", "Prefix"];
            errors.push(FieldError::not_supported(path.child("pathType"), other, &types));
        }
    }
    ingress_backend(&one["backend"], &path.child("backend"), errors);
}

fn ingress_backend(backend: &Value, path: &Path<'_>, errors: &mut Errors) {
    match (json::some(backend, "resource"), json::some(backend, "service")) {
        (Some(_), Some(_)) => {
            errors.push(FieldError::invalid(path, "", "cannot set both resource and service backends"));
        }
        (Some(resource), None) => reference(resource, &path.child("resource"), errors),
        (None, Some(service)) => {
            let base = path.child("service");
            let name = json::text(service, "name");
            if name.is_empty() {
                errors.push(FieldError::required(base.child("name"), ""));
            } else {
                invalid_each(names::dns1123_label(name), name, &base.child("name"), errors);
            }
            let base = base.child("port");
            let (name, number) =
                (json::text(&service["port"], "name"), json::int(&service["port"], "number"));
            match (name, number.unwrap_or(0)) {
                ("", 0) => errors.push(FieldError::required(path, "port name or number is required")),
                ("", number) => {
                    invalid_each(names::port_number(number), number, &base.child("number"), errors);
                }
                (name, 0) => invalid_each(names::port_name(name), name, &base.child("name"), errors),
                _ => errors.push(FieldError::invalid(path, "", "cannot set both port name & port number")),
            }
        }
        (None, None) => {
            errors.push(FieldError::invalid(path, "", "resource or service backend is required"));
        }
    }
}

/// An object of some kind, by name.
fn reference(to: &Value, path: &Path<'_>, errors: &mut Errors) {
    if let Some(group) = to.get("apiGroup").and_then(Value::as_str) {
        invalid_each(names::dns1123_subdomain(group), group, &path.child("apiGroup"), errors);
    }
    for field in ["kind", "name"] {
        let text = json::text(to, field);
        if text.is_empty() {
            errors.push(FieldError::required(path.child(field), ""));
        } else {
            invalid_each(names::path_segment(text, false), text, &path.child(field), errors);
        }
    }
}

fn ingress_class(object: &Value, errors: &mut Errors) {
    let spec = spec(object);
    let path = Path::ROOT.child("spec");
    let (controller, at) = (json::text(spec, "controller"), path.child("controller"));
    if controller.len() as u64 > MAX_CONTROLLER {
        errors.push(FieldError::too_long(at, MAX_CONTROLLER));
    }
    match controller.split_once('/') {
        _ if controller.is_empty() => errors.push(FieldError::required(at, "")),
        Some((domain, rest)) if !domain.is_empty() && !rest.is_empty() => {
            invalid_each(names::dns1123_subdomain(domain), domain, &at, errors);
        }
        _ => {
            let detail = "must be a domain-prefixed path (such as \"acme.io/foo\")";
            errors.push(FieldError::invalid(at, controller, detail));
        }
    }
    let Some(parameters) = json::some(spec, "parameters") else { return };
    let at = path.child("parameters");
    reference(parameters, &at, errors);
    let namespace = json::some(parameters, "namespace").and_then(Value::as_str);
    match (json::text(parameters, "scope"), namespace) {
        ("Namespace", None) => {
            let detail = "`parameters.scope` is set to 'Namespace'";
            errors.push(FieldError::required(at.child("namespace"), detail));
        }
        ("Namespace", Some(name)) => {
            invalid_each(names::dns1123_label(name), name, &at.child("namespace"), errors);
        }
        ("Cluster", Some(_)) => {
            let detail = "`parameters.scope` is set to 'Cluster'";
            errors.push(FieldError::forbidden(at.child("namespace"), detail));
        }
        ("Cluster", None) => {}
        (other, _) => {
            errors.push(FieldError::not_supported(at.child("scope"), other, &["Cluster", "Namespace"]));
        }
    }
}

fn ingress_class_change(new: &Value, old: &Value, errors: &mut Errors) {
    meta::immutable(spec(new), spec(old), "controller", &Path::ROOT.child("spec"), errors);
}

fn network_policy(object: &Value, errors: &mut Errors) {
    let spec = spec(object);
    let path = Path::ROOT.child("spec");
    selector::validate(spec.get("podSelector").unwrap_or(&Value::Null), &path.child("podSelector"), errors);
    for (direction, peers) in [("ingress", "from"), ("egress", "to")] {
        let base = path.child(direction);
        for (index, rule) in json::list(spec, direction).iter().enumerate() {
            let at = base.index(index);
            let ports = at.child("ports");
            for (index, one) in json::list(rule, "ports").iter().enumerate() {
                policy_port(one, &ports.index(index), errors);
            }
            let base = at.child(peers);
            for (index, peer) in json::list(rule, peers).iter().enumerate() {
                policy_peer(peer, &base.index(index), errors);
            }
        }
    }
    let types = json::list(spec, "policyTypes");
    let base = path.child("policyTypes");
    if types.len() > 2 {
        let detail = "may not specify more than two policyTypes";
        errors.push(FieldError::invalid(base, spec["policyTypes"].clone(), detail));
        return;
    }
    for (index, one) in types.iter().filter_map(Value::as_str).enumerate() {
        if !matches!(one, "Ingress" | "Egress") {
            errors.push(FieldError::not_supported(base.index(index), one, &["Ingress", "Egress"]));
        }
    }
}

fn policy_port(one: &Value, path: &Path<'_>, errors: &mut Errors) {
    let protocol = json::text(one, "protocol");
    let protocols = ["TCP", "UDP", "SCTP"];
    if !protocol.is_empty() && !protocols.contains(&protocol) {
        errors.push(FieldError::not_supported(path.child("protocol"), protocol, &protocols));
    }
    let (end, at) = (json::int(one, "endPort"), path.child("endPort"));
    let Some(number) = json::some(one, "port") else {
        if let Some(end) = end {
            let detail = "may not be specified when `port` is not specified";
            errors.push(FieldError::invalid(at, end, detail));
        }
        return;
    };
    match (number.as_i64(), end) {
        (None, Some(end)) => {
            let detail = "may not be specified when `port` is non-numeric";
            errors.push(FieldError::invalid(at, end, detail));
        }
        (Some(first), Some(end)) => {
            if end < first {
                let detail = "must be greater than or equal to `port`";
                errors.push(FieldError::invalid(at, first, detail));
            }
            invalid_each(names::port_number(end), end, &at, errors);
        }
        (_, None) => {}
    }
    port(number, &path.child("port"), errors);
}

fn policy_peer(peer: &Value, path: &Path<'_>, errors: &mut Errors) {
    let mut found = 0;
    for field in ["podSelector", "namespaceSelector"] {
        if let Some(one) = json::some(peer, field) {
            found += 1;
            selector::validate(one, &path.child(field), errors);
        }
    }
    let block = json::some(peer, "ipBlock");
    if let Some(block) = block {
        ip_block(block, &path.child("ipBlock"), errors);
    }
    match (found, block) {
        (0, None) => errors.push(FieldError::required(path, "must specify a peer")),
        (1.., Some(_)) => {
            errors.push(FieldError::forbidden(path, "may not specify both ipBlock and another peer"));
        }
        _ => {}
    }
}

fn ip_block(block: &Value, path: &Path<'_>, errors: &mut Errors) {
    let (text, at) = (json::text(block, "cidr"), path.child("cidr"));
    if text.is_empty() {
        errors.push(FieldError::required(at, ""));
        return;
    }
    let Some(outer) = cidr(text) else {
        errors.push(FieldError::invalid(at, text, NO_CIDR));
        return;
    };
    let base = path.child("except");
    for (index, text) in json::list(block, "except").iter().filter_map(Value::as_str).enumerate() {
        let at = base.index(index);
        match cidr(text) {
            None => errors.push(FieldError::invalid(at, text, NO_CIDR)),
            Some(inner) if !contains(outer, inner) => {
                errors.push(FieldError::invalid(at, text, "must be a strict subset of `cidr`"));
            }
            Some(_) => {}
        }
    }
}

const NO_CIDR: &str = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";

/// The address as a number of 128 bits, and the length of its prefix in those; IPv4 is moved to the front.
fn cidr(text: &str) -> Option<(bool, u128, u32)> {
    let (address, length) = text.split_once('/')?;
    let length: u32 = length.parse().ok()?;
    match address.parse().ok()? {
        IpAddr::V4(v4) => (length <= 32).then(|| (true, u128::from(u32::from(v4)) << 96, length)),
        IpAddr::V6(v6) => (length <= 128).then(|| (false, u128::from(v6), length)),
    }
}

fn contains(
    (v4, outer, length): (bool, u128, u32),
    (inner_v4, inner, inner_length): (bool, u128, u32),
) -> bool {
    let mask = if length == 0 { 0 } else { u128::MAX << (128 - length) };
    v4 == inner_v4 && inner_length > length && outer & mask == inner & mask
}
