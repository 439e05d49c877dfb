//! What is served, in the two forms clients ask for: one document a group version, or all in one.

use base64::{Engine, prelude::BASE64_STANDARD};
use bytes::Bytes;
use http::HeaderMap;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::{
    ApiServer,
    error::{ApiError, Result},
    http::{Response, json as json_reply, raw},
    metrics_api,
    registry::{Kind, Origin, Registry, Subresource},
};

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

pub fn answer(server: &ApiServer, path: &str, headers: &HeaderMap) -> Result<Response> {
    let registry = server.registry();
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    let document = match parts.as_slice() {
        ["api"] | ["apis"] if wants_aggregated(headers) => {
            let document = aggregated(&registry, parts == ["api"]);
            return Ok(raw(200, AGGREGATED, Bytes::from(document.to_string())));
        }
        ["api"] => json!({
            "kind": "APIVersions",
            "versions": ["v1"],
            "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": server.address()}],
        }),
        ["apis"] => {
            let groups: Vec<Value> = groups(&registry)
                .iter()
                .filter(|(name, _)| !name.is_empty())
                .map(|(name, versions)| group(name, versions))
                .collect();
            json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
        }
        ["api", "v1"] => resources(&registry, "", "v1")?,
        ["apis", name] => {
            let groups = groups(&registry);
            let (name, versions) =
                groups.iter().find(|(group, _)| group == name).ok_or_else(ApiError::no_such_path)?;
            let mut document = group(name, versions);
            document["kind"] = "APIGroup".into();
            document["apiVersion"] = "v1".into();
            document
        }
        ["apis", group, version] => resources(&registry, group, version)?,
        _ => return Err(ApiError::no_such_path()),
    };
    Ok(json_reply(200, &document))
}

fn wants_aggregated(headers: &HeaderMap) -> bool {
    headers.get_all(http::header::ACCEPT).iter().filter_map(|value| value.to_str().ok()).any(|accept| {
        accept.split(',').any(|media| {
            let has = |wanted: &str| media.split(';').any(|part| part.trim() == wanted);
            has("application/json") && has("as=APIGroupDiscoveryList") && has("v=v2")
        })
    })
}

fn groups(registry: &Registry) -> Vec<(String, Vec<String>)> {
    let mut groups = registry.groups();
    groups.push((metrics_api::GROUP.to_owned(), vec![metrics_api::VERSION.to_owned()]));
    groups
}

fn group(name: &str, versions: &[String]) -> Value {
    let entry = |version: &String| json!({"groupVersion": format!("{name}/{version}"), "version": version});
    json!({
        "name": name,
        "versions": versions.iter().map(entry).collect::<Vec<_>>(),
        "preferredVersion": versions.first().map(entry),
    })
}

fn resources(registry: &Registry, group: &str, version: &str) -> Result<Value> {
    let mut resources = Vec::new();
    if group == metrics_api::GROUP && version == metrics_api::VERSION {
        resources = metrics_api::resources();
    }
    for (kind, index) in served(registry, group, version) {
        let mut main = json!({
            "name": kind.plural,
            "singularName": kind.singular,
            "namespaced": kind.namespaced,
            "kind": kind.kind,
            "verbs": verbs(kind),
        });
        if !kind.short_names.is_empty() {
            main["shortNames"] = json!(kind.short_names);
        }
        if !kind.categories.is_empty() {
            main["categories"] = json!(kind.categories);
        }
        if !kind.rules.review {
            main["storageVersionHash"] = storage_hash(kind).into();
        }
        resources.push(main);
        for sub in subresources(kind, index) {
            let mut entry = json!({
                "name": format!("{}/{}", kind.plural, sub.name),
                "singularName": "",
                "namespaced": kind.namespaced,
                "kind": sub.kind,
                "verbs": sub.verbs,
            });
            if let Some((group, version)) = sub.group_version {
                entry["group"] = group.into();
                entry["version"] = version.into();
            }
            resources.push(entry);
        }
    }
    if resources.is_empty() {
        return Err(ApiError::no_such_path());
    }
    let group_version = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
    Ok(json!({
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": group_version,
        "resources": resources,
    }))
}

fn served<'a>(
    registry: &'a Registry,
    group: &'a str,
    version: &'a str,
) -> impl Iterator<Item = (&'a Kind, usize)> {
    registry.kinds().filter(move |kind| kind.group == group).filter_map(move |kind| {
        let index = kind.versions.iter().position(|one| one.served && one.name == version)?;
        Some((&**kind, index))
    })
}

fn verbs(kind: &Kind) -> Vec<&'static str> {
    if kind.rules.review {
        return vec!["create"];
    }
    if kind.origin == Origin::Custom {
        return vec!["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"];
    }
    let all = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];
    all.into_iter().filter(|verb| kind.rules.delete_collection || *verb != "deletecollection").collect()
}

/// How clients tell whether the stored form of a kind changed.
fn storage_hash(kind: &Kind) -> String {
    let text = format!("{}/{}/{}", kind.group, kind.versions[kind.storage_version].name, kind.kind);
    BASE64_STANDARD.encode(&Sha256::digest(text)[..8])
}

struct Sub<'a> {
    name: &'static str,
    kind: &'a str,
    group_version: Option<(&'static str, &'static str)>,
    verbs: &'static [&'static str],
}

fn subresources(kind: &Kind, version: usize) -> Vec<Sub<'_>> {
    const CHANGE: &[&str] = &["get", "patch", "update"];
    const CREATE: &[&str] = &["create"];
    const CONNECT: &[&str] = &["create", "get"];
    let own = kind.kind.as_ref();
    let mut all = Vec::new();
    for sub in kind.rules.subresources {
        let (kind, group_version, verbs): (&str, _, &[&str]) = match sub {
            Subresource::Log => (own, None, &["get"]),
            Subresource::Binding => ("Binding", None, CREATE),
            Subresource::Eviction => ("Eviction", Some(("policy", "v1")), CREATE),
            Subresource::Resize => (own, None, CHANGE),
            Subresource::Exec => ("PodExecOptions", None, CONNECT),
            Subresource::Attach => ("PodAttachOptions", None, CONNECT),
            Subresource::PortForward => ("PodPortForwardOptions", None, CONNECT),
            Subresource::Finalize => (own, None, &["update"]),
            Subresource::Token => ("TokenRequest", Some(("authentication.k8s.io", "v1")), CREATE),
        };
        all.push(Sub { name: sub.name(), kind, group_version, verbs });
    }
    let status = Sub { name: "status", kind: own, group_version: None, verbs: CHANGE };
    let scale =
        Sub { name: "scale", kind: "Scale", group_version: Some(("autoscaling", "v1")), verbs: CHANGE };
    let (has_status, has_scale) = (kind.versions[version].status, kind.versions[version].scale.is_some());
    let mut both = vec![(has_scale, scale), (has_status, status)];
    if kind.origin == Origin::Custom {
        both.reverse();
    }
    all.extend(both.into_iter().filter_map(|(has, sub)| has.then_some(sub)));
    all
}

fn aggregated(registry: &Registry, core: bool) -> Value {
    let items: Vec<Value> = groups(registry)
        .into_iter()
        .filter(|(name, _)| name.is_empty() == core)
        .map(|(name, versions)| {
            let versions: Vec<Value> = versions
                .iter()
                .map(|version| {
                    let mut resources: Vec<Value> = served(registry, &name, version)
                        .map(|(kind, index)| aggregated_kind(kind, index))
                        .collect();
                    if name == metrics_api::GROUP {
                        resources = metrics_api::aggregated_resources();
                    }
                    json!({"version": version, "resources": resources, "freshness": "Current"})
                })
                .collect();
            let metadata = if name.is_empty() {
                json!({"creationTimestamp": null})
            } else {
                json!({"name": name, "creationTimestamp": null})
            };
            json!({"metadata": metadata, "versions": versions})
        })
        .collect();
    json!({"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items})
}

fn aggregated_kind(kind: &Kind, version: usize) -> Value {
    let scope = if kind.namespaced { "Namespaced" } else { "Cluster" };
    let response =
        |group: &str, version: &str, kind: &str| json!({"group": group, "version": version, "kind": kind});
    let name = &kind.versions[version].name;
    let mut entry = json!({
        "resource": kind.plural,
        "responseKind": response(&kind.group, name, &kind.kind),
        "scope": scope,
        "singularResource": kind.singular,
        "verbs": verbs(kind),
    });
    if !kind.short_names.is_empty() {
        entry["shortNames"] = json!(kind.short_names);
    }
    if !kind.categories.is_empty() {
        entry["categories"] = json!(kind.categories);
    }
    let subs: Vec<Value> = subresources(kind, version)
        .into_iter()
        .map(|sub| {
            let (group, version) = sub.group_version.unwrap_or((&kind.group, name));
            json!({"subresource": sub.name, "responseKind": response(group, version, sub.kind), "verbs": sub.verbs})
        })
        .collect();
    if !subs.is_empty() {
        entry["subresources"] = subs.into();
    }
    entry
}

pub fn version() -> Value {
    json!({
        "major": "1",
        "minor": "36",
        "emulationMajor": "1",
        "emulationMinor": "36",
        "minCompatibilityMajor": "1",
        "minCompatibilityMinor": "35",
        "gitVersion": concat!("v1.36.0-ballast.", env!("CARGO_PKG_VERSION")),
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "",
        "compiler": "rustc",
        "platform": format!("{}/{}", std::env::consts::OS, std::env::consts::ARCH),
    })
}

/// What `GET /` lists.
pub fn paths(server: &ApiServer) -> Value {
    let mut paths = vec!["/api".to_owned(), "/api/v1".to_owned(), "/apis".to_owned()];
    for (group, versions) in groups(&server.registry()).iter().filter(|(group, _)| !group.is_empty()) {
        paths.push(format!("/apis/{group}"));
        paths.extend(versions.iter().map(|version| format!("/apis/{group}/{version}")));
    }
    paths.extend(
        ["/healthz", "/livez", "/openapi/v2", "/openapi/v3", "/readyz", "/version"].map(str::to_owned),
    );
    json!({"paths": paths})
}
