//! Cells of Jobs, volumes and what stands at the edge of a cluster.

use jiff::Timestamp;
use serde_json::Value;

use super::cells::{human, list, or, plain, since};
use crate::{object, selectors::structured_to_text};

pub fn or_unset(value: &Value) -> Value {
    or(value, "<unset>")
}

pub fn or_zero(value: &Value) -> Value {
    or(value, "0")
}

/// `name`, or `name (default)` for a class that is marked as such.
pub fn marked_default(class: &Value, domain: &str) -> Value {
    let marked = class["metadata"]["annotations"][format!("{domain}/is-default-class")] == "true";
    let name = object::name(class);
    if marked { format!("{name} (default)").into() } else { name.into() }
}

fn at(object: &Value, pointer: &str) -> Option<Timestamp> {
    object.pointer(pointer)?.as_str().and_then(object::parse_timestamp)
}

pub fn job_status(job: &Value, _: Timestamp) -> Value {
    let has = |kind: &str| {
        list(&job["status"]["conditions"]).any(|one| one["type"] == kind && one["status"] == "True")
    };
    let word = if has("Complete") {
        "Complete"
    } else if has("Failed") {
        "Failed"
    } else if object::is_deleting(job) {
        "Terminating"
    } else {
        ["Suspended", "FailureTarget", "SuccessCriteriaMet"]
            .into_iter()
            .find(|kind| has(kind))
            .unwrap_or("Running")
    };
    word.into()
}

pub fn job_completions(job: &Value, _: Timestamp) -> Value {
    let number = |pointer: &str| job.pointer(pointer).and_then(Value::as_i64);
    let done = number("/status/succeeded").unwrap_or_default();
    match (number("/spec/completions"), number("/spec/parallelism").unwrap_or_default()) {
        (Some(wanted), _) => format!("{done}/{wanted}"),
        (None, parallel @ 2..) => format!("{done}/1 of {parallel}"),
        (None, _) => format!("{done}/1"),
    }
    .into()
}

pub fn job_duration(job: &Value, now: Timestamp) -> Value {
    match (at(job, "/status/startTime"), at(job, "/status/completionTime")) {
        (None, _) => String::new(),
        (Some(start), None) => since(start, now),
        (Some(start), Some(end)) => human(end.as_second() - start.as_second()),
    }
    .into()
}

pub fn last_schedule(cron_job: &Value, now: Timestamp) -> Value {
    at(cron_job, "/status/lastScheduleTime").map_or_else(|| "<none>".to_owned(), |at| since(at, now)).into()
}

pub fn hosts(ingress: &Value, _: Timestamp) -> Value {
    const SHOWN: usize = 3;
    let rules = ingress["spec"]["rules"].as_array().map(Vec::as_slice).unwrap_or_default();
    let names: Vec<&str> =
        rules.iter().filter_map(|rule| rule["host"].as_str()).filter(|host| !host.is_empty()).collect();
    match names.len() {
        0 => "*".into(),
        n if n > SHOWN || rules.len() > SHOWN && n == SHOWN => {
            format!("{} + {} more...", names[..SHOWN].join(","), rules.len() - SHOWN).into()
        }
        _ => names.join(",").into(),
    }
}

pub fn ingress_addresses(ingress: &Value, _: Timestamp) -> Value {
    let mut addresses: Vec<&str> = list(&ingress["status"]["loadBalancer"]["ingress"])
        .filter_map(|one| one["ip"].as_str().or_else(|| one["hostname"].as_str()))
        .collect();
    addresses.sort_unstable();
    addresses.dedup();
    addresses.join(",").into()
}

pub fn parameters(class: &Value, _: Timestamp) -> Value {
    let parameters = &class["spec"]["parameters"];
    if parameters.is_null() {
        return "<none>".into();
    }
    let group = parameters["apiGroup"].as_str().map(|group| format!(".{group}")).unwrap_or_default();
    format!("{}{group}/{}", plain(&parameters["kind"]), plain(&parameters["name"])).into()
}

pub fn pod_selector(policy: &Value, _: Timestamp) -> Value {
    let text = structured_to_text(&policy["spec"]["podSelector"]);
    if text.is_empty() { "<none>".into() } else { text.into() }
}

pub fn access_modes(modes: &Value) -> Value {
    let short: Vec<&str> = [
        ("ReadWriteOnce", "RWO"),
        ("ReadOnlyMany", "ROX"),
        ("ReadWriteMany", "RWX"),
        ("ReadWriteOncePod", "RWOP"),
    ]
    .into_iter()
    .filter(|(mode, _)| list(modes).any(|one| one == mode))
    .map(|(_, short)| short)
    .collect();
    short.join(",").into()
}

pub fn phase_or_terminating(object: &Value, _: Timestamp) -> Value {
    if object::is_deleting(object) { "Terminating".into() } else { plain(&object["status"]["phase"]).into() }
}
