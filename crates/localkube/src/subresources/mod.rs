//! What hangs below objects: `status` and `scale` of any kind that declares them, and those of pods.

mod binding;
mod connect;
mod eviction;
pub mod kubelet;
mod log;
pub mod resize;
mod scale;
mod token;

use bytes::Bytes;
use serde_json::{Value, json};

use crate::{
    call::Call,
    error::{ApiError, Result},
    http::{Response, Verb},
    object,
    registry::{Origin, Subresource},
    verbs::{self, Proposal},
};

pub async fn answer(call: Call, verb: Verb, body: &Bytes) -> Result<Response> {
    let name = call.target.subresource.as_str();
    match name {
        "status" if call.version().status => return change(&call, verb, body).await,
        "scale" if call.version().scale.is_some() => return scale::answer(&call, verb, body).await,
        _ => {}
    }
    let known = call.kind.rules.subresources.iter().find(|one| one.name() == name);
    let missing = || match call.kind.origin {
        Origin::Builtin => ApiError::no_such_path(),
        Origin::Custom => ApiError::not_found(&call.subject(), &call.target.name),
    };
    match (known.ok_or_else(missing)?, verb) {
        (Subresource::Log, Verb::Get) => log::answer(&call).await,
        (Subresource::Binding, Verb::Create) => binding::bind(&call, body).await,
        (Subresource::Eviction, Verb::Create) => eviction::evict(&call, body).await,
        (Subresource::Resize, verb) => change(&call, verb, body).await,
        (Subresource::Finalize, Verb::Update) => finalize(&call, body).await,
        (Subresource::Token, Verb::Create) => token::request(&call, body),
        (Subresource::Exec | Subresource::Attach | Subresource::PortForward, Verb::Get | Verb::Create) => {
            connect::answer(&call, verb).await
        }
        _ => Err(ApiError::method_unknown()),
    }
}

async fn change(call: &Call, verb: Verb, body: &Bytes) -> Result<Response> {
    match verb {
        Verb::Get => verbs::get(call),
        Verb::Update => verbs::replace(call, body).await,
        Verb::Patch => verbs::patch(call, body).await,
        _ => Err(ApiError::method_unknown()),
    }
}

/// `namespaces/x/finalize` is the only way to the finalizers in a namespace's spec.
async fn finalize(call: &Call, body: &Bytes) -> Result<Response> {
    let dry_run = call.dry_run("UpdateOptions")?;
    let wanted = call.decode(body, "UpdateOptions", None)?;
    let propose = |live: Option<&Value>| -> Result<Proposal> {
        let live = live.ok_or_else(|| ApiError::not_found(&call.subject(), &call.target.name))?;
        let mut object = live.clone();
        let finalizers = wanted["spec"].get("finalizers").cloned().unwrap_or_else(|| json!([]));
        object::map_at(&mut object, &["spec"]).insert("finalizers".to_owned(), finalizers);
        if let Some(version) = wanted["metadata"].get("resourceVersion") {
            object::meta(&mut object).insert("resourceVersion".to_owned(), version.clone());
        }
        Ok(Proposal { object, tracked: true })
    };
    verbs::update_object(call, propose, dry_run, "UpdateOptions").await?.respond(call)
}

/// What subresources that only act answer with.
fn success(code: u16) -> Response {
    crate::http::json(
        code,
        &json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": code}),
    )
}
