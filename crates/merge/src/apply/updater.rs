use jiff::Timestamp;
use serde_json::Value;

use super::{
    conflict::ApplyError,
    last_applied,
    managed_fields::{self, Managed, Manager, Operation},
    ownership::{Failure, Owned, Ownership, Reset, Versions},
    typed::{self, Duplicates, Type},
};

#[cfg(test)]
mod tests;

const BEFORE_FIRST_APPLY: &str = "before-first-apply";
const UNKNOWN: &str = "unknown";

/// Keeps the managers of the objects of one resource (or subresource) in one version.
pub struct Updater<'a> {
    pub api_version: &'a str,
    pub kind: &'a str,
    /// Empty for the main resource.
    pub subresource: &'a str,
    pub versions: &'a dyn Versions,
    pub reset: &'a Reset,
    /// The object before its creation: [`typed::zero_value`] for built-in kinds, `{}` for custom resources.
    pub empty: &'a Value,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Applied {
    /// The next object, not yet defaulted.
    pub object: Value,
    /// It differs from the live one in more than `managedFields`.
    pub changed: bool,
}

impl Updater<'_> {
    /// The managers after a create (`live` is none), an update or a patch other than apply, which made `new`.
    ///
    /// Never fails: an object whose managers cannot be worked out has none.
    pub fn update(&self, live: Option<&Value>, mut new: Value, manager: &str, now: Timestamp) -> Value {
        let of_live = || live.and_then(|live| Managed::of(live).ok()).unwrap_or_default();
        let managed = if !self.subresource.is_empty() {
            // a subresource is no place to edit the managers
            of_live()
        } else if managed_fields::is_reset(&new) {
            Managed::default()
        } else {
            // a client that does not know managers may drop them; that is not what it means
            Managed::of(&new).ok().filter(|managed| !managed.owners.is_empty()).unwrap_or_else(of_live)
        };
        managed_fields::strip(&mut new);
        // an object that nobody keeps track of stays so until somebody applies to it
        if live.is_some() && managed.owners.is_empty() {
            return new;
        }
        if let Ok(managed) = self.track(live.unwrap_or(self.empty), &new, managed, manager, now) {
            managed_fields::store(&mut new, &managed);
        }
        new
    }

    /// Server-side apply of `config` to `live` (none: the object does not exist yet).
    pub fn apply(
        &self,
        live: Option<&Value>,
        config: &Value,
        manager: &str,
        force: bool,
        now: Timestamp,
    ) -> Result<Applied, ApplyError> {
        self.check_kind(config)?;
        let managed = live
            .map(Managed::of)
            .transpose()
            .map_err(|e| ApplyError::Internal(format!("failed to decode managed fields: {e}")))?
            .unwrap_or_default();
        let mut current = live.unwrap_or(self.empty).clone();
        managed_fields::strip(&mut current);

        let mut result = self.apply_to(&current, config, managed.clone(), manager, force, now);
        if let (last_applied::KUBECTL, Err(ApplyError::Conflicts(conflicts))) = (manager, &result) {
            let remaining =
                last_applied::without_allowed(conflicts.clone(), &current, self.api_version, self.own_type());
            result = if remaining.is_empty() {
                self.apply_to(&current, config, managed, manager, true, now)
            } else {
                Err(ApplyError::Conflicts(remaining))
            };
        }
        let (object, managed) = result?;
        let changed = object.is_some();
        let mut object = object.unwrap_or(current);
        if live.is_none() {
            drop_unset(&mut object, self.empty);
        }
        if manager == last_applied::KUBECTL {
            last_applied::refresh(&mut object, config);
        }
        managed_fields::store(&mut object, &managed);
        Ok(Applied { object, changed })
    }

    fn apply_to(
        &self,
        live: &Value,
        config: &Value,
        mut managed: Managed,
        manager: &str,
        force: bool,
        now: Timestamp,
    ) -> Result<(Option<Value>, Managed), ApplyError> {
        if managed.owners.is_empty() {
            managed = self.track(self.empty, live, managed, BEFORE_FIRST_APPLY, now).map_err(|e| {
                ApplyError::Internal(format!("failed to create manager for existing fields: {e}"))
            })?;
        }
        if config.pointer("/metadata/managedFields").is_some_and(|entries| !entries.is_null()) {
            return Err(ApplyError::BadRequest("metadata.managedFields must be nil".into()));
        }
        let typed = |what: &str, value: &Value, duplicates| {
            typed::validate(value, self.own_type(), duplicates).map_err(|e| {
                ApplyError::Internal(format!(
                    "failed to create typed {what} object ({}): {e}",
                    self.name_of(value)
                ))
            })
        };
        typed("patch", config, Duplicates::Refuse)?;
        typed("live", live, Duplicates::Allow)?;

        let manager = self.manager(manager, Operation::Apply);
        let outcome =
            self.ownership().apply(live, config, managed.owners, &manager, force).map_err(|failure| {
                match failure {
                    Failure::Conflicts(conflicts) => ApplyError::Conflicts(conflicts),
                    Failure::Conversion(e) => ApplyError::Internal(e),
                }
            })?;
        let mut managed = Managed { owners: outcome.owners, times: managed.times };
        if let Some(owned) = managed.owners.remove(&manager) {
            let set = Managed::without_identity(&owned.set);
            if !set.is_empty() {
                managed.owners.insert(manager.clone(), Owned { set, api_version: owned.api_version });
            }
        }
        if outcome.object.is_some() {
            managed.times.insert(manager, now);
        }
        Ok((outcome.object, managed))
    }

    /// The managers after `live` became `new` by the hand of `manager`. The time of its entry moves only if it
    /// changed something.
    fn track(
        &self,
        live: &Value,
        new: &Value,
        managed: Managed,
        manager: &str,
        now: Timestamp,
    ) -> Result<Managed, String> {
        let typed = |what: &str, value: &Value| {
            typed::validate(value, self.own_type(), Duplicates::Allow).map_err(|e| {
                format!("failed to convert {what} object ({}) to smd typed: {e}", self.name_of(value))
            })
        };
        typed("new", new)?;
        typed("live", live)?;
        // under a name of its own, so that fields the manager already owned count as changed by this request, too
        let request = Manager::default();
        let owners =
            self.ownership().update(live, new, managed.owners, &request).map_err(
                |failure| match failure {
                    Failure::Conflicts(_) => "an update has no conflicts".to_owned(),
                    Failure::Conversion(e) => e,
                },
            )?;
        let mut managed = Managed { owners, times: managed.times };
        if let Some(changed) = managed.owners.remove(&request) {
            let set = Managed::without_identity(&changed.set);
            if !set.is_empty() {
                let manager = self.manager(manager, Operation::Update);
                let set = match managed.owners.remove(&manager) {
                    Some(before) => before.set.union(&set),
                    None => set,
                };
                managed.owners.insert(manager.clone(), Owned { set, api_version: changed.api_version });
                managed.times.insert(manager, now);
            }
        }
        managed.cap();
        Ok(managed)
    }

    fn check_kind(&self, config: &Value) -> Result<(), ApplyError> {
        let text = |name: &str| config.get(name).and_then(Value::as_str).unwrap_or_default();
        if text("apiVersion") == self.api_version && text("kind") == self.kind {
            return Ok(());
        }
        Err(ApplyError::BadRequest(format!("invalid object type: {}", kind_of(config))))
    }

    fn manager(&self, name: &str, operation: Operation) -> Manager {
        let name = if name.is_empty() { UNKNOWN } else { name };
        Manager::new(name, operation, self.api_version, self.subresource)
    }

    fn ownership(&self) -> Ownership<'_> {
        Ownership { versions: self.versions, reset: self.reset, api_version: self.api_version }
    }

    fn own_type(&self) -> Type<'_> {
        self.versions.type_of(self.api_version).unwrap_or(Type::Deduced)
    }

    fn name_of(&self, object: &Value) -> String {
        let metadata = |name: &str| {
            object.get("metadata").and_then(|m| m.get(name)).and_then(Value::as_str).unwrap_or_default()
        };
        format!("{}/{}; {}", metadata("namespace"), metadata("name"), kind_of(object))
    }
}

/// The nulls of the zero value served the comparison; an object has none where nothing was set.
fn drop_unset(object: &mut Value, zero: &Value) {
    let (Value::Object(object), Value::Object(zero)) = (object, zero) else { return };
    object.retain(|name, field| !(field.is_null() && zero.get(name).is_some_and(Value::is_null)));
    for (name, field) in object {
        if let Some(zero) = zero.get(name) {
            drop_unset(field, zero);
        }
    }
}

/// `apps/v1, Kind=Deployment`, and `/v1, Kind=Pod` of the group without a name.
fn kind_of(object: &Value) -> String {
    let text = |name: &str| object.get(name).and_then(Value::as_str).unwrap_or_default();
    let api_version = text("apiVersion");
    let slash = if api_version.contains('/') { "" } else { "/" };
    format!("{slash}{api_version}, Kind={}", text("kind"))
}
