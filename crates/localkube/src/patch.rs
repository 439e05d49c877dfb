//! The edge to `merge`: patches of a request, and who owns what after a write.

use merge::{
    apply::{ApplyError, Updater, managed_fields, ownership::Reset, ownership::Versions, typed::Type},
    json_patch, merge_patch, strategic,
};
use serde_json::{Value, json};

use crate::{
    admit,
    call::Call,
    convert, decode,
    error::{ApiError, Result},
    go_syntax,
    http::PatchFormat,
    object,
    registry::{Kind, Origin},
};

/// A patch as it came.
#[derive(Clone, Debug)]
pub enum Patch {
    Json(Value),
    Merge(Value),
    Strategic(Value),
    Apply { config: Value, force: bool },
}

// === impl Patch ===

impl Patch {
    /// Also returns the fields that the body names twice.
    pub fn parse(call: &Call, format: PatchFormat, body: &[u8]) -> Result<(Self, Vec<String>)> {
        let force = call.query.has("force");
        if force && format != PatchFormat::Apply {
            let error = schema::FieldError::forbidden("force", "may not be specified for non-apply patch");
            return Err(ApiError::invalid(&crate::call::options_subject("PatchOptions"), "", &[error]));
        }
        if format == PatchFormat::Apply {
            if call.query.get("fieldManager").is_empty() {
                let error = schema::FieldError::required("fieldManager", "is required for apply patch");
                return Err(ApiError::invalid(&crate::call::options_subject("PatchOptions"), "", &[error]));
            }
            let decoded = decode::yaml(body)
                .map_err(|why| ApiError::bad_request(format!("error decoding YAML: {why}")))?;
            let patch = Self::Apply { config: decoded.value, force: call.query.flag("force") };
            return Ok((patch, decoded.duplicates));
        }
        let decoded = decode::json(body)
            .map_err(|why| ApiError::bad_request(format!("error decoding patch: {why}")))?;
        let patch = match format {
            PatchFormat::Json => Self::Json(decoded.value),
            PatchFormat::Strategic => Self::Strategic(decoded.value),
            PatchFormat::Merge | PatchFormat::Apply => Self::Merge(decoded.value),
        };
        if let Self::Merge(value) | Self::Strategic(value) = &patch
            && !value.is_object()
        {
            let found = if value.is_array() { "array" } else { go_syntax::kind_of(value) };
            return Err(ApiError::bad_request(format!(
                "error decoding patch: json: cannot unmarshal {found} into Go value of type map[string]interface {{}}"
            )));
        }
        Ok((patch, decoded.duplicates))
    }

    /// What the patch makes of `live`. Not for applies, which also need to know who owns what.
    pub fn apply_to(&self, call: &Call, live: &Value) -> Result<Value> {
        let mut object = live.clone();
        match self {
            Self::Json(patch) => json_patch::apply(&mut object, patch).map_err(|error| match error {
                json_patch::Error::Malformed { .. } => ApiError::bad_request(error.to_string()),
                json_patch::Error::TooManyOperations(_) => {
                    ApiError::new(413, "RequestEntityTooLarge", format!("Request entity too large: {error}"))
                }
                json_patch::Error::DoesNotApply(_) => ApiError::generic(
                    422,
                    "Invalid",
                    "the server rejected our request due to an error in our request",
                ),
            })?,
            Self::Merge(patch) => merge_patch::apply(&mut object, patch),
            Self::Strategic(patch) => {
                let schema = admit::schema(&call.kind, call.version);
                object = match schema {
                    Some(schema) => strategic::apply(live, patch, schema)
                        .map_err(|error| ApiError::unexplained(error.to_string()))?,
                    None => {
                        merge_patch::apply(&mut object, patch);
                        object
                    }
                };
            }
            Self::Apply { .. } => return Err(ApiError::internal("an apply needs managed fields")),
        }
        if !object.is_object() {
            return Err(ApiError::bad_request("the patch leaves no object"));
        }
        // What a patch does not say about the type and the base of the object stays as it was.
        for key in ["apiVersion", "kind"] {
            if object[key] != live[key] {
                return Err(ApiError::bad_request(format!(
                    "{} in version {:?} cannot be handled as a {}: {key} must not change",
                    call.kind.kind,
                    call.version().name,
                    call.kind.kind
                )));
            }
        }
        Ok(object)
    }
}

/// Server-side apply.
pub fn apply(call: &Call, live: Option<&Value>, config: &Value, force: bool) -> Result<Value> {
    if !config.is_object() {
        return Err(ApiError::bad_request("the configuration to apply must be an object"));
    }
    if config["metadata"].get("managedFields").is_some_and(|fields| *fields != json!([]) && !fields.is_null())
    {
        return Err(ApiError::bad_request("metadata.managedFields must be nil"));
    }
    let name = object::name(config);
    if !name.is_empty() && name != call.target.name {
        return Err(ApiError::bad_request(format!(
            "the name of the object ({name}) does not match the name on the URL ({})",
            call.target.name
        )));
    }
    let applied = with_updater(call, |updater| updater.apply(live, config, &call.manager, force, call.now));
    applied.map(|applied| applied.object).map_err(apply_error)
}

pub fn apply_error(error: ApplyError) -> ApiError {
    match error {
        ApplyError::Conflicts(_) => {
            let causes = error
                .causes()
                .into_iter()
                .map(|cause| json!({"reason": cause.reason, "message": cause.message, "field": cause.field}))
                .collect();
            ApiError::new(409, "Conflict", error.to_string()).with_causes(causes)
        }
        ApplyError::BadRequest(why) => ApiError::bad_request(why),
        ApplyError::Internal(why) => ApiError::unexplained(why),
    }
}

/// Notes in `managedFields` who changed what between `live` and `object`.
pub fn track(call: &Call, live: Option<&Value>, object: &mut Value) {
    let new = std::mem::take(object);
    *object = with_updater(call, |updater| updater.update(live, new, &call.manager, call.now));
}

/// A write that changes nothing but the times of ownership is none.
pub fn keep_times(live: &Value, object: &mut Value) {
    managed_fields::keep_times_if_unchanged(live, object);
}

fn with_updater<T>(call: &Call, run: impl FnOnce(&Updater<'_>) -> T) -> T {
    let kind = &call.kind;
    let api_version = call.api_version();
    let reset = reset(call);
    let empty = match kind.origin {
        Origin::Builtin => admit::empty(kind, call.version),
        Origin::Custom => &json!({}),
    };
    run(&Updater {
        api_version: &api_version,
        kind: &kind.kind,
        subresource: &call.target.subresource,
        versions: &KindVersions(kind),
        reset: &reset,
        empty,
    })
}

/// What this request cannot own, because the server puts it back.
fn reset(call: &Call) -> Reset {
    match call.target.subresource.as_str() {
        "" if call.version().status => Reset::fields([&["status"][..]]),
        "status" if call.kind.origin == Origin::Custom => Reset::all_but([&["status"][..]]),
        "status" => Reset::fields([&["spec"][..]]),
        _ => Reset::Nothing,
    }
}

struct KindVersions<'a>(&'a Kind);

impl KindVersions<'_> {
    fn index(&self, api_version: &str) -> Option<usize> {
        (0..self.0.versions.len()).find(|index| self.0.api_version(*index) == api_version)
    }
}

impl Versions for KindVersions<'_> {
    fn type_of(&self, api_version: &str) -> Option<Type<'_>> {
        let index = self.index(api_version)?;
        Some(admit::schema(self.0, index).map_or(Type::Deduced, Type::object))
    }

    fn convert(&self, object: &Value, api_version: &str) -> Result<Value, String> {
        let unknown = || format!("no version {api_version} of {}", self.0.kind);
        let to = self.index(api_version).ok_or_else(unknown)?;
        let mut object = object.clone();
        let from = self.index(object["apiVersion"].as_str().unwrap_or_default()).unwrap_or(to);
        if from != to {
            convert::to_storage(&mut object, self.0, from);
            convert::from_storage(&mut object, self.0, to);
        }
        Ok(object)
    }
}
