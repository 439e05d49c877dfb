//! Which resources an API server serves, asked when it matters.

use engine::{insist, kind::Kind};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::APIResourceList;
use kube::Client;

/// What one version of a group serves; none if it is not served. `api_version` as a manifest has it: `apps/v1`, `v1`.
pub(super) async fn resources(client: &Client, api_version: &str) -> kube::Result<Option<Vec<Kind>>> {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let answer = insist(|| async {
        match group {
            "" => client.list_core_api_resources(version).await,
            _ => client.list_api_group_resources(api_version).await,
        }
    })
    .await;
    match answer {
        Ok(list) => Ok(Some(kinds(group, version, list))),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
        Err(error) => Err(error),
    }
}

/// A kind in the version that the server prefers.
pub(super) async fn find(client: &Client, group: &str, kind: &str) -> kube::Result<Option<Kind>> {
    let api_version = match group {
        "" => "v1".to_owned(),
        group => {
            let groups = insist(|| client.list_api_groups()).await?.groups;
            let known = groups.into_iter().find(|known| known.name == group);
            let preferred =
                known.and_then(|known| known.preferred_version.or_else(|| known.versions.into_iter().next()));
            match preferred {
                Some(preferred) => preferred.group_version,
                None => return Ok(None),
            }
        }
    };
    let kinds = resources(client, &api_version).await?.unwrap_or_default();
    Ok(kinds.into_iter().find(|known| known.kind == kind))
}

fn kinds(group: &str, version: &str, list: APIResourceList) -> Vec<Kind> {
    let whole = list.resources.into_iter().filter(|resource| !resource.name.contains('/'));
    whole
        .map(|resource| Kind {
            group: group.to_owned().into(),
            version: version.to_owned().into(),
            kind: resource.kind.into(),
            plural: resource.name.into(),
            namespaced: resource.namespaced,
        })
        .collect()
}
