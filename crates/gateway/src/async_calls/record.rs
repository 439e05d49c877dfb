//! Requests and results as they are kept.

use api::slimfaas::{Settings, Visibility};
use bytes::{Bytes, BytesMut};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Uri};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::gateway::visibility;

/// A call without its body.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Head {
    method: String,
    uri: String,
    headers: Headers,
    /// Whether the caller may use what is private. Calls of earlier versions do not say so: they were let in by the rules
    /// of their time.
    #[serde(default = "yes")]
    may_use_private: bool,
}

fn yes() -> bool {
    true
}

/// How a call ended; the body follows it.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Finished {
    pub status: u16,
    pub headers: Headers,
    pub attempt: u32,
    /// Why it was given up.
    pub dead: Option<String>,
    pub truncated: bool,
}

/// Names and values; bytes of values that are no ASCII are kept as the characters of the same number.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Headers(Vec<(String, String)>);

impl Head {
    pub(crate) fn of(parts: &http::request::Parts, may_use_private: bool) -> Self {
        Head {
            may_use_private,
            method: parts.method.to_string(),
            uri: parts.uri.to_string(),
            headers: Headers::from(&parts.headers),
        }
    }

    pub(crate) fn into_request(self) -> Option<(Method, Uri, HeaderMap)> {
        Some((self.method.parse().ok()?, self.uri.parse().ok()?, self.headers.into()))
    }

    /// Whether the caller may still have the call made: what was public may have become private since.
    pub(crate) fn is_allowed(&self, settings: &Settings) -> bool {
        let path = self.uri.split('?').next().unwrap_or_default();
        self.may_use_private || visibility(settings, path) == Visibility::Public
    }

    pub(crate) fn method(&self) -> &str {
        &self.method
    }

    pub(crate) fn uri(&self) -> &str {
        &self.uri
    }
}

impl From<&HeaderMap> for Headers {
    fn from(headers: &HeaderMap) -> Self {
        let text = |value: &HeaderValue| value.as_bytes().iter().map(|byte| char::from(*byte)).collect();
        Headers(headers.iter().map(|(name, value)| (name.to_string(), text(value))).collect())
    }
}

impl From<Headers> for HeaderMap {
    fn from(headers: Headers) -> Self {
        let mut map = HeaderMap::with_capacity(headers.0.len());
        for (name, value) in headers.0 {
            let bytes: Option<Vec<u8>> =
                value.chars().map(|character| u8::try_from(u32::from(character)).ok()).collect();
            let value = bytes.and_then(|bytes| HeaderValue::from_bytes(&bytes).ok());
            if let (Ok(name), Some(value)) = (HeaderName::try_from(name), value) {
                map.append(name, value);
            }
        }
        map
    }
}

/// JSON in one line, then bytes.
pub(crate) fn pack(head: &impl Serialize, body: &[u8]) -> Bytes {
    let mut packed = BytesMut::from(json(head).as_ref());
    packed.extend_from_slice(b"\n");
    packed.extend_from_slice(body);
    packed.freeze()
}

pub(crate) fn unpack<T: DeserializeOwned>(packed: &Bytes) -> Option<(T, Bytes)> {
    let end = packed.iter().position(|byte| *byte == b'\n')?;
    Some((serde_json::from_slice(&packed[..end]).ok()?, packed.slice(end + 1..)))
}

pub(crate) fn json(value: &impl Serialize) -> Bytes {
    // these types always have a JSON form
    serde_json::to_vec(value).unwrap_or_default().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_comes_back() {
        let mut headers = HeaderMap::new();
        headers.append("a", HeaderValue::from_static("1"));
        headers.append("a", HeaderValue::from_static("2"));
        headers.append("bytes", HeaderValue::from_bytes(&[0xe9, b'x', 0xff]).unwrap());
        let kept = Headers::from(&headers);
        assert_eq!(HeaderMap::from(kept.clone()), headers);
        let finished = Finished { status: 200, headers: kept, attempt: 3, dead: None, truncated: false };
        let packed = pack(&finished, b"one\ntwo");
        assert_eq!(unpack::<Finished>(&packed), Some((finished, Bytes::from("one\ntwo"))));
        assert!(unpack::<Finished>(&Bytes::from("no line end")).is_none());
    }
}
