//! Service account tokens for projected volumes, asked of the API and renewed in time.

use std::{collections::BTreeMap, time::Duration};

use jiff::Timestamp;
use k8s_openapi::api::{
    authentication::v1::{BoundObjectReference, TokenRequest, TokenRequestSpec},
    core::v1::{Pod, ServiceAccount, ServiceAccountTokenProjection},
};
use kube::{Api, Client, api::PostParams};

/// A kubelet asks for this long a life when the manifest does not say.
const DEFAULT_SECONDS: i64 = 3600;

/// Tokens by audience and lifetime.
#[derive(Debug, Clone, Default)]
pub struct Tokens {
    by_kind: BTreeMap<(String, i64), String>,
    /// When the first of them should be asked for anew.
    pub renew_at: Option<Timestamp>,
}

// === impl Tokens ===

impl Tokens {
    pub fn get(&self, source: &ServiceAccountTokenProjection) -> Option<&String> {
        self.by_kind.get(&kind(source))
    }

    /// # Errors
    /// When the API refuses; an API without token requests (404) just gives none.
    pub async fn request(client: &Client, pod: &Pod) -> Result<Self, String> {
        let mut tokens = Self::default();
        let Some(spec) = &pod.spec else { return Ok(tokens) };
        let account = spec.service_account_name.as_deref().filter(|a| !a.is_empty()).unwrap_or("default");
        let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
        let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), namespace);
        for source in sources(pod) {
            let kind = kind(source);
            if tokens.by_kind.contains_key(&kind) {
                continue;
            }
            let request = TokenRequest {
                spec: Some(TokenRequestSpec {
                    audiences: Some(kind.0.clone())
                        .filter(|audience| !audience.is_empty())
                        .map(|audience| vec![audience]),
                    expiration_seconds: Some(kind.1),
                    bound_object_ref: Some(BoundObjectReference {
                        api_version: Some("v1".to_owned()),
                        kind: Some("Pod".to_owned()),
                        name: pod.metadata.name.clone(),
                        uid: pod.metadata.uid.clone(),
                    }),
                }),
                ..TokenRequest::default()
            };
            match accounts.create_token_request(account, &PostParams::default(), &request).await {
                Ok(TokenRequest { status: Some(status), .. }) => {
                    let Some(token) = status.token else {
                        return Err(format!("the API gave no token for service account {account}"));
                    };
                    let expires = status.expiration_timestamp.map_or(Timestamp::MAX, |time| time.0);
                    // At 80 % of its life, as a kubelet does.
                    let life =
                        Duration::try_from(expires.duration_since(Timestamp::now())).unwrap_or_default();
                    let due = Timestamp::now().checked_add(life.mul_f64(0.8)).unwrap_or(expires);
                    tokens.renew_at = Some(tokens.renew_at.map_or(due, |at| at.min(due)));
                    tokens.by_kind.insert(kind, token);
                }
                Ok(_) => return Err(format!("the API gave no token for service account {account}")),
                // A 404 that names the account means there is no such account; any other, no such request.
                Err(kube::Error::Api(status))
                    if matches!(status.code, 404 | 405 | 501)
                        && !status
                            .details
                            .as_ref()
                            .is_some_and(|d| d.kind == "serviceaccounts" && d.name == account) =>
                {
                    tracing::debug!(account, namespace, "the API gives out no tokens");
                }
                Err(error) => {
                    return Err(format!("failed to fetch token for service account {account}: {error}"));
                }
            }
        }
        Ok(tokens)
    }
}

fn kind(source: &ServiceAccountTokenProjection) -> (String, i64) {
    (source.audience.clone().unwrap_or_default(), source.expiration_seconds.unwrap_or(DEFAULT_SECONDS))
}

fn sources(pod: &Pod) -> impl Iterator<Item = &ServiceAccountTokenProjection> {
    pod.spec
        .iter()
        .flat_map(|spec| spec.volumes.iter().flatten())
        .filter_map(|volume| volume.projected.as_ref())
        .flat_map(|projected| projected.sources.iter().flatten())
        .filter_map(|source| source.service_account_token.as_ref())
}
