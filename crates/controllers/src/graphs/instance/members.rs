//! Members of an instance that the caches do not show: of kinds that its definition no longer has, and those about which
//! an old cache would be expensive.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::{Mutex, PoisonError},
};

use engine::{Key, PlanError, execute, kind::Kind};
use graph::{
    labels,
    plan::{Identity, Plan, applyset_id},
};
use kube::{Client, api::ListParams};
use serde_json::Value;

use super::{Child, object};
use crate::graphs::discovery;

pub(super) struct Members {
    client: Client,
    /// Kinds of inventories that are not watched, by group and kind.
    kinds: Mutex<HashMap<(String, String), Kind>>,
}

/// What the server is to be asked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Questions {
    /// Objects with a count that may be an autoscaler's: it would be taken back by who believes that they do not exist.
    objects: BTreeSet<Identity>,
    /// Group and kind, of which all members are to be found before they leave the inventory.
    kinds: BTreeSet<String>,
}

/// What was asked in this plan.
#[derive(Default)]
pub(super) struct Asked(Questions);

impl Members {
    pub fn new(client: Client) -> Self {
        Self { client, kinds: Mutex::default() }
    }

    /// What has to be known before the plan can be carried out.
    pub fn questions(
        &self,
        plan: &Plan,
        instance: &Value,
        children: &BTreeMap<(String, String), Child>,
        Asked(asked): &Asked,
    ) -> Questions {
        let desired = plan.nodes.iter().flat_map(|node| &node.desired);
        let is_cached = |identity: &Identity| {
            let child = children.get(&(identity.api_version.clone(), identity.kind.clone()));
            child.is_some_and(|child| child.cache.get(&object::key(identity)).is_some())
        };
        let objects = desired
            .filter(|object| !object["spec"]["replicas"].is_null())
            .map(Identity::of)
            .filter(|identity| !is_cached(identity) && !asked.objects.contains(identity));
        let kept = parts(plan.inventory_after.annotations.get(labels::GROUP_KINDS).map(String::as_str));
        let kinds = group_kinds(instance)
            .into_iter()
            .filter(|kind| !kept.contains(kind) && !asked.kinds.contains(kind));
        Questions { objects: objects.collect(), kinds: kinds.collect() }
    }

    pub async fn ask(
        &self,
        questions: &Questions,
        instance: &Value,
        children: &BTreeMap<(String, String), Child>,
    ) -> Result<BTreeMap<Identity, Value>, PlanError> {
        let mut found = self.list(instance, &questions.kinds, children).await?;
        for identity in &questions.objects {
            let place = (identity.api_version.clone(), identity.kind.clone());
            let Some(child) = children.get(&place) else { continue };
            let Key { namespace, name } = object::key(identity);
            let api = execute::api(&self.client, &child.kind, Some(&namespace));
            if let Some(live) = api.get_opt(&name).await? {
                found.insert(identity.clone(), object::value(&child.kind, &live));
            }
        }
        Ok(found)
    }

    /// All that the server has of what the instance's inventory may hold.
    pub async fn of_inventory(
        &self,
        instance: &Value,
        children: &BTreeMap<(String, String), Child>,
    ) -> Result<BTreeMap<Identity, Value>, PlanError> {
        self.list(instance, &group_kinds(instance), children).await
    }

    pub fn kind_of(&self, identity: &Identity) -> Option<Kind> {
        let group = engine::kind::group_of(&identity.api_version).to_owned();
        let kinds = self.kinds.lock().unwrap_or_else(PoisonError::into_inner);
        kinds.get(&(group, identity.kind.clone())).cloned()
    }

    async fn list(
        &self,
        instance: &Value,
        kinds: &BTreeSet<String>,
        children: &BTreeMap<(String, String), Child>,
    ) -> Result<BTreeMap<Identity, Value>, PlanError> {
        let mut found = BTreeMap::new();
        let selected = format!("{}={}", labels::PART_OF, applyset_id(instance));
        let annotation = instance["metadata"]["annotations"].get(labels::NAMESPACES).and_then(Value::as_str);
        let mut namespaces = parts(annotation);
        namespaces.insert(object::text(instance, "/metadata/namespace").to_owned());
        namespaces.remove("");
        for group_kind in kinds {
            let (kind, group) = group_kind.split_once('.').unwrap_or((group_kind, ""));
            // What is watched is served; of others the server is asked, and a kind that is gone has taken its objects along.
            let is_it = |child: &&Child| *child.kind.group == *group && *child.kind.kind == *kind;
            let kind = match children.values().find(is_it).filter(|child| child.cache.is_synced()) {
                Some(child) => child.kind.clone(),
                None => match discovery::find(&self.client, group, kind).await? {
                    Some(kind) => kind,
                    None => continue,
                },
            };
            let mut places: Vec<Option<&str>> = vec![None];
            if kind.namespaced {
                places = namespaces.iter().map(|namespace| Some(namespace.as_str())).collect();
            }
            for place in places {
                let api = execute::api(&self.client, &kind, place);
                for member in api.list(&ListParams::default().labels(&selected)).await? {
                    let member = object::value(&kind, &member);
                    found.insert(Identity::of(&member), member);
                }
            }
            let mut known = self.kinds.lock().unwrap_or_else(PoisonError::into_inner);
            known.insert((kind.group.to_string(), kind.kind.to_string()), kind);
        }
        Ok(found)
    }
}

impl Questions {
    pub fn is_empty(&self) -> bool {
        self.objects.is_empty() && self.kinds.is_empty()
    }
}

impl Asked {
    pub fn note(&mut self, questions: Questions) {
        self.0.objects.extend(questions.objects);
        self.0.kinds.extend(questions.kinds);
    }
}

fn group_kinds(instance: &Value) -> BTreeSet<String> {
    parts(instance["metadata"]["annotations"].get(labels::GROUP_KINDS).and_then(Value::as_str))
}

fn parts(list: Option<&str>) -> BTreeSet<String> {
    list.unwrap_or_default().split(',').filter(|part| !part.is_empty()).map(str::to_owned).collect()
}
