//! PATCH in its four formats.

use bytes::Bytes;
use schema::FieldError;
use serde_json::Value;

use super::update::{Proposal, check_place, update_object};
use crate::{
    admit,
    call::Call,
    error::{ApiError, Result, Subject},
    go_syntax,
    http::{PatchFormat, Response},
    patch::{self, Patch},
    registry::Origin,
};

pub async fn patch(call: &Call, body: &Bytes) -> Result<Response> {
    let dry_run = call.dry_run("PatchOptions")?;
    call.field_validation("PatchOptions")?;
    let format = PatchFormat::from_headers(&call.headers, call.kind.origin == Origin::Builtin)?;
    let (patch, duplicates) = Patch::parse(call, format, body)?;
    call.report(&duplicates, "duplicate", "PatchOptions")?;
    let propose = |live: Option<&Value>| -> Result<Proposal> {
        let mut proposal = match (&patch, live) {
            (Patch::Apply { config, force }, live) => {
                let object = patch::apply(call, live, config, *force)?;
                Proposal { object, tracked: true }
            }
            (_, None) => return Err(ApiError::not_found(&call.subject(), &call.target.name)),
            (patch, Some(live)) => Proposal { object: patch.apply_to(call, live)?, tracked: false },
        };
        check_place(call, &mut proposal.object)?;
        let decoded = admit::decode(call, &mut proposal.object, "PatchOptions");
        decoded.map_err(|error| match &patch {
            Patch::Strategic(patch) => unfit_patch(patch, error),
            Patch::Apply { .. } => error,
            // made once more rather than kept: patches that fit, which is nearly all, then cost no copy
            Patch::Json(_) | Patch::Merge(_) => match live.map(|live| patch.apply_to(call, live)) {
                Some(Ok(patched)) => unfit_object(&patched, error),
                _ => error,
            },
        })?;
        Ok(proposal)
    };
    update_object(call, propose, dry_run, "PatchOptions").await?.respond(call)
}

/// How the API begins to say that a text is no amount.
const NO_QUANTITY: &str = "quantities must match";

/// After other patches the whole object is at fault, and shown.
fn unfit_object(object: &Value, error: ApiError) -> ApiError {
    let text = error.to_string();
    match text.find("json: cannot unmarshal").or_else(|| text.find(NO_QUANTITY)) {
        Some(start) => {
            let error = FieldError::invalid("patch", object.to_string(), &text[start..]);
            ApiError::invalid(&Subject::default(), "", &[error])
        }
        None => error,
    }
}

/// A strategic patch with a value of the wrong type is itself at fault, in the eyes of the real server.
fn unfit_patch(patch: &Value, error: ApiError) -> ApiError {
    let text = error.to_string();
    if let Some(start) = text.find(NO_QUANTITY) {
        let error = FieldError::invalid("patch", go_syntax::map_text(patch), &text[start..]);
        return ApiError::invalid(&Subject::default(), "", &[error]);
    }
    match text.rsplit_once(" of type ") {
        Some((_, wanted)) if text.contains("json: cannot unmarshal") => {
            let why = format!("unrecognized type: {wanted}");
            let error = FieldError::invalid("patch", go_syntax::map_text(patch), why);
            ApiError::invalid(&Subject::default(), "", &[error])
        }
        _ => error,
    }
}
