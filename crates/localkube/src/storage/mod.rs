//! Where objects live: ordered maps in memory, one revision counter for all kinds, a log of events per kind, and
//! optionally a file behind it.
//!
//! Readers only ever see what is committed. A write names the revision it is based on; one that comes too late is
//! told so and tried again by its caller. With a file, a thread of its own collects waiting writes into one
//! transaction; their callers hear of success after that transaction is in the file.

mod file;
mod log;
mod medium;
mod record;

use std::{
    collections::{BTreeMap, HashMap},
    ops::Bound,
    path::PathBuf,
    sync::{Arc, PoisonError, RwLock, RwLockReadGuard},
};

use log::SharedLine;
pub use log::{Action, Compacted, Event};
use medium::Medium;
pub use record::{Draft, Labels, Record};
use tokio::sync::watch;

/// Where an API server keeps its objects.
#[derive(Clone, Debug, Default)]
pub enum Storage {
    #[default]
    Memory,
    /// One file. With `sync` an acknowledged write survives a power cut, without it the end of the process only.
    File { path: PathBuf, sync: bool },
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("cannot open {}: {why}; is another server using it?", path.display())]
    Open { path: PathBuf, why: String },
    #[error("cannot read {}: {why}", path.display())]
    Load { path: PathBuf, why: String },
    #[error("{}", disk::full(path))]
    Full { path: PathBuf },
    #[error("the storage file refused a write: {0}")]
    Commit(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TableId(usize);

#[derive(Clone, Debug)]
pub enum Change {
    Create(Draft),
    /// Replaces what has this revision.
    Replace(Draft, u64),
    Delete {
        key: Box<str>,
        revision: u64,
    },
}

#[derive(Debug)]
pub enum CommitError {
    Exists,
    /// Somebody was faster (or the object is gone): read again.
    Stale,
    Failed(Error),
}

#[derive(Clone)]
pub struct Store(Arc<Shared>);

struct Shared {
    state: RwLock<State>,
    file: Option<file::Writer>,
    /// Why writes are refused.
    trouble: RwLock<Option<Error>>,
}

#[derive(Default)]
struct State {
    revision: u64,
    tables: Vec<Table>,
    names: HashMap<String, TableId>,
}

struct Table {
    name: Arc<str>,
    objects: BTreeMap<Box<str>, Arc<Record>>,
    log: log::Log,
    changed: watch::Sender<u64>,
}

/// An entry of the file, before anyone knows which fields of it are selectable.
pub struct Stored {
    pub table: String,
    pub key: String,
    pub json: Vec<u8>,
}

pub struct Listing {
    pub records: Vec<Arc<Record>>,
    pub revision: u64,
    /// How many more match behind the last record.
    pub remaining: usize,
    /// Whether there is anything at all behind the last record, matching or not, if the limit was reached.
    pub more: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadAt {
    Latest,
    Exactly(u64),
}

pub struct Watcher {
    store: Store,
    table: TableId,
    cursor: u64,
    changed: watch::Receiver<u64>,
}

// === impl Store ===

impl Store {
    /// Also returns what the file holds; the caller puts it back with [`Store::restore`] once it knows the kinds.
    pub fn open(storage: &Storage) -> Result<(Self, Vec<Stored>), Error> {
        match storage {
            Storage::Memory => Ok((Self::new(State::default(), None), Vec::new())),
            Storage::File { path, sync } => Self::on(Medium::File { path: path.clone(), sync: *sync }),
        }
    }

    fn on(medium: Medium) -> Result<(Self, Vec<Stored>), Error> {
        let database = medium.open()?;
        let (revision, entries) = medium.load(&database)?;
        let (writer, jobs) = file::Writer::new();
        let store = Self::new(State { revision, ..State::default() }, Some(writer));
        file::Thread { medium, jobs, shared: Arc::downgrade(&store.0) }.spawn(database);
        Ok((store, entries))
    }

    fn new(state: State, file: Option<file::Writer>) -> Self {
        Self(Arc::new(Shared { state: RwLock::new(state), file, trouble: RwLock::default() }))
    }

    /// Why writes are refused, while they are.
    pub fn trouble(&self) -> Option<Error> {
        self.0.trouble.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The table of that name, made if it is new.
    pub fn table(&self, name: &str) -> TableId {
        if let Some(id) = self.read().names.get(name) {
            return *id;
        }
        let mut state = self.0.state.write().unwrap_or_else(PoisonError::into_inner);
        let next = TableId(state.tables.len());
        let id = *state.names.entry(name.to_owned()).or_insert(next);
        if id == next {
            let log = log::Log::starting_at(state.revision);
            let table =
                Table { name: name.into(), objects: BTreeMap::new(), log, changed: watch::Sender::new(0) };
            state.tables.push(table);
        }
        id
    }

    pub fn restore(&self, table: TableId, records: impl IntoIterator<Item = Record>) {
        let mut state = self.0.state.write().unwrap_or_else(PoisonError::into_inner);
        let objects = &mut state.tables[table.0].objects;
        objects.extend(records.into_iter().map(|record| (record.key.clone(), Arc::new(record))));
    }

    pub fn revision(&self) -> u64 {
        self.read().revision
    }

    pub fn get(&self, table: TableId, key: &str) -> Option<Arc<Record>> {
        self.read().tables[table.0].objects.get(key).cloned()
    }

    pub fn count(&self, table: TableId) -> usize {
        self.read().tables[table.0].objects.len()
    }

    /// Records whose key starts with `prefix` and comes after `after`, in order of keys.
    pub fn list(
        &self,
        table: TableId,
        prefix: &str,
        after: Option<&str>,
        at: ReadAt,
        limit: usize,
        matches: impl Fn(&Record) -> bool,
    ) -> Result<Listing, Compacted> {
        let state = self.read();
        let table = &state.tables[table.0];
        let (revision, mut past) = match at {
            ReadAt::Exactly(revision) if revision < state.revision => {
                (revision, table.log.undo_to(revision)?)
            }
            _ => (state.revision, BTreeMap::new()),
        };
        let start = match after {
            Some(after) => Bound::Excluded(after),
            None => Bound::Included(prefix),
        };
        let mut listing = Listing { records: Vec::new(), revision, remaining: 0, more: false };
        let mut take = |record: &Arc<Record>| {
            listing.more |= listing.records.len() >= limit;
            if !matches(record) {
                return;
            }
            if listing.records.len() < limit {
                listing.records.push(record.clone());
            } else {
                listing.remaining += 1;
            }
        };
        past.retain(|key, _| key.starts_with(prefix) && after.is_none_or(|after| **key > *after));
        let mut past = past.into_iter().peekable();
        let current = table.objects.range::<str, _>((start, Bound::Unbounded));
        for (key, record) in current.take_while(|(key, _)| key.starts_with(prefix)) {
            while let Some((_, then)) = past.next_if(|(past_key, _)| past_key < key) {
                then.iter().for_each(&mut take);
            }
            match past.next_if(|(past_key, _)| past_key == key) {
                Some((_, then)) => then.iter().for_each(&mut take),
                None => take(record),
            }
        }
        for (_, then) in past {
            then.iter().for_each(&mut take);
        }
        Ok(listing)
    }

    /// Watches from just after `revision`.
    pub fn watch(&self, table: TableId, revision: u64) -> Watcher {
        let changed = self.read().tables[table.0].changed.subscribe();
        Watcher { store: self.clone(), table, cursor: revision, changed }
    }

    pub async fn commit(&self, table: TableId, change: Change) -> Result<Arc<Record>, CommitError> {
        match &self.0.file {
            Some(writer) => writer.commit(table, change).await,
            None => {
                let mut state = self.0.state.write().unwrap_or_else(PoisonError::into_inner);
                let current = state.tables[table.0].objects.get(change.key()).cloned();
                let (record, event) = change.apply(current, state.revision + 1)?;
                state.publish(table, event);
                Ok(record)
            }
        }
    }

    /// Makes watchers look again although nothing changed in the table.
    pub fn wake(&self, table: TableId) {
        let state = self.read();
        state.tables[table.0].changed.send_replace(state.revision);
    }

    /// Forgets history up to the present, as etcd does when it compacts.
    pub fn compact(&self) {
        let mut state = self.0.state.write().unwrap_or_else(PoisonError::into_inner);
        let revision = state.revision;
        state.tables.iter_mut().for_each(|table| table.log.compact(revision));
    }

    fn read(&self) -> RwLockReadGuard<'_, State> {
        self.0.state.read().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl Shared ===

impl Shared {
    fn set_trouble(&self, trouble: Option<&Error>) {
        *self.trouble.write().unwrap_or_else(PoisonError::into_inner) = trouble.cloned();
    }
}

// === impl State ===

impl State {
    fn publish(&mut self, id: TableId, event: Event) {
        self.revision = event.revision;
        let table = &mut self.tables[id.0];
        match event.action {
            Action::Deleted => {
                table.objects.remove(&event.record.key);
            }
            Action::Added | Action::Modified => {
                table.objects.insert(event.record.key.clone(), event.record.clone());
            }
        }
        let revision = event.revision;
        table.log.push(Arc::new(event));
        table.changed.send_replace(revision);
    }
}

// === impl Change ===

impl Change {
    fn key(&self) -> &str {
        match self {
            Self::Create(draft) | Self::Replace(draft, _) => draft.key(),
            Self::Delete { key, .. } => key,
        }
    }

    /// What the change makes of `current`: the record to answer with and the event to publish.
    fn apply(self, current: Option<Arc<Record>>, revision: u64) -> Result<(Arc<Record>, Event), CommitError> {
        let (action, record, previous) = match (self, current) {
            (Self::Create(_), Some(_)) => return Err(CommitError::Exists),
            (Self::Create(draft), None) => (Action::Added, draft.finish(revision), None),
            (Self::Replace(draft, expected), Some(old)) if old.revision == expected => {
                (Action::Modified, draft.finish(revision), Some(old))
            }
            (Self::Delete { revision: expected, .. }, Some(old)) if old.revision == expected => {
                (Action::Deleted, old.at_revision(revision), Some(old))
            }
            (Self::Replace(..) | Self::Delete { .. }, _) => return Err(CommitError::Stale),
        };
        let record = Arc::new(record);
        let event = Event { revision, action, record: record.clone(), previous, line: SharedLine::default() };
        Ok((record, event))
    }
}

// === impl Watcher ===

impl Watcher {
    /// The events since the last call, and the revision up to which nothing else happened to this kind.
    pub fn poll_events(&mut self) -> Result<(Vec<Arc<Event>>, u64), Compacted> {
        self.changed.mark_unchanged();
        let state = self.store.read();
        let events = state.tables[self.table.0].log.since(self.cursor)?;
        self.cursor = self.cursor.max(state.revision);
        Ok((events, state.revision))
    }

    pub async fn changed(&mut self) {
        if self.changed.changed().await.is_err() {
            // The store is gone, and with it whatever this watcher waits for.
            std::future::pending::<()>().await;
        }
    }
}

#[cfg(test)]
mod tests;
