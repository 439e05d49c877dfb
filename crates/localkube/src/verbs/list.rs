//! Lists: selectors, pages, reads in the past.

use std::sync::Arc;

use base64::{
    Engine, alphabet,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
    prelude::BASE64_URL_SAFE_NO_PAD,
};
use bytes::Bytes;
use schema::FieldError;
use serde_json::{Value, json};

use crate::{
    call::{Call, options_subject},
    convert,
    error::{ApiError, Result},
    go_syntax,
    http::{IncludeObject, Response, Shape, chunked, json as json_reply, raw},
    registry::Origin,
    render,
    storage::{Listing, ReadAt, Record},
    table,
};

/// Larger answers are sent in pieces of about this size, so that a list needs no second copy of everything.
const CHUNK: usize = 128 << 10;

pub fn list(call: &Call) -> Result<Response> {
    check_options(call)?;
    let shape = Shape::from_headers(&call.headers).map_err(|_| ApiError::not_acceptable(true))?;
    let mut filter = call.filter()?;
    if !call.target.name.is_empty() {
        filter = filter.only(&call.target.name);
    }
    let (listing, next) = read(call, &filter)?;
    let mut meta = json!({"resourceVersion": listing.revision.to_string()});
    if call.kind.origin == Origin::Custom && shape == Shape::Object {
        // Lists of custom resources always have the field.
        meta["continue"] = "".into();
    }
    if let Some(token) = next {
        meta["continue"] = token.into();
        if filter.is_empty() {
            meta["remainingItemCount"] = listing.remaining.into();
        }
    }
    match shape {
        Shape::Object => Ok(objects(call, listing, &meta)),
        Shape::Metadata => {
            let items: Vec<Value> = listing
                .records
                .iter()
                .map(|record| render::partial(&convert::load(record, &call.kind, call.version)))
                .collect();
            Ok(json_reply(
                200,
                &json!({"kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1", "metadata": meta, "items": items}),
            ))
        }
        Shape::Table => {
            let include = IncludeObject::parse(call.query.get("includeObject"))?;
            // Columns are about the form in which objects are kept.
            let items: Vec<Value> = listing.records.iter().map(|record| record.to_value()).collect();
            let items: Vec<&Value> = items.iter().collect();
            Ok(json_reply(
                200,
                &table::table(
                    table::columns(&call.kind, call.version),
                    &items,
                    include,
                    meta,
                    call.now,
                    true,
                ),
            ))
        }
    }
}

fn check_options(call: &Call) -> Result<()> {
    let invalid = |error: FieldError| Err(ApiError::invalid(&options_subject("ListOptions"), "", &[error]));
    let version = call.query.get("resourceVersion");
    let exact = match call.query.get("resourceVersionMatch") {
        "" => return Ok(()),
        "Exact" => true,
        "NotOlderThan" => false,
        other => {
            return invalid(FieldError::not_supported(
                "resourceVersionMatch",
                other,
                &["Exact", "NotOlderThan"],
            ));
        }
    };
    if version.is_empty() {
        return invalid(FieldError::forbidden(
            "resourceVersionMatch",
            "resourceVersionMatch is forbidden unless resourceVersion is provided",
        ));
    }
    if call.query.has("continue") && !call.query.get("continue").is_empty() {
        return invalid(FieldError::forbidden(
            "resourceVersionMatch",
            "resourceVersionMatch is forbidden when continue is provided",
        ));
    }
    if exact && version == "0" {
        return invalid(FieldError::forbidden(
            "resourceVersionMatch",
            "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"",
        ));
    }
    Ok(())
}

fn read(call: &Call, filter: &crate::selectors::Filter) -> Result<(Listing, Option<String>)> {
    let limit = match call.query.get("limit") {
        "" | "0" => usize::MAX,
        text => match text.parse::<i64>() {
            Ok(limit) if limit > 0 => limit as usize,
            Ok(_) => usize::MAX,
            Err(_) => {
                return Err(ApiError::bad_request(format!(
                    "strconv.ParseInt: parsing {text:?}: invalid syntax"
                )));
            }
        },
    };
    let asked = parse_version(call.query.get("resourceVersion"))?;
    let store = call.store();
    let prefix = call.kind.prefix(&call.target.namespace);
    let token = call.query.get("continue");
    let start = if token.is_empty() { None } else { Some(Token::decode(token)?) };
    let at = match (&start, asked) {
        (Some(_), Some(version)) if version > 0 => {
            return Err(ApiError::bad_request(
                "specifying resource version is not allowed when using continue",
            ));
        }
        (Some(token), _) if token.revision >= 0 => ReadAt::Exactly(token.revision as u64),
        (None, Some(version)) if version > store.revision() => {
            return Err(ApiError::too_large_resource_version(version, store.revision()));
        }
        (None, Some(version)) if call.query.get("resourceVersionMatch") == "Exact" => {
            ReadAt::Exactly(version)
        }
        _ => ReadAt::Latest,
    };
    // One object at most: no need to walk the table.
    let after = start.as_ref().map(|token| token.after.as_str());
    let listing = store.list(call.kind.table, &prefix, after, at, limit, |record| filter.matches(record));
    let listing = match (listing, start) {
        (Ok(listing), _) => listing,
        (Err(_), Some(token)) => {
            let fresh = Token { revision: -1, after: token.after }.encode();
            return Err(ApiError::expired(
                "The provided continue parameter is too old to display a consistent list result. You can start a new list without the continue parameter, or use the continue token in this response to retrieve the remainder of the results. Continuing with the provided token results in an inconsistent list - objects that were created, modified, or deleted between the time the first chunk was returned and now may show up in the list.",
            )
            .with_continue(fresh));
        }
        (Err(_), None) => {
            return Err(ApiError::expired("The resourceVersion for the provided list is too old."));
        }
    };
    let next = listing.more.then(|| {
        let after = listing.records.last().map_or_else(String::new, |record| record.key.to_string());
        Token { revision: listing.revision as i64, after }.encode()
    });
    Ok((listing, next))
}

pub fn parse_version(text: &str) -> Result<Option<u64>> {
    if text.is_empty() {
        return Ok(None);
    }
    match text.parse() {
        Ok(version) => Ok(Some(version)),
        Err(_) => {
            let error = FieldError::invalid(
                "resourceVersion",
                text,
                format!("strconv.ParseUint: parsing {text:?}: invalid syntax"),
            );
            Err(ApiError::bad_request(format!("invalid resource version: {error}")))
        }
    }
}

/// As Go reads base64: bits behind the last whole byte do not matter.
const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &alphabet::URL_SAFE,
    GeneralPurposeConfig::new()
        .with_decode_allow_trailing_bits(true)
        .with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Where the next page starts.
struct Token {
    /// Negative: wherever the present is.
    revision: i64,
    after: String,
}

impl Token {
    fn encode(&self) -> String {
        let text = json!({"v": "meta.k8s.io/v1", "rv": self.revision, "start": format!("{}\0", self.after)});
        BASE64_URL_SAFE_NO_PAD.encode(text.to_string())
    }

    fn decode(text: &str) -> Result<Self> {
        let invalid = |why: &str| {
            ApiError::bad_request(format!("invalid continue token: continue key is not valid: {why}"))
        };
        let bytes =
            LENIENT.decode(text.trim_end_matches('=')).map_err(|error| invalid(&error.to_string()))?;
        let value: Value =
            serde_json::from_slice(&bytes).map_err(|_| invalid(&go_syntax::explain(&bytes)))?;
        if value["v"] != "meta.k8s.io/v1" {
            return Err(invalid("server does not recognize this encoded version"));
        }
        let (Some(revision), Some(start)) = (value["rv"].as_i64(), value["start"].as_str()) else {
            return Err(invalid("incorrect encoded start resourceVersion (version meta.k8s.io/v1)"));
        };
        Ok(Self { revision, after: start.trim_end_matches('\0').to_owned() })
    }
}

fn objects(call: &Call, listing: Listing, meta: &Value) -> Response {
    let kind = &call.kind;
    let head = format!(
        "{{\"kind\":{},\"apiVersion\":{},\"metadata\":{meta},\"items\":[",
        Value::from(kind.list_kind.as_ref()),
        Value::from(call.api_version()),
    );
    // Items of a list of a built-in kind do not repeat their type.
    let typed = kind.origin == Origin::Custom;
    let kind = kind.clone();
    let version = call.version;
    let size: usize = listing.records.iter().map(|record| record.size() + 1).sum();
    let write = move |out: &mut Vec<u8>, record: &Record| {
        if !render::as_stored(record, &kind, version) {
            let mut object = convert::load(record, &kind, version);
            if !typed && let Some(fields) = object.as_object_mut() {
                fields.remove("apiVersion");
                fields.remove("kind");
            }
            let _ = serde_json::to_writer(out, &object);
        } else if typed {
            out.extend_from_slice(record.json());
        } else {
            out.push(b'{');
            out.extend_from_slice(record.untyped());
        }
    };
    if size < CHUNK {
        let mut out = Vec::with_capacity(head.len() + size + 2);
        out.extend_from_slice(head.as_bytes());
        for (index, record) in listing.records.iter().enumerate() {
            if index > 0 {
                out.push(b',');
            }
            write(&mut out, record);
        }
        out.extend_from_slice(b"]}\n");
        return raw(200, "application/json", Bytes::from(out));
    }
    chunked(
        200,
        Pieces { head: Some(head), records: listing.records.into_iter(), first: true, done: false, write },
    )
}

struct Pieces<W> {
    head: Option<String>,
    records: std::vec::IntoIter<Arc<Record>>,
    first: bool,
    done: bool,
    write: W,
}

impl<W: Fn(&mut Vec<u8>, &Record)> Iterator for Pieces<W> {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        if self.done {
            return None;
        }
        let mut out = Vec::with_capacity(CHUNK + (CHUNK >> 2));
        if let Some(head) = self.head.take() {
            out.extend_from_slice(head.as_bytes());
        }
        while out.len() < CHUNK {
            let Some(record) = self.records.next() else {
                out.extend_from_slice(b"]}\n");
                self.done = true;
                break;
            };
            if !std::mem::take(&mut self.first) {
                out.push(b',');
            }
            (self.write)(&mut out, &record);
        }
        Some(Bytes::from(out))
    }
}
