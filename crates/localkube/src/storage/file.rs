//! The file behind the memory: every record in one redb table, written in groups by one thread.
//!
//! A file that refused a write (its disk is full, most likely) is closed and opened again until it takes writes; until then
//! reads go on from memory and writes are refused with the reason.

use std::{
    collections::HashMap,
    sync::{Arc, PoisonError, Weak, mpsc},
    time::{Duration, Instant},
};

use redb::Database;
use tokio::sync::oneshot;

use super::{
    Action, Change, CommitError, Error, Event, Record, Shared, TableId,
    medium::{COUNTERS, Medium, OBJECTS, revision},
};

/// A group larger than this makes the first writer in it wait too long.
const MAX_GROUP: usize = 1024;
/// Between two attempts to use a file again that refused a write.
const RETRY: Duration = Duration::from_millis(500);
/// Opening may have to check the whole file: at most a fifth of the time goes into it.
const RETRY_SHARE: u32 = 4;

pub struct Writer(mpsc::Sender<Job>);

pub struct Job {
    table: TableId,
    change: Change,
    done: oneshot::Sender<Result<Arc<Record>, CommitError>>,
}

/// The thread that writes.
pub struct Thread {
    pub medium: Medium,
    pub jobs: mpsc::Receiver<Job>,
    pub shared: Weak<Shared>,
}

/// The file, and what became of it.
enum Disk {
    Usable(Database),
    Broken(Broken),
}

struct Broken {
    why: Error,
    /// The group that was refused, and its last revision. The file may have it nevertheless.
    unknown: Option<(Vec<(TableId, Event)>, u64)>,
    retry_at: Instant,
}

// === impl Thread ===

impl Thread {
    pub fn spawn(self, database: Database) {
        if let Err(error) = std::thread::Builder::new().name("storage".into()).spawn(|| self.run(database)) {
            tracing::error!(%error, "cannot start the storage thread; every write will fail");
        }
    }

    fn run(self, database: Database) {
        let mut disk = Disk::Usable(database);
        loop {
            let first = match &disk {
                Disk::Usable(_) => self.jobs.recv().map_err(|_| mpsc::RecvTimeoutError::Disconnected),
                Disk::Broken(broken) => {
                    self.jobs.recv_timeout(broken.retry_at.saturating_duration_since(Instant::now()))
                }
            };
            let mut group = match first {
                Ok(first) => vec![first],
                Err(mpsc::RecvTimeoutError::Timeout) => Vec::new(),
                Err(mpsc::RecvTimeoutError::Disconnected) => return,
            };
            while group.len() < MAX_GROUP
                && let Ok(job) = self.jobs.try_recv()
            {
                group.push(job);
            }
            let Some(shared) = self.shared.upgrade() else { return };
            disk = match disk {
                Disk::Broken(broken) if broken.retry_at <= Instant::now() => self.mend(&shared, broken),
                disk => disk,
            };
            disk = match disk {
                Disk::Usable(database) => commit_group(&self.medium, database, &shared, group),
                Disk::Broken(broken) => {
                    for Job { done, .. } in group {
                        drop(done.send(Err(CommitError::Failed(broken.why.clone()))));
                    }
                    Disk::Broken(broken)
                }
            };
        }
    }

    /// Opens the file once more, and finds out what it holds of the group that was refused.
    fn mend(&self, shared: &Shared, broken: Broken) -> Disk {
        let began = Instant::now();
        let opened = self.medium.open().and_then(|database| {
            self.medium.try_room(&database)?;
            let found = revision(&database).map_err(|error| self.medium.refused(&error))?;
            Ok((database, found))
        });
        let still = |why: Error, unknown| {
            let retry_at = Instant::now() + RETRY.max(began.elapsed() * RETRY_SHARE);
            Disk::Broken(Broken { why, unknown, retry_at })
        };
        let (database, found) = match opened {
            Ok(opened) => opened,
            Err(why) => {
                if why != broken.why {
                    tracing::error!("{why}");
                    shared.set_trouble(Some(&why));
                }
                return still(why, broken.unknown);
            }
        };
        let mut state = shared.state.write().unwrap_or_else(PoisonError::into_inner);
        if found != state.revision {
            match broken.unknown {
                // told as failed, but there all the same: who watches must hear of it
                Some((events, revision)) if revision == found => {
                    events.into_iter().for_each(|(table, event)| state.publish(table, event));
                }
                unknown => {
                    let known = state.revision;
                    drop(state);
                    let why = Error::Commit(format!(
                        "it was changed by somebody else: it is at revision {found}, this server at {known}"
                    ));
                    shared.set_trouble(Some(&why));
                    return still(why, unknown);
                }
            }
        }
        drop(state);
        shared.set_trouble(None);
        tracing::info!("the storage file takes writes again");
        Disk::Usable(database)
    }
}

fn commit_group(medium: &Medium, database: Database, shared: &Shared, group: Vec<Job>) -> Disk {
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
        return Disk::Usable(database);
    }
    if let Err(error) = write(&database, shared, &events, revision) {
        // before it is opened again: it holds the lock of the file, and refuses everything after a failed write
        drop(database);
        let why = medium.refused(&error);
        tracing::error!("{why}");
        shared.set_trouble(Some(&why));
        for (done, _) in accepted {
            drop(done.send(Err(CommitError::Failed(why.clone()))));
        }
        let retry_at = Instant::now() + RETRY;
        return Disk::Broken(Broken { why, unknown: Some((events, revision)), retry_at });
    }
    let mut state = shared.state.write().unwrap_or_else(PoisonError::into_inner);
    for (table, event) in events {
        state.publish(table, event);
    }
    drop(state);
    for (done, record) in accepted {
        drop(done.send(Ok(record)));
    }
    Disk::Usable(database)
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
