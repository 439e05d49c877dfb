//! Endpoints and EndpointSlices: which addresses stand behind a Service with a selector.
//!
//! Only for the embedded API: a real API server runs its own, and refuses loopback addresses in them.

mod legacy;
mod members;
mod slices;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use engine::{Cached, Failure, Key, PlanError, Queue, Reconcile, effect::Plan};
use futures::future::{BoxFuture, FutureExt, ready};
use jiff::Timestamp;
use k8s_openapi::api::{
    core::v1::{Endpoints, Pod, Service},
    discovery::v1::EndpointSlice,
};
use kube::ResourceExt;

use crate::object::{label, selector};

pub(crate) const NAME: &str = "endpoints";
pub(crate) const SERVICE_NAME: &str = "kubernetes.io/service-name";

/// Everything a decision about one Service depends on.
pub(crate) struct Observed {
    pub service: Arc<Service>,
    /// Pods that its selector matches.
    pub pods: Vec<Arc<Pod>>,
    pub endpoints: Option<Arc<Endpoints>>,
    pub slices: Vec<Arc<EndpointSlice>>,
}

pub(crate) fn plan(observed: &Observed) -> Plan {
    let members = members::members(&observed.service, &observed.pods);
    let mut effects = slices::plan(&observed.service, &members, &observed.slices);
    effects.extend(legacy::plan(&observed.service, &members, observed.endpoints.as_deref()));
    effects.into()
}

pub(crate) struct Controller {
    services: Cached<Service>,
    pods: Cached<Pod>,
    endpoints: Cached<Endpoints>,
    slices: Cached<EndpointSlice>,
}

impl Controller {
    pub fn new(
        services: Cached<Service>,
        pods: Cached<Pod>,
        endpoints: Cached<Endpoints>,
        slices: Cached<EndpointSlice>,
        queue: &Arc<Queue<Key>>,
    ) -> Self {
        services.enqueue(queue);
        let (own, known) = (queue.clone(), services.clone());
        pods.listen(move |change| {
            for pod in change.sides() {
                for service in known.in_namespace(&pod.namespace().unwrap_or_default()) {
                    if selects(&service, pod) {
                        own.add(Key::of(&service.metadata));
                    }
                }
            }
        });
        endpoints.enqueue(queue);
        let own = queue.clone();
        slices.listen(move |change| {
            for slice in change.sides() {
                if let Some(service) = label(&slice.metadata, SERVICE_NAME) {
                    own.add(Key::new(slice.namespace().unwrap_or_default(), service));
                }
            }
        });
        Self { services, pods, endpoints, slices }
    }

    fn observe(&self, key: &Key) -> Option<Observed> {
        let service = self.services.get(key).filter(|service| has_selector(service))?;
        let pods = self.pods.in_namespace(&key.namespace);
        let slices = self.slices.in_namespace(&key.namespace);
        Some(Observed {
            pods: pods.into_iter().filter(|pod| selects(&service, pod)).collect(),
            endpoints: self.endpoints.get(key),
            slices: slices.into_iter().filter(|slice| slices::ours(slice, &key.name)).collect(),
            service,
        })
    }

    /// The Endpoints object has no owner reference: whoever made it takes it away.
    fn after_service(&self, key: &Key) -> Plan {
        let left = self.endpoints.get(key).filter(|endpoints| legacy::ours(endpoints));
        left.map(|endpoints| vec![legacy::delete(&endpoints)].into()).unwrap_or_default()
    }
}

fn has_selector(service: &Service) -> bool {
    let Some(spec) = &service.spec else { return false };
    spec.type_.as_deref() != Some("ExternalName") && spec.selector.as_ref().is_some_and(|s| !s.is_empty())
}

fn selects(service: &Service, pod: &Pod) -> bool {
    let wanted = service.spec.as_ref().and_then(|spec| spec.selector.as_ref());
    has_selector(service) && wanted.is_some_and(|wanted| selector::contains(&pod.metadata, wanted))
}

impl Reconcile for Controller {
    fn name(&self) -> &'static str {
        NAME
    }

    fn kind(&self, _: &Key) -> Option<engine::kind::Kind> {
        Some(engine::kind::SERVICE)
    }

    fn plan<'a>(
        &'a self,
        key: &'a Key,
        _failure: Option<&'a Failure>,
        _now: Timestamp,
    ) -> BoxFuture<'a, Result<Plan, PlanError>> {
        let plan = match self.observe(key) {
            Some(observed) => plan(&observed),
            None if self.services.get(key).is_none() => self.after_service(key),
            None => Plan::default(),
        };
        ready(Ok(plan)).boxed()
    }
}
