//! A function to begin with: the example `fibonacci`, on a data directory that is new.

use anyhow::{Context, Result};
use k8s_openapi::api::{apps::v1::Deployment, core::v1::ConfigMap};
use kube::{Api, Client, api::PostParams};

const APP: &str = include_str!("../../../examples/on-demand/app.yaml");
const FIBONACCI: &str = include_str!("../../../examples/on-demand/fibonacci.yaml");

pub async fn install(client: &Client, namespace: &str) -> Result<()> {
    let app: ConfigMap = serde_saphyr::from_str(APP).context("the example app cannot be read")?;
    let mut fibonacci: Deployment =
        serde_saphyr::from_str(FIBONACCI).context("the example fibonacci cannot be read")?;
    if let Some(spec) = &mut fibonacci.spec {
        // it would be put to sleep at once
        spec.replicas = Some(0);
    }
    let params = PostParams::default();
    Api::namespaced(client.clone(), namespace)
        .create(&params, &app)
        .await
        .context("failed to bring the demo")?;
    Api::namespaced(client.clone(), namespace)
        .create(&params, &fibonacci)
        .await
        .context("failed to bring the demo")?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_examples_are_functions_without_problems() {
        let examples = [
            FIBONACCI,
            include_str!("../../../examples/on-demand/queue.yaml"),
            include_str!("../../../examples/on-demand/business-hours.yaml"),
        ];
        for example in examples {
            let deployment: Deployment = serde_saphyr::from_str(example).unwrap();
            let meta = &deployment.metadata;
            let (name, annotations) = (meta.name.as_deref().unwrap(), meta.annotations.as_ref());
            let (_, problems) = api::slimfaas::read("default", name, None, annotations).unwrap();
            assert_eq!(problems, [], "{name}");
        }
    }
}
