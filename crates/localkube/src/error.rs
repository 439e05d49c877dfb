//! Failures as clients see them: `Status` objects with the wording of Kubernetes.

use std::fmt;

use schema::FieldError;
use serde_json::{Map, Value, json};

use crate::storage;

/// A failed request. Boxed inside because it travels in the error position of nearly every function.
#[derive(Clone, Debug)]
pub struct ApiError(Box<Inner>);

#[derive(Clone, Debug)]
struct Inner {
    code: u16,
    reason: &'static str,
    message: String,
    details: Map<String, Value>,
    /// Whether to show details although there are none.
    empty_details: bool,
    /// Where a list that cannot be continued consistently can be continued nevertheless.
    resume: Option<String>,
}

pub type Result<T, E = ApiError> = std::result::Result<T, E>;

/// What a message calls the object: `deployments.apps "web"`, or for field errors `Deployment.apps "web"`.
#[derive(Clone, Debug, Default)]
pub struct Subject {
    pub group: String,
    pub resource: String,
    pub kind: String,
}

// === impl Subject ===

impl Subject {
    pub fn new(group: &str, resource: &str, kind: &str) -> Self {
        Self { group: group.to_owned(), resource: resource.to_owned(), kind: kind.to_owned() }
    }

    fn qualified(&self, what: &str) -> String {
        if self.group.is_empty() { what.to_owned() } else { format!("{what}.{}", self.group) }
    }
}

// === impl ApiError ===

impl ApiError {
    pub fn new(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        Self(Box::new(Inner {
            code,
            reason,
            message: message.into(),
            details: Map::new(),
            empty_details: false,
            resume: None,
        }))
    }

    /// As the real server's HTTP layer answers, which knows nothing of objects but leaves room for details.
    pub fn generic(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        let mut error = Self::new(code, reason, message);
        error.0.empty_details = true;
        error
    }

    fn about(mut self, subject: &Subject, kind: &str, name: &str) -> Self {
        let details = &mut self.0.details;
        if !name.is_empty() {
            details.insert("name".into(), name.into());
        }
        if !subject.group.is_empty() {
            details.insert("group".into(), subject.group.as_str().into());
        }
        if !kind.is_empty() {
            details.insert("kind".into(), kind.into());
        }
        self
    }

    pub fn with_causes(mut self, causes: Vec<Value>) -> Self {
        self.0.details.insert("causes".into(), causes.into());
        self
    }

    /// Where Go prints a value in a way of its own.
    pub fn rewording(mut self, from: &str, to: &str) -> Self {
        self.0.message = self.0.message.replace(from, to);
        if let Some(causes) = self.0.details.get_mut("causes").and_then(Value::as_array_mut) {
            for cause in causes {
                let message = cause["message"].as_str().unwrap_or_default().replace(from, to);
                cause["message"] = message.into();
            }
        }
        self
    }

    pub fn with_retry_after(mut self, seconds: u32) -> Self {
        self.0.details.insert("retryAfterSeconds".into(), seconds.into());
        self
    }

    pub fn with_continue(mut self, token: String) -> Self {
        self.0.resume = Some(token);
        self
    }

    pub fn not_found(subject: &Subject, name: &str) -> Self {
        let message = format!("{} {name:?} not found", subject.qualified(&subject.resource));
        Self::new(404, "NotFound", message).about(subject, &subject.resource, name)
    }

    /// No such resource in a group that is there.
    pub fn no_such_path() -> Self {
        Self::generic(404, "NotFound", "the server could not find the requested resource")
    }

    pub fn already_exists(subject: &Subject, name: &str) -> Self {
        let message = format!("{} {name:?} already exists", subject.qualified(&subject.resource));
        Self::new(409, "AlreadyExists", message).about(subject, &subject.resource, name)
    }

    pub fn conflict(subject: &Subject, name: &str, why: &str) -> Self {
        let what = subject.qualified(&subject.resource);
        Self::new(409, "Conflict", format!("Operation cannot be fulfilled on {what} {name:?}: {why}")).about(
            subject,
            &subject.resource,
            name,
        )
    }

    pub fn modified(subject: &Subject, name: &str) -> Self {
        Self::conflict(
            subject,
            name,
            "the object has been modified; please apply your changes to the latest version and try again",
        )
    }

    pub fn forbidden(subject: &Subject, name: &str, why: &str) -> Self {
        let what = subject.qualified(&subject.resource);
        let message = if name.is_empty() {
            format!("{what} is forbidden: {why}")
        } else {
            format!("{what} {name:?} is forbidden: {why}")
        };
        Self::new(403, "Forbidden", message).about(subject, &subject.resource, name)
    }

    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message)
    }

    pub fn unauthorized() -> Self {
        Self::new(401, "Unauthorized", "Unauthorized")
    }

    pub fn internal(why: impl fmt::Display) -> Self {
        let why = why.to_string();
        Self::new(500, "InternalError", format!("Internal error occurred: {why}"))
            .with_causes(vec![json!({"message": why})])
    }

    /// A write that is not on disk. One that only wants for space may be tried again.
    pub fn not_stored(error: &storage::Error) -> Self {
        match error {
            storage::Error::Full { .. } => Self::new(503, "ServiceUnavailable", error.to_string()),
            _ => Self::internal(error),
        }
    }

    /// Failures that the real server has no reason for.
    pub fn unexplained(message: impl Into<String>) -> Self {
        Self::new(500, "", message)
    }

    pub fn expired(message: impl Into<String>) -> Self {
        Self::new(410, "Expired", message)
    }

    pub fn too_many_requests(message: impl Into<String>, retry_after: u32) -> Self {
        Self::new(429, "TooManyRequests", message).with_retry_after(retry_after)
    }

    pub fn method_not_allowed(subject: &Subject, action: &str) -> Self {
        let what = subject.qualified(&subject.resource);
        Self::new(405, "MethodNotAllowed", format!("{action} is not supported on resources of kind {what:?}"))
            .about(subject, &subject.resource, "")
    }

    /// The generic 405 for a method a path does not have.
    pub fn method_unknown() -> Self {
        Self::generic(
            405,
            "MethodNotAllowed",
            "the server does not allow this method on the requested resource",
        )
    }

    pub fn unsupported_media_type(accepted: &str) -> Self {
        Self::new(
            415,
            "UnsupportedMediaType",
            format!(
                "the body of the request was in an unknown format - accepted media types include: {accepted}"
            ),
        )
    }

    pub fn not_acceptable(watchable: bool) -> Self {
        let mut message = "406: Not Acceptable

Available representations: application/json, application/yaml, application/vnd.kubernetes.protobuf"
            .to_owned();
        if watchable {
            message.push_str(
                ", application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch",
            );
        }
        Self::generic(406, "NotAcceptable", message)
    }

    pub fn body_too_large() -> Self {
        Self::new(
            413,
            "RequestEntityTooLarge",
            format!("Request entity too large: limit is {}", crate::http::BODY_LIMIT),
        )
    }

    pub fn too_large_resource_version(asked: u64, current: u64) -> Self {
        let mut error = Self::new(
            504,
            "Timeout",
            format!("Timeout: Too large resource version: {asked}, current: {current}"),
        )
        .with_retry_after(1);
        error.0.details.insert(
            "causes".into(),
            json!([{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]),
        );
        error
    }

    pub fn invalid(subject: &Subject, name: &str, errors: &[FieldError]) -> Self {
        let what = subject.qualified(&subject.kind);
        let message = match errors {
            [] => format!("{what} {name:?} is invalid"),
            [one] => format!("{what} {name:?} is invalid: {one}"),
            many => {
                let mut seen = Vec::new();
                for error in many.iter().map(ToString::to_string) {
                    if !seen.contains(&error) {
                        seen.push(error);
                    }
                }
                if let [one] = seen.as_slice() {
                    format!("{what} {name:?} is invalid: {one}")
                } else {
                    format!("{what} {name:?} is invalid: [{}]", seen.join(", "))
                }
            }
        };
        let causes = errors
            .iter()
            .map(|error| {
                json!({"reason": error.kind.cause(), "message": error.message(), "field": error.field})
            })
            .collect();
        let mut error = Self::new(422, "Invalid", message).about(subject, &subject.kind, name);
        if !errors.is_empty() {
            error = error.with_causes(causes);
        }
        error
    }

    pub fn code(&self) -> u16 {
        self.0.code
    }

    pub fn reason(&self) -> &'static str {
        self.0.reason
    }

    pub fn retry_after(&self) -> Option<u64> {
        self.0.details.get("retryAfterSeconds").and_then(Value::as_u64)
    }

    pub fn to_status(&self) -> Value {
        let mut status = json!({
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.0.message,
            "code": self.0.code,
        });
        if !self.0.reason.is_empty() {
            status["reason"] = self.0.reason.into();
        }
        if let Some(token) = &self.0.resume {
            status["metadata"]["continue"] = token.as_str().into();
        }
        if !self.0.details.is_empty() || self.0.empty_details {
            status["details"] = Value::Object(self.0.details.clone());
        }
        status
    }
}

impl fmt::Display for ApiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)
    }
}

impl std::error::Error for ApiError {}
