//! What of one buffer is in memory: which messages wait, which are delivered, which ids are known. Pure; the time comes in.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};

use super::super::Info;

/// Of the wall clock, so that the window of duplicates survives a restart.
pub type Millis = u64;

#[derive(Default)]
pub struct Line {
    /// To be delivered, with how often they were already.
    ready: BTreeMap<u64, u64>,
    delivered: HashMap<u64, Delivered>,
    /// When a delivered message is to be delivered again, soonest first.
    deadlines: BTreeSet<(Millis, u64)>,
    recent: HashSet<String>,
    /// The same by age, oldest first.
    recent_by_age: VecDeque<(Millis, String)>,
    pub last_sequence: u64,
    bytes: u64,
    /// Written, and not on disk yet.
    n_staged: u64,
}

#[derive(Clone, Copy)]
struct Delivered {
    deadline: Millis,
    attempt: u64,
}

impl Line {
    /// A message that is about to be written; [`Line::commit`] follows when it is.
    pub fn stage(&mut self, bytes: u64) -> u64 {
        self.last_sequence += 1;
        self.bytes += bytes;
        self.n_staged += 1;
        self.last_sequence
    }

    pub fn commit(&mut self, sequence: u64) {
        self.n_staged = self.n_staged.saturating_sub(1);
        self.ready.insert(sequence, 0);
    }

    /// A message that was there before.
    pub fn load(&mut self, sequence: u64, bytes: u64) {
        self.ready.insert(sequence, 0);
        self.last_sequence = self.last_sequence.max(sequence);
        self.bytes += bytes;
    }

    pub fn has_room(&self, bytes: u64, max_messages: u64, max_bytes: Option<u64>) -> bool {
        self.info().total() + self.n_staged < max_messages
            && max_bytes.is_none_or(|max| self.bytes + bytes <= max)
    }

    pub fn remember(&mut self, id: String, now: Millis) {
        if self.recent.insert(id.clone()) {
            self.recent_by_age.push_back((now, id));
        }
    }

    pub fn is_known(&self, id: &str) -> bool {
        self.recent.contains(id)
    }

    /// Forgets the ids that were published before `oldest`.
    pub fn forget(&mut self, oldest: Millis) -> Vec<String> {
        let mut forgotten = Vec::new();
        while self.recent_by_age.front().is_some_and(|(at, _)| *at < oldest) {
            let Some((_, id)) = self.recent_by_age.pop_front() else { break };
            self.recent.remove(&id);
            forgotten.push(id);
        }
        forgotten
    }

    /// The oldest that wait, each with its attempt, until they are acknowledged or the deadline passes.
    pub fn deliver(&mut self, max: usize, max_ack_pending: u64, deadline: Millis) -> Vec<(u64, u64)> {
        let room = max_ack_pending.saturating_sub(self.delivered.len() as u64);
        let max = max.min(usize::try_from(room).unwrap_or(usize::MAX));
        let mut taken = Vec::new();
        while taken.len() < max
            && let Some((sequence, attempts)) = self.ready.pop_first()
        {
            self.hold(sequence, Delivered { deadline, attempt: attempts + 1 });
            taken.push((sequence, attempts + 1));
        }
        taken
    }

    /// Gone for good; false if it was before.
    pub fn remove(&mut self, sequence: u64, bytes: u64) -> bool {
        let was_delivered = self.release(sequence).is_some();
        let was_there = self.ready.remove(&sequence).is_some() || was_delivered;
        if was_there {
            self.bytes = self.bytes.saturating_sub(bytes);
        }
        was_there
    }

    /// It becomes ready at `deadline`; one that is not delivered stays as it is.
    pub fn defer(&mut self, sequence: u64, deadline: Millis) {
        if let Some(delivered) = self.release(sequence) {
            self.hold(sequence, Delivered { deadline, ..delivered });
        }
    }

    /// Makes those ready whose time has come; whether there were any.
    pub fn advance(&mut self, now: Millis) -> bool {
        let mut any = false;
        while let Some((deadline, sequence)) = self.deadlines.first().copied()
            && deadline <= now
        {
            if let Some(delivered) = self.release(sequence) {
                self.ready.insert(sequence, delivered.attempt);
                any = true;
            }
        }
        any
    }

    pub fn next_deadline(&self) -> Option<Millis> {
        self.deadlines.first().map(|(deadline, _)| *deadline)
    }

    pub fn info(&self) -> Info {
        Info { pending: self.ready.len() as u64, ack_pending: self.delivered.len() as u64 }
    }

    fn hold(&mut self, sequence: u64, delivered: Delivered) {
        self.deadlines.insert((delivered.deadline, sequence));
        self.delivered.insert(sequence, delivered);
    }

    fn release(&mut self, sequence: u64) -> Option<Delivered> {
        let delivered = self.delivered.remove(&sequence)?;
        self.deadlines.remove(&(delivered.deadline, sequence));
        Some(delivered)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_ready_delivered_and_ready_again() {
        let mut line = Line::default();
        for _ in 0..2 {
            let sequence = line.stage(10);
            line.commit(sequence);
        }
        assert!(
            line.has_room(5, 3, Some(25)) && !line.has_room(6, 3, Some(25)) && !line.has_room(1, 2, None)
        );
        assert_eq!(line.deliver(5, 1, 100), [(1, 1)], "one may wait for its acknowledgement");
        assert_eq!(line.deliver(5, 1, 100), []);
        line.defer(1, 150);
        assert!(!line.advance(149));
        assert!(line.advance(150));
        assert_eq!(line.deliver(5, 9, 300), [(1, 2), (2, 1)], "the oldest first, again");
        assert_eq!(line.info(), Info { pending: 0, ack_pending: 2 });
        assert!(line.remove(1, 10) && !line.remove(1, 10));
        assert_eq!((line.bytes, line.next_deadline()), (10, Some(300)));
    }

    #[test]
    fn ids_are_known_for_the_window() {
        let mut line = Line::default();
        line.remember("a".into(), 10);
        line.remember("b".into(), 20);
        assert_eq!(line.forget(20), ["a"]);
        assert!(!line.is_known("a") && line.is_known("b"));
    }
}
