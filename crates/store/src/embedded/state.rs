//! What is kept in memory beside the file: enough to decide without reading it.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use crate::{
    Dropped, Limits, RESULTS,
    queue::{self, Millis, Queue},
};

#[derive(Default)]
pub struct State {
    /// The last one given out.
    pub number: u64,
    pub queues: BTreeMap<String, Queue>,
    /// Of keys; one that was written again may stand here with its old time too.
    pub expiries: BTreeSet<(Millis, String)>,
    pub results: Results,
    pub dropped: Arc<Counters>,
}

/// Keys under [`RESULTS`] by their revision, and so by their age.
#[derive(Default)]
pub struct Results {
    by_age: BTreeMap<u64, (String, u64)>,
    revisions: HashMap<String, u64>,
    bytes: u64,
}

#[derive(Default)]
pub struct Counters {
    pub dead_letters: AtomicU64,
    pub results: AtomicU64,
}

impl State {
    pub fn next_number(&mut self) -> u64 {
        self.number += 1;
        self.number
    }

    pub fn queue(&mut self, name: &str) -> &mut Queue {
        if !self.queues.contains_key(name) {
            self.queues.insert(name.to_owned(), Queue::default());
        }
        self.queues.entry(name.to_owned()).or_default()
    }

    pub fn next_due(&self, limits: &Limits) -> Option<Millis> {
        let keys = self.expiries.first().map(|(expires, _)| *expires);
        let death = self.queues.values().filter_map(Queue::first_death).min();
        let buried = death.map(|death| queue::after(death, limits.dead_age));
        self.queues.values().filter_map(Queue::next_due).chain(keys).chain(buried).min()
    }
}

impl Results {
    /// Of any key; those that are not results are not counted.
    pub fn put(&mut self, key: &str, revision: u64, bytes: usize) {
        self.remove(key);
        if key.starts_with(RESULTS) {
            let bytes = (key.len() + bytes) as u64;
            self.bytes += bytes;
            self.revisions.insert(key.to_owned(), revision);
            self.by_age.insert(revision, (key.to_owned(), bytes));
        }
    }

    pub fn remove(&mut self, key: &str) {
        let removed = self.revisions.remove(key).and_then(|revision| self.by_age.remove(&revision));
        self.bytes -= removed.map_or(0, |(_, bytes)| bytes);
    }

    /// Takes out the oldest if there are too many.
    pub fn pop_excess(&mut self, limits: &Limits) -> Option<String> {
        if !limits.results.is_exceeded(self.by_age.len(), self.bytes) {
            return None;
        }
        let (_, (key, bytes)) = self.by_age.pop_first()?;
        self.revisions.remove(&key);
        self.bytes -= bytes;
        Some(key)
    }
}

impl Counters {
    pub fn read(&self) -> Dropped {
        Dropped {
            dead_letters: self.dead_letters.load(Ordering::Relaxed),
            results: self.results.load(Ordering::Relaxed),
        }
    }
}
