//! What is wrong with which field, worded as the Kubernetes API words it.

use std::fmt;

use serde_json::Value;

/// One fault of one field. An API server puts these into `Status.details.causes` and joins them into its message.
#[derive(Clone, Debug, PartialEq)]
pub struct FieldError {
    /// As in `spec.template.spec.containers[0].name`; keys of maps are written `[key]`.
    pub field: String,
    pub kind: FieldErrorKind,
    /// Shown for the kinds that show one (see [`FieldErrorKind`]).
    pub value: Value,
    pub detail: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldErrorKind {
    NotFound,
    Required,
    Duplicate,
    Invalid,
    NotSupported,
    Forbidden,
    TooLong,
    TooMany,
    TypeInvalid,
    InternalError,
}

// === impl FieldErrorKind ===

impl FieldErrorKind {
    /// The `reason` of a `StatusCause`.
    pub fn cause(self) -> &'static str {
        match self {
            Self::NotFound => "FieldValueNotFound",
            Self::Required => "FieldValueRequired",
            Self::Duplicate => "FieldValueDuplicate",
            Self::Invalid => "FieldValueInvalid",
            Self::NotSupported => "FieldValueNotSupported",
            Self::Forbidden => "FieldValueForbidden",
            Self::TooLong => "FieldValueTooLong",
            Self::TooMany => "FieldValueTooMany",
            Self::TypeInvalid => "FieldValueTypeInvalid",
            Self::InternalError => "InternalError",
        }
    }

    fn words(self) -> &'static str {
        match self {
            Self::NotFound => "Not found",
            Self::Required => "Required value",
            Self::Duplicate => "Duplicate value",
            Self::Invalid | Self::TypeInvalid => "Invalid value",
            Self::NotSupported => "Unsupported value",
            Self::Forbidden => "Forbidden",
            Self::TooLong => "Too long",
            Self::TooMany => "Too many",
            Self::InternalError => "Internal error",
        }
    }

    fn shows_value(self) -> bool {
        !matches!(self, Self::Required | Self::Forbidden | Self::TooLong | Self::InternalError)
    }
}

// === impl FieldError ===

impl FieldError {
    pub fn new(
        kind: FieldErrorKind,
        field: impl Into<String>,
        value: Value,
        detail: impl Into<String>,
    ) -> Self {
        Self { field: field.into(), kind, value, detail: detail.into() }
    }

    pub fn required(field: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::new(FieldErrorKind::Required, field, Value::Null, detail)
    }

    pub fn invalid(field: impl Into<String>, value: Value, detail: impl Into<String>) -> Self {
        Self::new(FieldErrorKind::Invalid, field, value, detail)
    }

    pub fn forbidden(field: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::new(FieldErrorKind::Forbidden, field, Value::Null, detail)
    }

    /// The message without the field: what a `StatusCause` carries.
    pub fn message(&self) -> String {
        let mut message = self.kind.words().to_owned();
        if self.kind.shows_value() {
            message.push_str(": ");
            message.push_str(&shown(&self.value));
        }
        if !self.detail.is_empty() {
            message.push_str(": ");
            message.push_str(&self.detail);
        }
        message
    }
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.message())
    }
}

fn shown(value: &Value) -> String {
    match value {
        Value::Array(_) | Value::Object(_) | Value::String(_) => value.to_string(),
        Value::Null => "null".to_owned(),
        other => other.to_string(),
    }
}
