//! What is known of the cluster, for one plan: the caches, and what was asked for beside them.

use std::{
    borrow::Cow,
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
};

use engine::{Cached, IndexId, kind::Kind, object::label};
use graph::{
    labels,
    plan::{Identity, Observed},
};
use kube::api::DynamicObject;
use serde_json::Value;

use super::{Interest, object};

/// A kind that instances read or write.
pub(super) struct Child {
    pub kind: Kind,
    pub cache: Cached<DynamicObject>,
    /// By the set of applied objects that they are part of.
    part_of: IndexId,
}

impl Child {
    pub fn new(kind: &Kind, cache: Cached<DynamicObject>) -> Self {
        let part_of = cache.index("part of", |object| {
            label(&object.metadata, labels::PART_OF).into_iter().map(str::to_owned).collect()
        });
        Self { kind: kind.clone(), cache, part_of }
    }
}

pub(super) struct Seen<'a> {
    children: &'a BTreeMap<(String, String), Child>,
    /// Read from the server just now: newer than the caches.
    extra: &'a BTreeMap<Identity, Value>,
    own: String,
    interests: RefCell<Vec<Interest>>,
}

impl<'a> Seen<'a> {
    /// `own` is the set of applied objects of the instance that is planned for.
    pub fn new(
        children: &'a BTreeMap<(String, String), Child>,
        extra: &'a BTreeMap<Identity, Value>,
        own: String,
    ) -> Self {
        Self { children, extra, own, interests: RefCell::default() }
    }

    /// What was asked for and is not the instance's own.
    pub fn interests(self) -> Vec<Interest> {
        let mut interests = self.interests.into_inner();
        let mut known = std::collections::HashSet::new();
        interests.retain(|interest| known.insert(interest.clone()));
        interests
    }

    fn child(&self, api_version: &str, kind: &str) -> Option<&'a Child> {
        self.children.get(&(api_version.to_owned(), kind.to_owned()))
    }
}

impl Observed for Seen<'_> {
    fn get(&self, identity: &Identity) -> Option<Cow<'_, Value>> {
        if let Some(extra) = self.extra.get(identity) {
            return Some(Cow::Borrowed(extra));
        }
        let child = self.child(&identity.api_version, &identity.kind)?;
        let found = child.cache.get(&object::key(identity));
        let is_own = found
            .as_ref()
            .is_some_and(|found| label(&found.metadata, labels::PART_OF) == Some(self.own.as_str()));
        if !is_own {
            self.interests.borrow_mut().push(Interest::Object(identity.clone()));
        }
        found.map(|found| Cow::Owned(object::value(&child.kind, &found)))
    }

    fn list(&self, api_version: &str, kind: &str, namespace: Option<&str>) -> Vec<Cow<'_, Value>> {
        self.interests.borrow_mut().push(Interest::Kind {
            api_version: api_version.to_owned(),
            kind: kind.to_owned(),
            namespace: namespace.map(str::to_owned),
        });
        let Some(child) = self.child(api_version, kind) else { return Vec::new() };
        let found = match namespace {
            Some(namespace) => child.cache.in_namespace(namespace),
            None => child.cache.all(),
        };
        found.iter().map(|found| Cow::Owned(object::value(&child.kind, found))).collect()
    }

    /// Only members of sets of applied objects are ever asked for.
    fn labelled(&self, key: &str, value: &str) -> Vec<Cow<'_, Value>> {
        let has =
            |object: &Value| object["metadata"]["labels"].get(key).and_then(Value::as_str) == Some(value);
        let mut members: Vec<Cow<'_, Value>> =
            self.extra.values().filter(|object| has(object)).map(Cow::Borrowed).collect();
        let mut known: BTreeSet<Identity> = self.extra.keys().cloned().collect();
        for child in self.children.values().filter(|_| key == labels::PART_OF) {
            for found in child.cache.by_index(child.part_of, value) {
                let member = object::value(&child.kind, &found);
                if known.insert(Identity::of(&member)) {
                    members.push(Cow::Owned(member));
                }
            }
        }
        members
    }
}
