//! What has to be written for an instance. Pure.

use std::collections::{BTreeMap, HashMap};

use engine::{
    effect::{Application, Effect, Propagation, Target},
    kind::Kind,
};
use graph::{
    labels,
    plan::{Identity, Inventory, Observed as Objects, Plan, State, Teardown},
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::DynamicObject;
use serde_json::{Map, Value, json};

use super::object::{self, text};
use crate::{fingerprint::fingerprint, graphs::MANAGER, repair::holds};

pub(super) struct Observed<'a> {
    pub kind: &'a Kind,
    pub meta: &'a ObjectMeta,
    pub instance: &'a Value,
    pub plan: &'a Plan,
    pub objects: &'a dyn Objects,
    pub kind_of: &'a dyn Fn(&Identity) -> Option<Kind>,
    /// Carrying out the plan before has failed.
    pub has_failed: bool,
}

/// Objects that were applied as they are wanted and look different all the same, by uid: what they looked like, and how
/// often. A Secret's `stringData` never comes back, and an amount may come back in another form.
pub(super) type Tried = HashMap<String, (u64, u32)>;

/// So often something is applied that does not change anything before it is believed to be as it should.
const BELIEVED_AFTER: u32 = 2;

pub(super) fn plan(observed: &Observed<'_>, tried: &mut Tried) -> Vec<Effect> {
    let Observed { plan, meta, kind, .. } = observed;
    let mut effects = Vec::new();
    effects.extend(own_metadata(observed, &plan.inventory));
    effects.extend(status(kind, meta, observed.instance, &plan.status, plan.state));
    let apply = applications(observed, tried);
    let is_applied = apply.is_empty();
    match <[Application; 1]>::try_from(apply) {
        Ok([Application { target, must_be_absent, body }]) => {
            effects.push(Effect::Apply { target, must_be_absent, body });
        }
        Err(several) if several.is_empty() => {}
        Err(several) => effects.push(Effect::ApplyAll(several)),
    }
    // one wave at a time: the next one goes when this one is gone
    let prune = plan.prune.first().map(Vec::as_slice).unwrap_or_default();
    effects.extend(prune.iter().filter_map(|identity| delete(identity, observed.objects, observed.kind_of)));
    if is_applied && plan.prune.is_empty() && plan.inventory_after != plan.inventory {
        effects.extend(own_metadata(observed, &plan.inventory_after));
    }
    effects
}

/// Finalizer, labels and inventory, before anything is made that they are needed for.
fn own_metadata(observed: &Observed<'_>, inventory: &Inventory) -> Option<Effect> {
    let meta = observed.meta;
    let mut metadata = Map::new();
    let finalizers = meta.finalizers.clone().unwrap_or_default();
    if !finalizers.iter().any(|finalizer| finalizer == labels::FINALIZER) {
        let all: Vec<String> = finalizers.into_iter().chain([labels::FINALIZER.to_owned()]).collect();
        metadata.insert("finalizers".to_owned(), json!(all));
    }
    let missing = |has: &Option<BTreeMap<String, String>>, wanted: &BTreeMap<String, String>| {
        let has = has.as_ref();
        let missing: BTreeMap<&String, &String> =
            wanted.iter().filter(|(key, value)| has.and_then(|has| has.get(*key)) != Some(*value)).collect();
        (!missing.is_empty()).then(|| json!(missing))
    };
    if let Some(missing) = missing(&meta.labels, &inventory.labels) {
        metadata.insert("labels".to_owned(), missing);
    }
    if let Some(missing) = missing(&meta.annotations, &inventory.annotations) {
        metadata.insert("annotations".to_owned(), missing);
    }
    (!metadata.is_empty())
        .then(|| Effect::patch(Target::of(observed.kind, meta), json!({ "metadata": metadata })))
}

fn status(kind: &Kind, meta: &ObjectMeta, instance: &Value, wanted: &Value, state: State) -> Vec<Effect> {
    let stored = instance.get("status");
    if stored == Some(wanted) {
        return Vec::new();
    }
    let mut effects = vec![Effect::status(kind, meta, stored, wanted)];
    let before = stored.map(|status| text(status, "/state")).unwrap_or_default();
    if before != state.as_str() {
        let target = Target::of(kind, meta);
        let conditions = wanted["conditions"].as_array();
        let ready = conditions.and_then(|all| all.iter().find(|condition| condition["type"] == "Ready"));
        let why = ready.map(|ready| text(ready, "/message")).unwrap_or_default();
        match state {
            State::Active => {
                effects.push(Effect::event(target, MANAGER, "Active", "all resources are ready"));
            }
            State::Error => effects.push(Effect::warning(target, MANAGER, "Error", why)),
            State::InProgress | State::Deleting => {}
        }
    }
    effects
}

/// What is not there as it is wanted.
fn applications(observed: &Observed<'_>, tried: &mut Tried) -> Vec<Application> {
    let mut apply = Vec::new();
    let mut still_tried = Tried::new();
    for desired in observed.plan.nodes.iter().flat_map(|node| &node.desired) {
        let identity = Identity::of(desired);
        let Some(kind) = (observed.kind_of)(&identity) else { continue };
        let live = observed.objects.get(&identity);
        let live = live.as_deref();
        if let Some(live) = live
            && manifest_hash(live) == manifest_hash(desired)
            && (holds(live, desired) || is_believed(live, observed.has_failed, tried, &mut still_tried))
        {
            continue;
        }
        apply.push(Application {
            target: object::target(&kind, &identity, live),
            must_be_absent: false,
            body: desired.clone(),
        });
    }
    *tried = still_tried;
    apply
}

/// Whether applying it has changed nothing often enough.
fn is_believed(live: &Value, has_failed: bool, tried: &Tried, still_tried: &mut Tried) -> bool {
    let mut shown = live.clone();
    if let Some(fields) = shown.as_object_mut() {
        fields.remove("status");
    }
    if let Some(metadata) = shown.get_mut("metadata").and_then(Value::as_object_mut) {
        for field in ["resourceVersion", "generation", "managedFields"] {
            metadata.remove(field);
        }
    }
    let mark = fingerprint([&*shown.to_string()]);
    let uid = text(live, "/metadata/uid");
    let n_before = match tried.get(uid) {
        Some((known, n)) if *known == mark && !has_failed => *n,
        _ => 0,
    };
    still_tried.insert(uid.to_owned(), (mark, (n_before + 1).min(BELIEVED_AFTER)));
    n_before >= BELIEVED_AFTER
}

fn manifest_hash(object: &Value) -> &Value {
    &object["metadata"]["annotations"][labels::MANIFEST_HASH]
}

fn delete(
    identity: &Identity,
    objects: &dyn Objects,
    kind_of: &dyn Fn(&Identity) -> Option<Kind>,
) -> Option<Effect> {
    let live = objects.get(identity)?;
    let target = object::target(&kind_of(identity)?, identity, Some(&live));
    // it may change its status meanwhile, and is to go all the same
    let target = Target { resource_version: None, ..target };
    Some(Effect::Delete { target, propagation: Some(Propagation::Background), announce: None })
}

/// The next step of a deletion.
pub(super) fn let_go(
    kind: &Kind,
    found: &DynamicObject,
    instance: &Value,
    step: &Teardown,
    objects: &dyn Objects,
    kind_of: &dyn Fn(&Identity) -> Option<Kind>,
) -> Vec<Effect> {
    let meta = &found.metadata;
    let telling = |message: String| {
        let mut status = instance.get("status").cloned().unwrap_or_else(|| json!({}));
        status["state"] = State::Deleting.as_str().into();
        for condition in status["conditions"].as_array_mut().into_iter().flatten() {
            if ["ResourcesReady", "Ready"].contains(&text(condition, "/type")) {
                condition["status"] = "Unknown".into();
                condition["reason"] = "UnderDeletion".into();
                condition["message"] = message.clone().into();
            }
        }
        let is_told = instance.get("status") == Some(&status);
        (!is_told).then(|| Effect::status(kind, meta, instance.get("status"), &status))
    };
    let names = |all: &[Identity]| {
        let shown: Vec<String> = all.iter().take(5).map(ToString::to_string).collect();
        format!("waits for {} to go", shown.join(", "))
    };
    match step {
        Teardown::Delete(all) => {
            let deletions = all.iter().filter_map(|identity| delete(identity, objects, kind_of));
            telling(names(all)).into_iter().chain(deletions).collect()
        }
        Teardown::Wait(all) => telling(names(all)).into_iter().collect(),
        Teardown::Done => Effect::remove_finalizer(kind, meta, labels::FINALIZER).into_iter().collect(),
        Teardown::Blocked(why) => {
            let warning = Effect::warning(Target::of(kind, meta), MANAGER, "DeletionBlocked", why);
            telling(why.clone()).into_iter().flat_map(|status| [status, warning.clone()]).collect()
        }
    }
}
