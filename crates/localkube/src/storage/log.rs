//! What happened to the objects of one kind, newest last: the source of watches and of reads in the past.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, Mutex, PoisonError},
};

use bytes::Bytes;

use super::Record;

/// Enough for a client that was away for a moment; one that was away longer lists again.
const MAX_EVENTS: usize = 8192;
/// Old versions kept only for this log may take this much memory per kind.
const MAX_BYTES: usize = 8 << 20;
/// So many events are news, which all watchers are about to ask for.
const NEWS: usize = 256;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    Added,
    Modified,
    Deleted,
}

#[derive(Debug)]
pub struct Event {
    pub revision: u64,
    pub action: Action,
    /// After the change; of a deletion, the last content under the resource version of the deletion.
    pub record: Arc<Record>,
    pub previous: Option<Arc<Record>>,
    /// The line of a watch that most watchers get.
    pub line: SharedLine,
}

/// Made once for all watchers while it is news. Who comes later makes its own: kept, it would double the log.
#[derive(Debug, Default)]
pub struct SharedLine(Mutex<Line>);

#[derive(Debug, Default)]
enum Line {
    #[default]
    Unmade,
    Made(Bytes),
    Old,
}

#[derive(Debug, Default)]
pub struct Log {
    events: VecDeque<Arc<Event>>,
    bytes: usize,
    /// Everything up to here is forgotten.
    pub compacted: u64,
}

/// The asked resource version lies before what is remembered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compacted {
    pub oldest: u64,
}

// === impl Action ===

impl Action {
    pub fn name(self) -> &'static str {
        match self {
            Self::Added => "ADDED",
            Self::Modified => "MODIFIED",
            Self::Deleted => "DELETED",
        }
    }
}

// === impl SharedLine ===

impl SharedLine {
    pub fn get(&self, make: impl FnOnce() -> Bytes) -> Bytes {
        let mut line = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match &*line {
            Line::Made(made) => made.clone(),
            Line::Old => make(),
            Line::Unmade => {
                let made = make();
                *line = Line::Made(made.clone());
                made
            }
        }
    }

    fn retire(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Line::Old;
    }
}

// === impl Log ===

impl Log {
    /// Remembers only what comes after `revision`.
    pub fn starting_at(revision: u64) -> Self {
        Self { compacted: revision, ..Self::default() }
    }

    pub fn push(&mut self, event: Arc<Event>) {
        self.bytes += weight(&event);
        self.events.push_back(event);
        if let Some(old) = self.events.len().checked_sub(NEWS + 1) {
            self.events[old].line.retire();
        }
        while self.events.len() > MAX_EVENTS || self.bytes > MAX_BYTES {
            self.drop_oldest();
        }
    }

    /// Forgets all events up to `revision`.
    pub fn compact(&mut self, revision: u64) {
        while self.events.front().is_some_and(|event| event.revision <= revision) {
            self.drop_oldest();
        }
        self.compacted = self.compacted.max(revision);
    }

    fn drop_oldest(&mut self) {
        if let Some(event) = self.events.pop_front() {
            self.bytes -= weight(&event);
            self.compacted = event.revision;
        }
    }

    pub fn since(&self, revision: u64) -> Result<Vec<Arc<Event>>, Compacted> {
        if revision < self.compacted {
            return Err(Compacted { oldest: self.compacted });
        }
        let start = self.events.partition_point(|event| event.revision <= revision);
        Ok(self.events.range(start..).cloned().collect())
    }

    /// For every object changed after `revision`: what it was then.
    pub fn undo_to(&self, revision: u64) -> Result<BTreeMap<Box<str>, Option<Arc<Record>>>, Compacted> {
        let mut before = BTreeMap::new();
        for event in self.since(revision)?.iter().rev() {
            before.insert(event.record.key.clone(), event.previous.clone());
        }
        Ok(before)
    }
}

fn weight(event: &Event) -> usize {
    event.previous.as_ref().map_or(0, |record| record.size()) + 128
}
