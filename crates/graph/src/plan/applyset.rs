//! Which objects belong to an instance: labels on them, an inventory on the instance, and what has to go.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use base64::Engine;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::{Identity, Observed, nodes::Outcome, text};
use crate::{Graph, compile::Node, kinds::split, labels};

/// Metadata that an instance has so that its members can be found, whatever happens to the definition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inventory {
    pub labels: BTreeMap<String, String>,
    pub annotations: BTreeMap<String, String>,
}

fn hash(text: &str) -> String {
    base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(Sha256::digest(text))
}

/// `applyset-<hash of name.namespace.kind.group>-v1`
pub fn applyset_id(instance: &Value) -> String {
    let (group, _) = split(text(instance, "/apiVersion"));
    let parts = [
        text(instance, "/metadata/name"),
        text(instance, "/metadata/namespace"),
        text(instance, "/kind"),
        group,
    ];
    format!("applyset-{}-v1", hash(&parts.join(".")))
}

/// Labels and annotations that tie an object to its instance. `collection` is its place and the number of all.
pub(super) fn tie(
    graph: &Graph,
    instance: &Value,
    node: &Node,
    collection: Option<(usize, usize)>,
    object: &mut Value,
) {
    let (group, version) = split(text(instance, "/apiVersion"));
    let mut tied = BTreeMap::from([
        (labels::OWNED, "true".to_owned()),
        (labels::VERSION, labels::OUR_VERSION.to_owned()),
        (labels::INSTANCE_ID, text(instance, "/metadata/uid").to_owned()),
        (labels::INSTANCE_NAME, text(instance, "/metadata/name").to_owned()),
        (labels::INSTANCE_GROUP, group.to_owned()),
        (labels::INSTANCE_VERSION, version.to_owned()),
        (labels::INSTANCE_KIND, text(instance, "/kind").to_owned()),
        (labels::MANAGED_BY, "kro".to_owned()),
        (labels::NODE_ID, node.id.clone()),
        (labels::PART_OF, applyset_id(instance)),
    ]);
    let namespace = text(instance, "/metadata/namespace");
    if !namespace.is_empty() {
        tied.insert(labels::INSTANCE_NAMESPACE, namespace.to_owned());
    }
    if let Some((index, size)) = collection {
        tied.insert(labels::COLLECTION_INDEX, index.to_string());
        tied.insert(labels::COLLECTION_SIZE, size.to_string());
    }
    let number = graph.nodes.iter().position(|other| other.id == node.id).unwrap_or_default();
    let order = graph.order.apply_order.get(number).copied().unwrap_or(1);
    let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) else { return };
    let mut put = |part: &str, key: &str, value: String| {
        let map = metadata.entry(part).or_insert_with(|| json!({}));
        if !map.is_object() {
            *map = json!({});
        }
        map[key] = value.into();
    };
    for (key, value) in tied {
        put("labels", key, value);
    }
    put("annotations", labels::APPLY_ORDER, order.to_string());
    let hash = format!("sha256:{}", hash(&object.to_string()));
    object["metadata"]["annotations"][labels::MANIFEST_HASH] = hash.into();
}

/// Whether the live object was applied as it is wanted now. One that was not says nothing about readiness: its status
/// is about what was wanted before.
pub(super) fn is_current(live: &Value, wanted: &Value) -> bool {
    let hash = |object: &Value| object["metadata"]["annotations"][labels::MANIFEST_HASH].clone();
    hash(live) == hash(wanted)
}

/// The inventory while objects are applied (what was and what is to be) and afterwards.
pub(super) fn inventories(graph: &Graph, instance: &Value, outcomes: &[Outcome]) -> (Inventory, Inventory) {
    // those of resources that wait or are left out too: the inventory is written once, not as they come
    let managed = graph.nodes.iter().filter(|node| !node.is_external());
    let mut kinds: BTreeSet<String> = managed
        .map(|node| group_kind(&json!({ "apiVersion": node.api_version, "kind": node.kind })))
        .collect();
    let mut namespaces = BTreeSet::new();
    for outcome in outcomes.iter().filter(|outcome| !graph.nodes[outcome.node].is_external()) {
        for object in &outcome.desired {
            kinds.insert(group_kind(object));
            namespaces.insert(text(object, "/metadata/namespace").to_owned());
        }
    }
    let after = inventory(graph, instance, kinds.clone(), namespaces.clone());
    let annotation = |key: &str| {
        let text = instance["metadata"]["annotations"].get(key).and_then(Value::as_str).unwrap_or_default();
        text.split(',').filter(|part| !part.is_empty()).map(str::to_owned).collect::<Vec<_>>()
    };
    kinds.extend(annotation(labels::GROUP_KINDS));
    namespaces.extend(annotation(labels::NAMESPACES));
    (inventory(graph, instance, kinds, namespaces), after)
}

fn group_kind(object: &Value) -> String {
    let kind = text(object, "/kind");
    match split(text(object, "/apiVersion")).0 {
        "" => kind.to_owned(),
        group => format!("{kind}.{group}"),
    }
}

fn inventory(
    graph: &Graph,
    instance: &Value,
    kinds: BTreeSet<String>,
    mut namespaces: BTreeSet<String>,
) -> Inventory {
    namespaces.remove("");
    namespaces.remove(text(instance, "/metadata/namespace"));
    let joined = |parts: BTreeSet<String>| parts.into_iter().collect::<Vec<_>>().join(",");
    let (kinds, namespaces) = (joined(kinds), joined(namespaces));
    let id = applyset_id(instance);
    let mut own = crate::labels::of_generated_kind(&graph.owner);
    own.insert(labels::APPLYSET_ID.to_owned(), id.clone());
    Inventory {
        labels: own,
        annotations: BTreeMap::from([
            (labels::TOOLING.to_owned(), format!("kro/{}", labels::OUR_VERSION)),
            (labels::INVENTORY_HASH.to_owned(), inventory_hash(&id, &kinds, &namespaces)),
            (labels::GROUP_KINDS.to_owned(), kinds),
            (labels::NAMESPACES.to_owned(), namespaces),
        ]),
    }
}

pub(super) fn inventory_hash(id: &str, kinds: &str, namespaces: &str) -> String {
    format!("sha256:{}", hash(&format!("{id}\0{kinds}\0{namespaces}")))
}

/// Members that nothing wants any more: those of unknown nodes first, then against the order of the graph.
pub(super) fn prune(
    graph: &Graph,
    instance: &Value,
    outcomes: &[Outcome],
    observed: &dyn Observed,
) -> Vec<Vec<Identity>> {
    let wanted: BTreeSet<Identity> =
        outcomes.iter().flat_map(|outcome| outcome.desired.iter().map(Identity::of)).collect();
    let position: HashMap<&str, usize> = graph
        .order
        .sorted
        .iter()
        .enumerate()
        .map(|(position, node)| (graph.nodes[*node].id.as_str(), position))
        .collect();
    let mut waves: BTreeMap<std::cmp::Reverse<usize>, Vec<Identity>> = BTreeMap::new();
    for member in observed.labelled(labels::PART_OF, &applyset_id(instance)) {
        let identity = Identity::of(&member);
        if wanted.contains(&identity) || !text(&member, "/metadata/deletionTimestamp").is_empty() {
            continue;
        }
        let node =
            member["metadata"]["labels"].get(labels::NODE_ID).and_then(Value::as_str).unwrap_or_default();
        let position = position.get(node).copied().unwrap_or(usize::MAX);
        waves.entry(std::cmp::Reverse(position)).or_default().push(identity);
    }
    waves.into_values().collect()
}
