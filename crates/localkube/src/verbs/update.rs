//! Replacing what is stored: PUT, every kind of patch, and subresources end here.

use std::sync::Arc;

use bytes::Bytes;
use schema::FieldError;
use serde_json::Value;

use super::create::{Created, create_object};
use crate::{
    admit,
    call::Call,
    convert, crd,
    error::{ApiError, Result},
    http::Response,
    lifecycle, limits, object, patch,
    prepare::Context,
    rbac,
    registry::{Generation, StatusMetadata},
    storage::{Change, CommitError, Draft, Record},
    subresources::resize,
};

/// How often a write that others overtake is tried again.
const ATTEMPTS: usize = 64;

/// What a write wants an object to become.
pub struct Proposal {
    pub object: Value,
    /// `managedFields` are right already (an apply made them).
    pub tracked: bool,
}

pub enum Outcome {
    Stored(Arc<Record>),
    Created(Arc<Record>),
    /// The last finalizer went, and the object with it: what it became is answered, but never stored.
    Removed(Value),
    Imagined {
        object: Value,
        created: bool,
    },
}

// === impl Outcome ===

impl Outcome {
    pub fn respond(&self, call: &Call) -> Result<Response> {
        match self {
            Self::Stored(record) => call.respond(200, record),
            Self::Removed(object) => call.respond_value(200, object),
            Self::Created(record) => call.respond(201, record),
            Self::Imagined { object, created } => {
                call.respond_value(if *created { 201 } else { 200 }, object)
            }
        }
    }

    /// The object in the version of the call.
    pub fn object(&self, call: &Call) -> Value {
        match self {
            Self::Stored(record) | Self::Created(record) => convert::load(record, &call.kind, call.version),
            Self::Imagined { object, .. } | Self::Removed(object) => object.clone(),
        }
    }
}

pub async fn replace(call: &Call, body: &Bytes) -> Result<Response> {
    let dry_run = call.dry_run("UpdateOptions")?;
    call.field_validation("UpdateOptions")?;
    let mut object = call.decode(body, "UpdateOptions", None)?;
    check_place(call, &mut object)?;
    admit::decode(call, &mut object, "UpdateOptions")?;
    let may_create = call.kind.rules.create_on_update && call.target.subresource.is_empty();
    let propose = |live: Option<&Value>| -> Result<Proposal> {
        if live.is_none() && !may_create {
            return Err(ApiError::not_found(&call.subject(), &call.target.name));
        }
        Ok(Proposal { object: object.clone(), tracked: false })
    };
    update_object(call, propose, dry_run, "UpdateOptions").await?.respond(call)
}

/// Name and namespace of the object must be those of the request.
pub fn check_place(call: &Call, object: &mut Value) -> Result<()> {
    let (name, namespace) = (object::name(object), object::namespace(object));
    if name.is_empty() {
        return Err(ApiError::bad_request(format!(
            "the name of the object ({} based on URL) was undeterminable: name must be provided",
            call.target.name
        )));
    }
    if name != call.target.name {
        return Err(ApiError::bad_request(format!(
            "the name of the object ({name}) does not match the name on the URL ({})",
            call.target.name
        )));
    }
    if call.kind.namespaced {
        if !namespace.is_empty() && namespace != call.target.namespace {
            return Err(ApiError::bad_request(format!(
                "the namespace of the object ({namespace}) does not match the namespace on the URL ({})",
                call.target.namespace
            )));
        }
        object::meta(object).insert("namespace".to_owned(), call.target.namespace.clone().into());
    }
    Ok(())
}

/// Reads, asks `propose` what to make of it, stores; and again, whenever somebody else was faster.
pub async fn update_object(
    call: &Call,
    propose: impl Fn(Option<&Value>) -> Result<Proposal>,
    dry_run: bool,
    options: &str,
) -> Result<Outcome> {
    let kind = &call.kind;
    let key = call.key();
    let table_kind =
        call.server.registry().of_table(&kind.table_name).cloned().unwrap_or_else(|| kind.clone());
    for _ in 0..ATTEMPTS {
        let Some(record) = call.store().get(kind.table, &key) else {
            let proposal = propose(None)?;
            rbac::check_creation(call)?;
            let mut object = proposal.object;
            if !object::uid(&object).is_empty() {
                let why = format!(
                    "Precondition failed: UID in precondition: {}, UID in object meta: ",
                    object::uid(&object)
                );
                return Err(ApiError::conflict(&call.subject(), &call.target.name, &why));
            }
            object::meta(&mut object).remove("resourceVersion");
            return match create_object(call, object, dry_run, options, !proposal.tracked).await {
                Ok(Created::Stored(record)) => Ok(Outcome::Created(record)),
                Ok(Created::Imagined(object)) => Ok(Outcome::Imagined { object, created: true }),
                Err(error) if error.reason() == "AlreadyExists" => continue,
                Err(error) => Err(error),
            };
        };
        let live = convert::load(&record, kind, call.version);
        let proposal = propose(Some(&live))?;
        let mut object = proposal.object;
        admit::default(call, &mut object);
        // What the server itself changes below belongs to nobody.
        if !proposal.tracked {
            patch::track(call, Some(&live), &mut object);
        }
        settle(call, &live, &mut object, options)?;
        admit::validate(call, &object, Some(&live))?;
        rbac::check_grant(call, &object, Some(&live))?;
        if matches!(call.target.subresource.as_str(), "" | "resize") && !object::is_deleting(&live) {
            limits::check_ranges(call, &object)?;
            limits::charge(call, &object, Some(&live), dry_run).await?;
        }
        count_generation(call, &live, &mut object);
        object::tidy_metadata(&mut object);
        patch::keep_times(&live, &mut object);

        let remove = lifecycle::is_finished(kind, &object);
        if dry_run {
            return Ok(Outcome::Imagined { object, created: false });
        }
        let last_form = remove.then(|| object.clone());
        convert::to_storage(&mut object, kind, call.version);
        let draft = Draft::new(&key, &object, &table_kind.selectable);
        if draft.equals(&record) && !remove {
            return Ok(Outcome::Stored(record));
        }
        let change = if remove {
            Change::Delete { key: key.clone().into(), revision: record.revision }
        } else {
            Change::Replace(draft, record.revision)
        };
        match call.store().commit(kind.table, change).await {
            Ok(record) => {
                if let Some(last_form) = last_form {
                    if kind.table_name == crd::TABLE {
                        call.server.definition_removed(&object);
                    }
                    return Ok(Outcome::Removed(last_form));
                }
                if kind.table_name == crd::TABLE {
                    // Names may have changed; a status is written by whoever knows better.
                    if call.target.subresource.is_empty() {
                        Box::pin(crd::establish(&call.server, &call.target.name)).await;
                    } else {
                        call.server.definition_changed(&object);
                    }
                }
                return Ok(Outcome::Stored(record));
            }
            Err(CommitError::Stale | CommitError::Exists) => {}
            Err(CommitError::Failed(error)) => return Err(ApiError::not_stored(&error)),
        }
    }
    Err(ApiError::modified(&call.subject(), &call.target.name))
}

/// Keeps from `live` what this request may not change.
fn settle(call: &Call, live: &Value, object: &mut Value, options: &str) -> Result<()> {
    let kind = &call.kind;
    let subject = call.subject();
    let name = &call.target.name;

    let given = object::resource_version(object).to_owned();
    if given.is_empty() || given == "0" {
        // Go prints the absent version as the unsigned number it parsed.
        if !kind.rules.unconditional_update {
            let error = FieldError::invalid("metadata.resourceVersion", 0, "must be specified for an update");
            return Err(ApiError::invalid(&subject, name, &[error]).rewording("value: 0:", "value: 0x0:"));
        }
    } else if given.parse::<u64>().is_err() {
        let error = FieldError::invalid(
            "metadata.resourceVersion",
            given.as_str(),
            format!("strconv.ParseUint: parsing {given:?}: invalid syntax"),
        );
        return Err(ApiError::invalid(&subject, name, &[error]));
    } else if given != object::resource_version(live) {
        return Err(ApiError::modified(&subject, name));
    }
    let uid = object::uid(object).to_owned();
    if !uid.is_empty() && uid != object::uid(live) {
        // Only a PUT names the object that it is based on; a patch tries to change it.
        if options == "PatchOptions" {
            let error = FieldError::invalid("metadata.uid", uid.as_str(), "field is immutable");
            return Err(ApiError::invalid(&subject, name, &[error]));
        }
        let why = format!(
            "StorageError: invalid object, Code: 4, Key: /registry/{}/{}, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: {uid}, UID in object meta: {}",
            kind.plural,
            call.key(),
            object::uid(live)
        );
        return Err(ApiError::conflict(&subject, name, &why));
    }

    let subresource = call.target.subresource.as_str();
    let has_status = call.version().status;
    match subresource {
        "status" => {
            let status = object.get("status").cloned();
            let proposed = object["metadata"].clone();
            let mut kept = live.clone();
            set_or_remove(&mut kept, "status", status);
            keep_metadata(kind.rules.status_metadata, &mut kept, proposed);
            *object = kept;
        }
        "resize" => resize::keep_the_rest(live, object),
        "" if has_status => set_or_remove(object, "status", live.get("status").cloned()),
        _ => {}
    }

    let metadata = object::meta(object);
    for key in [
        "uid",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "generation",
        "generateName",
        "namespace",
        "name",
    ] {
        match live["metadata"].get(key) {
            Some(value) => metadata.insert(key.to_owned(), value.clone()),
            None => metadata.remove(key),
        };
    }
    metadata.remove("selfLink");
    metadata.insert("resourceVersion".to_owned(), object::resource_version(live).into());

    let context = Context {
        server: &call.server,
        kind,
        subresource: Some(subresource).filter(|subresource| !subresource.is_empty()),
    };
    for prepare in kind.rules.prepare {
        prepare(object, Some(live), &context)?;
    }
    Ok(())
}

fn keep_metadata(rule: StatusMetadata, kept: &mut Value, proposed: Value) {
    let managed = proposed.get("managedFields").cloned();
    if rule != StatusMetadata::Fixed && proposed.is_object() {
        let labels = kept["metadata"].get("labels").cloned();
        let owners = kept["metadata"].get("ownerReferences").cloned();
        kept["metadata"] = proposed;
        if rule == StatusMetadata::KeepsLabels {
            set_or_remove(&mut kept["metadata"], "labels", labels);
        }
        set_or_remove(&mut kept["metadata"], "ownerReferences", owners);
    }
    set_or_remove(&mut kept["metadata"], "managedFields", managed);
}

fn set_or_remove(object: &mut Value, key: &str, value: Option<Value>) {
    if let Some(fields) = object.as_object_mut() {
        match value {
            Some(value) => fields.insert(key.to_owned(), value),
            None => fields.remove(key),
        };
    }
}

fn count_generation(call: &Call, live: &Value, object: &mut Value) {
    // Being placed on a node is no change of what a pod shall be, nor is what a controller notes beside the status.
    if matches!(call.target.subresource.as_str(), "binding" | "status") {
        return;
    }
    let changed = match call.kind.rules.generation {
        Generation::None | Generation::First => return,
        Generation::Spec => live.get("spec") != object.get("spec"),
        Generation::SpecAndAnnotations => {
            live.get("spec") != object.get("spec")
                || live["metadata"].get("annotations") != object["metadata"].get("annotations")
        }
        Generation::Content => {
            let content = |object: &Value| -> Vec<(String, Value)> {
                let skip_status = call.version().status;
                object
                    .as_object()
                    .into_iter()
                    .flatten()
                    .filter(|(key, _)| !matches!(key.as_str(), "metadata" | "apiVersion" | "kind"))
                    .filter(|(key, _)| !(skip_status && *key == "status"))
                    .map(|(key, value)| (key.clone(), value.clone()))
                    .collect()
            };
            content(live) != content(object)
        }
    };
    if changed {
        let next = object::generation(live) + 1;
        object::meta(object).insert("generation".to_owned(), next.into());
    }
}
