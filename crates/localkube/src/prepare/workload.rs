//! Jobs, DaemonSets and Ingresses.

use serde_json::Value;

use super::{Context, newest_marked};
use crate::{error::Result, object};

const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";
const DEFAULT_CLASS: &str = "ingressclass.kubernetes.io/is-default-class";

/// A Job's pods carry its uid, which nothing else has: that is its selector, unless it brings one.
pub fn job(new: &mut Value, old: Option<&Value>, _: &Context<'_>) -> Result<()> {
    if old.is_some() || new["spec"]["manualSelector"] == true {
        return Ok(());
    }
    let (uid, name) = (object::uid(new).to_owned(), object::name(new).to_owned());
    let own = object::at(new, &["metadata", "labels"]).cloned();
    let given = object::at(new, &["spec", "template", "metadata", "labels"]).cloned();
    let labels = object::map_at(new, &["spec", "template", "metadata", "labels"]);
    for (key, value) in [
        ("job-name", &name),
        ("batch.kubernetes.io/job-name", &name),
        ("controller-uid", &uid),
        ("batch.kubernetes.io/controller-uid", &uid),
    ] {
        labels.entry(key).or_insert_with(|| value.as_str().into());
    }
    object::map_at(new, &["spec", "selector", "matchLabels"])
        .entry("batch.kubernetes.io/controller-uid")
        .or_insert_with(|| uid.into());
    // A Job without labels of its own has those of its template, also the generated ones.
    if own.is_none() || own == given {
        let labels = new["spec"]["template"]["metadata"]["labels"].clone();
        object::meta(new).insert("labels".to_owned(), labels);
    }
    Ok(())
}

/// Part of what a client sends, as far as the API is concerned, although the server counts it.
pub fn daemon_set_mark(set: &mut Value) {
    object::map_at(set, &["metadata", "annotations"])
        .entry(TEMPLATE_GENERATION)
        .or_insert_with(|| "0".into());
}

/// How often the template changed; old clients read it from an annotation.
pub fn daemon_set(new: &mut Value, old: Option<&Value>, _: &Context<'_>) -> Result<()> {
    let count = match old {
        None => "1".to_owned(),
        Some(old) => {
            let before = object::text(old, &["metadata", "annotations", TEMPLATE_GENERATION]);
            let count: i64 = before.parse().unwrap_or(1);
            let changed = old["spec"]["template"] != new["spec"]["template"];
            (count + i64::from(changed)).to_string()
        }
    };
    object::map_at(new, &["metadata", "annotations"]).insert(TEMPLATE_GENERATION.to_owned(), count.into());
    Ok(())
}

/// An Ingress that names no class is of the default one.
pub fn ingress(new: &mut Value, old: Option<&Value>, context: &Context<'_>) -> Result<()> {
    let named = object::at(new, &["spec", "ingressClassName"]).is_some()
        || !object::text(new, &["metadata", "annotations", "kubernetes.io/ingress.class"]).is_empty();
    if old.is_some() || named {
        return Ok(());
    }
    if let Some(class) = newest_marked(context, ("networking.k8s.io", "ingressclasses"), DEFAULT_CLASS) {
        object::map_at(new, &["spec"]).insert("ingressClassName".to_owned(), class.into());
    }
    Ok(())
}
