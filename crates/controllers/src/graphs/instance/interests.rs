//! Which instances want to hear of an object that is not theirs: what they refer to, or what is in their way.

use std::{
    collections::{BTreeSet, HashMap},
    sync::{Mutex, MutexGuard, PoisonError},
};

use engine::Key;
use graph::plan::Identity;

/// What one plan has asked for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Interest {
    Object(Identity),
    /// All of a kind, in one namespace or in all.
    Kind {
        api_version: String,
        kind: String,
        namespace: Option<String>,
    },
}

#[derive(Default)]
pub(super) struct Interests(Mutex<State>);

#[derive(Default)]
struct State {
    keys: HashMap<Interest, BTreeSet<Key>>,
    of_key: HashMap<Key, Vec<Interest>>,
}

impl Interests {
    /// What the last plan of an instance has asked for, instead of what the one before has.
    pub fn replace(&self, key: &Key, interests: Vec<Interest>) {
        let mut state = self.lock();
        state.forget(key);
        for interest in &interests {
            state.keys.entry(interest.clone()).or_default().insert(key.clone());
        }
        if !interests.is_empty() {
            state.of_key.insert(key.clone(), interests);
        }
    }

    pub fn forget(&self, key: &Key) {
        self.lock().forget(key);
    }

    pub fn in_object(&self, identity: &Identity) -> Vec<Key> {
        let state = self.lock();
        if state.keys.is_empty() {
            return Vec::new();
        }
        let of_kind = |namespace: Option<String>| Interest::Kind {
            api_version: identity.api_version.clone(),
            kind: identity.kind.clone(),
            namespace,
        };
        let interests =
            [Interest::Object(identity.clone()), of_kind(None), of_kind(Some(identity.namespace.clone()))];
        let keys = interests.iter().filter_map(|interest| state.keys.get(interest)).flatten();
        keys.cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn forget(&mut self, key: &Key) {
        for interest in self.of_key.remove(key).into_iter().flatten() {
            if let Some(keys) = self.keys.get_mut(&interest) {
                keys.remove(key);
                if keys.is_empty() {
                    self.keys.remove(&interest);
                }
            }
        }
    }
}
