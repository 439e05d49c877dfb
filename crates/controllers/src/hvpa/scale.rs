//! A target of a kind that is known only by its name, such as an instance of a resource graph: all that can be said of it is
//! in its scale, which has to be asked for.

use api::hvpa::TargetRef;
use engine::{
    Universe, execute,
    kind::{Kind, group_of},
    object::{controller_of, uid},
};
use k8s_openapi::{
    api::autoscaling::v1::Scale,
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference},
};
use kube::{Api, Client, api::DynamicObject};

use super::observe::Trouble;

#[derive(Clone, Debug, PartialEq)]
pub struct Scaled {
    pub kind: Kind,
    pub meta: ObjectMeta,
    pub replicas: i32,
    pub status_replicas: i32,
    /// Empty if it names no pods.
    pub selector: String,
    pub owner: Option<OwnerReference>,
}

/// `known` is what was read the last time. It holds while the API cannot answer: a write that it leads to is refused if it
/// is out of date.
pub async fn read(
    client: &Client,
    kinds: &Universe,
    namespace: &str,
    reference: &TargetRef,
    known: Option<&Scaled>,
) -> Result<Scaled, Trouble> {
    let TargetRef { api_version, kind: kind_name, name } = reference;
    let group = group_of(api_version.as_deref().unwrap_or_default());
    kinds.discovered().await;
    let Some(kind) = kinds.find(group, kind_name) else {
        kinds.look_soon();
        let message = format!("the API serves no {kind_name} of group {group:?}");
        return Err(Trouble::new("UnsupportedTarget", message));
    };
    let api: Api<DynamicObject> = execute::api(client, &kind, Some(namespace));
    let scale = match api.get_scale(name).await {
        Ok(scale) => scale,
        Err(error) => {
            return match (explained(&api, reference, &error).await, known) {
                (Some(trouble), _) => Err(trouble),
                (None, Some(known)) => Ok(known.clone()),
                (None, None) => {
                    let message = format!("the scale of {kind_name} {name} cannot be read: {error}");
                    Err(Trouble::new("TargetUnreadable", message))
                }
            };
        }
    };
    let owner = match known.filter(|known| uid(&known.meta) == uid(&scale.metadata)) {
        Some(known) => known.owner.clone(),
        // Whoever owns it has done so since it was made.
        None => match api.get_metadata_opt(name).await {
            Ok(found) => found.and_then(|found| controller_of(&found.metadata).cloned()),
            Err(error) => {
                let message = format!("{kind_name} {name} cannot be read: {error}");
                return Err(Trouble::new("TargetUnreadable", message));
            }
        },
    };
    Ok(Scaled::new(kind, scale, owner))
}

/// Why there is no scale, unless it may be there the next time.
async fn explained(api: &Api<DynamicObject>, reference: &TargetRef, error: &kube::Error) -> Option<Trouble> {
    let TargetRef { kind, name, .. } = reference;
    let kube::Error::Api(status) = error else { return None };
    match status.code {
        404 => match api.get_metadata_opt(name).await {
            Ok(Some(_)) => Some(Trouble::new("UnsupportedTarget", format!("a {kind} has no scale"))),
            Ok(None) => Some(Trouble::new("TargetNotFound", format!("there is no {kind} {name}"))),
            Err(_) => None,
        },
        403 => {
            let message = format!("the scale of {kind} {name} may not be read: {}", status.message);
            Some(Trouble::new("TargetUnreadable", message))
        }
        _ => None,
    }
}

impl Scaled {
    fn new(kind: Kind, scale: Scale, owner: Option<OwnerReference>) -> Self {
        let status = scale.status.unwrap_or_default();
        Self {
            kind,
            meta: scale.metadata,
            replicas: scale.spec.and_then(|spec| spec.replicas).unwrap_or(0),
            status_replicas: status.replicas,
            selector: status.selector.unwrap_or_default(),
            owner,
        }
    }
}
