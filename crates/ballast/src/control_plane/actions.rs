//! What operators can do through their port, beside what the gateway has for them.
//!
//! ```text
//! GET  /api/v1/what-if?kind=…&namespace=…&name=…      the policy that decides about an object, to be edited
//! POST /api/v1/what-if                                another policy on what was recorded
//! GET  /api/v1/controls?kind=…&namespace=…&name=…     whether it is paused, a dry run, or has built-in scaling
//! POST /api/v1/controls                               pause, dry run, built-in scaling: the patch alone, or written too
//! ```
//!
//! Only what a page of the same origin or a program sends is looked at, and of bodies only JSON: no form of another page
//! can send that.

use std::sync::Arc;

use api::{hvpa::Hvpa, kyma, numaflow};
use engine::kind::{DEPLOYMENT, Kind, STATEFUL_SET};
use futures::FutureExt;
use http::{Method, StatusCode, header, request};
use kube::{
    ResourceExt,
    api::{Patch, PatchParams},
};
use scaling::Object;
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value, json};

use super::objects::Objects;
use crate::what_if::{self, Refusal, WhatIf};

/// The name under which the API notes who wrote.
const MANAGER: &str = "ballast-dashboard";

type Outcome = Result<Value, (StatusCode, String)>;

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Controls {
    #[serde(flatten)]
    object: Object,
    #[serde(default)]
    paused: Option<bool>,
    #[serde(default)]
    dry_run: Option<bool>,
    /// Of a Kyma Function: between how many replicas its own autoscaler chooses; none removes it.
    #[serde(default)]
    built_in_scaling: Option<BuiltIn>,
    /// Without it, the patch is only shown.
    #[serde(default)]
    write: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
enum BuiltIn {
    Remove,
    #[serde(rename_all = "camelCase")]
    Add {
        min_replicas: i32,
        max_replicas: i32,
    },
}

pub fn answer(what_if: WhatIf, objects: Objects, client: kube::Client) -> admin::Actions {
    Arc::new(move |head, body| {
        let (what_if, objects, client) = (what_if.clone(), objects.clone(), client.clone());
        let is_what_if = match head.uri.path() {
            "/api/v1/what-if" => true,
            "/api/v1/controls" => false,
            _ => return None,
        };
        let checked = check(head);
        let query = head.uri.query().unwrap_or_default().to_owned();
        let is_get = head.method == Method::GET;
        Some(
            async move {
                checked?;
                match (is_what_if, is_get) {
                    (true, true) => {
                        let current = what_if.policy(&object_of(&query)?).await.map_err(refused)?;
                        Ok(json!(current))
                    }
                    (true, false) => {
                        let request: what_if::Request = read(&body)?;
                        Ok(json!(what_if.replay(request).await.map_err(refused)?))
                    }
                    (false, true) => controls_of(&client, &objects, &object_of(&query)?).await,
                    (false, false) => control(&client, &objects, read(&body)?).await,
                }
            }
            .boxed(),
        )
    })
}

fn check(head: &request::Parts) -> Result<(), (StatusCode, String)> {
    gateway::check_same_origin(&head.headers, &head.uri)
        .map_err(|why| (StatusCode::FORBIDDEN, why.to_owned()))?;
    match head.method {
        Method::GET => return Ok(()),
        Method::POST => {}
        _ => return Err((StatusCode::METHOD_NOT_ALLOWED, "use GET or POST".to_owned())),
    }
    let content_type = head.headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let is_json = content_type.is_some_and(|value| {
        value.split(';').next().is_some_and(|kind| kind.trim().eq_ignore_ascii_case("application/json"))
    });
    match is_json {
        true => Ok(()),
        false => Err((
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "send JSON, with Content-Type: application/json".to_owned(),
        )),
    }
}

fn read<T: DeserializeOwned>(body: &[u8]) -> Result<T, (StatusCode, String)> {
    serde_json::from_slice(body).map_err(|error| (StatusCode::BAD_REQUEST, error.to_string()))
}

fn object_of(query: &str) -> Result<Object, (StatusCode, String)> {
    let find = |wanted: &str| {
        let mut pairs = form_urlencoded::parse(query.as_bytes());
        let found = pairs.find(|(name, _)| name == wanted).map(|(_, value)| value.into_owned());
        found.ok_or_else(|| (StatusCode::BAD_REQUEST, format!("the parameter {wanted} is missing")))
    };
    Ok(Object { kind: find("kind")?, namespace: find("namespace")?, name: find("name")? })
}

fn refused(refusal: Refusal) -> (StatusCode, String) {
    match refusal {
        Refusal::Bad(why) => (StatusCode::UNPROCESSABLE_ENTITY, why),
        Refusal::Unknown(why) => (StatusCode::NOT_FOUND, why),
        Refusal::Busy(why) => (StatusCode::SERVICE_UNAVAILABLE, why),
    }
}

/// What stands in the object now.
async fn controls_of(client: &kube::Client, objects: &Objects, object: &Object) -> Outcome {
    let api = engine::execute::api(client, &known_kind(objects, &object.kind)?, Some(&object.namespace));
    let found = api.get(&object.name).await.map_err(of_api)?;
    let (controls, _) = scaling::Controls::read(|name| found.annotations().get(name).map(String::as_str));
    Ok(json!({
        "paused": controls.paused,
        "pausedUntil": controls.paused_until,
        "dryRun": controls.dry_run,
        "builtInScaling": found.data["spec"]["scaleConfig"],
    }))
}

/// With the rights of this process: where those do not reach, the API's refusal is the answer.
async fn control(client: &kube::Client, objects: &Objects, controls: Controls) -> Outcome {
    let Object { kind, namespace, name } = &controls.object;
    let known = known_kind(objects, kind)?;
    let patch = patch(&controls).map_err(|why| (StatusCode::BAD_REQUEST, why))?;
    if controls.write {
        let api = engine::execute::api(client, &known, Some(namespace));
        let params = PatchParams { field_manager: Some(MANAGER.to_owned()), ..PatchParams::default() };
        api.patch(name, &params, &Patch::Merge(&patch)).await.map_err(of_api)?;
        tracing::info!(kind, namespace, name, %patch, "an operator changed how it is scaled");
    }
    Ok(json!({ "patch": patch, "written": controls.write }))
}

fn known_kind(objects: &Objects, kind: &str) -> Result<Kind, (StatusCode, String)> {
    let known = kind_of(kind).or_else(|| objects.generated_kind(kind));
    known.ok_or_else(|| (StatusCode::NOT_FOUND, format!("nothing is scaled of kind {kind}")))
}

fn of_api(error: kube::Error) -> (StatusCode, String) {
    match error {
        kube::Error::Api(status) => {
            let code = StatusCode::from_u16(status.code).unwrap_or(StatusCode::BAD_GATEWAY);
            (code, status.message.clone())
        }
        error => (StatusCode::BAD_GATEWAY, error.to_string()),
    }
}

/// A merge patch: null takes away.
fn patch(controls: &Controls) -> Result<Value, String> {
    let Controls { object, paused, dry_run, built_in_scaling, .. } = controls;
    let mut annotations = serde_json::Map::new();
    let value = |is_on: bool| if is_on { json!("true") } else { Value::Null };
    if let Some(paused) = *paused {
        annotations.insert("ballast.dev/paused".to_owned(), value(paused));
        if !paused {
            annotations.insert("ballast.dev/paused-until".to_owned(), Value::Null);
        }
    }
    if let Some(dry_run) = *dry_run {
        annotations.insert("ballast.dev/dry-run".to_owned(), value(dry_run));
    }
    let mut patch = json!({});
    if !annotations.is_empty() {
        patch["metadata"] = json!({ "annotations": annotations });
    }
    match built_in_scaling {
        None => {}
        Some(_) if object.kind != "Function" => {
            return Err(format!("only a Function has built-in scaling, not a {}", object.kind));
        }
        Some(BuiltIn::Remove) => patch["spec"] = json!({ "scaleConfig": null }),
        Some(BuiltIn::Add { min_replicas, max_replicas }) => {
            if *min_replicas < 1 || min_replicas > max_replicas {
                return Err(format!(
                    "expected 1 or more replicas, and no fewer at most than at least; found {min_replicas} to {max_replicas}"
                ));
            }
            patch["spec"] =
                json!({ "scaleConfig": { "minReplicas": min_replicas, "maxReplicas": max_replicas } });
        }
    }
    if patch == json!({}) {
        return Err("nothing is asked for: give paused, dryRun or builtInScaling".to_owned());
    }
    Ok(patch)
}

/// The kinds that policies decide about, but for those that definitions generate.
fn kind_of(kind: &str) -> Option<Kind> {
    let kinds = [
        DEPLOYMENT,
        STATEFUL_SET,
        engine::kind::REPLICA_SET,
        Kind::of::<kyma::Function>(),
        Kind::of::<Hvpa>(),
        Kind::of::<numaflow::Vertex>(),
        Kind::of::<numaflow::MonoVertex>(),
    ];
    kinds.into_iter().find(|known| known.kind == kind)
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    #[test]
    fn what_is_written_is_shown_as_it_is() {
        let rows = [
            r#"{"kind":"Deployment","name":"fib","paused":true}"#,
            r#"{"kind":"Deployment","name":"fib","paused":false,"dryRun":false}"#,
            r#"{"kind":"Deployment","name":"fib","dryRun":true}"#,
            r#"{"kind":"Function","name":"fib","builtInScaling":"remove"}"#,
            r#"{"kind":"Function","name":"fib","builtInScaling":{"add":{"minReplicas":1,"maxReplicas":5}}}"#,
            r#"{"kind":"Function","name":"fib","builtInScaling":{"add":{"minReplicas":0,"maxReplicas":5}}}"#,
            r#"{"kind":"Deployment","name":"fib","builtInScaling":"remove"}"#,
            r#"{"kind":"Deployment","name":"fib"}"#,
        ];
        let shown = rows.map(|row| {
            let controls: Controls = serde_json::from_str(row).unwrap();
            patch(&controls).map_or_else(|why| format!("refused: {why}"), |patch| patch.to_string())
        });
        expect![[r#"
            {"metadata":{"annotations":{"ballast.dev/paused":"true"}}}
            {"metadata":{"annotations":{"ballast.dev/dry-run":null,"ballast.dev/paused":null,"ballast.dev/paused-until":null}}}
            {"metadata":{"annotations":{"ballast.dev/dry-run":"true"}}}
            {"spec":{"scaleConfig":null}}
            {"spec":{"scaleConfig":{"maxReplicas":5,"minReplicas":1}}}
            refused: expected 1 or more replicas, and no fewer at most than at least; found 0 to 5
            refused: only a Function has built-in scaling, not a Deployment
            refused: nothing is asked for: give paused, dryRun or builtInScaling"#]].assert_eq(&shown.join("\n"));
    }

    #[test]
    fn only_json_of_the_same_origin_is_read() {
        let asked = |method: &str, lines: &[(&str, &str)]| {
            let mut request = http::Request::builder().method(method).uri("/api/v1/controls");
            for (name, value) in lines {
                request = request.header(*name, *value);
            }
            let (head, ()) = request.body(()).unwrap().into_parts();
            check(&head).map_or_else(|(status, _)| status.as_u16(), |()| 200)
        };
        let (host, json) = (("host", "ballast.example"), ("content-type", "application/json"));
        assert_eq!(asked("POST", &[host, json]), 200);
        assert_eq!(asked("POST", &[host, ("content-type", "application/json; charset=utf-8")]), 200);
        assert_eq!(asked("POST", &[host, json, ("origin", "https://ballast.example")]), 200);
        assert_eq!(asked("POST", &[host, json, ("origin", "https://evil.example")]), 403);
        assert_eq!(asked("POST", &[host, json, ("sec-fetch-site", "cross-site")]), 403);
        assert_eq!(asked("POST", &[host, ("content-type", "text/plain")]), 415);
        assert_eq!(asked("POST", &[host]), 415);
        assert_eq!(asked("GET", &[host]), 200);
        assert_eq!(asked("GET", &[host, ("sec-fetch-site", "same-site")]), 403);
        assert_eq!(asked("DELETE", &[host]), 405);
    }
}
