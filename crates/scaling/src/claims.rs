//! Which of our policies has which object: two that both decide about one would undo each other's work, so the older one
//! has it and the other is told.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use engine::Key;
use jiff::Timestamp;

use crate::history::Object;

/// A handle; clones share what is known. One for all policies of a process.
#[derive(Clone, Default)]
pub struct Claims(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    /// Whoever wants to decide about an object.
    claims: HashMap<Object, Vec<Claim>>,
    /// What each of them wants: to find it costs the same however many there are.
    targets: HashMap<(&'static str, Key), Object>,
    /// By policy.
    listeners: HashMap<&'static str, Listener>,
}

type Listener = Arc<dyn Fn(&Key) + Send + Sync>;

/// What wants to decide. The order is that of precedence: the older policy, and by name where both are equally old.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Claim {
    pub created: Option<Timestamp>,
    pub policy: &'static str,
    pub key: Key,
}

impl Claims {
    /// A policy starts anew: whatever it claimed before is forgotten. The listener is told whom to look at again
    /// because an object has changed hands.
    pub fn enter(&self, policy: &'static str, listener: impl Fn(&Key) + Send + Sync + 'static) {
        let mut state = self.state();
        for claims in state.claims.values_mut() {
            claims.retain(|claim| claim.policy != policy);
        }
        state.claims.retain(|_, claims| !claims.is_empty());
        state.targets.retain(|(known, _), _| *known != policy);
        state.listeners.insert(policy, Arc::new(listener));
    }

    /// # Errors
    /// Who has it.
    pub fn claim(&self, target: &Object, claim: Claim) -> Result<(), Claim> {
        let mut state = self.state();
        let claimant = (claim.policy, claim.key.clone());
        let has_moved = state.targets.get(&claimant).is_some_and(|known| known != target);
        let heir = if has_moved { state.leave(&claimant) } else { None };
        state.targets.insert(claimant, target.clone());
        let claims = state.claims.entry(target.clone()).or_default();
        let before = claims.iter().min().cloned();
        claims.retain(|known| !known.is_of(&claim));
        claims.push(claim.clone());
        let holder = claims.iter().min().cloned();
        let loser = before.filter(|before| Some(before) != holder.as_ref() && !before.is_of(&claim));
        tell(state, heir.into_iter().chain(loser));
        match holder {
            Some(holder) if !holder.is_of(&claim) => Err(holder),
            _ => Ok(()),
        }
    }

    /// The policy has nothing to decide about any more.
    pub fn release(&self, key: &Key, policy: &'static str) {
        let mut state = self.state();
        let heir = state.leave(&(policy, key.clone()));
        tell(state, heir.into_iter());
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Claim {
    fn is_of(&self, other: &Self) -> bool {
        (self.policy, &self.key) == (other.policy, &other.key)
    }
}

impl State {
    /// Gives up what somebody claimed. Who has it now, if it was theirs.
    fn leave(&mut self, claimant: &(&'static str, Key)) -> Option<Claim> {
        let target = self.targets.remove(claimant)?;
        let claims = self.claims.get_mut(&target)?;
        let before = claims.iter().min().cloned();
        claims.retain(|known| (known.policy, &known.key) != (claimant.0, &claimant.1));
        let heir = claims.iter().min().cloned();
        if heir.is_none() {
            self.claims.remove(&target);
        }
        heir.filter(|heir| Some(heir) != before.as_ref())
    }
}

/// Listeners are called without the lock: they may claim in turn.
fn tell(state: MutexGuard<'_, State>, news: impl Iterator<Item = Claim>) {
    let listener = |claim: Claim| Some((state.listeners.get(claim.policy)?.clone(), claim.key));
    let told: Vec<_> = news.filter_map(listener).collect();
    drop(state);
    for (listener, key) in told {
        listener(&key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(name: &str) -> Object {
        Object { kind: "Deployment".into(), namespace: "shop".into(), name: name.into() }
    }

    fn claim(policy: &'static str, name: &str, second: i64) -> Claim {
        let created = Some(Timestamp::from_second(second).unwrap());
        Claim { created, policy, key: Key::new("shop", name) }
    }

    #[test]
    fn the_older_policy_has_it_and_whoever_is_concerned_is_told() {
        let claims = Claims::default();
        let told: Arc<Mutex<Vec<String>>> = Arc::default();
        for policy in ["demand", "hvpa"] {
            let told = told.clone();
            claims.enter(policy, move |key| told.lock().unwrap().push(format!("{policy} {key}")));
        }
        let news = || std::mem::take(&mut *told.lock().unwrap());
        let (young, old) = (claim("hvpa", "one", 20), claim("hvpa", "two", 10));
        assert_eq!(claims.claim(&object("web"), young.clone()), Ok(()));
        assert_eq!(claims.claim(&object("web"), young.clone()), Ok(()), "again");
        assert_eq!(news(), [""; 0]);
        // the order in which they come does not count
        assert_eq!(claims.claim(&object("web"), old.clone()), Ok(()));
        assert_eq!(news(), ["hvpa shop/one"]);
        assert_eq!(claims.claim(&object("web"), young.clone()), Err(old.clone()));
        assert_eq!(claims.claim(&object("web"), claim("demand", "web", 30)), Err(old.clone()));
        // equally old: by policy, then by name
        assert_eq!(claims.claim(&object("web"), claim("demand", "web", 10)), Ok(()));
        assert_eq!(news(), ["hvpa shop/two"]);
        claims.release(&Key::new("shop", "web"), "demand");
        assert_eq!(news(), ["hvpa shop/two"]);
        // it turns to another object
        assert_eq!(claims.claim(&object("api"), old), Ok(()));
        assert_eq!(news(), ["hvpa shop/one"]);
        assert_eq!(claims.claim(&object("web"), young), Ok(()));
    }

    #[test]
    fn a_policy_that_starts_anew_has_nothing() {
        let claims = Claims::default();
        let gone = claim("hvpa", "gone", 1);
        assert_eq!(claims.claim(&object("web"), gone), Ok(()));
        claims.enter("hvpa", |_| {});
        assert_eq!(claims.claim(&object("web"), claim("demand", "web", 2)), Ok(()));
    }
}
