//! All queues as this process last saw them: what the stream says, applied message by message.
//!
//! ```text
//! NAME.item.QUEUE.ID      head and body, once; replaced by an empty message when the item is gone
//! NAME.state.QUEUE.PLACE  where the item stands; none while it was never given out
//! NAME.gate.QUEUE         written by everyone who takes, so that of two at once one is refused
//! ```
//!
//! An item's place in the line is its sequence in the stream. Headers say everything that is decided upon, so bodies
//! stay on the server.

use std::collections::{BTreeMap, HashMap};

use async_nats::HeaderMap;
use serde::{Deserialize, Serialize};

use super::subject;
use crate::queue::{Item, Millis, Queue, State};

pub const ITEM: &str = "Ballast-Item";
pub const STATE: &str = "Ballast-State";

#[derive(Default)]
pub struct View {
    pub lines: BTreeMap<String, Line>,
    /// The sequence of the last message that is in here.
    pub applied: u64,
}

#[derive(Default)]
pub struct Line {
    pub queue: Queue,
    /// Sequence of the last message about each place.
    states: HashMap<u64, u64>,
    /// Of the last one who took.
    pub gate: u64,
}

/// In the header of an item.
#[derive(Serialize, Deserialize)]
pub struct ItemHeader {
    pub bytes: u64,
    pub enqueued: Millis,
}

/// In the header of a state; none means that the item is gone.
#[derive(Serialize, Deserialize)]
pub struct StateHeader {
    pub attempts: u32,
    pub state: Option<State>,
}

#[derive(Debug, PartialEq, Eq)]
pub enum Subject {
    Item { queue: String, id: String },
    State { queue: String, place: u64 },
    Gate { queue: String },
}

impl View {
    /// The queue that it concerns.
    pub fn apply(&mut self, subject: Subject, sequence: u64, headers: Option<&HeaderMap>) -> String {
        self.applied = self.applied.max(sequence);
        match subject {
            Subject::Item { queue, id } => {
                let line = self.line(&queue);
                if let Some(old) = line.queue.place(&id) {
                    line.remove(old);
                }
                if let Some(header) = header::<ItemHeader>(headers, ITEM) {
                    let (bytes, enqueued) = (header.bytes, header.enqueued);
                    let item = Item { id: id.into(), bytes, enqueued, attempts: 0, state: State::Ready };
                    line.queue.insert(sequence, item);
                }
                queue
            }
            Subject::State { queue, place } => {
                let line = self.line(&queue);
                match header::<StateHeader>(headers, STATE) {
                    Some(StateHeader { attempts, state: Some(state) }) => {
                        line.states.insert(place, sequence);
                        line.queue.set(place, attempts, state);
                    }
                    _ => line.remove(place),
                }
                queue
            }
            Subject::Gate { queue } => {
                self.line(&queue).gate = sequence;
                queue
            }
        }
    }

    pub fn line(&mut self, queue: &str) -> &mut Line {
        if !self.lines.contains_key(queue) {
            self.lines.insert(queue.to_owned(), Line::default());
        }
        self.lines.entry(queue.to_owned()).or_default()
    }

    pub fn next_due(&self) -> Option<Millis> {
        self.lines.values().filter_map(|line| line.queue.next_due()).min()
    }

    /// The queues in which something became ready.
    pub fn advance(&mut self, now: Millis) -> Vec<String> {
        let due = self.lines.iter_mut().filter_map(|(name, line)| line.queue.advance(now).then_some(name));
        due.cloned().collect()
    }
}

impl Line {
    pub fn state_sequence(&self, place: u64) -> u64 {
        self.states.get(&place).copied().unwrap_or(0)
    }

    fn remove(&mut self, place: u64) {
        self.queue.remove(place);
        self.states.remove(&place);
    }
}

impl Subject {
    pub fn write(&self, name: &str) -> String {
        match self {
            Subject::Item { queue, id } => {
                format!("{name}.item.{}.{}", subject::encode(queue), subject::encode(id))
            }
            Subject::State { queue, place } => format!("{name}.state.{}.{place}", subject::encode(queue)),
            Subject::Gate { queue } => format!("{name}.gate.{}", subject::encode(queue)),
        }
    }

    /// None if it is not ours.
    pub fn read(name: &str, text: &str) -> Option<Self> {
        let mut parts = text.strip_prefix(name)?.strip_prefix('.')?.split('.');
        let kind = parts.next()?;
        let queue = subject::decode(parts.next()?)?;
        let last = parts.next();
        match (kind, last) {
            ("item", Some(id)) => Some(Subject::Item { queue, id: subject::decode(id)? }),
            ("state", Some(place)) => Some(Subject::State { queue, place: place.parse().ok()? }),
            ("gate", None) => Some(Subject::Gate { queue }),
            _ => None,
        }
    }
}

fn header<T: for<'de> Deserialize<'de>>(headers: Option<&HeaderMap>, name: &str) -> Option<T> {
    serde_json::from_str(headers?.get(name)?.as_str()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subjects_read_as_written() {
        for subject in [
            Subject::Item { queue: "a.b".to_owned(), id: "x y".to_owned() },
            Subject::State { queue: String::new(), place: 7 },
            Subject::Gate { queue: "fibonacci".to_owned() },
        ] {
            assert_eq!(Subject::read("ballast", &subject.write("ballast")), Some(subject));
        }
        assert_eq!(Subject::read("ballast", "ballast.item.q"), None);
        assert_eq!(Subject::read("ballast", "other.gate.q"), None);
    }
}
