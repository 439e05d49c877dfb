//! Creation.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::Value;

use crate::{
    admit,
    call::Call,
    convert, crd,
    error::{ApiError, Result},
    http::Response,
    lifecycle, limits, object, patch,
    prepare::Context,
    rbac,
    storage::{Change, CommitError, Draft, Record},
};

/// A generated name that is taken is generated anew so many times.
const GENERATE_ATTEMPTS: usize = 8;

pub enum Created {
    Stored(Arc<Record>),
    /// A dry run: what would have been stored.
    Imagined(Value),
}

pub async fn create(call: &Call, body: &Bytes) -> Result<Response> {
    let dry_run = call.dry_run("CreateOptions")?;
    call.field_validation("CreateOptions")?;
    let object = call.decode(body, "CreateOptions", None)?;
    match create_object(call, object, dry_run, "CreateOptions", true).await? {
        Created::Stored(record) => call.respond(201, &record),
        Created::Imagined(object) => call.respond_value(201, &object),
    }
}

/// Creates `object`. With `track`, its `managedFields` are worked out; an apply has done so already.
pub async fn create_object(
    call: &Call,
    mut object: Value,
    dry_run: bool,
    options: &str,
    track: bool,
) -> Result<Created> {
    let kind = &call.kind;
    let subject = call.subject();
    if kind.terminating {
        return Err(ApiError::method_not_allowed(
            &subject,
            "create not allowed while custom resource definition is terminating",
        ));
    }
    check_place(call, &mut object)?;
    let generated =
        object::name(&object).is_empty() && !object::text(&object, &["metadata", "generateName"]).is_empty();
    if !object::resource_version(&object).is_empty() {
        return Err(ApiError::unexplained("resourceVersion should not be set on objects to be created"));
    }
    if kind.namespaced {
        lifecycle::check_namespace(call, object::name(&object))?;
    }
    admit::decode(call, &mut object, options)?;
    drop_status(call, &mut object);
    admit::default(call, &mut object);

    let attempts = if generated { GENERATE_ATTEMPTS } else { 1 };
    for _ in 0..attempts {
        let mut candidate = object.clone();
        if generated {
            let name = object::generate_name(object::text(&candidate, &["metadata", "generateName"]));
            object::meta(&mut candidate).insert("name".to_owned(), name.into());
        }
        begin(call, &mut candidate);
        // What the server fills in below belongs to nobody.
        if track {
            patch::track(call, None, &mut candidate);
        }
        let context = Context { server: &call.server, kind, subresource: None };
        for prepare in kind.rules.prepare {
            prepare(&mut candidate, None, &context)?;
        }
        admit::validate(call, &candidate, None)?;
        rbac::check_grant(call, &candidate, None)?;
        limits::check_ranges(call, &candidate)?;
        limits::charge(call, &candidate, None, dry_run).await?;
        object::tidy_metadata(&mut candidate);
        if dry_run {
            let key = kind.key(object::namespace(&candidate), object::name(&candidate));
            if call.store().get(kind.table, &key).is_some() {
                return Err(ApiError::already_exists(&subject, object::name(&candidate)));
            }
            return Ok(Created::Imagined(candidate));
        }
        let name = object::name(&candidate).to_owned();
        let key = kind.key(object::namespace(&candidate), &name);
        convert::to_storage(&mut candidate, kind, call.version);
        let change = Change::Create(Draft::new(&key, &candidate, &kind.selectable));
        match call.store().commit(kind.table, change).await {
            Ok(record) => {
                if kind.table_name == crd::TABLE {
                    Box::pin(crd::establish(&call.server, &name)).await;
                }
                return Ok(Created::Stored(record));
            }
            Err(CommitError::Exists) if generated => {}
            Err(CommitError::Exists) => return Err(ApiError::already_exists(&subject, &name)),
            Err(CommitError::Stale) => return Err(ApiError::internal("a creation cannot be stale")),
            Err(CommitError::Failed(error)) => return Err(ApiError::not_stored(&error)),
        }
    }
    let base = object::text(&object, &["metadata", "generateName"]);
    Err(ApiError::already_exists(&subject, &object::generate_name(base)))
}

/// Name and namespace of the object must be those of the request.
fn check_place(call: &Call, object: &mut Value) -> Result<()> {
    let namespace = object::namespace(object).to_owned();
    if call.kind.namespaced {
        if namespace.is_empty() {
            object::meta(object).insert("namespace".to_owned(), call.target.namespace.clone().into());
        } else if namespace != call.target.namespace {
            return Err(ApiError::bad_request(
                "the namespace of the provided object does not match the namespace sent on the request",
            ));
        }
    } else if !namespace.is_empty() {
        object::meta(object).remove("namespace");
    }
    Ok(())
}

/// A status comes from controllers; a new object has the one that a kind starts with.
fn drop_status(call: &Call, object: &mut Value) {
    if call.version().status
        && !call.kind.rules.keeps_status
        && object.as_object_mut().is_some_and(|fields| fields.remove("status").is_some())
    {
        admit::normalize(&call.kind, call.version, object);
    }
}

/// What no client decides.
fn begin(call: &Call, object: &mut Value) {
    let rules = &call.kind.rules;
    let metadata = object::meta(object);
    for key in
        ["deletionTimestamp", "deletionGracePeriodSeconds", "selfLink", "resourceVersion", "generation"]
    {
        metadata.remove(key);
    }
    metadata.insert("uid".to_owned(), uuid::Uuid::new_v4().to_string().into());
    metadata.insert("creationTimestamp".to_owned(), object::timestamp(call.now).into());
    if rules.generation != crate::registry::Generation::None {
        metadata.insert("generation".to_owned(), 1.into());
    }
}
