//! How objects end: finalizers, grace, and what a deletion leaves to controllers.
//!
//! The server only marks. Who deletes dependents and the content of namespaces are controllers that watch for the
//! marks: a `deletionTimestamp` with finalizers `orphan`, `foregroundDeletion`, or a namespace's own.

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::{
    call::Call,
    error::{ApiError, Result},
    object,
    registry::Kind,
    verbs::DeleteOptions,
};

const ORPHAN: &str = "orphan";
const FOREGROUND: &str = "foregroundDeletion";

/// What a DELETE does to an object.
#[derive(Clone, Debug, PartialEq)]
pub enum Deletion {
    /// Gone at once.
    Remove,
    /// Marked first, gone right after: watchers see both.
    MarkAndRemove(Value),
    /// Marked; the last finalizer or the node ends it.
    Mark(Value),
    /// Marked already, and this request changes nothing about it.
    Pending,
}

pub fn plan(kind: &Kind, live: &Value, options: &DeleteOptions, now: Timestamp) -> Deletion {
    let deleting = object::is_deleting(live);
    let mut marked = live.clone();
    let mut removable = true;
    let mut marked_by_grace = false;
    if kind.rules.graceful {
        match grace(live, options, now) {
            Grace::Unchanged => return Deletion::Pending,
            Grace::Over => {}
            Grace::Until { at, seconds } => {
                mark(&mut marked, at, seconds, deleting);
                removable = seconds == 0;
                marked_by_grace = true;
            }
        }
    }
    if !deleting && let Some(on_delete) = kind.rules.on_delete {
        on_delete(&mut marked, now);
    }
    let finalizers = finalizers_for(&marked, options, kind.rules.orphans);
    set_finalizers(&mut marked, &finalizers);
    let held = !finalizers.is_empty() || has_spec_finalizers(kind, &marked);
    if held && !marked_by_grace {
        mark(&mut marked, now, 0, deleting);
        if kind.rules.spec_finalizers {
            object::meta(&mut marked).remove("deletionGracePeriodSeconds");
        }
    }
    if held || !removable {
        return if marked == *live { Deletion::Pending } else { Deletion::Mark(marked) };
    }
    if marked_by_grace { Deletion::MarkAndRemove(marked) } else { Deletion::Remove }
}

fn mark(object: &mut Value, at: Timestamp, seconds: i64, deleting: bool) {
    let generation = object::generation(object);
    let metadata = object::meta(object);
    if !deleting && generation > 0 {
        metadata.insert("generation".to_owned(), (generation + 1).into());
    }
    if !deleting || seconds > 0 || metadata.get("deletionGracePeriodSeconds").is_some_and(|old| *old != 0) {
        metadata.insert("deletionTimestamp".to_owned(), object::timestamp(at).into());
    }
    metadata.insert("deletionGracePeriodSeconds".to_owned(), seconds.into());
}

enum Grace {
    /// Deleting already, and not to be hurried.
    Unchanged,
    /// Deleting already, with no time left.
    Over,
    Until {
        at: Timestamp,
        seconds: i64,
    },
}

fn grace(live: &Value, options: &DeleteOptions, now: Timestamp) -> Grace {
    let asked = options.grace_period.map(|seconds| if seconds < 0 { 1 } else { seconds });
    let after =
        |at: Timestamp, seconds: i64| at.checked_add(SignedDuration::from_secs(seconds)).unwrap_or(at);
    let metadata = &live["metadata"];
    if object::is_deleting(live) {
        let left = metadata["deletionGracePeriodSeconds"].as_i64().unwrap_or_default();
        if left == 0 {
            return Grace::Over;
        }
        let Some(asked) = asked.filter(|asked| *asked < left) else { return Grace::Unchanged };
        let end =
            object::parse_timestamp(object::text(live, &["metadata", "deletionTimestamp"])).unwrap_or(now);
        let at = after(after(end, -left), asked);
        return if at < now {
            Grace::Until { at: now, seconds: asked.min(1) }
        } else {
            Grace::Until { at, seconds: asked }
        };
    }
    let own = live["spec"]["terminationGracePeriodSeconds"].as_i64().unwrap_or(30);
    let never_ran = object::text(live, &["spec", "nodeName"]).is_empty();
    let ended = matches!(object::text(live, &["status", "phase"]), "Failed" | "Succeeded");
    let seconds = match asked.unwrap_or(own) {
        _ if never_ran || ended => 0,
        seconds if seconds < 0 => 1,
        seconds => seconds,
    };
    Grace::Until { at: after(now, seconds), seconds }
}

/// The finalizers that the propagation policy asks for, instead of those of another policy.
fn finalizers_for(object: &Value, options: &DeleteOptions, orphans: bool) -> Vec<String> {
    let present = object::finalizers(object);
    let (orphan, foreground) = match options.propagation.as_deref() {
        Some("Orphan") => (true, false),
        Some("Foreground") => (false, true),
        Some(_) => (false, false),
        None => {
            let foreground = present.contains(&FOREGROUND);
            (present.contains(&ORPHAN) || (orphans && !foreground), foreground)
        }
    };
    let mut finalizers: Vec<String> = present
        .iter()
        .filter(|name| **name != ORPHAN && **name != FOREGROUND)
        .map(|name| (*name).to_owned())
        .collect();
    if orphan {
        finalizers.push(ORPHAN.to_owned());
    }
    if foreground {
        finalizers.push(FOREGROUND.to_owned());
    }
    finalizers
}

fn set_finalizers(object: &mut Value, finalizers: &[String]) {
    let metadata = object::meta(object);
    if finalizers.is_empty() {
        metadata.remove("finalizers");
    } else {
        metadata.insert("finalizers".to_owned(), json!(finalizers));
    }
}

fn has_spec_finalizers(kind: &Kind, object: &Value) -> bool {
    kind.rules.spec_finalizers
        && object::at(object, &["spec", "finalizers"])
            .and_then(Value::as_array)
            .is_some_and(|finalizers| !finalizers.is_empty())
}

/// Whether an object that is about to be stored has nothing left to wait for.
pub fn is_finished(kind: &Kind, object: &Value) -> bool {
    object::is_deleting(object)
        && object["metadata"]["deletionGracePeriodSeconds"].as_i64().unwrap_or_default() == 0
        && object::finalizers(object).is_empty()
        && !has_spec_finalizers(kind, object)
}

/// New objects need a namespace that exists and stays.
pub fn check_namespace(call: &Call, name: &str) -> Result<()> {
    let namespace = &call.target.namespace;
    let registry = call.server.registry();
    let Some(namespaces) = registry.resource("", "namespaces") else { return Ok(()) };
    let Some(record) = call.store().get(namespaces.table, namespace) else {
        return Err(ApiError::not_found(&namespaces.subject(), namespace));
    };
    // The phase is a selectable field of the row: no need to read the whole namespace.
    let phase = namespaces.selectable.iter().position(|field| field.label == "status.phase");
    if phase.is_some_and(|index| record.fields.get(index).is_some_and(|phase| &**phase == "Terminating")) {
        let why =
            format!("unable to create new content in namespace {namespace} because it is being terminated");
        let cause = json!({
            "reason": "NamespaceTerminating",
            "message": format!("namespace {namespace} is being terminated"),
            "field": "metadata.namespace",
        });
        return Err(ApiError::forbidden(&call.subject(), name, &why).with_causes(vec![cause]));
    }
    Ok(())
}

/// Row hook of namespaces.
pub fn terminate_namespace(namespace: &mut Value, _now: Timestamp) {
    object::map_at(namespace, &["status"]).insert("phase".to_owned(), "Terminating".into());
}

#[cfg(test)]
mod tests;
