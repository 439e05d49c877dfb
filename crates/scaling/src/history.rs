//! The last decisions about each object: in memory where they are made, in the store for the other nodes and the next
//! master. Bounded: so many for each object, and only when there is something new to read.

use std::{
    collections::{BTreeMap, HashSet, VecDeque},
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use decide::{Decision, Rule};
use engine::{Fence, effect::Target};
use futures::{StreamExt, stream};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use store::{Expect, Shared};
use tokio::sync::{Notify, watch};

use crate::capacity::Capacity;

const PREFIX: &str = "decisions/";
/// Enough to see a day of waking and sleeping, or a whole wave of scaling.
const KEPT: usize = 20;
/// Twice as many objects as are meant to be scaled; beyond that the record is of no use to anybody.
const MOST_OBJECTS: usize = 20_000;
/// Who follows the decisions and is further behind than this has missed some.
const RECENT: usize = 1024;
/// An object's decisions are published at most once in this time; what failed is tried again after it.
const PAUSE: Duration = Duration::from_secs(1);
const WRITES_AT_ONCE: usize = 16;

/// A handle; clones share what is known.
#[derive(Clone, Debug, Default)]
pub struct History(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    state: Mutex<State>,
    news: Notify,
    /// How many records there have been.
    n_noted: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct State {
    objects: BTreeMap<Object, VecDeque<Arc<Record>>>,
    /// What the newest record of each is about, if it was made here.
    gists: BTreeMap<Object, String>,
    unpublished: HashSet<Object>,
    /// The newest records of all objects, for whoever follows them.
    recent: VecDeque<Arc<Record>>,
}

/// What a decision is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Object {
    pub kind: String,
    #[serde(default)]
    pub namespace: String,
    pub name: String,
}

/// One decision with its whole chain.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Record {
    pub at: Timestamp,
    pub policy: String,
    #[serde(flatten)]
    pub object: Object,
    pub current: i32,
    pub desired: i32,
    /// What a replica requests, before and after, if that is decided too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sizes: Option<(String, String)>,
    pub reason: String,
    pub why: String,
    pub outcome: Outcome,
    /// Who else writes the count, and what to do about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conflict: Option<String>,
    pub steps: Steps,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_check: Option<Timestamp>,
}

/// The chain of a decision, as JSON. It is kept as text because there are many, few are read, and trees are larger.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Steps {
    n: usize,
    text: Box<str>,
}

/// What became of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Outcome {
    /// The count is as it should be.
    Nothing,
    /// Sent to the API; the next record shows what it led to.
    Written,
    /// Not written, because somebody asked for that.
    Held(String),
}

// === impl Object ===

impl From<&Target> for Object {
    fn from(target: &Target) -> Self {
        let namespace = target.namespace.clone().unwrap_or_default();
        Self { kind: target.kind.kind.to_string(), namespace, name: target.name.clone() }
    }
}

impl fmt::Display for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.kind, self.name)
    }
}

impl Object {
    fn place(&self) -> String {
        format!("{PREFIX}{}/{}/{}", self.kind, self.namespace, self.name)
    }

    fn at_place(place: &str) -> Option<Self> {
        let mut parts = place.strip_prefix(PREFIX)?.split('/').map(str::to_owned);
        Some(Self { kind: parts.next()?, namespace: parts.next()?, name: parts.next()? })
    }
}

// === impl Steps ===

impl Steps {
    /// Without those that cannot be written as JSON, which no rule makes. By way of a value, so that the same steps are
    /// always the same text.
    fn of<T: Serialize>(steps: &[T]) -> Self {
        let values = steps.iter().filter_map(|step| serde_json::to_value(step).ok());
        let texts: Vec<String> = values.map(|step| step.to_string()).collect();
        Self { n: texts.len(), text: format!("[{}]", texts.join(",")).into() }
    }

    pub fn values(&self) -> Vec<Value> {
        serde_json::from_str(&self.text).unwrap_or_default()
    }
}

impl FromIterator<Value> for Steps {
    fn from_iter<I: IntoIterator<Item = Value>>(steps: I) -> Self {
        Self::of(&steps.into_iter().collect::<Vec<_>>())
    }
}

impl Serialize for Steps {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.values().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Steps {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self::of(&Vec::<Value>::deserialize(deserializer)?))
    }
}

// === impl Record ===

impl Record {
    pub fn new<M, R>(
        at: Timestamp,
        policy: &str,
        target: &Target,
        decision: &Decision<M, R>,
        outcome: Outcome,
    ) -> Self
    where
        R: Rule<Value: Capacity> + Serialize,
    {
        Self {
            at,
            policy: policy.to_owned(),
            object: target.into(),
            current: decision.current.replicas(),
            desired: decision.desired.replicas(),
            sizes: decision.current.sizes().zip(decision.desired.sizes()),
            reason: decision.reason.code.to_owned(),
            why: decision.why(),
            outcome,
            conflict: None,
            steps: Steps::of(&decision.steps),
            next_check: decision.next_check,
        }
    }
}

impl Record {
    /// Whether both say the same, at whichever time.
    fn is_like(&self, other: &Self) -> bool {
        (self.current, self.desired, &self.sizes, &self.reason, &self.outcome)
            == (other.current, other.desired, &other.sizes, &other.reason, &other.outcome)
            && (&self.conflict, self.steps.n) == (&other.conflict, other.steps.n)
    }
}

// === impl History ===

impl History {
    /// Adds a decision. One with the gist of the last one only brings that up to date, which nobody is told.
    pub fn note(&self, record: Record, gist: String) {
        let object = record.object.clone();
        let mut state = self.state();
        let is_known = match (state.gists.get(&object), state.objects.get(&object).and_then(VecDeque::back)) {
            (Some(known), _) => *known == gist,
            // After a restart the last record comes from the store; that nothing has changed since is no news.
            (None, Some(last)) => last.is_like(&record),
            (None, None) => false,
        };
        if state.objects.len() >= MOST_OBJECTS && !state.objects.contains_key(&object) {
            state.objects.pop_first();
        }
        let records = state.objects.entry(object.clone()).or_default();
        if is_known {
            records.pop_back();
            records.push_back(Arc::new(record));
            state.gists.insert(object, gist);
            return;
        }
        let record = Arc::new(record);
        records.push_back(record.clone());
        while records.len() > KEPT {
            records.pop_front();
        }
        state.gists.insert(object.clone(), gist);
        state.unpublished.insert(object);
        self.announce(&mut state, [record]);
        drop(state);
        self.0.news.notify_one();
    }

    fn announce(&self, state: &mut State, records: impl IntoIterator<Item = Arc<Record>>) {
        for record in records {
            state.recent.push_back(record);
            if state.recent.len() > RECENT {
                state.recent.pop_front();
            }
            self.0.n_noted.send_modify(|n| *n += 1);
        }
    }

    /// How many records there have been so far; changes with each.
    pub fn position(&self) -> watch::Receiver<u64> {
        self.0.n_noted.subscribe()
    }

    /// What has been noted since there were `n` records, and how many more are not there any more.
    pub fn after(&self, n: u64) -> (Vec<Arc<Record>>, u64) {
        let state = self.state();
        let n_new = usize::try_from(self.0.n_noted.borrow().saturating_sub(n)).unwrap_or(usize::MAX);
        let n_missed = n_new.saturating_sub(state.recent.len());
        let known = state.recent.iter().skip(state.recent.len().saturating_sub(n_new));
        (known.cloned().collect(), n_missed as u64)
    }

    /// The object is no more.
    pub fn forget(&self, object: &Object) {
        let mut state = self.state();
        state.gists.remove(object);
        if state.objects.remove(object).is_some() {
            state.unpublished.insert(object.clone());
            drop(state);
            self.0.news.notify_one();
        }
    }

    /// The last decisions about an object, oldest first, whichever node made them.
    pub fn of(&self, object: &Object) -> Vec<Arc<Record>> {
        self.state().objects.get(object).into_iter().flatten().cloned().collect()
    }

    pub fn last(&self, object: &Object) -> Option<Arc<Record>> {
        self.state().objects.get(object)?.back().cloned()
    }

    /// All that pass, by object and oldest first.
    pub fn select(&self, passes: impl Fn(&Record) -> bool) -> Vec<Arc<Record>> {
        let state = self.state();
        state.objects.values().flatten().filter(|record| passes(record)).cloned().collect()
    }

    /// Writes what is new into the store, for one term of leadership.
    pub async fn publish(&self, store: &Shared, fence: &Fence) {
        loop {
            let news: Vec<Object> = self.state().unpublished.drain().collect();
            if news.is_empty() {
                self.0.news.notified().await;
                continue;
            }
            let mut writes = stream::iter(news.into_iter().map(|object| async move {
                let written = self.write(store, fence, &object).await;
                (object, written)
            }))
            .buffer_unordered(WRITES_AT_ONCE);
            while let Some((object, written)) = writes.next().await {
                if let Err(error) = written {
                    tracing::warn!(%object, %error, "other nodes could not be told of a decision");
                    self.state().unpublished.insert(object);
                }
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    async fn write(&self, store: &Shared, fence: &Fence, object: &Object) -> store::Result<()> {
        // The last moment: what the next master published is newer.
        if !fence.may_write() {
            return Ok(());
        }
        let records = self.of(object);
        if records.is_empty() {
            return store.delete(&object.place(), Expect::Anything).await;
        }
        let text = serde_json::to_vec(&records).unwrap_or_default();
        store.put(&object.place(), Bytes::from(text), Expect::Anything, None).await.map(drop)
    }

    /// Follows what the masters publish.
    pub async fn follow(&self, store: &Shared) {
        loop {
            match store.watch(PREFIX).await {
                Ok(mut changes) => {
                    while let Some(change) = changes.next().await {
                        if let Some(object) = Object::at_place(&change.key) {
                            self.heard(object, change.entry.map(|entry| entry.value));
                        }
                    }
                }
                Err(error) => tracing::warn!(%error, "the master's decisions cannot be followed"),
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    fn heard(&self, object: Object, text: Option<Bytes>) {
        let records = text.and_then(|text| serde_json::from_slice::<VecDeque<Arc<Record>>>(&text).ok());
        let mut state = self.state();
        // What was decided here is newer than what comes back from the store.
        if state.gists.contains_key(&object) {
            return;
        }
        match records {
            Some(records) => {
                let last = state.objects.get(&object).and_then(VecDeque::back).map(|record| record.at);
                let new: Vec<_> = records.iter().filter(|record| Some(record.at) > last).cloned().collect();
                state.objects.insert(object, records);
                self.announce(&mut state, new);
            }
            None => drop(state.objects.remove(&object)),
        }
    }

    /// Another node decides from now on.
    pub fn resign(&self) {
        let mut state = self.state();
        state.gists.clear();
        state.unpublished.clear();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use engine::kind;

    use super::*;
    use crate::fixed;

    fn record(seconds: i64, current: i32, desired: i32) -> Record {
        let target = Target::absent(&kind::DEPLOYMENT, Some("shop"), "fib");
        let at = Timestamp::from_second(seconds).unwrap();
        Record::new(at, "demand", &target, &fixed(current, desired, "test"), Outcome::Written)
    }

    /// The dashboard's types are checked against the same file.
    #[test]
    fn records_have_the_shape_that_the_dashboard_reads() {
        let mut held = record(60, 1, 3);
        held.outcome = Outcome::Held("paused by ballast.dev/paused".into());
        held.next_check = Some(Timestamp::from_second(120).unwrap());
        let mut quiet = record(120, 3, 3);
        quiet.outcome = Outcome::Nothing;
        let text = serde_json::to_string_pretty(&[record(0, 0, 1), held, quiet]).unwrap();
        expect_test::expect_file!["../../../web/src/fixtures/decisions.json"].assert_eq(&(text + "\n"));
    }

    #[test]
    fn a_chain_is_the_same_after_it_was_text() {
        let record = record(0, 0, 1);
        let text = serde_json::to_string(&record).unwrap();
        assert!(record.steps.n > 0 && record.steps.n == record.steps.values().len(), "{text}");
        assert_eq!(serde_json::from_str::<Record>(&text).unwrap().steps.values(), record.steps.values());
    }

    fn object() -> Object {
        record(0, 0, 0).object
    }

    fn shown(history: &History) -> String {
        let words =
            |record: &Arc<Record>| format!("{}:{}>{}", record.at.as_second(), record.current, record.desired);
        let records = history.of(&object());
        records.iter().map(words).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn only_what_is_new_is_added_and_old_decisions_go() {
        let history = History::default();
        history.note(record(1, 0, 1), "up".into());
        history.note(record(2, 1, 1), "awake".into());
        history.note(record(3, 1, 1), "awake".into());
        history.note(record(4, 1, 0), "down".into());
        assert_eq!(shown(&history), "1:0>1 3:1>1 4:1>0");
        for second in 5..100 {
            history.note(record(second, 0, 1), second.to_string());
        }
        assert_eq!(history.of(&object()).len(), KEPT);
        assert_eq!(history.last(&object()).unwrap().at.as_second(), 99);
    }

    #[tokio::test]
    async fn another_node_and_the_next_master_know_them_too() {
        let store = store::open("memory:", store::Options::default()).await.unwrap();
        let (master, other) = (History::default(), History::default());
        master.note(record(1, 0, 1), "up".into());
        master.note(record(2, 1, 1), "awake".into());
        let there = async {
            while other.of(&object()).len() < 2 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let fence = Fence::open();
        tokio::select! {
            () = master.publish(&store, &fence) => {}
            () = other.follow(&store) => {}
            () = there => {}
        }
        assert_eq!(shown(&other), "1:0>1 2:1>1");
        // it becomes the master, and goes on where the other one was
        other.note(record(2, 1, 1), "awake".into());
        assert_eq!(shown(&other), "1:0>1 2:1>1", "nothing has changed since");
        other.note(record(3, 1, 0), "down".into());
        assert_eq!(shown(&other), "1:0>1 2:1>1 3:1>0");
        // what was decided here is newer than what the store still says
        other.heard(object(), None);
        assert_eq!(shown(&other), "1:0>1 2:1>1 3:1>0");
        other.resign();
        other.heard(object(), None);
        assert_eq!(shown(&other), "");
    }

    #[test]
    fn who_follows_sees_each_new_record_once_and_knows_what_was_missed() {
        let history = History::default();
        history.note(record(1, 0, 1), "up".into());
        let mut position = history.position();
        let n = *position.borrow_and_update();
        assert_eq!(history.after(n), (Vec::new(), 0));
        history.note(record(2, 1, 1), "awake".into());
        history.note(record(3, 1, 1), "awake".into());
        assert!(position.has_changed().unwrap());
        let seconds = |records: &[Arc<Record>]| records.iter().map(|record| record.at.as_second()).collect();
        let (new, missed) = history.after(n);
        assert_eq!((seconds(&new), missed), (vec![2], 0), "the second one is no news");
        for second in 0..1500 {
            history.note(record(second, 0, 1), second.to_string());
        }
        let (new, missed) = history.after(n);
        assert_eq!((new.len(), missed), (RECENT, 1501 - RECENT as u64));
        // what another node publishes is news too
        let other = History::default();
        let text = serde_json::to_vec(&history.of(&object())).unwrap();
        other.heard(object(), Some(text.clone().into()));
        assert_eq!(other.after(0).0.len(), KEPT);
        other.heard(object(), Some(text.into()));
        assert_eq!(other.after(0).0.len(), KEPT, "once");
    }

    #[tokio::test]
    async fn who_is_no_longer_the_leader_publishes_nothing() {
        let store = store::open("memory:", store::Options::default()).await.unwrap();
        let history = History::default();
        history.note(record(1, 0, 1), "up".into());
        history.write(&store, &Fence::new(|| false), &object()).await.unwrap();
        assert_eq!(store.list(PREFIX).await.unwrap(), []);
        history.write(&store, &Fence::open(), &object()).await.unwrap();
        assert_eq!(store.list(PREFIX).await.unwrap().len(), 1);
    }
}
