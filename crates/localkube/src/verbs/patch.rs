//! PATCH in its four formats.

use bytes::Bytes;
use serde_json::Value;

use super::update::{Proposal, check_place, update_object};
use crate::{
    admit,
    call::Call,
    error::{ApiError, Result},
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
        admit::decode(call, &mut proposal.object, "PatchOptions")?;
        Ok(proposal)
    };
    update_object(call, propose, dry_run, "PatchOptions").await?.respond(call)
}
