//! Sends a sequence to one server and collects the normalized answers.

use std::{fmt::Write, time::Duration};

use anyhow::{Context, Result, bail};
use http_body_util::BodyExt;
use kube::client::Body;
use serde_json::{Value, json};

use crate::{
    normalize::{self, Names},
    script::{Sequence, Step, Verb},
};

/// What a server answered to one step, ready to be compared.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    pub status: u16,
    pub warnings: Vec<String>,
    pub body: Value,
}

/// `unique` tells this sequence's namespace and API group from those of others on the same server.
pub async fn sequence(client: &kube::Client, sequence: &Sequence, unique: &str) -> Result<Vec<Answer>> {
    let namespace = format!("conformance-{unique}");
    let group = format!("conformance-{unique}.example.org");
    let create = json!({"metadata": {"name": namespace}});
    let creation = http::Request::post("/api/v1/namespaces")
        .header("content-type", "application/json")
        .body(Body::from(create.to_string().into_bytes()))?;
    let response = client.send(creation).await?;
    if !response.status().is_success() {
        bail!("failed to create the namespace {namespace}: {}", response.status());
    }

    let names = Names { namespace: &namespace, group: &group };
    let mut raw_answers: Vec<Value> = Vec::new();
    let mut answers = Vec::new();
    for step in &sequence.steps {
        let context = || format!("line {}: {:?} {}", step.line, step.verb, step.path);
        let fill = |text: &str| substitute(text, &namespace, &group, &raw_answers);
        let path = fill(&step.path).with_context(context)?;
        let mut step = step.clone();
        for (_, value) in &mut step.headers {
            *value = fill(value).with_context(context)?;
        }
        let step = &step;
        let body = body_of(step, &fill(&step.body).with_context(context)?).with_context(context)?;
        let mut answer = match &step.verb {
            Verb::Await => await_ok(client, &path, step).await.with_context(context)?,
            Verb::Watch => watch(client, &path, step).await.with_context(context)?,
            Verb::Request { method, content_type } => {
                let request = request(method.clone(), &path, content_type, step, body)?;
                send(client, request).await.with_context(context)?
            }
        };
        raw_answers.push(answer.body.clone());
        if step.verb == Verb::Await {
            answer = Answer { status: 200, warnings: Vec::new(), body: Value::Null };
        }
        normalize::body(&mut answer.body, &names, &sequence.ignored);
        answers.push(answer);
    }
    Ok(answers)
}

fn body_of(step: &Step, text: &str) -> Result<Vec<u8>> {
    if step.raw || text.trim().is_empty() {
        return Ok(text.trim_end().as_bytes().to_vec());
    }
    let value: Value = serde_saphyr::from_str(text).context("the body is not YAML")?;
    Ok(value.to_string().into_bytes())
}

fn request(
    method: http::Method,
    path: &str,
    content_type: &str,
    step: &Step,
    body: Vec<u8>,
) -> Result<http::Request<Body>> {
    let mut request = http::Request::builder().method(method).uri(path);
    let given = |name: &str| step.headers.iter().any(|(other, _)| other.eq_ignore_ascii_case(name));
    if !body.is_empty() && !content_type.is_empty() && !given("content-type") {
        request = request.header("content-type", content_type);
    }
    if !given("accept") {
        request = request.header("accept", "application/json");
    }
    for (name, value) in &step.headers {
        request = request.header(name, value);
    }
    Ok(request.body(Body::from(body))?)
}

async fn send(client: &kube::Client, request: http::Request<Body>) -> Result<Answer> {
    let response = client.send(request).await?;
    let status = response.status().as_u16();
    let warnings = response
        .headers()
        .get_all("warning")
        .iter()
        .map(|value| value.to_str().unwrap_or_default().to_owned())
        .collect();
    let bytes = response.into_body().collect().await?.to_bytes();
    let body = serde_json::from_slice(&bytes)
        .unwrap_or_else(|_| Value::String(String::from_utf8_lossy(&bytes).into_owned()));
    Ok(Answer { status, warnings, body })
}

/// A server may need a moment, for example until it serves a new custom resource.
async fn await_ok(client: &kube::Client, path: &str, step: &Step) -> Result<Answer> {
    for _ in 0..600 {
        let request = request(http::Method::GET, path, "", step, Vec::new())?;
        let answer = send(client, request).await?;
        if answer.status == 200 {
            return Ok(answer);
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    bail!("{path} never answered 200");
}

async fn watch(client: &kube::Client, path: &str, step: &Step) -> Result<Answer> {
    let answer = send(client, request(http::Method::GET, path, "", step, Vec::new())?).await?;
    let text = match &answer.body {
        Value::String(text) => text.clone(),
        // exactly one event, or a Status
        single => single.to_string(),
    };
    let mut events = Vec::new();
    for event in serde_json::Deserializer::from_str(&text).into_iter::<Value>() {
        events.push(event.context("the watch sent something else than JSON")?);
    }
    // how often a server sends bookmarks is its own affair; that of initial events is not
    events.retain(|event| {
        event["type"] != "BOOKMARK" || event.pointer("/object/metadata/annotations").is_some()
    });
    Ok(Answer { body: Value::Array(events), ..answer })
}

fn substitute(text: &str, namespace: &str, group: &str, answers: &[Value]) -> Result<String> {
    let text = text.replace("$ns", namespace).replace("$group", group);
    let mut result = String::new();
    let mut rest = text.as_str();
    while let Some(start) = rest.find("${") {
        let end = rest[start..].find('}').context("'${' without '}'")? + start;
        result.push_str(&rest[..start]);
        let (step, path) = rest[start + 2..end].split_once('.').context("'${step.path}'")?;
        let step: usize = step.parse().context("steps are numbers from 1")?;
        let answer = answers.get(step.wrapping_sub(1)).context("no such step before this one")?;
        let pointer = format!("/{}", path.replace('.', "/"));
        let value =
            answer.pointer(&pointer).with_context(|| format!("step {step} has no {path}: {answer}"))?;
        match value {
            Value::String(text) => result.push_str(text),
            other => write!(result, "{other}")?,
        }
        rest = &rest[end + 1..];
    }
    result.push_str(rest);
    Ok(result)
}
