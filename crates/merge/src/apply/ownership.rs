//! Who owns which fields, and how that changes: the algorithm, free of how an object stores it.

use std::{borrow::Cow, collections::BTreeMap};

use schema::Schema;
use serde_json::Value;

use super::{
    conflict::Conflict,
    fieldpath::{Path, Set},
    managed_fields::Manager,
    typed::{self, Comparison, Type, with_named_parents},
    value::equal,
};

/// The versions of a kind. A manager owns fields in the version that it used, and keeps them when others use another.
pub trait Versions {
    /// The type of the kind in `api_version`; `None` if there is no such version (any more).
    fn type_of(&self, api_version: &str) -> Option<Type<'_>>;

    /// `object` as an object of `api_version`, which is one that [`Versions::type_of`] knows.
    fn convert(&self, object: &Value, api_version: &str) -> Result<Value, String>;
}

/// Versions that an object changes between by its `apiVersion` alone: every custom resource with the conversion
/// strategy `None`, and kinds with one version.
#[derive(Clone, Debug, Default)]
pub struct SameObject<'a> {
    /// By `apiVersion`; a version without a schema is deduced from the values.
    pub schemas: BTreeMap<&'a str, Option<&'a Schema>>,
}

/// What a request may not change through its resource, and so cannot own: `status` through the main resource,
/// everything but `status` through the status subresource. The server puts these fields back to what they were.
#[derive(Clone, Debug, Default)]
pub enum Reset {
    #[default]
    Nothing,
    /// These, with everything below them.
    Fields(Set),
    /// All but these.
    AllBut(Set),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owned {
    pub set: Set,
    pub api_version: String,
}

pub type Owners = BTreeMap<Manager, Owned>;

/// Why ownership could not be worked out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    Conflicts(Vec<Conflict>),
    /// A conversion between versions failed.
    Conversion(String),
}

pub struct Ownership<'a> {
    pub versions: &'a dyn Versions,
    pub reset: &'a Reset,
    /// The version of the request.
    pub api_version: &'a str,
}

/// What an apply makes of an object.
pub struct Outcome {
    /// `None` if the configuration changes nothing.
    pub object: Option<Value>,
    pub owners: Owners,
}

/// An object in one of its versions.
#[derive(Clone)]
struct Versioned<'v> {
    value: Cow<'v, Value>,
    api_version: Cow<'v, str>,
}

impl Ownership<'_> {
    /// `live` became `new` by the hand of `manager`: it owns what it changed, and the others own it no longer.
    pub fn update(
        &self,
        live: &Value,
        new: &Value,
        owners: Owners,
        manager: &Manager,
    ) -> Result<Owners, Failure> {
        let owners = self.reconcile(live, owners)?;
        let (mut owners, comparison) = self.hand_over(live, new, owners, manager, true)?;
        let own = owners.remove(manager).map(|owned| owned.set).unwrap_or_default();
        let set = own.difference(&comparison.removed).union(&comparison.modified).union(&comparison.added);
        let set = self.reset.filter(set);
        if !set.is_empty() {
            owners.insert(manager.clone(), Owned { set, api_version: self.api_version.to_owned() });
        }
        Ok(owners)
    }

    /// `manager` wants `live` to have what `config` says, and no more of what it applied the last time.
    pub fn apply(
        &self,
        live: &Value,
        config: &Value,
        owners: Owners,
        manager: &Manager,
        force: bool,
    ) -> Result<Outcome, Failure> {
        let mut owners = self.reconcile(live, owners)?;
        let of = self.own_type();
        let merged = typed::merge(live, config, of);
        let set = self.reset.filter(typed::to_set(config, of));
        let last = owners.insert(manager.clone(), Owned { set, api_version: self.api_version.to_owned() });
        let object = match last {
            Some(last) if !last.set.is_empty() => self.prune(merged, &owners, &last)?,
            _ => merged,
        };
        let (owners, _) = self.hand_over(live, &object, owners, manager, force)?;
        Ok(Outcome { object: (!equal(live, &object)).then_some(object), owners })
    }

    /// Takes from the others what differs between `old` and `new`.
    fn hand_over(
        &self,
        old: &Value,
        new: &Value,
        mut owners: Owners,
        manager: &Manager,
        force: bool,
    ) -> Result<(Owners, Comparison), Failure> {
        let own = self.filtered(typed::compare(old, new, self.own_type()));
        let mut by_version = BTreeMap::from([(self.api_version.to_owned(), own.clone())]);
        let mut conflicts = Vec::new();
        let mut gone = Vec::new();
        let mut remaining = Owners::new();
        for (other, owned) in owners.iter().filter(|(other, _)| *other != manager) {
            if !by_version.contains_key(&owned.api_version) {
                let (Some(old), Some(new)) = (
                    self.convert(self.at_own(old), &owned.api_version)?,
                    self.convert(self.at_own(new), &owned.api_version)?,
                ) else {
                    gone.push(other.clone());
                    continue;
                };
                let comparison = typed::compare(&old.value, &new.value, self.type_of(&owned.api_version));
                by_version.insert(owned.api_version.clone(), self.filtered(comparison));
            }
            let comparison = &by_version[&owned.api_version];
            let changed = comparison.modified.clone().union(&comparison.added);
            let conflict = owned.set.intersection(&changed);
            conflicts
                .extend(conflict.paths().into_iter().map(|path| Conflict { manager: other.clone(), path }));
            let set = owned.set.difference(&conflict).difference(&comparison.removed);
            remaining.insert(other.clone(), Owned { set, api_version: owned.api_version.clone() });
        }
        if !force && !conflicts.is_empty() {
            return Err(Failure::Conflicts(conflicts));
        }
        owners.extend(remaining);
        owners.retain(|other, owned| !gone.contains(other) && !owned.set.is_empty());
        Ok((owners, own))
    }

    /// Removes what the manager applied the last time, not this time, and nobody else owns.
    fn prune(&self, merged: Value, owners: &Owners, last: &Owned) -> Result<Value, Failure> {
        let merged = Versioned { value: Cow::Owned(merged), api_version: Cow::Borrowed(self.api_version) };
        let Some(converted) = self.convert(merged.clone(), &last.api_version)? else {
            return Ok(merged.value.into_owned());
        };
        let of = self.type_of(&last.api_version);
        let last_set = with_named_parents(&last.set, of);
        let mut pruned = converted.with(typed::remove(&converted.value, &last_set, of));

        // what others own comes back, in each version they own it in; the present version first, so that a
        // conversion finds the fields it needs
        let mut owned_in: BTreeMap<&str, Set> = BTreeMap::new();
        for owned in owners.values() {
            let set = owned_in.entry(&owned.api_version).or_default();
            *set = std::mem::take(set).union(&owned.set);
        }
        let mut whole = converted.clone();
        let first = owned_in.remove(last.api_version.as_str()).map(|set| (last.api_version.as_str(), set));
        for (version, owned) in first.into_iter().chain(owned_in) {
            let (Some(w), Some(p)) =
                (self.convert(whole.clone(), version)?, self.convert(pruned.clone(), version)?)
            else {
                continue;
            };
            let of = self.type_of(version);
            let had = with_named_parents(&typed::to_set(&w.value, of), of);
            let has = with_named_parents(&typed::to_set(&p.value, of), of);
            let surplus = had.difference(&has.union(&with_named_parents(&owned, of)));
            pruned = w.with(typed::remove(&w.value, &surplus, of));
            whole = w;
        }

        // and so does what was never the manager's
        let Some(pruned) = self.convert(pruned, &last.api_version)? else {
            return Ok(merged.value.into_owned());
        };
        let has = with_named_parents(&typed::to_set(&pruned.value, of), of);
        let had = with_named_parents(&typed::to_set(&converted.value, of), of);
        let surplus = had.difference(&has).intersection(&last_set);
        let result = converted.with(typed::remove(&converted.value, &surplus, of));
        match self.convert(result, self.api_version)? {
            Some(result) => Ok(result.value.into_owned()),
            None => Ok(merged.value.into_owned()),
        }
    }

    /// Owned sets in terms of the present schema; those of versions that are gone go with them.
    fn reconcile(&self, live: &Value, owners: Owners) -> Result<Owners, Failure> {
        let mut reconciled = Owners::new();
        for (manager, owned) in owners {
            if self.convert(self.at_own(live), &owned.api_version)?.is_some() {
                let set = typed::reconcile(&owned.set, self.type_of(&owned.api_version));
                reconciled.insert(manager, Owned { set, api_version: owned.api_version });
            }
        }
        Ok(reconciled)
    }

    fn filtered(&self, comparison: Comparison) -> Comparison {
        Comparison {
            removed: self.reset.filter(comparison.removed),
            modified: self.reset.filter(comparison.modified),
            added: self.reset.filter(comparison.added),
        }
    }

    fn at_own<'v>(&'v self, value: &'v Value) -> Versioned<'v> {
        Versioned { value: Cow::Borrowed(value), api_version: Cow::Borrowed(self.api_version) }
    }

    fn convert<'v>(&self, object: Versioned<'v>, to: &str) -> Result<Option<Versioned<'v>>, Failure> {
        if object.api_version == to {
            return Ok(Some(object));
        }
        if self.versions.type_of(to).is_none() {
            return Ok(None);
        }
        let value = self.versions.convert(&object.value, to).map_err(Failure::Conversion)?;
        Ok(Some(Versioned { value: Cow::Owned(value), api_version: Cow::Owned(to.to_owned()) }))
    }

    fn own_type(&self) -> Type<'_> {
        self.type_of(self.api_version)
    }

    fn type_of(&self, api_version: &str) -> Type<'_> {
        self.versions.type_of(api_version).unwrap_or(Type::Deduced)
    }
}

// === impl SameObject ===

impl Versions for SameObject<'_> {
    fn type_of(&self, api_version: &str) -> Option<Type<'_>> {
        let schema = self.schemas.get(api_version)?;
        Some(schema.map_or(Type::Deduced, Type::object))
    }

    fn convert(&self, object: &Value, api_version: &str) -> Result<Value, String> {
        let mut object = object.clone();
        if let Some(own) = object.get_mut("apiVersion") {
            *own = api_version.into();
        }
        Ok(object)
    }
}

// === impl Versioned ===

impl Versioned<'_> {
    fn with<'v>(&self, value: Value) -> Versioned<'v> {
        Versioned { value: Cow::Owned(value), api_version: Cow::Owned(self.api_version.clone().into_owned()) }
    }
}

// === impl Reset ===

impl Reset {
    /// `Reset::fields([&["status"]])`
    pub fn fields<'a>(paths: impl IntoIterator<Item = &'a [&'a str]>) -> Self {
        Self::Fields(paths.into_iter().map(|path| Path::fields(path.iter().copied())).collect())
    }

    pub fn all_but<'a>(paths: impl IntoIterator<Item = &'a [&'a str]>) -> Self {
        Self::AllBut(paths.into_iter().map(|path| Path::fields(path.iter().copied())).collect())
    }

    fn filter(&self, set: Set) -> Set {
        match self {
            Self::Nothing => set,
            Self::Fields(fields) => set.difference_with_children(fields),
            Self::AllBut(fields) => set.only_under(fields),
        }
    }
}
