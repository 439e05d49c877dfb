//! OpenAPI v3: an index of documents, and one document a group version. OpenAPI v2: one document for all.

mod swagger;

use http::{HeaderMap, HeaderValue, header};
use schema::{
    Scope,
    openapi::{KindDoc, document, v2},
};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use crate::{
    ApiServer, crd,
    error::{ApiError, Result},
    http::{Query, Response, empty, json as json_reply, raw},
    registry::{Kind, Origin, Registry},
};

pub fn answer(server: &ApiServer, path: &str, headers: &HeaderMap, query: &Query) -> Result<Response> {
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    let registry = server.registry();
    let (group, version) = match parts.as_slice() {
        ["openapi", "v2"] => return Ok(older(server, &registry, headers)),
        ["openapi", "v3"] => return Ok(json_reply(200, &index(server, &registry))),
        ["openapi", "v3", "api", version] => ("", *version),
        ["openapi", "v3", "apis", group, version] => (*group, *version),
        _ => return Err(ApiError::no_such_path()),
    };
    let kinds = served(&registry, group, version);
    if kinds.is_empty() {
        return Err(ApiError::no_such_path());
    }
    let hash = hash(server, &kinds, group, version);
    let tag = format!("\"{hash}\"");
    let known = headers.get(header::IF_NONE_MATCH).is_some_and(|given| given.as_bytes() == tag.as_bytes());
    let mut response =
        if known { empty(304) } else { json_reply(200, &describe(server, &kinds, group, version)) };
    let headers = response.headers_mut();
    if let Ok(tag) = HeaderValue::from_str(&tag) {
        headers.insert(header::ETAG, tag);
    }
    if query.get("hash") == hash {
        // The address names the content, so that clients may keep it.
        headers
            .insert(header::CACHE_CONTROL, HeaderValue::from_static("public, immutable, max-age=31536000"));
    }
    Ok(response)
}

/// In protobuf if that is asked for, under either of its two names.
fn older(server: &ApiServer, registry: &Registry, headers: &HeaderMap) -> Response {
    let mut documents = Vec::new();
    for (group, versions) in registry.groups() {
        for version in versions {
            documents.push(describe(server, &served(registry, &group, &version), &group, &version));
        }
    }
    let document = v2::document(documents);
    let accepted = headers.get_all(header::ACCEPT).into_iter();
    let wants_protobuf =
        accepted.filter_map(|value| value.to_str().ok()).any(|value| value.contains("proto-openapi.spec.v2"));
    match wants_protobuf {
        true => raw(200, swagger::CONTENT_TYPE, swagger::encode(&document).into()),
        false => json_reply(200, &document),
    }
}

fn index(server: &ApiServer, registry: &Registry) -> Value {
    let mut paths = Map::new();
    for (group, versions) in registry.groups() {
        for version in versions {
            let name =
                if group.is_empty() { format!("api/{version}") } else { format!("apis/{group}/{version}") };
            let hash = hash(server, &served(registry, &group, &version), &group, &version);
            let url = format!("/openapi/v3/{name}?hash={hash}");
            paths.insert(name, json!({"serverRelativeURL": url}));
        }
    }
    json!({"paths": paths})
}

fn served<'a>(registry: &'a Registry, group: &str, version: &str) -> Vec<&'a Kind> {
    let has = |kind: &&Kind| {
        kind.group == group && kind.versions.iter().any(|one| one.served && one.name == version)
    };
    registry.kinds().map(|kind| &**kind).filter(has).collect()
}

/// Changes whenever the document would: with this program and with the definitions behind it.
fn hash(server: &ApiServer, kinds: &[&Kind], group: &str, version: &str) -> String {
    let mut text = format!("{}/{group}/{version}", env!("CARGO_PKG_VERSION"));
    for kind in kinds.iter().filter(|kind| kind.origin == Origin::Custom) {
        let record = server.store().get(server.store().table(crd::TABLE), &kind.table_name);
        text.push_str(&format!("/{}@{}", kind.plural, record.map_or(0, |record| record.revision)));
    }
    Sha256::digest(text).iter().take(16).map(|byte| format!("{byte:02X}")).collect()
}

fn describe(server: &ApiServer, kinds: &[&Kind], group: &str, version: &str) -> Value {
    let definitions: Vec<Option<Value>> =
        kinds.iter().map(|kind| custom_schema(server, kind, version)).collect();
    let subresources: Vec<Vec<&str>> = kinds
        .iter()
        .map(|kind| {
            let version = kind.versions.iter().find(|one| one.name == version);
            let status = version.is_some_and(|one| one.status).then_some("status");
            let scale = version.is_some_and(|one| one.scale.is_some()).then_some("scale");
            kind.rules.subresources.iter().map(|sub| sub.name()).chain(scale).chain(status).collect()
        })
        .collect();
    let docs: Vec<KindDoc<'_>> = kinds
        .iter()
        .zip(&definitions)
        .zip(&subresources)
        .map(|((kind, schema), subresources)| KindDoc {
            kind: &kind.kind,
            plural: &kind.plural,
            scope: if kind.namespaced { Scope::Namespaced } else { Scope::Cluster },
            schema: schema.as_ref(),
            subresources,
        })
        .collect();
    document(group, version, &docs)
}

/// As its definition has it, with descriptions. None for built-in kinds, which need none.
fn custom_schema(server: &ApiServer, kind: &Kind, version: &str) -> Option<Value> {
    if kind.origin == Origin::Builtin {
        return None;
    }
    let definition = server.store().get(server.store().table(crd::TABLE), &kind.table_name)?.to_value();
    let versions = definition["spec"]["versions"].as_array()?;
    let found = versions.iter().find(|one| one["name"] == version)?;
    Some(found["schema"]["openAPIV3Schema"].clone())
}
