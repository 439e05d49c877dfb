//! EndpointSlices: at most a hundred endpoints each, all with the same ports.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use engine::{
    effect::{Effect, Target},
    kind,
};
use k8s_openapi::{
    api::{
        core::v1::{ObjectReference, Service},
        discovery::v1::{Endpoint, EndpointConditions, EndpointPort, EndpointSlice},
    },
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use serde_json::json;

use super::{
    SERVICE_NAME,
    members::{Member, Port},
};
use crate::object::{controller_reference, label, name};

const MOST: usize = 100;
const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
const MANAGER: &str = "endpointslice-controller.k8s.io";
const HEADLESS: &str = "service.kubernetes.io/headless";

pub(super) fn ours(slice: &EndpointSlice, service: &str) -> bool {
    label(&slice.metadata, SERVICE_NAME) == Some(service)
        && label(&slice.metadata, MANAGED_BY) == Some(MANAGER)
        && slice.metadata.deletion_timestamp.is_none()
}

pub(super) fn plan(service: &Service, members: &[Member], existing: &[Arc<EndpointSlice>]) -> Vec<Effect> {
    if service.metadata.deletion_timestamp.is_some() {
        return Vec::new();
    }
    let mut by_ports: BTreeMap<&[Port], Vec<&Member>> = BTreeMap::new();
    for member in members {
        by_ports.entry(&member.ports).or_default().push(member);
    }
    let mut unused: Vec<&EndpointSlice> = existing.iter().map(|slice| &**slice).collect();
    let mut effects = Vec::new();
    for (ports, members) in &by_ports {
        let ports = slice_ports(ports);
        let (matching, rest): (Vec<_>, Vec<_>) =
            unused.into_iter().partition(|slice| same_ports(slice, &ports));
        unused = rest;
        effects.extend(fill(service, members, &ports, matching, &mut unused));
    }
    // A Service without endpoints keeps one empty slice, so that readers see it is known.
    if by_ports.is_empty() {
        match unused.split_first() {
            None => effects.push(create(service, &[], &[])),
            Some((kept, _)) => {
                effects.extend(update(service, kept, &[], &kept.ports.clone().unwrap_or_default()));
                unused.remove(0);
            }
        }
    }
    effects.extend(unused.into_iter().map(|slice| Effect::Delete {
        target: Target::of(&kind::ENDPOINT_SLICE, &slice.metadata),
        propagation: None,
        announce: None,
    }));
    effects
}

/// Endpoints stay in the slice they are in; new ones go where there is room. So a change touches few slices.
fn fill<'a>(
    service: &Service,
    members: &[&Member],
    ports: &[EndpointPort],
    slices: Vec<&'a EndpointSlice>,
    unused: &mut Vec<&'a EndpointSlice>,
) -> Vec<Effect> {
    let mut left: HashMap<&str, &Member> =
        members.iter().map(|member| (member.pod_uid.as_str(), *member)).collect();
    let mut filled: Vec<(&EndpointSlice, Vec<&Member>)> = slices
        .into_iter()
        .map(|slice| {
            let known = slice
                .endpoints
                .iter()
                .flatten()
                .filter_map(|endpoint| endpoint.target_ref.as_ref()?.uid.as_deref());
            (slice, known.filter_map(|uid| left.remove(uid)).collect())
        })
        .collect();
    let mut new: Vec<&Member> = left.into_values().collect();
    new.sort_by(|a, b| a.pod.cmp(&b.pod));
    let mut new = new.into_iter().peekable();
    for (_, content) in &mut filled {
        while content.len() < MOST
            && let Some(member) = new.next()
        {
            content.push(member);
        }
    }
    let mut effects = Vec::new();
    for (slice, content) in filled {
        if content.is_empty() {
            unused.push(slice);
        } else {
            effects.extend(update(service, slice, &content, ports));
        }
    }
    let rest: Vec<&Member> = new.collect();
    effects.extend(rest.chunks(MOST).map(|chunk| create(service, chunk, ports)));
    effects
}

fn update(
    service: &Service,
    slice: &EndpointSlice,
    members: &[&Member],
    ports: &[EndpointPort],
) -> Option<Effect> {
    let endpoints: Vec<Endpoint> = members.iter().map(|member| endpoint(member)).collect();
    let labels = labels(service);
    let labelled = labels
        .iter()
        .all(|(key, value)| slice.metadata.labels.as_ref().and_then(|l| l.get(key)) == Some(value));
    if slice.endpoints.as_deref().unwrap_or_default() == endpoints && same_ports(slice, ports) && labelled {
        return None;
    }
    let body = json!({ "metadata": { "labels": labels }, "endpoints": endpoints, "ports": ports });
    Some(Effect::patch(Target::of(&kind::ENDPOINT_SLICE, &slice.metadata), body))
}

fn create(service: &Service, members: &[&Member], ports: &[EndpointPort]) -> Effect {
    let slice = EndpointSlice {
        metadata: ObjectMeta {
            namespace: service.metadata.namespace.clone(),
            generate_name: Some(format!("{}-", name(&service.metadata))),
            labels: Some(labels(service)),
            owner_references: Some(vec![controller_reference(&kind::SERVICE, &service.metadata)]),
            ..Default::default()
        },
        address_type: "IPv4".into(),
        endpoints: Some(members.iter().map(|member| endpoint(member)).collect()),
        ports: Some(ports.to_vec()),
    };
    Effect::Create {
        kind: kind::ENDPOINT_SLICE,
        namespace: service.metadata.namespace.clone(),
        body: json!(slice),
        announce: None,
    }
}

fn labels(service: &Service) -> BTreeMap<String, String> {
    let mut labels = service.metadata.labels.clone().unwrap_or_default();
    labels.insert(SERVICE_NAME.into(), name(&service.metadata).into());
    labels.insert(MANAGED_BY.into(), MANAGER.into());
    if service.spec.as_ref().and_then(|spec| spec.cluster_ip.as_deref()) == Some("None") {
        labels.insert(HEADLESS.into(), String::new());
    }
    labels
}

fn endpoint(member: &Member) -> Endpoint {
    Endpoint {
        addresses: vec![member.ip.clone()],
        conditions: Some(EndpointConditions {
            ready: Some(member.ready()),
            serving: Some(member.serving || member.published_unready),
            terminating: Some(member.terminating),
        }),
        hostname: member.hostname.clone(),
        node_name: member.node.clone(),
        target_ref: Some(reference(member)),
        ..Default::default()
    }
}

pub(super) fn reference(member: &Member) -> ObjectReference {
    ObjectReference {
        kind: Some("Pod".into()),
        namespace: Some(member.namespace.clone()),
        name: Some(member.pod.clone()),
        uid: Some(member.pod_uid.clone()),
        ..Default::default()
    }
}

fn slice_ports(ports: &[Port]) -> Vec<EndpointPort> {
    let port = |port: &Port| EndpointPort {
        name: Some(port.name.clone()),
        port: Some(port.port),
        protocol: Some(port.protocol.clone()),
        app_protocol: port.app_protocol.clone(),
    };
    ports.iter().map(port).collect()
}

fn same_ports(slice: &EndpointSlice, ports: &[EndpointPort]) -> bool {
    slice.ports.as_deref().unwrap_or_default() == ports
}
