//! Jobs and CronJobs.

use serde_json::{Value, json};

use super::{Checks, Errors, cron, invalid_each, non_negative, one_of, pod, selector, spec, status};
use crate::{FieldError, Path, json, meta, names};

pub(crate) const JOB: Checks = Checks { object: job, change: job_change, status: job_status };
pub(crate) const CRON_JOB: Checks = Checks { object: cron_job, ..super::NONE };

const MAX_INDEXED_PARALLELISM: i64 = 100_000;
/// The controller appends a hyphen and a number of ten digits.
const MAX_CRON_JOB_NAME: usize = 52;

fn job(object: &Value, errors: &mut Errors) {
    let (metadata, spec) = (&object["metadata"], spec(object));
    let path = Path::ROOT.child("spec");
    if !json::flag(spec, "manualSelector") && json::some(spec, "selector").is_some() {
        generated_selector(metadata, spec, errors);
    }
    job_spec(spec, &path, errors);
    match json::some(spec, "selector") {
        None => errors.push(FieldError::required(path.child("selector"), "")),
        Some(selector) => {
            selector::validate(selector, &path.child("selector"), errors);
            let labels = &spec["template"]["metadata"]["labels"];
            if selector::is_sound(selector) && !selector::matches(selector, labels) {
                let detail = "`selector` does not match template `labels`";
                let at = "spec.template.metadata.labels";
                errors.push(FieldError::invalid(at, labels.clone(), detail));
            }
        }
    }
    if json::text(spec, "completionMode") == "Indexed"
        && let Some(completions) = json::int(spec, "completions").filter(|count| *count > 0)
    {
        let host = format!("{}-{}", json::text(metadata, "name"), completions - 1);
        if !names::dns1123_label(&host).is_empty() {
            let detail = format!("will not able to create pod with invalid DNS label: {host}");
            errors.push(FieldError::invalid("metadata.name", json::text(metadata, "name"), detail));
        }
    }
}

/// Labels that the server gave to the template, unless somebody set others.
fn generated_selector(metadata: &Value, spec: &Value, errors: &mut Errors) {
    let (uid, name) = (json::text(metadata, "uid"), json::text(metadata, "name"));
    if uid.is_empty() {
        errors.push(FieldError::required("metadata.uid", ""));
    }
    let labels = &spec["template"]["metadata"]["labels"];
    let expected = [
        ("controller-uid", uid),
        ("job-name", name),
        ("batch.kubernetes.io/controller-uid", uid),
        ("batch.kubernetes.io/job-name", name),
    ];
    for (key, wanted) in expected {
        let at = format!("spec.template.metadata.labels[{key}]");
        let detail = format!("must be '{wanted}'");
        match labels.get(key).and_then(Value::as_str) {
            None => errors.push(FieldError::required(at, detail)),
            Some(found) if found != wanted => errors.push(FieldError::invalid(at, labels.clone(), detail)),
            Some(_) => {}
        }
    }
    let generated: serde_json::Map<String, Value> =
        expected.iter().map(|(key, value)| ((*key).to_owned(), Value::from(*value))).collect();
    let selector = &spec["selector"];
    if selector::is_sound(selector) && !selector::matches(selector, &Value::Object(generated)) {
        errors.push(FieldError::invalid("spec.selector", selector.clone(), "`selector` not auto-generated"));
    }
}

fn job_spec(spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    for field in [
        "parallelism",
        "completions",
        "activeDeadlineSeconds",
        "backoffLimit",
        "ttlSecondsAfterFinished",
        "backoffLimitPerIndex",
        "maxFailedIndexes",
    ] {
        non_negative(spec, field, path, errors);
    }
    let per_index = json::some(spec, "backoffLimitPerIndex");
    let failed_indexes = json::int(spec, "maxFailedIndexes");
    if failed_indexes.is_some() && per_index.is_none() {
        let detail = "when maxFailedIndexes is specified";
        errors.push(FieldError::required(path.child("backoffLimitPerIndex"), detail));
    }
    completion_mode(spec, path, errors);
    pod_replacement(spec, path, errors);
    let template = spec.get("template").unwrap_or(&Value::Null);
    let at = path.child("template");
    pod::template(template, &at, errors);
    let at = at.child("spec");
    let at = at.child("restartPolicy");
    match json::text(&template["spec"], "restartPolicy") {
        "Always" | "" => {
            errors.push(FieldError::required(at, "valid values: \"OnFailure\", \"Never\""));
        }
        "OnFailure" if json::some(spec, "podFailurePolicy").is_some() => {
            let detail = "only \"Never\" is supported when podFailurePolicy is specified";
            errors.push(FieldError::invalid(at, "OnFailure", detail));
        }
        "OnFailure" | "Never" => {}
        other => errors.push(FieldError::not_supported(at, other, &["OnFailure", "Never"])),
    }
}

fn completion_mode(spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    let mode = json::text(spec, "completionMode");
    if !matches!(mode, "" | "NonIndexed" | "Indexed") {
        let at = path.child("completionMode");
        errors.push(FieldError::not_supported(at, mode, &["NonIndexed", "Indexed"]));
    }
    if mode == "Indexed" {
        let completions = json::int(spec, "completions");
        if completions.is_none() {
            let detail = "when completion mode is Indexed";
            errors.push(FieldError::required(path.child("completions"), detail));
        }
        if let Some(count) = json::int(spec, "parallelism").filter(|count| *count > MAX_INDEXED_PARALLELISM) {
            let detail = format!(
                "must be less than or equal to {MAX_INDEXED_PARALLELISM} when completion mode is Indexed"
            );
            errors.push(FieldError::invalid(path.child("parallelism"), count, detail));
        }
        if let (Some(failed), Some(all)) = (json::int(spec, "maxFailedIndexes"), completions)
            && failed > all
        {
            let detail = "must be less than or equal to completions";
            errors.push(FieldError::invalid(path.child("maxFailedIndexes"), failed, detail));
        }
        return;
    }
    let detail = "requires indexed completion mode";
    let by_index: &[&str] =
        if matches!(mode, "" | "NonIndexed") { &["backoffLimitPerIndex", "maxFailedIndexes"] } else { &[] };
    for field in by_index.iter().chain(&["successPolicy"]) {
        if let Some(value) = json::some(spec, field) {
            errors.push(FieldError::invalid(path.child(field), value.clone(), detail));
        }
    }
}

fn pod_replacement(spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    let policy = json::text(spec, "podReplacementPolicy");
    let judged = json::some(spec, "podFailurePolicy").is_some();
    let allowed: &[&str] = if judged { &["Failed"] } else { &["Failed", "TerminatingOrFailed"] };
    if !policy.is_empty() && !allowed.contains(&policy) {
        errors.push(FieldError::not_supported(path.child("podReplacementPolicy"), policy, allowed));
    }
}

fn job_change(new: &Value, old: &Value, errors: &mut Errors) {
    let path = Path::ROOT.child("spec");
    let (new, old) = (spec(new), spec(old));
    if json::text(new, "completionMode") != "Indexed" {
        meta::immutable(new, old, "completions", &path, errors);
    } else if let Some(count) = json::int(new, "completions")
        && Some(count) != json::int(old, "completions")
        && Some(count) != json::int(new, "parallelism")
    {
        let detail = "can only be modified in tandem with spec.parallelism";
        errors.push(FieldError::invalid(path.child("completions"), count, detail));
    }
    meta::immutable(new, old, "selector", &path, errors);
    template_change(new, old, &path, errors);
    for field in ["completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy", "successPolicy"]
    {
        meta::immutable(new, old, field, &path, errors);
    }
}

/// A Job that is suspended and has not started may still change where its pods run and how much they get.
fn template_change(new: &Value, old: &Value, path: &Path<'_>, errors: &mut Errors) {
    let mut before = old["template"].clone();
    if json::flag(old, "suspend") {
        for (section, fields) in [
            ("metadata", ["labels", "annotations", "", ""]),
            ("spec", ["nodeSelector", "tolerations", "affinity", "schedulingGates"]),
        ] {
            for field in fields.iter().filter(|field| !field.is_empty()) {
                match new["template"][section].get(*field) {
                    Some(value) => before[section][*field] = value.clone(),
                    None => {
                        if let Some(map) = before[section].as_object_mut() {
                            map.remove(*field);
                        }
                    }
                }
            }
        }
        for list in ["containers", "initContainers"] {
            let resources: Vec<Value> = json::list(&new["template"]["spec"], list)
                .iter()
                .map(|one| one["resources"].clone())
                .collect();
            for (container, resources) in before["spec"]
                .get_mut(list)
                .and_then(Value::as_array_mut)
                .into_iter()
                .flatten()
                .zip(resources)
            {
                container["resources"] = resources;
            }
        }
    }
    meta::immutable(new, &json!({ "template": before }), "template", path, errors);
}

fn job_status(new: &Value, _: &Value, errors: &mut Errors) {
    let status = status(new);
    let path = Path::ROOT.child("status");
    for field in ["active", "succeeded", "failed", "ready", "terminating"] {
        non_negative(status, field, &path, errors);
    }
    let has = |kind: &str| {
        json::list(status, "conditions").iter().any(|one| one["type"] == kind && one["status"] == "True")
    };
    let clash = |detail: &str| {
        FieldError::new(crate::FieldErrorKind::Invalid, path.child("conditions"), None, detail)
    };
    for (one, other, detail) in [
        ("Complete", "Failed", "cannot set Complete=True and Failed=true conditions"),
        ("Complete", "FailureTarget", "cannot set Complete=True and FailureTarget=true conditions"),
        ("SuccessCriteriaMet", "Failed", "cannot set SuccessCriteriaMet=True and Failed=true conditions"),
        (
            "SuccessCriteriaMet",
            "FailureTarget",
            "cannot set SuccessCriteriaMet=True and FailureTarget=true conditions",
        ),
    ] {
        if has(one) && has(other) {
            errors.push(clash(detail));
        }
    }
}

fn cron_job(object: &Value, errors: &mut Errors) {
    let (name, spec) = (json::text(&object["metadata"], "name"), spec(object));
    let path = Path::ROOT.child("spec");
    schedule(spec, &path, errors);
    non_negative(spec, "startingDeadlineSeconds", &path, errors);
    time_zone(spec, &path, errors);
    let policies = ["Allow", "Forbid", "Replace"];
    one_of(json::text(spec, "concurrencyPolicy"), &policies, &path.child("concurrencyPolicy"), errors);
    let base = path.child("jobTemplate");
    let (template, at) = (&spec["jobTemplate"]["spec"], base.child("spec"));
    job_spec(template, &at, errors);
    if let Some(selector) = json::some(template, "selector") {
        let detail = "`selector` will be auto-generated";
        errors.push(FieldError::invalid(at.child("selector"), selector.clone(), detail));
    }
    if json::flag(template, "manualSelector") {
        errors.push(FieldError::not_supported(at.child("manualSelector"), true, &["nil", "false"]));
    }
    non_negative(spec, "successfulJobsHistoryLimit", &path, errors);
    non_negative(spec, "failedJobsHistoryLimit", &path, errors);
    if name.len() > MAX_CRON_JOB_NAME {
        let detail = format!("must be no more than {MAX_CRON_JOB_NAME} characters");
        errors.push(FieldError::invalid("metadata.name", name, detail));
    }
}

fn schedule(spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    let (text, at) = (json::text(spec, "schedule"), path.child("schedule"));
    if text.is_empty() {
        errors.push(FieldError::required(at, ""));
        return;
    }
    invalid_each(cron::fault(text).into_iter().collect(), text, &at, errors);
    if text.contains("TZ") {
        let detail = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead";
        errors.push(FieldError::invalid(at, text, detail));
    }
}

fn time_zone(spec: &Value, path: &Path<'_>, errors: &mut Errors) {
    let Some(zone) = spec.get("timeZone").and_then(Value::as_str) else { return };
    let at = path.child("timeZone");
    if zone.is_empty() {
        errors.push(FieldError::invalid(at, zone, "timeZone must be nil or non-empty string"));
    } else if zone.eq_ignore_ascii_case("local") {
        let detail = "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones";
        errors.push(FieldError::invalid(at, zone, detail));
    } else if !is_known(zone) {
        errors.push(FieldError::invalid(at, zone, format!("unknown time zone {zone}")));
    }
}

/// The host's zones, or those that are part of the program.
fn is_known(zone: &str) -> bool {
    jiff::tz::TimeZone::get(zone).is_ok() || jiff::tz::TimeZoneDatabase::bundled().get(zone).is_ok()
}
