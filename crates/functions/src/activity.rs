//! When functions were last called, and which calls are under way.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use jiff::Timestamp;
use tokio::sync::watch;

/// What one node knows of the calls of one function.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Calls {
    pub last: Option<Timestamp>,
    /// Under way on this node.
    pub active: u32,
    /// The latest call of which another node told.
    pub elsewhere: Option<Timestamp>,
    /// Under way on other nodes.
    pub active_elsewhere: u32,
}

/// A handle to the calls of all functions.
#[derive(Clone, Debug, Default)]
pub struct Activity(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    functions: Mutex<HashMap<Arc<str>, FunctionActivity>>,
    changes: Changes,
}

/// Counts what may concern the demand controller: the first call of a function, a call from elsewhere, the end of the
/// last call.
type Changes = Arc<watch::Sender<u64>>;

/// A handle to the calls of one function, for those who tell of many: it need not be looked up for each.
#[derive(Clone, Debug)]
pub struct FunctionActivity(Arc<One>);

#[derive(Debug)]
struct One {
    calls: Mutex<Calls>,
    changes: Changes,
}

/// A call under way; the function stays awake until this is dropped.
#[derive(Debug)]
pub struct Call(FunctionActivity);

impl Calls {
    /// The latest sign of life, of whichever node.
    pub fn latest(&self) -> Option<Timestamp> {
        self.last.max(self.elsewhere)
    }

    /// Whether a call is under way anywhere: as long as it is, the function is in use.
    pub fn is_active(&self) -> bool {
        self.active > 0 || self.active_elsewhere > 0
    }
}

impl Activity {
    pub fn function(&self, name: &Arc<str>) -> FunctionActivity {
        let mut functions = lock(&self.0.functions);
        match functions.get(name) {
            Some(known) => known.clone(),
            None => {
                let one = One { calls: Mutex::default(), changes: self.0.changes.clone() };
                functions.entry(name.clone()).or_insert(FunctionActivity(Arc::new(one))).clone()
            }
        }
    }

    /// A call begins now.
    #[must_use]
    pub fn begin(&self, name: &Arc<str>) -> Call {
        self.function(name).begin()
    }

    /// A sign of life without a call to wait for: a wake-up, an event, queued work.
    pub fn touch(&self, name: &Arc<str>) {
        self.function(name).change(|calls| {
            calls.last = Some(Timestamp::now());
            true
        });
    }

    /// Another node, or an earlier life of this one, tells of a call.
    pub fn heard(&self, name: &Arc<str>, at: Timestamp) {
        // A clock that is ahead must not keep a function awake.
        let at = at.min(Timestamp::now());
        self.function(name).change(|calls| {
            let is_newer = calls.elsewhere.is_none_or(|known| known < at);
            if is_newer {
                calls.elsewhere = Some(at);
            }
            is_newer
        });
    }

    /// Other nodes tell how many calls they have under way.
    pub fn heard_active(&self, name: &Arc<str>, active: u32) {
        self.function(name).change(|calls| {
            let before = std::mem::replace(&mut calls.active_elsewhere, active);
            (before > 0) != (active > 0)
        });
    }

    pub fn of(&self, name: &str) -> Calls {
        lock(&self.0.functions).get(name).map(FunctionActivity::calls).unwrap_or_default()
    }

    pub fn all(&self) -> Vec<(Arc<str>, Calls)> {
        lock(&self.0.functions).iter().map(|(name, one)| (name.clone(), one.calls())).collect()
    }

    pub fn changes(&self) -> watch::Receiver<u64> {
        self.0.changes.subscribe()
    }
}

impl FunctionActivity {
    /// A call begins now.
    #[must_use]
    pub fn begin(&self) -> Call {
        self.change(|calls| {
            calls.last = Some(Timestamp::now());
            calls.active += 1;
            calls.active == 1
        });
        Call(self.clone())
    }

    fn calls(&self) -> Calls {
        *lock(&self.0.calls)
    }

    /// `change` says whether others should hear of it.
    fn change(&self, change: impl FnOnce(&mut Calls) -> bool) {
        let is_news = change(&mut lock(&self.0.calls));
        if is_news {
            self.0.changes.send_modify(|changes| *changes = changes.wrapping_add(1));
        }
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        self.0.change(|calls| {
            calls.last = Some(Timestamp::now());
            calls.active = calls.active.saturating_sub(1);
            calls.active == 0
        });
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
