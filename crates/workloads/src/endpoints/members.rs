//! Who stands behind a Service, before it is put into the one form or the other.

use std::sync::Arc;

use k8s_openapi::{
    api::core::v1::{ContainerPort, Pod, Service, ServicePort},
    apimachinery::pkg::util::intstr::IntOrString,
};

use crate::object::{name, pods, uid};

/// One pod with an address.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Member {
    pub pod: String,
    pub pod_uid: String,
    pub namespace: String,
    pub ip: String,
    pub node: Option<String>,
    pub hostname: Option<String>,
    pub serving: bool,
    pub terminating: bool,
    /// Counts as ready whatever it says.
    pub published_unready: bool,
    pub ports: Vec<Port>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Port {
    pub name: String,
    pub port: i32,
    pub protocol: String,
    pub app_protocol: Option<String>,
}

impl Member {
    pub fn ready(&self) -> bool {
        self.published_unready || (self.serving && !self.terminating)
    }
}

/// By pod name. A pod that lacks a port the Service names is there without that port.
pub(super) fn members(service: &Service, pods: &[Arc<Pod>]) -> Vec<Member> {
    let Some(spec) = &service.spec else { return Vec::new() };
    let published_unready = spec.publish_not_ready_addresses == Some(true);
    let mut members: Vec<Member> = pods
        .iter()
        .filter(|pod| !pods::finished(pod))
        .filter_map(|pod| {
            let ip = pod.status.as_ref()?.pod_ip.clone().filter(|ip| !ip.is_empty())?;
            let pod_spec = pod.spec.as_ref()?;
            let mut ports: Vec<Port> =
                spec.ports.iter().flatten().filter_map(|port| resolve(port, pod)).collect();
            ports.sort();
            let in_domain = pod_spec.subdomain.as_deref() == Some(name(&service.metadata));
            Some(Member {
                pod: name(&pod.metadata).to_owned(),
                pod_uid: uid(&pod.metadata).to_owned(),
                namespace: pod.metadata.namespace.clone().unwrap_or_default(),
                ip,
                node: pod_spec.node_name.clone(),
                hostname: pod_spec.hostname.clone().filter(|_| in_domain),
                serving: pods::ready(pod),
                terminating: pods::terminating(pod),
                published_unready,
                ports,
            })
        })
        .collect();
    members.sort_by(|a, b| a.pod.cmp(&b.pod));
    members
}

fn resolve(port: &ServicePort, pod: &Pod) -> Option<Port> {
    let protocol = port.protocol.clone().unwrap_or_else(|| "TCP".into());
    let number = match &port.target_port {
        None => port.port,
        Some(IntOrString::Int(number)) => *number,
        Some(IntOrString::String(wanted)) => {
            let named = |candidate: &&ContainerPort| {
                candidate.name.as_ref() == Some(wanted)
                    && candidate.protocol.as_deref().unwrap_or("TCP") == protocol
            };
            let containers = &pod.spec.as_ref()?.containers;
            containers
                .iter()
                .flat_map(|container| container.ports.iter().flatten())
                .find(named)?
                .container_port
        }
    };
    let name = port.name.clone().unwrap_or_default();
    Some(Port { name, port: number, protocol, app_protocol: port.app_protocol.clone() })
}
