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
#[derive(Clone, Debug)]
pub struct Activity(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    calls: Mutex<HashMap<Arc<str>, Calls>>,
    /// Counts what may concern the demand controller: the first call of a function, a call from elsewhere, the end
    /// of the last call.
    changes: watch::Sender<u64>,
}

/// A call under way; the function stays awake until this is dropped.
#[derive(Debug)]
pub struct Call {
    activity: Activity,
    name: Arc<str>,
}

impl Default for Activity {
    fn default() -> Self {
        Activity(Arc::new(Inner { calls: Mutex::default(), changes: watch::Sender::new(0) }))
    }
}

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
    /// A call begins now.
    #[must_use]
    pub fn begin(&self, name: &Arc<str>) -> Call {
        let first = {
            let mut calls = self.calls();
            let calls = calls.entry(name.clone()).or_default();
            calls.last = Some(Timestamp::now());
            calls.active += 1;
            calls.active == 1
        };
        if first {
            self.tell();
        }
        Call { activity: self.clone(), name: name.clone() }
    }

    /// A sign of life without a call to wait for: a wake-up, an event, queued work.
    pub fn touch(&self, name: &Arc<str>) {
        self.calls().entry(name.clone()).or_default().last = Some(Timestamp::now());
        self.tell();
    }

    /// Another node, or an earlier life of this one, tells of a call.
    pub fn heard(&self, name: &Arc<str>, at: Timestamp) {
        // A clock that is ahead must not keep a function awake.
        let at = at.min(Timestamp::now());
        let newer = {
            let mut calls = self.calls();
            let calls = calls.entry(name.clone()).or_default();
            let newer = calls.elsewhere.is_none_or(|known| known < at);
            if newer {
                calls.elsewhere = Some(at);
            }
            newer
        };
        if newer {
            self.tell();
        }
    }

    /// Other nodes tell how many calls they have under way.
    pub fn heard_active(&self, name: &Arc<str>, active: u32) {
        let before = {
            let mut calls = self.calls();
            let calls = calls.entry(name.clone()).or_default();
            std::mem::replace(&mut calls.active_elsewhere, active)
        };
        if (before > 0) != (active > 0) {
            self.tell();
        }
    }

    pub fn of(&self, name: &str) -> Calls {
        self.calls().get(name).copied().unwrap_or_default()
    }

    pub fn all(&self) -> Vec<(Arc<str>, Calls)> {
        self.calls().iter().map(|(name, calls)| (name.clone(), *calls)).collect()
    }

    /// Forgets what is no function any more and has no call under way.
    pub fn retain(&self, keep: impl Fn(&str) -> bool) {
        self.calls().retain(|name, calls| calls.active > 0 || keep(name));
    }

    pub fn changes(&self) -> watch::Receiver<u64> {
        self.0.changes.subscribe()
    }

    fn calls(&self) -> MutexGuard<'_, HashMap<Arc<str>, Calls>> {
        self.0.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell(&self) {
        self.0.changes.send_modify(|changes| *changes = changes.wrapping_add(1));
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        let last = {
            let mut calls = self.activity.calls();
            let calls = calls.entry(self.name.clone()).or_default();
            calls.last = Some(Timestamp::now());
            calls.active = calls.active.saturating_sub(1);
            calls.active == 0
        };
        if last {
            self.activity.tell();
        }
    }
}
