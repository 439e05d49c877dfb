//! Puts the kinds of Ballast into an API server.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api, Client, ResourceExt,
    api::{Patch, PatchParams},
    runtime::wait::{await_condition, conditions::is_crd_established},
};

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("failed to apply the CustomResourceDefinition {name}: {source}")]
    Apply { name: String, source: kube::Error },
    #[error("failed to see the CustomResourceDefinition {name} become established: {source}")]
    Establish { name: String, source: kube::runtime::wait::Error },
}

/// Applies every CustomResourceDefinition that Ballast knows.
pub async fn install(client: &Client) -> Result<(), Error> {
    install_these(client, &api::crds()).await
}

/// Applies CustomResourceDefinitions and waits until their objects can be created.
pub async fn install_these(client: &Client, crds: &[CustomResourceDefinition]) -> Result<(), Error> {
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    for crd in crds {
        let name = crd.name_any();
        let params = PatchParams::apply("ballast").force();
        if let Err(source) = api.patch(&name, &params, &Patch::Apply(crd)).await {
            return Err(Error::Apply { name, source });
        }
        if let Err(source) = await_condition(api.clone(), &name, is_crd_established()).await {
            return Err(Error::Establish { name, source });
        }
    }
    Ok(())
}
