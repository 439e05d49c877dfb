//! Services and what they lead to.

use std::collections::HashSet;

use serde_json::{Value, json};

use super::{Checks, Errors, invalid_each, one_of, port, spec};
use crate::{FieldError, Path, json, meta, names};

pub(crate) const SERVICE: Checks = Checks { object: service, change: service_change, status: |_, _, _| {} };
pub(crate) const ENDPOINTS: Checks = Checks { object: endpoints, ..super::NONE };
pub(crate) const ENDPOINT_SLICE: Checks =
    Checks { object: endpoint_slice, change: endpoint_slice_change, ..super::NONE };

const PROTOCOLS: [&str; 3] = ["SCTP", "TCP", "UDP"];

fn service(object: &Value, errors: &mut Errors) {
    let spec = spec(object);
    let path = Path::ROOT.child("spec");
    let kind = json::text(spec, "type");
    let headless = json::text(spec, "clusterIP") == "None";
    let ports = json::list(spec, "ports");
    let base = path.child("ports");
    if ports.is_empty() && !headless && kind != "ExternalName" {
        errors.push(FieldError::required(base, ""));
    }
    match kind {
        "LoadBalancer" | "NodePort" if headless => {
            let at = path.child("clusterIPs");
            let detail = format!("may not be set to 'None' for {kind} services");
            errors.push(FieldError::invalid(at.index(0), "None", detail));
        }
        "ExternalName" => {
            if !json::text(spec, "clusterIP").is_empty() {
                let detail = "may not be set for ExternalName services";
                errors.push(FieldError::forbidden(path.child("clusterIPs"), detail));
            }
            let name = json::text(spec, "externalName").trim_end_matches('.');
            let at = path.child("externalName");
            if name.is_empty() {
                errors.push(FieldError::required(at, ""));
            } else {
                invalid_each(names::dns1123_subdomain(name), name, &at, errors);
            }
        }
        _ => {}
    }
    let address = json::text(spec, "clusterIP");
    if !matches!(address, "" | "None") && kind != "ExternalName" {
        let base = path.child("clusterIPs");
        ip(address, &base.index(0), errors);
    }
    service_ports(ports, kind, &base, errors);
    meta::labels(spec.get("selector"), &path.child("selector"), errors);
    one_of(
        json::text(spec, "sessionAffinity"),
        &["ClientIP", "None"],
        &path.child("sessionAffinity"),
        errors,
    );
    one_of(kind, &["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"], &path.child("type"), errors);
    if kind != "LoadBalancer" {
        for field in ["allocateLoadBalancerNodePorts", "loadBalancerClass"] {
            if json::some(spec, field).is_some() {
                let detail = "may only be used when `type` is 'LoadBalancer'";
                errors.push(FieldError::forbidden(path.child(field), detail));
            }
        }
    }
    for field in ["externalTrafficPolicy", "internalTrafficPolicy"] {
        let policy = json::text(spec, field);
        if !policy.is_empty() && !matches!(policy, "Cluster" | "Local") {
            errors.push(FieldError::not_supported(path.child(field), policy, &["Cluster", "Local"]));
        }
    }
}

fn service_ports(ports: &[Value], kind: &str, path: &Path<'_>, errors: &mut Errors) {
    let mut names_seen = HashSet::new();
    for (index, item) in ports.iter().enumerate() {
        let at = path.index(index);
        let name = json::text(item, "name");
        if name.is_empty() {
            if ports.len() > 1 {
                errors.push(FieldError::required(at.child("name"), ""));
            }
        } else {
            invalid_each(names::dns1123_label(name), name, &at.child("name"), errors);
            if !names_seen.insert(name) {
                errors.push(FieldError::duplicate(at.child("name"), name));
            }
        }
        let number = json::int(item, "port").unwrap_or(0);
        invalid_each(names::port_number(number), number, &at.child("port"), errors);
        one_of(json::text(item, "protocol"), &PROTOCOLS, &at.child("protocol"), errors);
        port(&item["targetPort"], &at.child("targetPort"), errors);
        let app = json::text(item, "appProtocol");
        if !app.is_empty() {
            invalid_each(names::qualified_name(app), app, &at.child("appProtocol"), errors);
        }
        if kind == "ClusterIP" && json::int(item, "nodePort").is_some_and(|port| port != 0) {
            let detail = "may not be used when `type` is 'ClusterIP'";
            errors.push(FieldError::forbidden(at.child("nodePort"), detail));
        }
    }
    let mut seen = HashSet::new();
    for (index, item) in ports.iter().enumerate() {
        let number = json::int(item, "port").unwrap_or(0);
        let protocol = json::text(item, "protocol");
        if !seen.insert((protocol, number)) {
            // the key the API compares by, as it prints it
            let key = json!({
                "Name": "", "Protocol": protocol, "AppProtocol": null, "Port": number, "TargetPort": 0, "NodePort": 0,
            });
            errors.push(FieldError::duplicate(path.index(index), key));
        }
    }
}

fn service_change(new: &Value, old: &Value, errors: &mut Errors) {
    let (new_spec, old_spec) = (spec(new), spec(old));
    let has_ip = |spec: &Value| json::text(spec, "type") != "ExternalName";
    let old_ip = json::text(old_spec, "clusterIP");
    if has_ip(new_spec)
        && has_ip(old_spec)
        && !old_ip.is_empty()
        && json::text(new_spec, "clusterIP") != old_ip
    {
        let base = Path::ROOT.child("spec");
        let base = base.child("clusterIPs");
        let value = match json::some(new_spec, "clusterIPs") {
            Some(ips) => ips.clone(),
            None => json!([json::text(new_spec, "clusterIP")]),
        };
        errors.push(FieldError::invalid(base.index(0), value, "may not change once set"));
    }
}

fn endpoints(object: &Value, errors: &mut Errors) {
    let base = Path::ROOT.child("subsets");
    for (index, subset) in json::list(object, "subsets").iter().enumerate() {
        let at = base.index(index);
        let lists = ["addresses", "notReadyAddresses"];
        if lists.iter().all(|list| json::list(subset, list).is_empty()) {
            errors.push(FieldError::required(at, "must specify `addresses` or `notReadyAddresses`"));
        }
        for list in lists {
            let base = at.child(list);
            for (index, address) in json::list(subset, list).iter().enumerate() {
                let at = base.index(index);
                let text = json::text(address, "ip");
                ip(text, &at.child("ip"), errors);
                if text.parse::<std::net::IpAddr>().is_err() {
                    errors.push(FieldError::invalid(at.child("ip"), text, "must be a valid IP address"));
                }
            }
        }
        let ports = json::list(subset, "ports");
        let base = at.child("ports");
        for (index, item) in ports.iter().enumerate() {
            let at = base.index(index);
            let name = json::text(item, "name");
            if name.is_empty() && ports.len() > 1 {
                errors.push(FieldError::required(at.child("name"), ""));
            } else if !name.is_empty() {
                invalid_each(names::dns1123_label(name), name, &at.child("name"), errors);
            }
            let number = json::int(item, "port").unwrap_or(0);
            invalid_each(names::port_number(number), number, &at.child("port"), errors);
            one_of(json::text(item, "protocol"), &PROTOCOLS, &at.child("protocol"), errors);
        }
    }
}

fn ip(text: &str, path: &Path<'_>, errors: &mut Errors) {
    if text.parse::<std::net::IpAddr>().is_err() {
        let detail = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
        errors.push(FieldError::invalid(path, text, detail));
    }
}

fn endpoint_slice(object: &Value, errors: &mut Errors) {
    let kind = json::text(object, "addressType");
    let root = Path::ROOT;
    one_of(kind, &["FQDN", "IPv4", "IPv6"], &root.child("addressType"), errors);
    let base = root.child("endpoints");
    for (index, endpoint) in json::list(object, "endpoints").iter().enumerate() {
        let at = base.index(index);
        let addresses = json::list(endpoint, "addresses");
        let base = at.child("addresses");
        if addresses.is_empty() {
            errors.push(FieldError::required(base, "must contain at least 1 address"));
        } else if addresses.len() > 100 {
            errors.push(FieldError::too_many(base, addresses.len() as u64, 100));
        }
        for (index, address) in addresses.iter().filter_map(Value::as_str).enumerate() {
            let at = base.index(index);
            match kind {
                "FQDN" => invalid_each(names::dns1123_subdomain(address), address, &at, errors),
                _ => ip(address, &at, errors),
            }
        }
    }
    let base = root.child("ports");
    let mut seen = HashSet::new();
    for (index, item) in json::list(object, "ports").iter().enumerate() {
        let at = base.index(index);
        let name = json::text(item, "name");
        if !name.is_empty() {
            invalid_each(names::dns1123_label(name), name, &at.child("name"), errors);
        }
        if !seen.insert(name) {
            errors.push(FieldError::duplicate(at.child("name"), name));
        }
        one_of(json::text(item, "protocol"), &PROTOCOLS, &at.child("protocol"), errors);
    }
}

fn endpoint_slice_change(new: &Value, old: &Value, errors: &mut Errors) {
    meta::immutable(new, old, "addressType", &Path::ROOT, errors);
}
