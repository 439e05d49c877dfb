//! The kinds and annotations of the systems whose manifests Ballast reads: one file a kind, as they are written by
//! people, and what they mean in the terms of `decide`. No I/O.

#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod hpa;
pub mod hvpa;
pub mod kro;
pub mod kyma;
pub mod numaflow;
mod policy;
pub mod slimfaas;

pub use policy::decide;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt;

/// Every kind that Ballast adds to an API server.
pub fn crds() -> Vec<CustomResourceDefinition> {
    vec![
        kyma::Function::crd(),
        kro::ResourceGraphDefinition::crd(),
        hvpa::Hvpa::crd(),
        numaflow::Pipeline::crd(),
        numaflow::Vertex::crd(),
        numaflow::MonoVertex::crd(),
        numaflow::InterStepBufferService::crd(),
    ]
}
