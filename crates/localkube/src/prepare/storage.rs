//! Claims of storage and volumes: what they are given when they are made.

use serde_json::{Value, json};

use super::{Context, newest_marked};
use crate::{error::Result, object};

const DEFAULT_CLASS: &str = "storageclass.kubernetes.io/is-default-class";

/// A claim stays as long as pods use it, and is of the default class if it names none.
pub fn claim(new: &mut Value, old: Option<&Value>, context: &Context<'_>) -> Result<()> {
    if old.is_none() {
        protect(new, "kubernetes.io/pvc-protection");
        if object::at(new, &["spec", "storageClassName"]).is_none()
            && let Some(class) = newest_marked(context, ("storage.k8s.io", "storageclasses"), DEFAULT_CLASS)
        {
            object::map_at(new, &["spec"]).insert("storageClassName".to_owned(), class.into());
        }
    }
    Ok(())
}

/// A volume stays as long as a claim is bound to it.
pub fn volume(new: &mut Value, old: Option<&Value>, _: &Context<'_>) -> Result<()> {
    if old.is_none() {
        protect(new, "kubernetes.io/pv-protection");
    }
    let phase = |object: &Value| object::text(object, &["status", "phase"]).to_owned();
    if old.is_none_or(|old| phase(old) != phase(new)) {
        let now = object::timestamp(jiff::Timestamp::now());
        object::map_at(new, &["status"]).insert("lastPhaseTransitionTime".to_owned(), now.into());
    }
    Ok(())
}

fn protect(object: &mut Value, finalizer: &str) {
    let list = object::meta(object).entry("finalizers").or_insert_with(|| json!([]));
    if let Some(list) = list.as_array_mut().filter(|list| !list.iter().any(|one| one == finalizer)) {
        list.push(finalizer.into());
    }
}
