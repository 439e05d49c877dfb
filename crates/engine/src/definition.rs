//! Kinds that the API does not serve: when their definition comes.

use futures::{StreamExt, pin_mut};
use kube::{
    Client,
    api::{DynamicObject, WatchEvent, WatchParams},
    core::{PartialObjectMeta, Request},
};

use crate::kind::Kind;

const PATH: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// The name of the CustomResourceDefinition that a kind would have; none for what Kubernetes itself serves, whose groups
/// mostly have no dot.
pub fn name(kind: &Kind) -> Option<String> {
    kind.group.contains('.').then(|| format!("{}.{}", kind.plural, kind.group))
}

/// Until there is a CustomResourceDefinition of that name, or the server ends the watch. It may take a moment more until the
/// kind is served.
pub async fn made(client: &Client, name: &str) -> kube::Result<()> {
    let params = WatchParams::default().fields(&format!("metadata.name={name}"));
    // from the beginning: what is there already comes first
    let request = Request::new(PATH).watch_metadata(&params, "0").map_err(kube::Error::BuildRequest)?;
    let events = client.request_events::<PartialObjectMeta<DynamicObject>>(request).await?;
    pin_mut!(events);
    while let Some(event) = events.next().await {
        if let WatchEvent::Added(_) | WatchEvent::Modified(_) = event? {
            break;
        }
    }
    Ok(())
}
