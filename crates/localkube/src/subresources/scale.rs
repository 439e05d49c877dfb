//! `scale`: the replica count of anything that declares where it keeps one.

use bytes::Bytes;
use schema::FieldError;
use serde_json::{Map, Value, json};

use crate::{
    call::Call,
    error::{ApiError, Result, Subject},
    http::{PatchFormat, Response, Verb, json as json_reply},
    object,
    patch::Patch,
    registry::{Origin, ScalePaths, Selector},
    selectors::structured_to_text,
    verbs::{self, Proposal},
};

const API_VERSION: &str = "autoscaling/v1";

pub async fn answer(call: &Call, verb: Verb, body: &Bytes) -> Result<Response> {
    let Some(paths) = call.version().scale.clone() else { return Err(ApiError::no_such_path()) };
    let (wanted, dry_run, options) = match verb {
        Verb::Get => {
            let record = call.find()?;
            let object = crate::convert::load(&record, &call.kind, call.version);
            return Ok(json_reply(200, &scale(&object, &paths)));
        }
        Verb::Update => {
            let dry_run = call.dry_run("UpdateOptions")?;
            let scale = call.decode(body, "UpdateOptions", Some((API_VERSION, "Scale")))?;
            (Wanted::Scale(scale), dry_run, "UpdateOptions")
        }
        Verb::Patch => {
            let dry_run = call.dry_run("PatchOptions")?;
            let format = PatchFormat::from_headers(&call.headers, call.kind.origin == Origin::Builtin)?;
            (Wanted::Patch(Patch::parse(call, format, body)?.0), dry_run, "PatchOptions")
        }
        _ => return Err(ApiError::method_unknown()),
    };
    let propose = |live: Option<&Value>| -> Result<Proposal> {
        let live = live.ok_or_else(|| ApiError::not_found(&call.subject(), &call.target.name))?;
        let current = scale(live, &paths);
        let new = match &wanted {
            Wanted::Scale(scale) => scale.clone(),
            Wanted::Patch(Patch::Apply { config, .. }) => {
                let mut merged = current.clone();
                merge::merge_patch::apply(&mut merged, config);
                merged
            }
            Wanted::Patch(patch) => patch.apply_to(call, &current)?,
        };
        check(call, &new)?;
        let mut object = live.clone();
        let replicas = new["spec"].get("replicas").cloned().unwrap_or_else(|| 0.into());
        put(&mut object, &paths.spec, replicas);
        let version = object::resource_version(&new);
        if !version.is_empty() {
            object::meta(&mut object).insert("resourceVersion".to_owned(), version.into());
        }
        if !object::uid(&new).is_empty() {
            object::meta(&mut object).insert("uid".to_owned(), object::uid(&new).into());
        }
        Ok(Proposal { object, tracked: false })
    };
    let outcome = verbs::update_object(call, propose, dry_run, options).await?;
    Ok(json_reply(200, &scale(&outcome.object(call), &paths)))
}

enum Wanted {
    Scale(Value),
    Patch(Patch),
}

fn check(call: &Call, scale: &Value) -> Result<()> {
    let name = object::name(scale);
    if name != call.target.name {
        return Err(ApiError::bad_request(format!(
            "the name of the object ({name}) does not match the name on the URL ({})",
            call.target.name
        )));
    }
    let replicas = &scale["spec"]["replicas"];
    if replicas.as_i64().is_none_or(|count| i32::try_from(count).is_err()) && !replicas.is_null() {
        return Err(ApiError::bad_request(format!(
            "Scale in version \"v1\" cannot be handled as a Scale: json: cannot unmarshal {replicas} into Go struct field ScaleSpec.spec.replicas of type int32"
        )));
    }
    if replicas.as_i64().is_some_and(|count| count < 0) {
        let error =
            FieldError::invalid("spec.replicas", replicas.clone(), "must be greater than or equal to 0");
        let subject = Subject::new("autoscaling", "scales", "Scale");
        return Err(ApiError::invalid(&subject, name, &[error]));
    }
    Ok(())
}

/// The Scale of `object`.
fn scale(object: &Value, paths: &ScalePaths) -> Value {
    let count = |path: &[String]| read(object, path).and_then(Value::as_i64);
    let mut metadata = Map::new();
    for key in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
        if let Some(value) = object["metadata"].get(key) {
            metadata.insert(key.to_owned(), value.clone());
        }
    }
    let mut spec = json!({});
    if let Some(replicas) = count(&paths.spec) {
        spec["replicas"] = replicas.into();
    }
    let mut status = json!({"replicas": count(&paths.status).unwrap_or_default()});
    let selector = match &paths.selector {
        Selector::None => String::new(),
        Selector::Structured(path) => read(object, path).map(structured_to_text).unwrap_or_default(),
        Selector::Text(path) => read(object, path).and_then(Value::as_str).unwrap_or_default().to_owned(),
    };
    if !selector.is_empty() {
        status["selector"] = selector.into();
    }
    json!({"kind": "Scale", "apiVersion": API_VERSION, "metadata": metadata, "spec": spec, "status": status})
}

fn read<'a>(object: &'a Value, path: &[String]) -> Option<&'a Value> {
    path.iter().try_fold(object, |value, key| value.get(key))
}

fn put(object: &mut Value, path: &[String], value: Value) {
    let Some((last, parents)) = path.split_last() else { return };
    let parents: Vec<&str> = parents.iter().map(String::as_str).collect();
    object::map_at(object, &parents).insert(last.clone(), value);
}
