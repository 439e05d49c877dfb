//! Long answers are made shorter for those who can read them so.

use std::io::Write as _;

use bytes::Bytes;
use flate2::{Compression, write::GzEncoder};
use http::{HeaderMap, HeaderValue, header};
use http_body_util::{BodyExt as _, Full};

use crate::reply::Reply;

/// A shorter answer goes into one packet as it is.
const WORTH_IT: usize = 1_024;

/// Whether `Accept-Encoding` names gzip, or anything at all, with a weight above zero.
pub(crate) fn takes_gzip(headers: &HeaderMap) -> bool {
    let is_wanted = |parameters: &str| match parameters.trim().strip_prefix("q=") {
        Some(weight) => weight.parse().is_ok_and(|weight: f32| weight > 0.0),
        None => true,
    };
    let weighed = |coding: &str, asked: &str| {
        let (name, parameters) = asked.split_once(';').unwrap_or((asked, ""));
        name.trim().eq_ignore_ascii_case(coding).then(|| is_wanted(parameters))
    };
    let asked = headers.get_all(header::ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
    let asked: Vec<&str> = asked.flat_map(|value| value.split(',')).collect();
    let find = |coding| asked.iter().find_map(|asked| weighed(coding, asked));
    find("gzip").or_else(|| find("*")).unwrap_or(false)
}

pub(crate) async fn gzip(reply: Reply) -> Reply {
    let (mut head, body) = reply.into_parts();
    let Ok(plain) = body.collect().await.map(|body| body.to_bytes());
    if plain.len() <= WORTH_IT {
        return Reply::from_parts(head, Full::new(plain));
    }
    let original = plain.clone();
    let compressed = tokio::task::spawn_blocking(move || compress(&original)).await;
    let Ok(Ok(compressed)) = compressed else { return Reply::from_parts(head, Full::new(plain)) };
    head.headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    head.headers.insert(header::VARY, HeaderValue::from_static("accept-encoding"));
    Reply::from_parts(head, Full::new(compressed))
}

fn compress(plain: &[u8]) -> std::io::Result<Bytes> {
    let mut encoder = GzEncoder::new(Vec::with_capacity(plain.len() / 8), Compression::fast());
    encoder.write_all(plain)?;
    encoder.finish().map(Bytes::from)
}
