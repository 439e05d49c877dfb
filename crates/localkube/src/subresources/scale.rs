//! `scale`: the replica count of anything that declares where it keeps one.

use std::collections::BTreeMap;

use bytes::Bytes;
use merge::apply::{
    Updater,
    fieldpath::Path,
    ownership::{Reset, SameObject},
    scale::{ReplicasPaths, entries_of_parent, entries_of_scale},
};
use schema::FieldError;
use serde_json::{Map, Value, json};

use crate::{
    call::Call,
    error::{ApiError, Result, Subject},
    http::{PatchFormat, Response, Verb, json as json_reply},
    object,
    patch::{self, Patch},
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
            return Ok(json_reply(200, &scale(call, &object, &paths)?));
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
        let owners = Owners::of(call, live, &paths)?;
        let mut current = show(live, &paths);
        current["metadata"]["managedFields"] = owners.of_scale.clone().into();
        let new = match &wanted {
            Wanted::Scale(scale) => owners.track(call, &current, omit_zero(scale.clone())),
            Wanted::Patch(Patch::Apply { config, force }) => owners.apply(call, &current, config, *force)?,
            Wanted::Patch(patch) => owners.track(call, &current, omit_zero(patch.apply_to(call, &current)?)),
        };
        check(call, &new)?;
        let mut object = live.clone();
        let replicas = new["spec"].get("replicas").cloned().unwrap_or_else(|| 0.into());
        put(&mut object, &paths.spec, replicas);
        for key in ["resourceVersion", "uid"] {
            if let Some(value) = new["metadata"].get(key).filter(|value| **value != "") {
                object::meta(&mut object).insert(key.to_owned(), value.clone());
            }
        }
        let managed = owners.of_object(call, live, &new)?;
        object::meta(&mut object).insert("managedFields".to_owned(), managed.into());
        Ok(Proposal { object, tracked: true })
    };
    let outcome = verbs::update_object(call, propose, dry_run, options).await?;
    Ok(json_reply(200, &show(&outcome.object(call), &paths)))
}

enum Wanted {
    Scale(Value),
    Patch(Patch),
}

/// Who owns the replica count: noted in the scaled object, decided on its Scale.
struct Owners {
    paths: ReplicasPaths,
    of_scale: Vec<Value>,
}

// === impl Owners ===

impl Owners {
    fn of(call: &Call, live: &Value, paths: &ScalePaths) -> Result<Self> {
        let kind = &call.kind;
        let own = Path::fields(paths.spec.iter().map(String::as_str));
        let paths: ReplicasPaths = (0..kind.versions.len())
            .map(|index| {
                let path = kind.versions[index].scale.as_ref().map(|_| own.clone());
                (kind.api_version(index), path)
            })
            .collect();
        let of_scale = entries_of_scale(entries(live), &paths).map_err(ApiError::internal)?;
        Ok(Self { paths, of_scale })
    }

    fn track(&self, call: &Call, current: &Value, new: Value) -> Value {
        with_updater(|updater| updater.update(Some(current), new, &call.manager, call.now))
    }

    fn apply(&self, call: &Call, current: &Value, config: &Value, force: bool) -> Result<Value> {
        let applied =
            with_updater(|updater| updater.apply(Some(current), config, &call.manager, force, call.now));
        applied.map(|applied| applied.object).map_err(patch::apply_error)
    }

    fn of_object(&self, call: &Call, live: &Value, scale: &Value) -> Result<Vec<Value>> {
        entries_of_parent(entries(live), entries(scale), &call.api_version(), &self.paths)
            .map_err(ApiError::internal)
    }
}

fn entries(object: &Value) -> &[Value] {
    object["metadata"]["managedFields"].as_array().map(Vec::as_slice).unwrap_or_default()
}

fn with_updater<T>(run: impl FnOnce(&Updater<'_>) -> T) -> T {
    let schema = schema::builtin::schema("autoscaling", "v1", "Scale");
    let versions = SameObject { schemas: BTreeMap::from([(API_VERSION, schema.as_deref())]) };
    run(&Updater {
        api_version: API_VERSION,
        kind: "Scale",
        subresource: "scale",
        versions: &versions,
        reset: &Reset::fields([&["status"][..]]),
        empty: &json!({}),
    })
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
            "Scale in version \"v1\" cannot be handled as a Scale: json: cannot unmarshal {} into Go struct field ScaleSpec.spec.replicas of type int32",
            crate::go_syntax::kind_of(replicas)
        )));
    }
    // Custom resources have rules of their own for it.
    if call.kind.origin == Origin::Builtin && replicas.as_i64().is_some_and(|count| count < 0) {
        let error =
            FieldError::invalid("spec.replicas", replicas.clone(), "must be greater than or equal to 0");
        let subject = Subject::new("autoscaling", "scales", "Scale");
        return Err(ApiError::invalid(&subject, name, &[error]));
    }
    Ok(())
}

/// The Scale of `object`, which must have a replica count if it is a custom resource.
fn scale(call: &Call, object: &Value, paths: &ScalePaths) -> Result<Value> {
    if call.kind.origin == Origin::Custom && read(object, &paths.spec).is_none() {
        let path = paths.spec.join(".");
        return Err(ApiError::internal(format!("the spec replicas field \".{path}\" does not exist")));
    }
    Ok(show(object, paths))
}

fn show(object: &Value, paths: &ScalePaths) -> Value {
    let count = |path: &[String]| read(object, path).and_then(Value::as_i64).unwrap_or_default();
    let mut metadata = Map::new();
    for key in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
        if let Some(value) = object["metadata"].get(key) {
            metadata.insert(key.to_owned(), value.clone());
        }
    }
    let mut spec = json!({});
    if count(&paths.spec) != 0 {
        spec["replicas"] = count(&paths.spec).into();
    }
    let mut status = json!({"replicas": count(&paths.status)});
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

/// A Scale does not write zero replicas down, and so nobody owns them.
fn omit_zero(mut scale: Value) -> Value {
    if scale["spec"]["replicas"] == 0 {
        object::remove(&mut scale, &["spec", "replicas"]);
    }
    scale
}

fn read<'a>(object: &'a Value, path: &[String]) -> Option<&'a Value> {
    path.iter().try_fold(object, |value, key| value.get(key))
}

fn put(object: &mut Value, path: &[String], value: Value) {
    let Some((last, parents)) = path.split_last() else { return };
    let parents: Vec<&str> = parents.iter().map(String::as_str).collect();
    object::map_at(object, &parents).insert(last.clone(), value);
}
