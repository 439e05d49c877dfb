//! `pods/resize`: new requests and limits for containers that run.

use bytes::Bytes;
use schema::FieldError;
use serde_json::Value;

use crate::{
    call::Call,
    error::{ApiError, Result},
    http::{PatchFormat, Response, Verb},
    object,
    patch::{self, Patch},
    verbs::{self, Proposal},
};

pub async fn answer(call: &Call, verb: Verb, body: &Bytes) -> Result<Response> {
    let (wanted, dry_run, options) = match verb {
        Verb::Get => return verbs::get(call),
        Verb::Update => {
            let dry_run = call.dry_run("UpdateOptions")?;
            (Wanted::Pod(call.decode(body, "UpdateOptions", None)?), dry_run, "UpdateOptions")
        }
        Verb::Patch => {
            let dry_run = call.dry_run("PatchOptions")?;
            let format = PatchFormat::from_headers(&call.headers, true)?;
            (Wanted::Patch(Patch::parse(call, format, body)?.0), dry_run, "PatchOptions")
        }
        _ => return Err(ApiError::method_unknown()),
    };
    let propose = |live: Option<&Value>| -> Result<Proposal> {
        let live = live.ok_or_else(|| ApiError::not_found(&call.subject(), &call.target.name))?;
        let (pod, tracked) = match &wanted {
            Wanted::Pod(pod) => (pod.clone(), false),
            Wanted::Patch(Patch::Apply { config, force }) => {
                (patch::apply(call, Some(live), config, *force)?, true)
            }
            Wanted::Patch(patch) => (patch.apply_to(call, live)?, false),
        };
        let mut object = live.clone();
        resize(&mut object, &pod)
            .map_err(|error| ApiError::invalid(&call.subject(), &call.target.name, &[error]))?;
        for key in ["resourceVersion", "managedFields"] {
            if let Some(value) = pod["metadata"].get(key) {
                object::meta(&mut object).insert(key.to_owned(), value.clone());
            }
        }
        Ok(Proposal { object, tracked })
    };
    verbs::update_object(call, propose, dry_run, options).await?.respond(call)
}

enum Wanted {
    Pod(Value),
    Patch(Patch),
}

/// Takes resources and resize policies of containers from `wanted`; any other difference in the spec is an error.
fn resize(pod: &mut Value, wanted: &Value) -> Result<(), FieldError> {
    let mut rest = wanted["spec"].clone();
    for list in ["containers", "initContainers"] {
        let Some(new) = wanted["spec"][list].as_array() else { continue };
        let Some(old) = pod["spec"][list].as_array_mut() else { continue };
        for (index, (old, new)) in old.iter_mut().zip(new).enumerate() {
            if old["name"] != new["name"] {
                return Err(FieldError::forbidden(
                    "spec",
                    "containers may not be added, removed or reordered on resize",
                ));
            }
            for key in ["resources", "resizePolicy"] {
                if let Some(value) = new.get(key) {
                    old[key] = value.clone();
                }
            }
            rest[list][index] = old.clone();
        }
    }
    if rest != pod["spec"] {
        return Err(FieldError::forbidden("spec", "only cpu and memory resources are mutable"));
    }
    Ok(())
}
