//! Schemas of the kinds that a definition uses, from the API server's OpenAPI documents.
//!
//! A document is fetched once for each content (its address has a hash) and only what is used of it is kept. Sizes and
//! times are bounded: what a server sends is not what somebody here has measured.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
    time::Duration,
};

use engine::{PlanError, kind::Kind};
use http::{Request, header};
use http_body_util::{BodyExt, Limited};
use kube::{Client, client::Body};
use schema::{Schema, Scope};
use serde_json::Value;
use tokio::{sync::Mutex, time::timeout};

use crate::graphs::discovery;

/// The index of a server with a thousand groups has 150 KiB.
const LARGEST_INDEX: usize = 4 << 20;
/// The largest of Kubernetes itself, that of the core group, has 4 MiB.
const LARGEST_DOCUMENT: usize = 32 << 20;
const PATIENCE: Duration = Duration::from_secs(30);
/// More kinds than this are not remembered: they are fetched again.
const REMEMBERED: usize = 2000;

/// `apiVersion` and kind, as manifests have them.
pub(super) type Named = (String, String);

pub(super) struct Schemas {
    client: Client,
    /// By the document's address with its hash, and the name.
    known: Mutex<HashMap<(String, Named), Arc<Known>>>,
}

struct Known {
    schema: Arc<Schema>,
    scope: Scope,
    kind: Kind,
}

/// What there is of the kinds that were asked for.
pub(super) struct Loaded {
    pub kinds: graph::Kinds,
    pub served: BTreeMap<Named, Kind>,
    /// Changes with the content.
    pub version: String,
}

impl Schemas {
    pub fn new(client: Client) -> Self {
        Self { client, known: Mutex::default() }
    }

    pub async fn load(&self, needed: &BTreeSet<Named>) -> Result<Loaded, PlanError> {
        let mut loaded =
            Loaded { kinds: graph::Kinds::default(), served: BTreeMap::new(), version: String::new() };
        if needed.is_empty() {
            return Ok(loaded);
        }
        let index = self.fetch("/openapi/v3", LARGEST_INDEX).await?.unwrap_or_default();
        let mut by_version: BTreeMap<&str, Vec<&Named>> = BTreeMap::new();
        for named in needed {
            by_version.entry(&named.0).or_default().push(named);
        }
        for (api_version, names) in by_version {
            let prefix = if api_version.contains('/') { "apis" } else { "api" };
            let address = &index["paths"][format!("{prefix}/{api_version}")]["serverRelativeURL"];
            // addresses come from outside, too
            let Some(address) = address.as_str().filter(|address| address.starts_with("/openapi/v3/")) else {
                continue;
            };
            loaded.version.push_str(address);
            for (named, known) in self.of_document(address, api_version, &names).await? {
                loaded.kinds.add(&named.0, &named.1, known.schema.clone(), known.scope);
                loaded.version.push_str(&format!(" {}", named.1));
                loaded.served.insert(named, known.kind.clone());
            }
        }
        Ok(loaded)
    }

    async fn of_document(
        &self,
        address: &str,
        api_version: &str,
        names: &[&Named],
    ) -> Result<Vec<(Named, Arc<Known>)>, PlanError> {
        let mut known = self.known.lock().await;
        let place = |named: &Named| (address.to_owned(), named.clone());
        if !names.iter().all(|named| known.contains_key(&place(named))) {
            let Some(served) = discovery::resources(&self.client, api_version).await? else {
                return Ok(Vec::new());
            };
            let Some(document) = self.fetch(address, LARGEST_DOCUMENT).await? else { return Ok(Vec::new()) };
            let mut kinds = graph::Kinds::default();
            kinds.add_document(&document);
            drop(document);
            if known.len() > REMEMBERED {
                known.clear();
            }
            // a new version of the document takes the place of the old one
            let path = address.split('?').next().unwrap_or(address);
            known.retain(|(other, _), _| other == address || other.split('?').next() != Some(path));
            for named in names {
                let kind = served.iter().find(|kind| kind.kind == named.1);
                if let (Some(found), Some(kind)) = (kinds.get(&named.0, &named.1), kind) {
                    let found = Known { schema: found.schema, scope: found.scope, kind: kind.clone() };
                    known.insert(place(named), Arc::new(found));
                }
            }
        }
        let found =
            names.iter().filter_map(|named| Some(((*named).clone(), known.get(&place(named))?.clone())));
        Ok(found.collect())
    }

    async fn fetch(&self, path: &str, most: usize) -> Result<Option<Value>, PlanError> {
        let failed = |what: String| PlanError(format!("failed to read {path} of the API server: {what}"));
        let request = Request::get(path)
            .header(header::ACCEPT, "application/json")
            .body(Body::empty())
            .map_err(|error| failed(error.to_string()))?;
        let exchange = async {
            let response = self.client.send(request).await.map_err(|error| failed(error.to_string()))?;
            let status = response.status();
            if status == http::StatusCode::NOT_FOUND {
                return Ok(None);
            }
            if !status.is_success() {
                return Err(failed(status.to_string()));
            }
            let body = Limited::new(response.into_body(), most).collect().await;
            Ok(Some(body.map_err(|error| failed(error.to_string()))?.to_bytes()))
        };
        let body = timeout(PATIENCE, exchange)
            .await
            .map_err(|_| failed(format!("no answer within {} s", PATIENCE.as_secs())))??;
        let Some(body) = body else { return Ok(None) };
        serde_json::from_slice(&body).map(Some).map_err(|error| failed(error.to_string()))
    }
}
