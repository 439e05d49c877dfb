//! Namespaces: a default ServiceAccount at the beginning, no content left behind at the end.

mod plan;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use engine::{
    Cached, Failure, Key, PlanError, Queue, Reconcile,
    effect::Plan,
    execute, insist,
    kind::{Kind, SERVICE_ACCOUNT},
};
use futures::{
    StreamExt,
    future::{BoxFuture, FutureExt},
    stream,
};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Namespace;
use kube::{Client, ResourceExt, api::ListParams};

pub(crate) use plan::{Content, Observed, plan, terminating};

use crate::universe::Universe;

pub(crate) const NAME: &str = "namespace";
const LISTS_AT_ONCE: usize = 8;

pub(crate) struct Controller {
    client: Client,
    namespaces: Cached<Namespace>,
    universe: Universe,
}

impl Controller {
    pub fn new(
        client: Client,
        namespaces: Cached<Namespace>,
        universe: Universe,
        queue: &Arc<Queue<Key>>,
    ) -> Self {
        let own = queue.clone();
        namespaces.listen(move |change| {
            if let Some(namespace) = &change.new {
                own.add(Key::new("", namespace.name_any()));
            }
        });
        let (own, known) = (queue.clone(), namespaces.clone());
        universe.graph.tell_namespaces(move |name| {
            let key = Key::new("", name);
            if known.get(&key).is_some_and(|namespace| terminating(&namespace)) {
                own.add(key);
            }
        });
        Self { client, namespaces, universe }
    }

    async fn observe(&self, key: &Key) -> Result<Option<Observed>, PlanError> {
        self.universe.completed().await;
        let Some(namespace) = self.namespaces.get(key) else { return Ok(None) };
        let has_service_account = self.universe.graph.contains(&SERVICE_ACCOUNT, &key.name, "default");
        let mut content = Vec::new();
        if terminating(&namespace) {
            for node in self.universe.graph.in_namespace(&key.name) {
                content.push(Content { kind: node.kind, meta: node.meta });
            }
            if content.is_empty() {
                content = self.live_content(&key.name).await?;
            }
        }
        let collections = self.universe.served().into_iter().filter(|served| served.collection_deletable);
        let collections = collections.map(|served| served.kind).collect();
        Ok(Some(Observed { namespace, has_service_account, content, collections }))
    }

    /// The last word before a namespace goes: what the API itself lists, of kinds that are not watched as well.
    async fn live_content(&self, namespace: &str) -> Result<Vec<Content>, PlanError> {
        let kinds: Vec<Kind> = self
            .universe
            .served()
            .into_iter()
            .filter(|served| served.kind.namespaced && served.collection_deletable)
            .map(|served| served.kind)
            .collect();
        let lists = stream::iter(kinds.into_iter().map(|kind| async move {
            let api = execute::api(&self.client, &kind, Some(namespace));
            let some = ListParams::default().limit(100);
            match insist(|| api.list_metadata(&some)).await {
                Ok(list) => {
                    let content = |object: kube::api::PartialObjectMeta<_>| Content {
                        kind: kind.clone(),
                        meta: object.metadata,
                    };
                    Ok(list.items.into_iter().map(content).collect::<Vec<_>>())
                }
                // the kind went away meanwhile
                Err(kube::Error::Api(status)) if status.code == 404 => Ok(Vec::new()),
                Err(error) => Err(PlanError::from(error)),
            }
        }))
        .buffer_unordered(LISTS_AT_ONCE)
        .collect::<Vec<_>>()
        .await;
        let mut content = Vec::new();
        for list in lists {
            content.extend(list?);
        }
        Ok(content)
    }
}

impl Reconcile for Controller {
    fn name(&self) -> &'static str {
        NAME
    }

    fn kind(&self, _: &Key) -> Option<engine::kind::Kind> {
        Some(engine::kind::NAMESPACE)
    }

    fn plan<'a>(
        &'a self,
        key: &'a Key,
        _failure: Option<&'a Failure>,
        now: Timestamp,
    ) -> BoxFuture<'a, Result<Plan, PlanError>> {
        async move { Ok(self.observe(key).await?.map(|observed| plan(&observed, now)).unwrap_or_default()) }
            .boxed()
    }
}
