//! `pods/log`: handed on to the node that runs the pod.

use futures::StreamExt;
use http_body_util::BodyStream;

use super::kubelet::{self, Kubelet};
use crate::{
    call::Call,
    error::{ApiError, Result},
    http::{Response, stream},
    object,
};

/// Query parameters that both sides know.
const PARAMETERS: &[&str] =
    &["follow", "previous", "sinceSeconds", "sinceTime", "timestamps", "tailLines", "limitBytes", "stream"];

pub async fn answer(call: &Call) -> Result<Response> {
    let pod = call.find()?.to_value();
    let name = &call.target.name;
    let container = container(call, &pod)?;
    let node = object::text(&pod, &["spec", "nodeName"]);
    if node.is_empty() {
        // Nothing ran yet, so there is nothing to show.
        return Ok(crate::http::empty(200));
    }
    let kubelet = Kubelet::find(&call.server, node)?;
    let mut query = String::new();
    for parameter in PARAMETERS {
        if call.query.has(parameter) {
            query.push(if query.is_empty() { '?' } else { '&' });
            query.push_str(parameter);
            query.push('=');
            query.push_str(&escape(call.query.get(parameter)));
        }
    }
    let path = format!("/containerLogs/{}/{name}/{container}{query}", call.target.namespace);
    let response = kubelet::get(&call.server, &kubelet, &path).await?;
    if !response.status().is_success() {
        let code = response.status().as_u16();
        let message = kubelet::text(response).await?;
        return Err(match code {
            404 => ApiError::new(404, "NotFound", message),
            400 => ApiError::bad_request(message),
            _ => ApiError::internal(message),
        });
    }
    let frames = BodyStream::new(response.into_body()).filter_map(async |frame| match frame {
        Ok(frame) => frame.into_data().ok().map(Ok),
        Err(error) => Some(Err(error.into())),
    });
    Ok(stream(200, "text/plain", Box::pin(frames)))
}

fn container(call: &Call, pod: &serde_json::Value) -> Result<String> {
    let name = &call.target.name;
    let names = |list: &str| -> Vec<&str> {
        pod["spec"][list].as_array().into_iter().flatten().filter_map(|one| one["name"].as_str()).collect()
    };
    let (containers, init) = (names("containers"), names("initContainers"));
    let asked = call.query.get("container");
    if !asked.is_empty() {
        return if containers.contains(&asked) || init.contains(&asked) {
            Ok(asked.to_owned())
        } else {
            Err(ApiError::bad_request(format!("container {asked} is not valid for pod {name}")))
        };
    }
    match containers.as_slice() {
        [one] => Ok((*one).to_owned()),
        [] => Err(ApiError::bad_request(format!("a container name must be specified for pod {name}"))),
        many => {
            let mut message = format!(
                "a container name must be specified for pod {name}, choose one of: [{}]",
                many.join(" ")
            );
            if !init.is_empty() {
                message.push_str(&format!(" or one of the init containers: [{}]", init.join(" ")));
            }
            Err(ApiError::bad_request(message))
        }
    }
}

pub fn escape(text: &str) -> String {
    text.bytes()
        .map(|byte| match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                char::from(byte).to_string()
            }
            _ => format!("%{byte:02X}"),
        })
        .collect()
}
