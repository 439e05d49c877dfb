//! `metadata.managedFields`: the entries as an object carries them.

use std::{collections::BTreeMap, sync::LazyLock};

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::{
    fieldpath::{self, Path, Set},
    ownership::{Owned, Owners},
    value::equal,
};

/// So many managers by update an object remembers; the oldest beyond become one.
const MAX_UPDATE_MANAGERS: usize = 10;
const ANCIENT: &str = "ancient-changes";
/// The longest name of a manager, in bytes.
const MAX_NAME: usize = 128;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operation {
    Apply,
    #[default]
    Update,
}

/// What tells one entry from another.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Manager {
    pub name: String,
    pub operation: Operation,
    /// Empty for an applier, which stays the same one when it moves on to another version.
    pub api_version: String,
    pub subresource: String,
}

/// The decoded entries.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Managed {
    pub owners: Owners,
    pub times: BTreeMap<Manager, Timestamp>,
}

/// The manager of a request that names none: what stands before the `/` in its user agent.
pub fn manager_or_user_agent(manager: &str, user_agent: &str) -> String {
    if !manager.is_empty() {
        return manager.to_owned();
    }
    let product = user_agent.split('/').next().unwrap_or_default();
    let mut name = String::new();
    for c in product.chars().filter(|c| !c.is_control()) {
        if name.len() + c.len_utf8() > MAX_NAME {
            break;
        }
        name.push(c);
    }
    name
}

/// Puts the old times back into `new` if it differs from `old` in nothing else. To be called after defaulting, just
/// before the write, which then turns out to be none.
pub fn keep_times_if_unchanged(old: &Value, new: &mut Value) {
    let (Some(old_entries), Some(new_entries)) = (entries(old), entries(new)) else { return };
    let same_but_time = |a: &Value, b: &Value| {
        let (Value::Object(a), Value::Object(b)) = (a, b) else { return false };
        let rest = |map: &Map<String, Value>| map.iter().filter(|(name, _)| *name != "time").count();
        rest(a) == rest(b)
            && a.iter()
                .filter(|(name, _)| *name != "time")
                .all(|(name, a)| b.get(name).is_some_and(|b| equal(a, b)))
    };
    let same_entries = old_entries.len() == new_entries.len()
        && old_entries.iter().zip(new_entries).all(|(a, b)| same_but_time(a, b));
    if !same_entries || !equal_without_managed_fields(old, new) {
        return;
    }
    if let Some(place) = new.pointer_mut("/metadata/managedFields") {
        *place = Value::Array(old_entries.clone());
    }
}

fn equal_without_managed_fields(a: &Value, b: &Value) -> bool {
    let (Value::Object(a), Value::Object(b)) = (a, b) else { return equal(a, b) };
    let same_metadata = |a: &Value, b: &Value| {
        let (Value::Object(a), Value::Object(b)) = (a, b) else { return equal(a, b) };
        let fields = |map: &Map<String, Value>| map.len() - usize::from(map.contains_key("managedFields"));
        fields(a) == fields(b)
            && a.iter()
                .filter(|(name, _)| *name != "managedFields")
                .all(|(name, a)| b.get(name).is_some_and(|b| equal(a, b)))
    };
    a.len() == b.len()
        && a.iter().all(|(name, a)| {
            b.get(name).is_some_and(|b| if name == "metadata" { same_metadata(a, b) } else { equal(a, b) })
        })
}

pub(crate) fn entries(object: &Value) -> Option<&Vec<Value>> {
    object.pointer("/metadata/managedFields")?.as_array()
}

/// Takes the entries out of the object.
pub(crate) fn strip(object: &mut Value) {
    if let Some(Value::Object(metadata)) = object.get_mut("metadata") {
        metadata.remove("managedFields");
    }
}

pub(crate) fn store(object: &mut Value, managed: &Managed) {
    strip(object);
    let entries = managed.encode();
    if entries.is_empty() {
        return;
    }
    if let Value::Object(object) = object {
        let metadata = object.entry("metadata").or_insert_with(|| json!({}));
        if let Value::Object(metadata) = metadata {
            metadata.insert("managedFields".into(), Value::Array(entries));
        }
    }
}

/// A request that sends `[]` or `[{}]` wants the object to forget its managers.
pub(crate) fn is_reset(object: &Value) -> bool {
    match entries(object).map(Vec::as_slice) {
        Some([]) => true,
        Some([Value::Object(only)]) => only.is_empty(),
        _ => false,
    }
}

// === impl Managed ===

impl Managed {
    pub fn of(object: &Value) -> Result<Self, String> {
        Self::decode(entries(object).map(Vec::as_slice).unwrap_or_default())
    }

    pub fn decode(entries: &[Value]) -> Result<Self, String> {
        let mut managed = Self::default();
        for (i, entry) in entries.iter().enumerate() {
            let text = |name: &str| entry.get(name).and_then(Value::as_str).unwrap_or_default();
            let operation = match text("operation") {
                "Apply" => Operation::Apply,
                "Update" => Operation::Update,
                _ => return Err("operation must be `Apply` or `Update`".into()),
            };
            let api_version = text("apiVersion").to_owned();
            if api_version.is_empty() {
                return Err("apiVersion must not be empty".into());
            }
            match text("fieldsType") {
                "FieldsV1" => {}
                "" => return Err(format!("missing fieldsType in managed fields entry {i}")),
                other => return Err(format!("invalid fieldsType {other:?} in managed fields entry {i}")),
            }
            let set = match entry.get("fieldsV1") {
                None | Some(Value::Null) => Set::new(),
                Some(fields) => fieldpath::decode(fields).map_err(|e| format!("error decoding set: {e}"))?,
            };
            let manager = Manager::new(text("manager"), operation, &api_version, text("subresource"));
            if let Some(time) = entry.get("time").and_then(Value::as_str) {
                let time = time.parse().map_err(|e| format!("time of managed fields entry {i}: {e}"))?;
                managed.times.insert(manager.clone(), time);
            }
            managed.owners.insert(manager, Owned { set, api_version });
        }
        Ok(managed)
    }

    /// Appliers first, then by time, the latest last.
    pub fn encode(&self) -> Vec<Value> {
        let mut order: Vec<_> = self.owners.iter().collect();
        let time = |manager: &Manager| self.times.get(manager).map_or(0, |time| time.as_second());
        order.sort_by(|(a, owned_a), (b, owned_b)| {
            (a.operation, time(a), &a.name, &owned_a.api_version, &a.subresource).cmp(&(
                b.operation,
                time(b),
                &b.name,
                &owned_b.api_version,
                &b.subresource,
            ))
        });
        order.into_iter().map(|(manager, owned)| self.encode_entry(manager, owned)).collect()
    }

    fn encode_entry(&self, manager: &Manager, owned: &Owned) -> Value {
        let mut entry = Map::new();
        if !manager.name.is_empty() {
            entry.insert("manager".into(), manager.name.as_str().into());
        }
        let operation = match manager.operation {
            Operation::Apply => "Apply",
            Operation::Update => "Update",
        };
        entry.insert("operation".into(), operation.into());
        entry.insert("apiVersion".into(), owned.api_version.as_str().into());
        if let Some(time) = self.times.get(manager) {
            entry.insert("time".into(), time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string().into());
        }
        entry.insert("fieldsType".into(), "FieldsV1".into());
        entry.insert("fieldsV1".into(), fieldpath::encode(&owned.set));
        if !manager.subresource.is_empty() {
            entry.insert("subresource".into(), manager.subresource.as_str().into());
        }
        Value::Object(entry)
    }

    /// Nobody owns what the server itself writes and what names the object.
    pub(crate) fn without_identity(set: &Set) -> Set {
        static IDENTITY: LazyLock<Set> = LazyLock::new(|| {
            let of_metadata = [
                "name",
                "namespace",
                "creationTimestamp",
                "selfLink",
                "uid",
                "clusterName",
                "generation",
                "managedFields",
                "resourceVersion",
            ];
            let of_object = ["apiVersion", "kind", "metadata"].map(|field| Path::fields([field]));
            of_metadata.map(|field| Path::fields(["metadata", field])).into_iter().chain(of_object).collect()
        });
        set.difference(&IDENTITY)
    }

    /// Merges the oldest entries by update, version by version, until there are few enough.
    pub(crate) fn cap(&mut self) {
        let mut updaters: Vec<Manager> =
            self.owners.keys().filter(|manager| manager.operation == Operation::Update).cloned().collect();
        updaters
            .sort_by_key(|manager| (self.times.get(manager).map_or(0, |t| t.as_second()), manager.clone()));
        let mut surplus = updaters.len().saturating_sub(MAX_UPDATE_MANAGERS);
        let mut first_of_version: BTreeMap<String, Manager> = BTreeMap::new();
        for manager in updaters {
            if surplus == 0 {
                return;
            }
            let Some(owned) = self.owners.get(&manager).cloned() else { continue };
            let Some(first) = first_of_version.get(&owned.api_version) else {
                first_of_version.insert(owned.api_version.clone(), manager);
                continue;
            };
            let bucket = Manager::new(ANCIENT, Operation::Update, &owned.api_version, "");
            if !self.owners.contains_key(&bucket)
                && let Some(first) = self.owners.remove(first)
            {
                self.owners.insert(bucket.clone(), first);
            }
            self.owners.remove(&manager);
            if let Some(ancient) = self.owners.get_mut(&bucket) {
                ancient.set = std::mem::take(&mut ancient.set).union(&owned.set);
            }
            // the later of the two times
            match self.times.get(&manager) {
                Some(time) => self.times.insert(bucket, *time),
                None => self.times.remove(&bucket),
            };
            surplus -= 1;
        }
    }
}

// === impl Manager ===

impl Manager {
    pub fn new(name: &str, operation: Operation, api_version: &str, subresource: &str) -> Self {
        Self {
            name: name.to_owned(),
            operation,
            api_version: if operation == Operation::Apply { String::new() } else { api_version.to_owned() },
            subresource: subresource.to_owned(),
        }
    }
}
