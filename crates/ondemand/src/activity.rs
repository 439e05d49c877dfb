//! When functions were last called, and which calls are under way.

use std::{
    collections::{HashMap, HashSet},
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
    news: Arc<News>,
}

/// What may concern the demand controller: the first call of a function, a call from elsewhere, the end of the last call.
#[derive(Debug, Default)]
struct News {
    /// Whom it is about, since somebody took it.
    about: Mutex<HashSet<Arc<str>>>,
    count: watch::Sender<u64>,
}

/// A handle to the calls of one function, for those who tell of many: it need not be looked up for each.
#[derive(Clone, Debug)]
pub struct FunctionActivity(Arc<One>);

#[derive(Debug)]
struct One {
    name: Arc<str>,
    calls: Mutex<Calls>,
    news: Arc<News>,
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
                let (name, news) = (name.clone(), self.0.news.clone());
                let one = One { name: name.clone(), calls: Mutex::default(), news };
                functions.entry(name).or_insert(FunctionActivity(Arc::new(one))).clone()
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
        self.0.news.count.subscribe()
    }

    /// Whom the changes since the last time were about. For one reader: nobody is told twice.
    pub fn take_news(&self) -> HashSet<Arc<str>> {
        std::mem::take(&mut *lock(&self.0.news.about))
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
            let One { name, news, .. } = &*self.0;
            lock(&news.about).insert(name.clone());
            news.count.send_modify(|count| *count = count.wrapping_add(1));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn news_is_what_may_change_a_decision() {
        let (activity, [a, b]) = (Activity::default(), ["a", "b"].map(Arc::from));
        let mut changes = activity.changes();
        let mut news = || {
            let is_told = changes.has_changed().unwrap();
            changes.mark_unchanged();
            let mut names: Vec<_> = activity.take_news().into_iter().collect();
            names.sort();
            assert_eq!(is_told, !names.is_empty(), "whoever waits for news is woken, and not for nothing");
            names
        };
        assert!(news().is_empty());
        let first = activity.begin(&a);
        assert_eq!(news(), std::slice::from_ref(&a));
        let second = activity.begin(&a);
        drop(first);
        assert!(news().is_empty(), "calls beside others change nothing");
        activity.touch(&b);
        drop(second);
        assert_eq!(news(), [a.clone(), b.clone()]);
        activity.heard(&b, Timestamp::UNIX_EPOCH);
        activity.heard_active(&a, 2);
        assert_eq!(news(), [a.clone(), b.clone()]);
        activity.heard(&b, Timestamp::UNIX_EPOCH);
        activity.heard_active(&a, 1);
        assert!(news().is_empty());
    }
}
