//! The one thread that writes: what arrives while it waits for the disk shares the next transaction.

use std::sync::Arc;

use tokio::sync::{mpsc, oneshot};

use super::{Row, Shared, line::Line, millis, now, tables::Tables};
use crate::buffer::{Error, NewMessage, Published, Result, Settings};

/// More would make the first in a group wait too long.
const MAX_GROUP: usize = 256;

pub enum Job {
    Create(String, Settings, oneshot::Sender<Result<()>>),
    Delete(String, oneshot::Sender<Result<()>>),
    Publish(String, Vec<NewMessage>, oneshot::Sender<Vec<Result<Published>>>),
    Ack(String, Vec<u64>, oneshot::Sender<Result<()>>),
}

/// What memory learns once the transaction is on disk.
enum Done {
    Deleted(String),
    Put(String, Vec<u64>),
    Removed(String, Vec<(u64, u64)>),
}

/// Told what became of the transaction.
type Answer = Box<dyn FnOnce(Result<()>) + Send>;
type Work<T> = std::result::Result<T, redb::Error>;

pub struct Writer {
    pub shared: Arc<Shared>,
    /// Why the last write failed.
    pub failure: Option<String>,
}

/// One transaction.
struct Group<'a, 't> {
    shared: &'a Shared,
    tables: Tables<'t>,
    done: Vec<Done>,
    answers: &'a mut Vec<Answer>,
    is_dirty: bool,
}

impl Writer {
    /// Ends when the last handle to the buffers is dropped.
    pub fn run(mut self, mut jobs: mpsc::Receiver<Job>) {
        while let Some(first) = jobs.blocking_recv() {
            let mut group = vec![first];
            while group.len() < MAX_GROUP
                && let Ok(job) = jobs.try_recv()
            {
                group.push(job);
            }
            let mut answers = Vec::new();
            let committed = self.commit(group, &mut answers).map_err(Error::Unavailable);
            if let Err(Error::Unavailable(words)) = &committed {
                if self.failure.as_ref() != Some(words) {
                    tracing::error!("the buffers cannot be written: {words}");
                }
                // what is in memory is ahead of the file, and redb refuses to go on after a failed write
                self.failure = Some(words.clone());
                self.shared.close(words);
            } else if self.failure.take().is_some() {
                tracing::info!("the buffers take writes again");
            }
            answers.into_iter().for_each(|answer| answer(committed.clone()));
        }
    }

    /// Jobs that do not get their turn are dropped, which tells their callers.
    fn commit(&self, jobs: Vec<Job>, answers: &mut Vec<Answer>) -> Result<(), String> {
        let database = self.shared.database_or_reopen()?;
        let text = |error: redb::Error| store::explain(&self.shared.path, &error);
        let transaction = database.begin_write().map_err(|error| text(error.into()))?;
        let (done, is_dirty) = {
            let tables = Tables::open(&transaction).map_err(text)?;
            let mut group =
                Group { shared: &self.shared, tables, done: Vec::new(), answers, is_dirty: false };
            jobs.into_iter().try_for_each(|job| group.work(job)).map_err(text)?;
            (group.done, group.is_dirty)
        };
        if !is_dirty {
            return transaction.abort().map_err(|error| text(error.into()));
        }
        transaction.commit().map_err(|error| text(error.into()))?;
        let mut rows = self.shared.rows();
        for done in done {
            match done {
                Done::Deleted(name) => drop(rows.remove(&name)),
                Done::Put(name, sequences) => {
                    let Some(row) = rows.get_mut(&name) else { continue };
                    sequences.into_iter().for_each(|sequence| row.line.commit(sequence));
                }
                Done::Removed(name, removed) => {
                    let Some(row) = rows.get_mut(&name) else { continue };
                    for (sequence, bytes) in removed {
                        row.line.remove(sequence, bytes);
                    }
                }
            }
        }
        drop(rows);
        self.shared.news.notify_waiters();
        Ok(())
    }
}

impl Group<'_, '_> {
    fn work(&mut self, job: Job) -> Work<()> {
        match job {
            Job::Create(name, settings, reply) => {
                self.create(name, settings)?;
                self.answers.push(Box::new(move |committed| drop(reply.send(committed))));
            }
            Job::Delete(name, reply) => {
                let number = self.shared.rows().get(&name).map(|row| row.number);
                if let Some(number) = number {
                    self.is_dirty = true;
                    self.tables.remove_buffer(&name, number)?;
                    self.done.push(Done::Deleted(name));
                }
                self.answers.push(Box::new(move |committed| drop(reply.send(committed))));
            }
            Job::Publish(name, messages, reply) => {
                let outcomes = self.publish(name, messages)?;
                self.answers.push(Box::new(move |committed| {
                    let outcomes = outcomes.into_iter().map(|outcome| committed.clone().and(outcome));
                    drop(reply.send(outcomes.collect()));
                }));
            }
            Job::Ack(name, sequences, reply) => {
                let outcome = self.ack(name, sequences)?;
                self.answers.push(Box::new(move |committed| drop(reply.send(committed.and(outcome)))));
            }
        }
        Ok(())
    }

    fn create(&mut self, name: String, settings: Settings) -> Work<()> {
        let mut rows = self.shared.rows();
        if rows.contains_key(&name) {
            return Ok(());
        }
        let number = rows.values().map(|row| row.number).max().unwrap_or(0) + 1;
        let row = serde_json::to_vec(&(number, &settings)).unwrap_or_default();
        self.tables.buffers.insert(name.as_str(), row.as_slice())?;
        rows.insert(name, Row { number, settings, line: Line::default() });
        self.is_dirty = true;
        Ok(())
    }

    fn publish(&mut self, name: String, messages: Vec<NewMessage>) -> Work<Vec<Result<Published>>> {
        let now = now();
        let mut rows = self.shared.rows();
        let Some(row) = rows.get_mut(&name) else {
            let missing = Error::NotFound(name);
            return Ok(messages.iter().map(|_| Err(missing.clone())).collect());
        };
        let (number, settings) = (row.number, &row.settings);
        for id in row.line.forget(now.saturating_sub(millis(settings.duplicates))) {
            self.tables.recent.remove((number, id.as_str()))?;
            self.is_dirty = true;
        }
        let mut outcomes = Vec::with_capacity(messages.len());
        let mut put = Vec::with_capacity(messages.len());
        for NewMessage { id, payload } in messages {
            if id.as_ref().is_some_and(|id| row.line.is_known(id)) {
                outcomes.push(Ok(Published { is_duplicate: true }));
                continue;
            }
            let bytes = payload.len() as u64;
            if !row.line.has_room(bytes, settings.max_messages, settings.max_bytes) {
                outcomes.push(Err(Error::Full(name.clone())));
                continue;
            }
            let sequence = row.line.stage(bytes);
            self.tables.messages.insert((number, sequence), payload.as_ref())?;
            if let Some(id) = id {
                self.tables.recent.insert((number, id.as_str()), now)?;
                row.line.remember(id, now);
            }
            put.push(sequence);
            outcomes.push(Ok(Published { is_duplicate: false }));
        }
        if !put.is_empty() {
            self.tables.sequences.insert(number, row.line.last_sequence)?;
            self.is_dirty = true;
            self.done.push(Done::Put(name, put));
        }
        Ok(outcomes)
    }

    fn ack(&mut self, name: String, sequences: Vec<u64>) -> Work<Result<()>> {
        let number = self.shared.rows().get(&name).map(|row| row.number);
        let Some(number) = number else { return Ok(Err(Error::NotFound(name))) };
        let mut removed = Vec::with_capacity(sequences.len());
        for sequence in sequences {
            // gone already if somebody else acknowledged it
            if let Some(payload) = self.tables.messages.remove((number, sequence))? {
                removed.push((sequence, payload.value().len() as u64));
            }
        }
        if !removed.is_empty() {
            self.is_dirty = true;
            self.done.push(Done::Removed(name, removed));
        }
        Ok(Ok(()))
    }
}
