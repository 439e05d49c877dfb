//! PriorityClasses, and the priority that a pod gets from one.

use serde_json::{Value, json};

use super::Context;
use crate::{
    error::{ApiError, Result},
    object,
    storage::ReadAt,
};

pub const NAMES: &[&str] = &["system-node-critical", "system-cluster-critical"];
const TABLE: (&str, &str) = ("scheduling.k8s.io", "priorityclasses");

/// The classes that every cluster has.
pub fn system() -> [Value; 2] {
    let class = |name: &str, value: i64, description: &str| {
        json!({
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": name},
            "value": value,
            "description": description,
        })
    };
    [
        class(
            NAMES[0],
            2_000_001_000,
            "Used for system critical pods that must not be moved from their current node.",
        ),
        class(
            NAMES[1],
            2_000_000_000,
            "Used for system critical pods that must run in the cluster, but can be moved to another node if necessary.",
        ),
    ]
}

/// Of all classes, at most one is the default.
pub fn class(new: &mut Value, _: Option<&Value>, context: &Context<'_>) -> Result<()> {
    if new["globalDefault"] != true {
        return Ok(());
    }
    match default_class(context).filter(|other| object::name(other) != object::name(new)) {
        Some(other) => {
            let why = format!(
                "PriorityClass {} is already marked as default. Only one default can exist",
                object::name(&other)
            );
            Err(ApiError::forbidden(&context.kind.subject(), object::name(new), &why))
        }
        None => Ok(()),
    }
}

/// Fills in a new pod's priority from the class it names, or from the default class.
pub fn establish(pod: &mut Value, context: &Context<'_>) -> Result<()> {
    let subject = context.kind.subject();
    let forbidden = |pod: &Value, why: &str| ApiError::forbidden(&subject, object::name(pod), why);
    let named = object::text(pod, &["spec", "priorityClassName"]).to_owned();
    let class = if named.is_empty() {
        default_class(context)
    } else {
        let found = find(context, &named);
        if found.is_none() {
            let why = format!("no PriorityClass with name {named} was found");
            return Err(forbidden(pod, &why));
        }
        found
    };
    let class = class.unwrap_or_else(|| json!({"value": 0, "preemptionPolicy": "PreemptLowerPriority"}));
    let priority = class["value"].as_i64().unwrap_or_default();
    if let Some(given) = pod["spec"]["priority"].as_i64().filter(|given| *given != priority) {
        let why = format!(
            "the integer value of priority ({given}) must not be provided in pod spec; priority admission controller computed {priority} from the given PriorityClass name"
        );
        return Err(forbidden(pod, &why));
    }
    let policy = class["preemptionPolicy"].as_str().unwrap_or("PreemptLowerPriority").to_owned();
    if let Some(given) = pod["spec"]["preemptionPolicy"].as_str().filter(|given| *given != policy) {
        let why = format!(
            "the string value of PreemptionPolicy ({given}) must not be provided in pod spec; priority admission controller computed {policy} from the given PriorityClass name"
        );
        return Err(forbidden(pod, &why));
    }
    let name = object::name(&class).to_owned();
    let spec = object::map_at(pod, &["spec"]);
    spec.insert("priority".to_owned(), priority.into());
    spec.insert("preemptionPolicy".to_owned(), policy.into());
    if !name.is_empty() {
        spec.insert("priorityClassName".to_owned(), name.into());
    }
    Ok(())
}

fn find(context: &Context<'_>, name: &str) -> Option<Value> {
    let registry = context.server.registry();
    let kind = registry.resource(TABLE.0, TABLE.1)?;
    Some(context.server.store().get(kind.table, name)?.to_value())
}

/// With several, which only a race makes, the lowest.
fn default_class(context: &Context<'_>) -> Option<Value> {
    let registry = context.server.registry();
    let kind = registry.resource(TABLE.0, TABLE.1)?;
    let all = context.server.store().list(kind.table, "", None, ReadAt::Latest, usize::MAX, |_| true).ok()?;
    let defaults =
        all.records.iter().map(|record| record.to_value()).filter(|one| one["globalDefault"] == true);
    defaults.min_by_key(|one| one["value"].as_i64())
}
