//! Deleting an instance: its members go wave by wave, and nothing of the graph is needed for it.

use serde_json::Value;

use super::{Identity, Observed, applyset, applyset_id, text};
use crate::labels;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Teardown {
    /// Delete these, then look again.
    Delete(Vec<Identity>),
    /// These are still going.
    Wait(Vec<Identity>),
    /// Nothing is left: the finalizer can go.
    Done,
    /// The inventory is not what we wrote: somebody has to look.
    Blocked(String),
}

/// What to do next for an instance that is being deleted. `observed` must know every member.
pub fn teardown(instance: &Value, observed: &dyn Observed) -> Teardown {
    let annotation =
        |key: &str| instance["metadata"]["annotations"].get(key).and_then(Value::as_str).unwrap_or_default();
    let id = applyset_id(instance);
    let label = instance["metadata"]["labels"].get(labels::APPLYSET_ID).and_then(Value::as_str);
    let Some(label) = label else {
        // nothing was ever applied
        return Teardown::Done;
    };
    if label != id {
        return Teardown::Blocked(format!("the label {} is not this instance's", labels::APPLYSET_ID));
    }
    if !annotation(labels::TOOLING).starts_with("kro/") {
        return Teardown::Blocked(format!("the annotation {} is not ours", labels::TOOLING));
    }
    let hash = applyset::inventory_hash(&id, annotation(labels::GROUP_KINDS), annotation(labels::NAMESPACES));
    if annotation(labels::INVENTORY_HASH) != hash {
        return Teardown::Blocked(format!(
            "the annotation {} does not fit the inventory",
            labels::INVENTORY_HASH
        ));
    }
    let order = |member: &Value| {
        let text = member["metadata"]["annotations"].get(labels::APPLY_ORDER).and_then(Value::as_str);
        // what says nothing goes first
        text.and_then(|text| text.parse::<u64>().ok()).unwrap_or(u64::MAX)
    };
    let members = observed.labelled(labels::PART_OF, &id);
    let Some(highest) = members.iter().map(|member| order(member)).max() else { return Teardown::Done };
    let wave = members.iter().map(AsRef::as_ref).filter(|member| order(member) == highest);
    let (going, left): (Vec<&Value>, Vec<&Value>) =
        wave.partition(|member| !text(member, "/metadata/deletionTimestamp").is_empty());
    let identities = |members: Vec<&Value>| members.into_iter().map(Identity::of).collect();
    if left.is_empty() { Teardown::Wait(identities(going)) } else { Teardown::Delete(identities(left)) }
}
