//! CustomResourceDefinitions: accepting names, establishing, and cleaning up behind a definition that goes.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::{
    ApiServer,
    call::Call,
    error::ApiError,
    object,
    prepare::Context,
    registry::{Kind, Registry},
    storage::ReadAt,
    verbs::{self, DeleteOptions, Proposal},
};

pub const TABLE: &str = "customresourcedefinitions.apiextensions.k8s.io";
const CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";

/// Row hook: a definition remembers in which versions its objects were ever kept.
pub fn prepare(crd: &mut Value, old: Option<&Value>, context: &Context<'_>) {
    let Some(old) = old.filter(|_| context.subresource.is_none()) else { return };
    let mut stored = old["status"]["storedVersions"].as_array().cloned().unwrap_or_default();
    let versions = crd["spec"]["versions"].as_array();
    let storage = versions.into_iter().flatten().find(|version| version["storage"] == true);
    if let Some(name) = storage.map(|version| version["name"].clone())
        && !stored.contains(&name)
    {
        stored.push(name);
    }
    object::map_at(crd, &["status"]).insert("storedVersions".to_owned(), stored.into());
}

/// Decides whether the names of a definition are free, says so in its status, and serves its kind. The real server
/// leaves this to controllers, and so the answer to a creation does not show it there either.
pub async fn establish(server: &ApiServer, name: &str) {
    let registry = server.registry();
    let Some(definitions) = registry.resource("apiextensions.k8s.io", "customresourcedefinitions") else {
        return;
    };
    let mut call = Call::internal(server, definitions, "", name);
    call.target.subresource = "status".to_owned();
    let propose = |live: Option<&Value>| {
        let live = live.ok_or_else(|| ApiError::not_found(&call.subject(), name))?;
        let mut object = live.clone();
        object["status"] = status(live, &registry);
        Ok(Proposal { object, tracked: true })
    };
    if let Err(error) = verbs::update_object(&call, propose, false, "UpdateOptions").await
        && error.code() != 404
    {
        tracing::warn!(definition = name, %error, "cannot establish a custom resource definition");
    }
    if let Some(record) = server.store().get(definitions.table, name) {
        server.definition_changed(&record.to_value());
    }
}

fn status(crd: &Value, registry: &Registry) -> Value {
    let conflict = name_conflict(crd, registry);
    let now = object::timestamp(Timestamp::now());
    let mut status = crd["status"].clone();
    let mut conditions = status["conditions"].as_array().cloned().unwrap_or_default();
    let mut set = |kind: &str, status: bool, reason: &str, message: &str| {
        let status = if status { "True" } else { "False" };
        let condition = json!({"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": now});
        match conditions.iter_mut().find(|one| one["type"] == kind) {
            Some(one) if one["status"] == status => {}
            Some(one) => *one = condition,
            None => conditions.push(condition),
        }
    };
    match &conflict {
        None => {
            set("NamesAccepted", true, "NoConflicts", "no conflicts found");
            set("Established", true, "InitialNamesAccepted", "the initial names have been accepted");
            status["acceptedNames"] = crd["spec"]["names"].clone();
        }
        Some((reason, message)) => {
            set("NamesAccepted", false, reason, message);
            // What was served once stays so under its old names.
            if !is_established(crd) {
                set("Established", false, "NotAccepted", "not all names are accepted");
            }
        }
    }
    status["conditions"] = conditions.into();
    status
}

/// Reason and message, if another kind of the group has one of the names already.
fn name_conflict(crd: &Value, registry: &Registry) -> Option<(&'static str, String)> {
    let spec = &crd["spec"];
    let group = spec["group"].as_str().unwrap_or_default();
    let plural = spec["names"]["plural"].as_str().unwrap_or_default();
    let text = |key: &str| spec["names"][key].as_str().unwrap_or_default().to_owned();
    for other in registry.kinds().filter(|other| other.group == group && other.plural != plural) {
        let taken = |name: &str| {
            *other.plural == *name
                || *other.singular == *name
                || other.short_names.iter().any(|one| one == name)
        };
        let resources = std::iter::once(text("plural")).chain([text("singular")]).chain(
            spec["names"]["shortNames"]
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(|name| name.as_str().map(str::to_owned)),
        );
        let reasons =
            ["PluralConflict", "SingularConflict"].into_iter().chain(std::iter::repeat("ShortNamesConflict"));
        for (name, reason) in resources.zip(reasons) {
            if taken(&name) {
                return Some((reason, format!("{name:?} is already in use")));
            }
        }
        for (key, reason) in [("kind", "KindConflict"), ("listKind", "ListKindConflict")] {
            let name = text(key);
            if *other.kind == *name || *other.list_kind == *name {
                return Some((reason, format!("{name:?} is already in use")));
            }
        }
    }
    None
}

/// Row hook: the first DELETE.
pub fn terminate(crd: &mut Value, now: Timestamp) {
    let finalizers = object::meta(crd).entry("finalizers").or_insert_with(|| json!([]));
    if let Some(list) = finalizers.as_array_mut()
        && !list.iter().any(|one| one == CLEANUP)
    {
        list.push(CLEANUP.into());
    }
    let condition = json!({
        "type": "Terminating",
        "status": "True",
        "reason": "InstanceDeletionPending",
        "message": "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon",
        "lastTransitionTime": object::timestamp(now),
    });
    let conditions = object::map_at(crd, &["status"]).entry("conditions").or_insert_with(|| json!([]));
    if let Some(list) = conditions.as_array_mut() {
        list.push(condition);
    }
}

pub fn is_established(crd: &Value) -> bool {
    crd["status"]["conditions"]
        .as_array()
        .is_some_and(|list| list.iter().any(|one| one["type"] == "Established" && one["status"] == "True"))
}

pub fn needs_cleanup(crd: &Value) -> bool {
    object::is_deleting(crd) && object::finalizers(crd).contains(&CLEANUP)
}

/// Deletes every object of the kind, waits until the last is gone, and lets the definition go.
pub async fn clean_up(server: ApiServer, name: String) {
    let registry = server.registry();
    let Some(definitions) = registry.resource("apiextensions.k8s.io", "customresourcedefinitions") else {
        return;
    };
    let call = Call::internal(&server, definitions, "", &name);
    let kind = registry
        .kinds()
        .find(|kind| kind.origin == crate::registry::Origin::Custom && kind.table_name == *name)
        .cloned();
    if let Some(kind) = kind {
        delete_instances(&server, &kind).await;
    }
    let propose = |live: Option<&Value>| {
        let Some(live) = live else {
            return Err(ApiError::not_found(&call.subject(), &name));
        };
        let mut object = live.clone();
        if let Some(list) = object::meta(&mut object).get_mut("finalizers").and_then(Value::as_array_mut) {
            list.retain(|finalizer| finalizer != CLEANUP);
        }
        Ok(Proposal { object, tracked: true })
    };
    if let Err(error) = verbs::update_object(&call, propose, false, "UpdateOptions").await
        && error.code() != 404
    {
        tracing::warn!(definition = name, %error, "cannot finish the deletion of a custom resource definition");
    }
}

async fn delete_instances(server: &ApiServer, kind: &std::sync::Arc<Kind>) {
    let mut watcher = server.store().watch(kind.table, server.store().revision());
    loop {
        let Ok(listing) = server.store().list(kind.table, "", None, ReadAt::Latest, usize::MAX, |_| true)
        else {
            return;
        };
        if listing.records.is_empty() {
            return;
        }
        for record in listing.records {
            let call = Call::internal(server, kind, record.namespace(), record.name());
            if let Err(error) = verbs::delete_object(&call, &DeleteOptions::default()).await
                && error.code() != 404
            {
                tracing::warn!(kind = %kind.kind, object = %record.key, %error, "cannot delete a custom resource");
            }
        }
        if server.store().count(kind.table) == 0 {
            return;
        }
        // Finalizers hold some back; look again when something happens to the kind.
        watcher.changed().await;
        let _ = watcher.poll_events();
    }
}
