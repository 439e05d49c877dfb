//! The file behind the memory: every record in one redb table, written in groups by one thread.

use std::{
    collections::HashMap,
    ops::Bound,
    path::{Path, PathBuf},
    sync::{Arc, PoisonError, Weak, mpsc},
};

use redb::{
    BackendError, Builder, Database, ReadableDatabase, ReadableTable, StorageBackend, TableDefinition,
    backends::FileBackend,
};
use tokio::sync::oneshot;

use super::{Action, Change, CommitError, Error, Event, Record, Shared, Stored, TableId};

/// `table\0key` to the JSON of the object.
const OBJECTS: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("objects");
/// `revision` to the last revision given out, so that a deletion never lets one be given out twice.
const COUNTERS: TableDefinition<'_, &str, u64> = TableDefinition::new("counters");
/// Everything is also in memory, so that the file needs next to no cache.
const CACHE_BYTES: usize = 4 << 20;
/// A group larger than this makes the first writer in it wait too long.
const MAX_GROUP: usize = 1024;

pub struct Opened {
    pub database: Database,
    pub revision: u64,
    pub entries: Vec<Stored>,
}

pub struct Writer(mpsc::Sender<Job>);

pub struct Job {
    table: TableId,
    change: Change,
    done: oneshot::Sender<Result<Arc<Record>, CommitError>>,
}

pub fn open(path: &Path, sync: bool) -> Result<Opened, Error> {
    let failed = |source: redb::Error| Error::Open { path: path.to_owned(), source: Box::new(source) };
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent).map_err(|error| failed(error.into()))?;
    }
    let mut builder = Builder::new();
    builder.set_cache_size(CACHE_BYTES);
    let database = if sync {
        builder.create(path).map_err(|error| failed(error.into()))?
    } else {
        let file = std::fs::OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)
            .map_err(|error| failed(error.into()))?;
        let backend = FileBackend::new(file).map_err(|error| failed(error.into()))?;
        builder.create_with_backend(Unsynced(backend)).map_err(|error| failed(error.into()))?
    };
    let (revision, entries) = load(&database)
        .map_err(|source| Error::Load { path: PathBuf::from(path), source: Box::new(source) })?;
    Ok(Opened { database, revision, entries })
}

fn load(database: &Database) -> Result<(u64, Vec<Stored>), redb::Error> {
    let transaction = database.begin_write()?;
    transaction.open_table(OBJECTS)?;
    transaction.open_table(COUNTERS)?;
    transaction.commit()?;
    let transaction = database.begin_read()?;
    let revision = transaction.open_table(COUNTERS)?.get("revision")?.map_or(0, |value| value.value());
    let mut entries = Vec::new();
    for entry in transaction.open_table(OBJECTS)?.iter()? {
        let (key, json) = entry?;
        if let Some((table, key)) = key.value().split_once('\0') {
            entries.push(Stored {
                table: table.to_owned(),
                key: key.to_owned(),
                json: json.value().to_vec(),
            });
        }
    }
    Ok((revision, entries))
}

pub fn spawn(database: Database, jobs: mpsc::Receiver<Job>, shared: Weak<Shared>) {
    let run = move || {
        while let Ok(first) = jobs.recv() {
            let mut group = vec![first];
            while group.len() < MAX_GROUP
                && let Ok(job) = jobs.try_recv()
            {
                group.push(job);
            }
            let Some(shared) = shared.upgrade() else { return };
            commit_group(&database, &shared, group);
        }
    };
    if let Err(error) = std::thread::Builder::new().name("storage".into()).spawn(run) {
        tracing::error!(%error, "cannot start the storage thread; every write will fail");
    }
}

fn commit_group(database: &Database, shared: &Shared, group: Vec<Job>) {
    let mut revision = shared.state.read().unwrap_or_else(PoisonError::into_inner).revision;
    // What earlier changes of this group made, for the later ones that touch the same object.
    let mut pending: HashMap<(TableId, Box<str>), Option<Arc<Record>>> = HashMap::new();
    let mut accepted = Vec::with_capacity(group.len());
    let mut events = Vec::with_capacity(group.len());
    for Job { table, change, done } in group {
        let place = (table, Box::from(change.key()));
        let current = match pending.get(&place) {
            Some(record) => record.clone(),
            None => {
                let state = shared.state.read().unwrap_or_else(PoisonError::into_inner);
                state.tables[table.0].objects.get(change.key()).cloned()
            }
        };
        match change.apply(current, revision + 1) {
            Ok((record, event)) => {
                revision += 1;
                pending.insert(place, (event.action != Action::Deleted).then(|| record.clone()));
                events.push((table, event));
                accepted.push((done, record));
            }
            Err(error) => drop(done.send(Err(error))),
        }
    }
    if events.is_empty() {
        return;
    }
    if let Err(error) = write(database, shared, &events, revision) {
        tracing::error!(%error, "the storage file refused a group of {} writes", events.len());
        let message = error.to_string();
        for (done, _) in accepted {
            drop(done.send(Err(CommitError::Failed(Error::Commit(message.clone())))));
        }
        return;
    }
    let mut state = shared.state.write().unwrap_or_else(PoisonError::into_inner);
    for (table, event) in events {
        state.publish(table, event);
    }
    drop(state);
    for (done, record) in accepted {
        drop(done.send(Ok(record)));
    }
}

fn write(
    database: &Database,
    shared: &Shared,
    events: &[(TableId, Event)],
    revision: u64,
) -> Result<(), redb::Error> {
    let transaction = database.begin_write()?;
    {
        let mut objects = transaction.open_table(OBJECTS)?;
        let mut place = String::new();
        for (table, event) in events {
            let name =
                shared.state.read().unwrap_or_else(PoisonError::into_inner).tables[table.0].name.clone();
            place.clear();
            place.extend([&name, "\0", &event.record.key]);
            match event.action {
                Action::Deleted => drop(objects.remove(place.as_str())?),
                Action::Added | Action::Modified => {
                    drop(objects.insert(place.as_str(), event.record.json().as_ref())?);
                }
            }
        }
        transaction.open_table(COUNTERS)?.insert("revision", revision)?;
    }
    transaction.commit()?;
    Ok(())
}

// === impl Writer ===

impl Writer {
    pub fn new() -> (Self, mpsc::Receiver<Job>) {
        let (sender, receiver) = mpsc::channel();
        (Self(sender), receiver)
    }

    pub async fn commit(&self, table: TableId, change: Change) -> Result<Arc<Record>, CommitError> {
        let stopped = || CommitError::Failed(Error::Commit("the storage thread has stopped".to_owned()));
        let (done, answer) = oneshot::channel();
        self.0.send(Job { table, change, done }).map_err(|_| stopped())?;
        answer.await.map_err(|_| stopped())?
    }
}

/// A file that leaves it to the operating system when data reaches the disk.
#[derive(Debug)]
struct Unsynced(FileBackend);

impl StorageBackend for Unsynced {
    fn len(&self) -> std::io::Result<u64> {
        self.0.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> std::io::Result<()> {
        self.0.read(offset, out)
    }

    fn set_len(&self, len: u64) -> std::io::Result<()> {
        self.0.set_len(len)
    }

    fn sync_data(&self) -> std::io::Result<()> {
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> std::io::Result<()> {
        self.0.write(offset, data)
    }

    fn close(&self) -> std::io::Result<()> {
        self.0.close()
    }

    fn try_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.0.try_lock_range(start, end)
    }

    fn try_lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.0.try_lock_shared_range(start, end)
    }

    fn lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.0.lock_range(start, end)
    }

    fn lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.0.lock_shared_range(start, end)
    }

    fn unlock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.0.unlock_range(start, end)
    }

    fn query_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.0.query_lock_range(start, end)
    }
}
