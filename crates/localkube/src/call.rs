//! One request to one kind: everything the verbs need to know about it.

use std::sync::{Arc, Mutex, PoisonError};

use http::HeaderMap;
use hyper::upgrade::OnUpgrade;
use jiff::Timestamp;
use schema::FieldError;
use serde_json::Value;

use crate::{
    ApiServer, decode,
    error::{ApiError, Result, Subject},
    go_syntax,
    http::{BodyFormat, IncludeObject, Query, Response, Shape, Target, User, json, raw},
    protobuf,
    registry::{Kind, Origin, Version},
    render,
    selectors::Filter,
    storage::{Record, Store},
    table,
};

pub struct Call {
    pub server: ApiServer,
    pub kind: Arc<Kind>,
    /// Index of the version that was asked for.
    pub version: usize,
    pub target: Target,
    pub query: Query,
    pub headers: HeaderMap,
    pub user: User,
    pub manager: String,
    pub now: Timestamp,
    pub warnings: Arc<Warnings>,
    /// What becomes of the connection, for a caller that wants it for another protocol.
    pub upgrade: Option<OnUpgrade>,
}

/// What to do about fields that are unknown or given twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldValidation {
    Ignore,
    Warn,
    Strict,
}

#[derive(Debug, Default)]
pub struct Warnings(Mutex<Vec<String>>);

// === impl Warnings ===

impl Warnings {
    pub fn add(&self, warning: String) {
        let mut list = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !list.contains(&warning) {
            list.push(warning);
        }
    }

    pub fn is_empty(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    pub fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

// === impl Call ===

impl Call {
    /// The same request about one object of the kind.
    pub fn of(&self, namespace: &str, name: &str) -> Self {
        let target = Target {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            subresource: String::new(),
            ..self.target.clone()
        };
        Self {
            server: self.server.clone(),
            kind: self.kind.clone(),
            query: self.query.clone(),
            headers: self.headers.clone(),
            user: self.user.clone(),
            manager: self.manager.clone(),
            warnings: self.warnings.clone(),
            upgrade: None,
            version: self.version,
            now: self.now,
            target,
        }
    }

    pub fn store(&self) -> &Store {
        self.server.store()
    }

    pub fn version(&self) -> &Version {
        &self.kind.versions[self.version]
    }

    pub fn api_version(&self) -> String {
        self.kind.api_version(self.version)
    }

    pub fn subject(&self) -> Subject {
        self.kind.subject()
    }

    pub fn key(&self) -> String {
        self.kind.key(&self.target.namespace, &self.target.name)
    }

    pub fn find(&self) -> Result<Arc<Record>> {
        self.store()
            .get(self.kind.table, &self.key())
            .ok_or_else(|| ApiError::not_found(&self.subject(), &self.target.name))
    }

    pub fn filter(&self) -> Result<Filter> {
        Filter::parse(&self.kind, self.query.get("labelSelector"), self.query.get("fieldSelector"))
    }

    /// `options` is the kind that the API documents these query parameters under.
    pub fn dry_run(&self, options: &str) -> Result<bool> {
        let mut dry = false;
        for value in self.query.all("dryRun") {
            match value {
                "" => {}
                "All" => dry = true,
                other => {
                    let error = FieldError::not_supported("dryRun", serde_json::json!([other]), &["All"]);
                    return Err(ApiError::invalid(&options_subject(options), "", &[error]));
                }
            }
        }
        Ok(dry)
    }

    pub fn field_validation(&self, options: &str) -> Result<FieldValidation> {
        match self.query.get("fieldValidation") {
            "Ignore" => Ok(FieldValidation::Ignore),
            "" | "Warn" => Ok(FieldValidation::Warn),
            "Strict" => Ok(FieldValidation::Strict),
            other => {
                let error =
                    FieldError::not_supported("fieldValidation", other, &["", "Ignore", "Strict", "Warn"]);
                Err(ApiError::invalid(&options_subject(options), "", &[error]))
            }
        }
    }

    /// Reads the body as an object of this kind and version (or of `other`: group/version and kind).
    pub fn decode(&self, body: &[u8], options: &str, other: Option<(&str, &str)>) -> Result<Value> {
        let own_version = self.api_version();
        let (api_version, kind) = other.unwrap_or((&own_version, &self.kind.kind));
        let version = api_version.rsplit('/').next().unwrap_or_default();
        let unfit = |why: String| {
            ApiError::bad_request(format!(
                "{kind} in version {version:?} cannot be handled as a {kind}: {why}"
            ))
        };
        let format = BodyFormat::from_headers(&self.headers)?;
        let decoded = match format {
            BodyFormat::Json => decode::json(body).map_err(|why| self.unreadable(kind, &why, body))?,
            BodyFormat::Yaml => decode::yaml(body).map_err(|why| self.unreadable(kind, &why, body))?,
            BodyFormat::Protobuf => {
                let value = protobuf::decode(body).map_err(unfit)?;
                decode::Decoded { value, duplicates: Vec::new() }
            }
        };
        let mut object = decoded.value;
        if !object.is_object() {
            let why = format!(
                "json: cannot unmarshal {} into Go value of type struct {{ APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }}",
                go_syntax::kind_of(&object)
            );
            return Err(self.unreadable(kind, &why, body));
        }
        self.check_type(&mut object, api_version, kind)?;
        self.report(&decoded.duplicates, "duplicate", options)?;
        Ok(object)
    }

    fn unreadable(&self, kind: &str, why: &str, body: &[u8]) -> ApiError {
        if body.is_empty() && self.kind.origin == Origin::Custom {
            return ApiError::bad_request("EOF");
        }
        ApiError::bad_request(format!(
            "the object provided is unrecognized (must be of type {kind}): couldn't get version/kind; json parse error: {why} ({})",
            summary(body)
        ))
    }

    fn check_type(&self, object: &mut Value, api_version: &str, kind: &str) -> Result<()> {
        let custom = self.kind.origin == Origin::Custom;
        let given_version = object["apiVersion"].as_str().unwrap_or_default().to_owned();
        let given_kind = object["kind"].as_str().unwrap_or_default().to_owned();
        if custom && given_kind.is_empty() {
            return Err(ApiError::bad_request(format!("Object 'Kind' is missing in '{object}'")));
        }
        if custom && given_version.is_empty() {
            return Err(ApiError::bad_request(format!("Object 'apiVersion' is missing in '{object}'")));
        }
        let given_kind = if given_kind.is_empty() { kind } else { &given_kind };
        let given_version = if given_version.is_empty() { api_version } else { &given_version };
        let short = |version: &str| version.rsplit('/').next().unwrap_or_default().to_owned();
        let unfit = |why: String| {
            let version = short(given_version);
            Err(ApiError::bad_request(format!(
                "{given_kind} in version {version:?} cannot be handled as a {kind}: {why}"
            )))
        };
        if (given_kind, given_version) == (kind, api_version) {
            // As it should be.
        } else if !custom && !self.server.registry().knows(given_version, given_kind) {
            return unfit(format!(
                "no kind {given_kind:?} is registered for version {given_version:?} in scheme \"pkg/runtime/scheme.go:111\""
            ));
        } else if given_kind != kind {
            let group = self.kind.group.split('.').next().filter(|group| !group.is_empty()).unwrap_or("core");
            return unfit(format!(
                "converting ({}.{given_kind}) to ({group}.{kind}): unknown conversion",
                short(given_version)
            ));
        } else {
            return Err(ApiError::bad_request(format!(
                "the API version in the data ({given_version}) does not match the expected API version ({api_version})"
            )));
        }
        object["apiVersion"] = api_version.into();
        object["kind"] = kind.into();
        Ok(())
    }

    /// Refuses, warns of or ignores unknown or duplicate fields, as the request asks.
    pub fn report(&self, fields: &[String], what: &str, options: &str) -> Result<()> {
        if fields.is_empty() {
            return Ok(());
        }
        let texts: Vec<String> = fields.iter().map(|field| format!("{what} field {field:?}")).collect();
        match self.field_validation(options)? {
            FieldValidation::Ignore => {}
            FieldValidation::Warn => texts.into_iter().for_each(|text| self.warnings.add(text)),
            FieldValidation::Strict => {
                let why = format!("strict decoding error: {}", texts.join(", "));
                let kind = &self.kind.kind;
                return Err(ApiError::bad_request(if options == "PatchOptions" {
                    why
                } else {
                    format!(
                        "{kind} in version {:?} cannot be handled as a {kind}: {why}",
                        self.version().name
                    )
                }));
            }
        }
        Ok(())
    }

    /// Answers with one stored object, in the shape the client asked for.
    pub fn respond(&self, code: u16, record: &Record) -> Result<Response> {
        match Shape::from_headers(&self.headers)? {
            Shape::Object => {
                Ok(raw(code, "application/json", render::bytes(record, &self.kind, self.version)))
            }
            Shape::Table => self.respond_value(code, &record.to_value()),
            Shape::Metadata => {
                self.respond_value(code, &crate::convert::load(record, &self.kind, self.version))
            }
        }
    }

    /// Answers with an object of this kind and version.
    pub fn respond_value(&self, code: u16, object: &Value) -> Result<Response> {
        match Shape::from_headers(&self.headers)? {
            Shape::Object => Ok(json(code, object)),
            Shape::Metadata => Ok(json(code, &render::partial(object))),
            Shape::Table => {
                let include = IncludeObject::parse(self.query.get("includeObject"))?;
                let columns = table::columns(&self.kind, self.version);
                let meta = serde_json::json!({"resourceVersion": crate::object::resource_version(object)});
                Ok(json(code, &table::table(columns, &[object], include, meta, self.now, true)))
            }
        }
    }
}

/// Enough of a body to recognize it: text if it looks like JSON, else hexadecimal.
fn summary(body: &[u8]) -> String {
    const SHOWN: usize = 2048;
    if body.is_empty() {
        return "<empty>".to_owned();
    }
    if body.first() == Some(&b'{') {
        let text = String::from_utf8_lossy(body);
        return match text.char_indices().nth(SHOWN) {
            Some((end, _)) => format!("{} ...", &text[..end]),
            None => text.into_owned(),
        };
    }
    let hex: String = body.iter().take(SHOWN / 2).map(|byte| format!("{byte:02x}")).collect();
    if body.len() > SHOWN / 2 { format!("{hex} ...") } else { hex }
}

pub fn options_subject(kind: &str) -> Subject {
    Subject::new("meta.k8s.io", "", kind)
}
