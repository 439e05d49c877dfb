//! The one thread that writes: what arrives while it waits for the disk shares the next transaction.

use std::sync::{Arc, PoisonError, RwLock};

use redb::{Database, ReadableTable};
use tokio::sync::mpsc;

use super::{
    source::Source,
    state::State,
    tables::{self, Tables},
};
use crate::{
    Change, Error, Limits,
    mailbox::Mailbox,
    queue::{self, Millis},
};

/// More would make the first in a group wait too long.
const MAX_GROUP: usize = 1024;

/// Done inside a transaction; what it returns answers its caller once the fate of the transaction is known.
pub type Job = Box<dyn FnOnce(&mut Group<'_, '_>) -> Result<Answer, redb::Error> + Send>;
pub type Answer = Box<dyn FnOnce(Result<(), Error>) + Send>;
/// The database while it can be used.
pub type Shared = Arc<RwLock<Result<Arc<Database>, String>>>;

/// A transaction as jobs see it.
pub struct Group<'a, 't> {
    pub tables: &'a mut Tables<'t>,
    pub state: &'a mut State,
    pub listeners: &'a mut Listeners,
    pub news: &'a mut News,
    pub limits: &'a Limits,
    pub now: Millis,
}

#[derive(Default)]
pub struct Listeners {
    pub keys: Vec<(String, Mailbox<Change>)>,
    pub queues: Vec<Mailbox<()>>,
}

/// What is to be told after the commit.
#[derive(Default)]
pub struct News {
    pub changes: Vec<Change>,
    pub queues: Vec<String>,
    /// Whether there is anything to write.
    pub dirty: bool,
}

pub struct Writer {
    pub source: Source,
    pub shared: Shared,
    pub state: State,
    pub listeners: Listeners,
    pub limits: Limits,
    /// Why the last write failed.
    pub failure: Option<String>,
}

impl Writer {
    /// Ends when the last handle to the store is dropped.
    pub async fn run(mut self, mut jobs: mpsc::Receiver<Job>) {
        let mut group = Vec::new();
        loop {
            let first = match self.state.next_due(&self.limits) {
                None => jobs.recv().await,
                Some(due) => {
                    let wait = u64::try_from(due - queue::now()).unwrap_or(0);
                    let wait = std::time::Duration::from_millis(wait);
                    match tokio::time::timeout(wait, jobs.recv()).await {
                        Ok(job) => job,
                        Err(_due) => {
                            self.commit(Vec::new());
                            continue;
                        }
                    }
                }
            };
            let Some(first) = first else { return };
            group.push(first);
            while group.len() < MAX_GROUP
                && let Ok(job) = jobs.try_recv()
            {
                group.push(job);
            }
            self.commit(std::mem::take(&mut group));
        }
    }

    fn commit(&mut self, group: Vec<Job>) {
        let mut answers = Vec::with_capacity(group.len());
        let mut news = News::default();
        match self.try_commit(group, &mut answers, &mut news) {
            Ok(()) => {
                self.tell(news);
                answers.into_iter().for_each(|answer| answer(Ok(())));
            }
            Err(message) => {
                if self.failure.as_ref() != Some(&message) {
                    tracing::error!("the store of calls cannot write: {message}");
                }
                self.failure = Some(message.clone());
                for answer in answers {
                    answer(Err(Error::Unavailable(message.clone())));
                }
                // what is in memory is ahead of the file, and redb refuses to go on after a failed write
                self.reopen();
            }
        }
    }

    /// Jobs that do not get their turn are dropped, which tells their callers.
    fn try_commit(
        &mut self,
        group: Vec<Job>,
        answers: &mut Vec<Answer>,
        news: &mut News,
    ) -> Result<(), String> {
        if self.database().is_err() {
            self.reopen();
        }
        let database = self.database()?;
        let source = &self.source;
        let text = |error: redb::Error| source.explain(&error);
        let transaction = database.begin_write().map_err(|error| text(error.into()))?;
        {
            let mut tables = Tables::open(&transaction).map_err(text)?;
            let mut group_state = Group {
                tables: &mut tables,
                state: &mut self.state,
                listeners: &mut self.listeners,
                news,
                limits: &self.limits,
                now: queue::now(),
            };
            group_state.advance().map_err(text)?;
            for job in group {
                answers.push(job(&mut group_state).map_err(text)?);
            }
            news.dirty |= self.failure.is_some();
            if news.dirty {
                tables.put_number(self.state.number).map_err(text)?;
            }
        }
        if news.dirty {
            transaction.commit().map_err(|error| text(error.into()))?;
            if self.failure.take().is_some() {
                tracing::info!("the store of calls takes writes again");
            }
        } else {
            transaction.abort().map_err(|error| text(error.into()))?;
        }
        Ok(())
    }

    fn tell(&mut self, news: News) {
        for change in news.changes {
            self.listeners.keys.retain(|(prefix, mailbox)| {
                !change.key.starts_with(prefix.as_str()) || mailbox.tell(&change.key, change.clone())
            });
        }
        for queue in news.queues {
            self.listeners.queues.retain(|mailbox| mailbox.tell(&queue, ()));
        }
    }

    fn database(&self) -> Result<Arc<Database>, String> {
        self.shared.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn reopen(&mut self) {
        // whoever listened must see the state anew
        self.listeners = Listeners::default();
        let mut shared = self.shared.write().unwrap_or_else(PoisonError::into_inner);
        // the old handle goes first: it holds the lock of the file
        *shared = Err(self.failure.clone().unwrap_or_default());
        let opened = self.source.open().and_then(|database| {
            let state = tables::load(&database).map_err(|error| self.source.explain(&error))?;
            Ok((Arc::new(database), state))
        });
        *shared = opened.map(|(database, state)| {
            self.state = State { dropped: self.state.dropped.clone(), ..state };
            database
        });
    }
}

impl Group<'_, '_> {
    pub fn key_changed(&mut self, change: Change) {
        self.news.dirty = true;
        self.news.changes.push(change);
    }

    pub fn queue_changed(&mut self, queue: &str) {
        self.news.dirty = true;
        self.news.queues.push(queue.to_owned());
    }

    /// Lets pass what the time has come for.
    fn advance(&mut self) -> Result<(), redb::Error> {
        for (name, queue) in &mut self.state.queues {
            if queue.advance(self.now) {
                self.news.queues.push(name.clone());
            }
        }
        while let Some((expires, _)) = self.state.expiries.first()
            && *expires <= self.now
            && let Some((_, key)) = self.state.expiries.pop_first()
        {
            let row = self.tables.keys.get(key.as_str())?.map(|row| tables::KeyRow::decode(row.value()));
            if row.is_some_and(|row| row.is_expired(self.now)) {
                self.remove_key(key)?;
            }
        }
        self.drop_dead()
    }
}
