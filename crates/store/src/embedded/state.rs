//! What is kept in memory beside the file: enough to decide without reading it.

use std::collections::{BTreeMap, BTreeSet};

use crate::queue::{Millis, Queue};

#[derive(Default)]
pub struct State {
    /// The last one given out.
    pub number: u64,
    pub queues: BTreeMap<String, Queue>,
    /// Of keys; one that was written again may stand here with its old time too.
    pub expiries: BTreeSet<(Millis, String)>,
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

    pub fn next_due(&self) -> Option<Millis> {
        let keys = self.expiries.first().map(|(expires, _)| *expires);
        self.queues.values().filter_map(Queue::next_due).chain(keys).min()
    }
}
