//! The real control plane starts, runs a controller, and stops.

use cluster::real::{ControlPlane, Options};
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::{Api, runtime::wait};

#[tokio::test]
async fn starts_with_controllers() -> anyhow::Result<()> {
    let plane = ControlPlane::start(Options { controllers: true, ..Options::default() }).await?;
    let client = plane.client().await?;
    // created by kube-controller-manager, not by the API server
    let accounts: Api<ServiceAccount> = Api::namespaced(client, "default");
    wait::await_condition(accounts, "default", |account: Option<&ServiceAccount>| account.is_some()).await?;
    Ok(())
}
