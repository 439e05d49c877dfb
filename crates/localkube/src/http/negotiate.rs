//! In which format bodies come and in which shape answers are wanted.

use http::HeaderMap;

use crate::error::{ApiError, Result};

/// What an answer that carries objects shall look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    Object,
    Table,
    Metadata,
}

/// What rows of a table carry of their objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IncludeObject {
    None,
    Metadata,
    Object,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyFormat {
    Json,
    Yaml,
    Protobuf,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatchFormat {
    Json,
    Merge,
    Strategic,
    Apply,
}

// === impl Shape ===

impl Shape {
    pub fn from_headers(headers: &HeaderMap) -> Result<Self> {
        let mut any = false;
        for value in headers.get_all(http::header::ACCEPT) {
            for media in value.to_str().unwrap_or_default().split(',') {
                let mut parts = media.split(';').map(str::trim);
                let kind = parts.next().unwrap_or_default();
                if kind.is_empty() {
                    continue;
                }
                any = true;
                if !matches!(kind, "application/json" | "*/*" | "application/*") {
                    continue;
                }
                let mut shape = Some(Self::Object);
                let mut version = "v1";
                for parameter in parts {
                    match parameter.split_once('=') {
                        Some(("as", "Table")) => shape = Some(Self::Table),
                        Some(("as", "PartialObjectMetadata" | "PartialObjectMetadataList")) => {
                            shape = Some(Self::Metadata);
                        }
                        Some(("as", _)) => shape = None,
                        Some(("v", wanted)) => version = wanted,
                        _ => {}
                    }
                }
                match shape {
                    Some(Self::Object) => return Ok(Self::Object),
                    Some(shape) if version == "v1" => return Ok(shape),
                    _ => {}
                }
            }
        }
        if any { Err(ApiError::not_acceptable(false)) } else { Ok(Self::Object) }
    }
}

// === impl IncludeObject ===

impl IncludeObject {
    pub fn parse(text: &str) -> Result<Self> {
        match text {
            "" | "Metadata" => Ok(Self::Metadata),
            "None" => Ok(Self::None),
            "Object" => Ok(Self::Object),
            other => Err(ApiError::bad_request(format!("unrecognized includeObject value: {other:?}"))),
        }
    }
}

fn media_type(headers: &HeaderMap) -> &str {
    let value =
        headers.get(http::header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    value.split(';').next().unwrap_or_default().trim()
}

// === impl BodyFormat ===

impl BodyFormat {
    pub fn from_headers(headers: &HeaderMap) -> Result<Self> {
        match media_type(headers) {
            "" | "application/json" => Ok(Self::Json),
            "application/yaml" => Ok(Self::Yaml),
            "application/vnd.kubernetes.protobuf" => Ok(Self::Protobuf),
            _ => Err(ApiError::unsupported_media_type(
                "application/json, application/yaml, application/vnd.kubernetes.protobuf",
            )),
        }
    }
}

// === impl PatchFormat ===

impl PatchFormat {
    /// Custom resources have no strategic merge: nothing tells how their lists merge.
    pub fn from_headers(headers: &HeaderMap, strategic: bool) -> Result<Self> {
        match media_type(headers) {
            "application/json-patch+json" => Ok(Self::Json),
            "application/merge-patch+json" => Ok(Self::Merge),
            "application/strategic-merge-patch+json" if strategic => Ok(Self::Strategic),
            "application/apply-patch+yaml" => Ok(Self::Apply),
            "application/strategic-merge-patch+json" => Err(ApiError::unsupported_media_type(
                "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml",
            )),
            _ => Err(ApiError::generic(415, "UnsupportedMediaType", "415: Unsupported Media Type")),
        }
    }
}
