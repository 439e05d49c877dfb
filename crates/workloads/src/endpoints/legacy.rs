//! The Endpoints object of a Service.

use std::collections::BTreeMap;

use engine::{
    effect::{Effect, Target},
    kind,
};
use k8s_openapi::{
    api::core::v1::{EndpointAddress, EndpointPort, EndpointSubset, Endpoints, Service},
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use serde_json::json;

use super::{
    members::{Member, Port},
    slices::reference,
};
use crate::object::label;

const MANAGED_BY: &str = "endpoints.kubernetes.io/managed-by";
const MANAGER: &str = "endpoint-controller";
/// An object beyond this is cut and says so.
const MOST: usize = 1000;
const OVER_CAPACITY: &str = "endpoints.kubernetes.io/over-capacity";

pub(super) fn ours(endpoints: &Endpoints) -> bool {
    label(&endpoints.metadata, MANAGED_BY) == Some(MANAGER)
}

pub(super) fn delete(endpoints: &Endpoints) -> Effect {
    let target = Target::of(&kind::ENDPOINTS, &endpoints.metadata);
    Effect::Delete { target, propagation: None, announce: None }
}

pub(super) fn plan(service: &Service, members: &[Member], existing: Option<&Endpoints>) -> Option<Effect> {
    if service.metadata.deletion_timestamp.is_some() {
        return None;
    }
    let (subsets, cut) = subsets(members);
    let mut labels = service.metadata.labels.clone().unwrap_or_default();
    labels.insert(MANAGED_BY.into(), MANAGER.into());
    let Some(existing) = existing else {
        let annotations = cut.then(|| BTreeMap::from([(OVER_CAPACITY.to_owned(), "truncated".to_owned())]));
        let body = json!(Endpoints {
            metadata: ObjectMeta {
                namespace: service.metadata.namespace.clone(),
                name: service.metadata.name.clone(),
                labels: Some(labels),
                annotations,
                ..Default::default()
            },
            subsets: (!subsets.is_empty()).then_some(subsets),
        });
        let namespace = service.metadata.namespace.clone();
        return Some(Effect::Create { kind: kind::ENDPOINTS, namespace, body, announce: None });
    };
    let said = crate::object::annotation(&existing.metadata, OVER_CAPACITY).is_some();
    let unchanged = existing.subsets.as_deref().unwrap_or_default() == subsets
        && existing.metadata.labels.as_ref() == Some(&labels)
        && said == cut;
    if unchanged {
        return None;
    }
    let mark = if cut { json!("truncated") } else { json!(null) };
    let mut metadata = json!({ "labels": labels });
    if said != cut {
        metadata["annotations"] = json!({ OVER_CAPACITY: mark });
    }
    let subsets = if subsets.is_empty() { json!(null) } else { json!(subsets) };
    let body = json!({ "metadata": metadata, "subsets": subsets });
    Some(Effect::patch(Target::of(&kind::ENDPOINTS, &existing.metadata), body))
}

/// One subset for each combination of ports. Pods on their way out are not in it, unless unready ones are asked for.
fn subsets(members: &[Member]) -> (Vec<EndpointSubset>, bool) {
    let listed: Vec<&Member> =
        members.iter().filter(|member| !member.terminating || member.published_unready).collect();
    let mut by_ports: BTreeMap<&[Port], Vec<&Member>> = BTreeMap::new();
    for member in listed.iter().take(MOST) {
        by_ports.entry(&member.ports).or_default().push(member);
    }
    let addresses = |members: &[&Member], ready: bool| {
        let mut some: Vec<EndpointAddress> =
            members.iter().filter(|member| member.ready() == ready).map(|member| address(member)).collect();
        some.sort_by(|a, b| a.ip.cmp(&b.ip));
        (!some.is_empty()).then_some(some)
    };
    let subset = |(ports, members): (&[Port], Vec<&Member>)| EndpointSubset {
        addresses: addresses(&members, true),
        not_ready_addresses: addresses(&members, false),
        ports: (!ports.is_empty()).then(|| ports.iter().map(port).collect()),
    };
    (by_ports.into_iter().map(subset).collect(), listed.len() > MOST)
}

fn address(member: &Member) -> EndpointAddress {
    EndpointAddress {
        ip: member.ip.clone(),
        hostname: member.hostname.clone(),
        node_name: member.node.clone(),
        target_ref: Some(reference(member)),
    }
}

fn port(port: &Port) -> EndpointPort {
    EndpointPort {
        name: Some(port.name.clone()).filter(|name| !name.is_empty()),
        port: port.port,
        protocol: Some(port.protocol.clone()),
        app_protocol: port.app_protocol.clone(),
    }
}
