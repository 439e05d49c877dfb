//! `pods/binding`: a scheduler's decision.

use bytes::Bytes;
use serde_json::{Value, json};

use super::success;
use crate::{
    call::Call,
    error::{ApiError, Result, Subject},
    http::Response,
    object,
    verbs::{self, Proposal},
};

pub async fn bind(call: &Call, body: &Bytes) -> Result<Response> {
    let dry_run = call.dry_run("CreateOptions")?;
    let binding = call.decode(body, "CreateOptions", Some(("v1", "Binding")))?;
    let node = object::text(&binding, &["target", "name"]).to_owned();
    let kind = object::text(&binding, &["target", "kind"]);
    if node.is_empty() || !matches!(kind, "" | "Node") {
        return Err(ApiError::bad_request("a binding's target must be a Node with a name"));
    }
    let propose = |live: Option<&Value>| -> Result<Proposal> {
        let subject = call.subject();
        let name = &call.target.name;
        let live = live.ok_or_else(|| ApiError::not_found(&subject, name))?;
        let binding_subject = Subject { resource: "pods/binding".to_owned(), ..call.subject() };
        let conflict = |why: String| Err(ApiError::conflict(&binding_subject, name, &why));
        if object::is_deleting(live) {
            return conflict(format!("pod {name} is being deleted, cannot be assigned to a host"));
        }
        let bound = object::text(live, &["spec", "nodeName"]);
        if !bound.is_empty() {
            return conflict(format!("pod {name} is already assigned to node {bound:?}"));
        }
        let gates = live["spec"]["schedulingGates"].as_array().is_some_and(|gates| !gates.is_empty());
        if gates {
            return conflict(format!("pod {name} has non-empty .spec.schedulingGates"));
        }
        let mut object = live.clone();
        object["spec"]["nodeName"] = node.as_str().into();
        if let Some(annotations) = binding["metadata"]["annotations"].as_object() {
            object::map_at(&mut object, &["metadata", "annotations"]).extend(annotations.clone());
        }
        let scheduled = json!({
            "type": "PodScheduled",
            "status": "True",
            "lastProbeTime": null,
            "lastTransitionTime": object::timestamp(call.now),
        });
        let conditions =
            object::map_at(&mut object, &["status"]).entry("conditions").or_insert_with(|| json!([]));
        if let Some(list) = conditions.as_array_mut() {
            list.retain(|condition| condition["type"] != "PodScheduled");
            list.push(scheduled);
        }
        Ok(Proposal { object, tracked: true })
    };
    verbs::update_object(call, propose, dry_run, "CreateOptions").await?;
    Ok(success(201))
}
