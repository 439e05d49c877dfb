//! Deletion of one object and of many.

use std::sync::Arc;

use bytes::Bytes;
use schema::FieldError;
use serde_json::{Value, json};

use crate::{
    call::{Call, options_subject},
    convert, crd, decode,
    error::{ApiError, Result, Subject},
    http::{BodyFormat, Response, json as json_reply},
    lifecycle::{self, Deletion},
    object, protobuf,
    registry::Origin,
    render,
    storage::{Change, CommitError, Draft, ReadAt, Record},
};

const ORPHANS_STAY: &str = "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them or set propagationPolicy=Orphan to suppress this warning";

#[derive(Clone, Debug, Default)]
pub struct DeleteOptions {
    pub grace_period: Option<i64>,
    pub propagation: Option<String>,
    pub uid: Option<String>,
    pub resource_version: Option<String>,
    pub dry_run: bool,
    /// `orphanDependents: false` was given, the old way of asking for foreground or background.
    cascading: bool,
}

// === impl DeleteOptions ===

impl DeleteOptions {
    /// From the body or, if there is none, from the query.
    pub fn read(call: &Call, body: &[u8]) -> Result<Self> {
        let options = if body.is_empty() {
            Self::query_as_body(call)
        } else {
            let unreadable = |why: String| ApiError::bad_request(why);
            match BodyFormat::from_headers(&call.headers)? {
                BodyFormat::Json => decode::json(body).map_err(unreadable)?.value,
                BodyFormat::Yaml => decode::yaml(body).map_err(unreadable)?.value,
                BodyFormat::Protobuf => protobuf::decode(body).map_err(unreadable)?,
            }
        };
        let mut parsed = Self::from_value(&options)?;
        parsed.dry_run |= call.dry_run("DeleteOptions")?;
        Ok(parsed)
    }

    pub fn from_value(options: &Value) -> Result<Self> {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let orphan = options["orphanDependents"].as_bool();
        let propagation = text(&options["propagationPolicy"]);
        let invalid =
            |error: FieldError| Err(ApiError::invalid(&options_subject("DeleteOptions"), "", &[error]));
        if orphan.is_some() && propagation.is_some() {
            return invalid(FieldError::invalid(
                "propagationPolicy",
                options["propagationPolicy"].clone(),
                "orphanDependents and deletionPropagation cannot be both set",
            ));
        }
        if let Some(policy) = &propagation
            && !matches!(policy.as_str(), "Foreground" | "Background" | "Orphan")
        {
            return invalid(FieldError::not_supported(
                "propagationPolicy",
                policy.as_str(),
                &["Foreground", "Background", "Orphan", "nil"],
            ));
        }
        Ok(Self {
            grace_period: options["gracePeriodSeconds"].as_i64(),
            propagation: propagation.or(match orphan {
                Some(true) => Some("Orphan".to_owned()),
                Some(false) => Some("Background".to_owned()),
                None => None,
            }),
            uid: text(&options["preconditions"]["uid"]),
            resource_version: text(&options["preconditions"]["resourceVersion"]),
            dry_run: options["dryRun"].as_array().is_some_and(|list| list.iter().any(|one| one == "All")),
            cascading: orphan == Some(false),
        })
    }

    fn query_as_body(call: &Call) -> Value {
        let mut options = json!({});
        if let Ok(seconds) = call.query.get("gracePeriodSeconds").parse::<i64>() {
            options["gracePeriodSeconds"] = seconds.into();
        }
        if call.query.has("propagationPolicy") {
            options["propagationPolicy"] = call.query.get("propagationPolicy").into();
        }
        if call.query.has("orphanDependents") {
            options["orphanDependents"] = call.query.flag("orphanDependents").into();
        }
        options
    }
}

pub async fn delete(call: &Call, body: &Bytes) -> Result<Response> {
    let options = DeleteOptions::read(call, body)?;
    let deleted = delete_object(call, &options).await?;
    match deleted {
        Deleted::Gone(record) if call.kind.rules.returns_deleted => call.respond(200, &record),
        Deleted::Gone(record) => Ok(json_reply(200, &success(call, &record.to_value()))),
        Deleted::Marked(record) => call.respond(if options.cascading { 202 } else { 200 }, &record),
        Deleted::Imagined(object, true) if !call.kind.rules.returns_deleted => {
            Ok(json_reply(200, &success(call, &object)))
        }
        Deleted::Imagined(object, _) => call.respond_value(200, &object),
    }
}

fn success(call: &Call, object: &Value) -> Value {
    let mut details = json!({"name": call.target.name, "kind": call.kind.plural, "uid": object::uid(object)});
    if !call.kind.group.is_empty() {
        details["group"] = call.kind.group.as_ref().into();
    }
    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details})
}

pub enum Deleted {
    Gone(Arc<Record>),
    Marked(Arc<Record>),
    /// A dry run; the flag says whether it would be gone.
    Imagined(Value, bool),
}

pub async fn delete_object(call: &Call, options: &DeleteOptions) -> Result<Deleted> {
    let kind = &call.kind;
    let key = call.key();
    let permanent = kind.rules.permanent;
    if permanent.names.contains(&call.target.name.as_str()) {
        return Err(ApiError::forbidden(&call.subject(), &call.target.name, permanent.why));
    }
    if kind.rules.orphans && options.propagation.is_none() {
        call.warnings.add(ORPHANS_STAY.to_owned());
    }
    let mut marked_here = None;
    loop {
        let record = match (call.find(), marked_here.take()) {
            (Ok(record), _) => record,
            // between our mark and our removal its node removed it: it is gone, as asked
            (Err(_), Some(marked)) => return Ok(Deleted::Gone(marked)),
            (Err(error), None) => return Err(error),
        };
        let live = record.to_value();
        check_preconditions(call, &live, options)?;
        let plan = lifecycle::plan(kind, &live, options, call.now);
        if options.dry_run {
            let (mut object, gone) = match plan {
                Deletion::Remove | Deletion::Pending => (live, plan == Deletion::Remove),
                Deletion::Mark(object) => (object, false),
                Deletion::MarkAndRemove(object) => (object, true),
            };
            convert::from_storage(&mut object, kind, call.version);
            return Ok(Deleted::Imagined(object, gone));
        }
        let (marked, remove) = match plan {
            Deletion::Pending => return Ok(Deleted::Marked(record)),
            Deletion::Remove => (None, true),
            Deletion::Mark(object) => (Some(object), false),
            Deletion::MarkAndRemove(object) => (Some(object), true),
        };
        let mut current = record;
        if let Some(object) = &marked {
            let selectable = &call.server.table_kind(kind).selectable;
            let change = Change::Replace(Draft::new(&key, object, selectable), current.revision);
            match call.store().commit(kind.table, change).await {
                Ok(record) => {
                    marked_here = Some(Arc::clone(&record));
                    current = record;
                }
                Err(CommitError::Failed(error)) => return Err(ApiError::not_stored(&error)),
                Err(_) => continue,
            }
            if kind.table_name == crd::TABLE {
                call.server.definition_changed(object);
            }
        }
        if !remove {
            return Ok(Deleted::Marked(current));
        }
        let change = Change::Delete { key: key.as_str().into(), revision: current.revision };
        match call.store().commit(kind.table, change).await {
            Ok(record) => {
                if kind.table_name == crd::TABLE {
                    call.server.definition_removed(&live);
                }
                return Ok(Deleted::Gone(record));
            }
            Err(CommitError::Failed(error)) => return Err(ApiError::not_stored(&error)),
            Err(_) => {}
        }
    }
}

fn check_preconditions(call: &Call, live: &Value, options: &DeleteOptions) -> Result<()> {
    // The real server names the kind here, where it elsewhere names the resource.
    let subject = Subject { resource: call.kind.kind.to_string(), ..call.subject() };
    let name = &call.target.name;
    if let Some(uid) = &options.uid
        && uid != object::uid(live)
    {
        let why = format!(
            "the UID in the precondition ({uid}) does not match the UID in record ({}). The object might have been deleted and then recreated",
            object::uid(live)
        );
        return Err(ApiError::conflict(&subject, name, &why));
    }
    if let Some(version) = &options.resource_version
        && version != object::resource_version(live)
    {
        let why = format!(
            "the ResourceVersion in the precondition ({version}) does not match the ResourceVersion in record ({}). The object might have been modified",
            object::resource_version(live)
        );
        return Err(ApiError::conflict(&subject, name, &why));
    }
    Ok(())
}

pub async fn delete_collection(call: &Call, body: &Bytes) -> Result<Response> {
    if !call.kind.rules.delete_collection {
        return Err(ApiError::method_unknown());
    }
    let options = DeleteOptions::read(call, body)?;
    let filter = call.filter()?;
    let prefix = call.kind.prefix(&call.target.namespace);
    let listing = call
        .store()
        .list(call.kind.table, &prefix, None, ReadAt::Latest, usize::MAX, |record| filter.matches(record))
        .map_err(|_| ApiError::internal("the present is always readable"))?;
    let mut items = Vec::with_capacity(listing.records.len());
    for record in listing.records {
        let one = call.of(record.namespace(), record.name());
        match delete_object(&one, &options).await {
            Ok(Deleted::Gone(record) | Deleted::Marked(record)) => {
                items.push(convert::load(&record, &call.kind, call.version));
            }
            Ok(Deleted::Imagined(object, _)) => items.push(object),
            Err(error) if error.code() == 404 => {}
            Err(error) => return Err(error),
        }
    }
    if call.kind.origin == Origin::Builtin {
        // Items of a list of a built-in kind do not repeat their type.
        for fields in items.iter_mut().filter_map(Value::as_object_mut) {
            fields.remove("apiVersion");
            fields.remove("kind");
        }
    }
    let list = json!({
        "kind": call.kind.list_kind,
        "apiVersion": call.api_version(),
        "metadata": {"resourceVersion": call.store().revision().to_string()},
        "items": items,
    });
    match crate::http::Shape::from_headers(&call.headers)? {
        crate::http::Shape::Metadata => {
            let items: Vec<Value> = items.iter().map(render::partial).collect();
            Ok(json_reply(
                200,
                &json!({"kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1", "metadata": list["metadata"], "items": items}),
            ))
        }
        _ => Ok(json_reply(200, &list)),
    }
}
