//! One queue as a value: which items it has and where each stands. Both places keep one beside what is durable.
//!
//! No clock and no I/O: the time comes in, and what is to be written comes out.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    ops::Bound,
    sync::Arc,
};

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::{Counts, Dead, Limits, Place, Settle, Take};

/// Milliseconds since 1970.
pub type Millis = i64;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum State {
    Ready,
    /// Given out. Past `until` it may be given out again; until then whoever has the ticket may still settle it.
    Taken {
        holder: String,
        /// Empty in what was written before spots were.
        #[serde(default)]
        spot: Arc<str>,
        ticket: u64,
        until: Millis,
    },
    /// Tried, and to be tried again.
    Waiting {
        until: Millis,
    },
    Dead {
        reason: String,
        at: Millis,
    },
}

/// Everything about an item but its head and body.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Item {
    pub id: Arc<str>,
    /// Of head and body.
    pub bytes: u64,
    pub enqueued: Millis,
    pub attempts: u32,
    pub state: State,
}

/// What an item becomes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    Gone,
    Stays { attempts: u32, state: State },
}

/// Items by their place in the line, which is the order in which they were handed in.
#[derive(Debug, Default)]
pub struct Queue {
    items: BTreeMap<u64, Item>,
    places: HashMap<Arc<str>, u64>,
    bytes: u64,
    ready: BTreeSet<u64>,
    leases: BTreeSet<(Millis, u64)>,
    /// How many of the leases are for each spot.
    spots: HashMap<Arc<str>, usize>,
    waits: BTreeSet<(Millis, u64)>,
    dead: BTreeSet<u64>,
    /// The same by the time of their death.
    deaths: BTreeSet<(Millis, u64)>,
    dead_bytes: u64,
}

impl Queue {
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// How many items are not dead, and their bytes.
    pub fn load(&self) -> (usize, u64) {
        (self.items.len() - self.dead.len(), self.bytes - self.dead_bytes)
    }

    pub fn place(&self, id: &str) -> Option<u64> {
        self.places.get(id).copied()
    }

    pub fn get(&self, place: u64) -> Option<&Item> {
        self.items.get(&place)
    }

    /// Replaces what stood there.
    pub fn insert(&mut self, place: u64, item: Item) {
        self.remove(place);
        self.bytes += item.bytes;
        self.places.insert(item.id.clone(), place);
        self.index(place, &item.state, item.bytes);
        self.items.insert(place, item);
    }

    pub fn remove(&mut self, place: u64) -> Option<Item> {
        let item = self.items.remove(&place)?;
        self.bytes -= item.bytes;
        self.places.remove(&item.id);
        self.unindex(place, &item.state, item.bytes);
        Some(item)
    }

    pub fn set(&mut self, place: u64, attempts: u32, state: State) {
        let Some(mut item) = self.items.remove(&place) else { return };
        self.unindex(place, &item.state, item.bytes);
        self.index(place, &state, item.bytes);
        item.attempts = attempts;
        item.state = state;
        self.items.insert(place, item);
    }

    /// Makes ready what waited for `now`; true if there was any.
    pub fn advance(&mut self, now: Millis) -> bool {
        let mut any = false;
        while let Some(place) = pop_due(&mut self.leases, now) {
            if let State::Taken { spot, .. } = &self.items[&place].state {
                leave(&mut self.spots, spot);
            }
            any |= self.ready.insert(place);
        }
        while let Some(place) = pop_due(&mut self.waits, now) {
            any |= self.ready.insert(place);
        }
        any
    }

    /// When `advance` has something to do next.
    pub fn next_due(&self) -> Option<Millis> {
        let first = |line: &BTreeSet<(Millis, u64)>| line.first().map(|(until, _)| *until);
        [first(&self.leases), first(&self.waits)].into_iter().flatten().min()
    }

    /// The places of what may be given out now, the oldest first, each with the index of its spot. Call `advance`
    /// before.
    pub fn choose(&self, take: &Take) -> Vec<(u64, usize)> {
        let room = take.in_flight.saturating_sub(self.leases.len());
        let mut given: HashMap<&str, usize> = HashMap::new();
        let free = take.spots.iter().enumerate().filter_map(|(index, spot)| {
            let given = given.entry(spot).or_insert_with(|| self.spots.get(spot).copied().unwrap_or(0));
            let is_free = *given < take.per_spot;
            *given += usize::from(is_free);
            is_free.then_some(index)
        });
        let mut bytes = 0;
        let fits = |(nth, (place, _)): &(usize, (u64, usize))| {
            bytes += self.items[place].bytes;
            *nth == 0 || bytes <= take.bytes
        };
        let chosen = self.ready.iter().copied().zip(free).take(room).enumerate().take_while(fits);
        chosen.map(|(_, chosen)| chosen).collect()
    }

    pub fn spots(&self) -> &HashMap<Arc<str>, usize> {
        &self.spots
    }

    /// Those whose lease is over and that were not given out again.
    pub fn lapsed(&self) -> impl Iterator<Item = u64> {
        self.ready.iter().copied().filter(|place| matches!(self.items[place].state, State::Taken { .. }))
    }

    pub fn counts(&self) -> Counts {
        Counts {
            ready: self.ready.len(),
            in_flight: self.leases.len(),
            retry_pending: self.waits.len(),
            dead: self.dead.len(),
            oldest_unix_ms: self.ready.first().map(|place| self.items[place].enqueued),
        }
    }

    /// Those behind a place.
    pub fn dead_after(&self, after: Option<u64>) -> impl Iterator<Item = (u64, &Item)> {
        let begin = after.map_or(Bound::Unbounded, Bound::Excluded);
        self.dead.range((begin, Bound::Unbounded)).map(|place| (*place, &self.items[place]))
    }

    /// When the first of the dead died.
    pub fn first_death(&self) -> Option<Millis> {
        self.deaths.first().map(|(at, _)| *at)
    }

    fn index(&mut self, place: u64, state: &State, bytes: u64) {
        match state {
            State::Ready => drop(self.ready.insert(place)),
            State::Taken { until, spot, .. } => {
                self.leases.insert((*until, place));
                *self.spots.entry(spot.clone()).or_default() += 1;
            }
            State::Waiting { until } => drop(self.waits.insert((*until, place))),
            State::Dead { at, .. } => {
                self.dead.insert(place);
                self.deaths.insert((*at, place));
                self.dead_bytes += bytes;
            }
        }
    }

    fn unindex(&mut self, place: u64, state: &State, bytes: u64) {
        // what was due stands in `ready`, whatever its state says
        self.ready.remove(&place);
        match state {
            State::Ready => {}
            State::Taken { until, spot, .. } => {
                if self.leases.remove(&(*until, place)) {
                    leave(&mut self.spots, spot);
                }
            }
            State::Waiting { until } => drop(self.waits.remove(&(*until, place))),
            State::Dead { at, .. } => {
                if self.dead.remove(&place) {
                    self.deaths.remove(&(*at, place));
                    self.dead_bytes -= bytes;
                }
            }
        }
    }
}

/// The dead of all queues that are too old or too many, the oldest first: the queue of each, and its place there.
pub fn excess<'a>(
    queues: impl Iterator<Item = (&'a str, &'a Queue)>,
    limits: &Limits,
    now: Millis,
) -> Vec<(&'a str, u64)> {
    let mut lines: Vec<_> = queues
        .filter(|(_, queue)| !queue.dead.is_empty())
        .map(|(name, queue)| (name, queue, queue.deaths.iter().peekable()))
        .collect();
    let mut items: usize = lines.iter().map(|(_, queue, _)| queue.dead.len()).sum();
    let mut bytes: u64 = lines.iter().map(|(_, queue, _)| queue.dead_bytes).sum();
    let mut excess = Vec::new();
    loop {
        let first = lines.iter_mut().filter_map(|(name, queue, deaths)| {
            let next = **deaths.peek()?;
            Some((next, *name, *queue, deaths))
        });
        let Some(((at, place), name, queue, deaths)) = first.min_by_key(|(next, ..)| *next) else { break };
        if after(at, limits.dead_age) > now && !limits.dead.is_exceeded(items, bytes) {
            break;
        }
        deaths.next();
        items -= 1;
        bytes -= queue.items[&place].bytes;
        excess.push((name, place));
    }
    excess
}

impl Item {
    /// At the spot of this index.
    pub fn taken(&self, take: &Take, spot: usize, ticket: u64, now: Millis) -> (u32, State) {
        let (holder, spot, until) = (take.holder.clone(), take.spots[spot].clone(), after(now, take.lease));
        (self.attempts + 1, State::Taken { holder, spot, ticket, until })
    }

    /// None if the ticket is not the last one given out, or the item is not given out at all.
    pub fn settled(&self, ticket: u64, settle: Settle, now: Millis) -> Option<Next> {
        let State::Taken { ticket: current, holder, spot, until } = &self.state else { return None };
        if *current != ticket {
            return None;
        }
        let stays = |state| Next::Stays { attempts: self.attempts, state };
        match settle {
            Settle::Done => Some(Next::Gone),
            Settle::Retry(delay) => Some(stays(State::Waiting { until: after(now, delay) })),
            Settle::Dead(reason) => Some(stays(State::Dead { reason, at: now })),
            // its room may be another's by now
            Settle::Extend(_) if *until <= now => None,
            Settle::Extend(lease) => {
                let (holder, spot, until) = (holder.clone(), spot.clone(), after(now, lease));
                Some(stays(State::Taken { holder, spot, ticket, until }))
            }
        }
    }

    pub fn as_dead(&self, head: Bytes) -> Option<Dead> {
        let State::Dead { reason, at } = &self.state else { return None };
        Some(Dead {
            id: self.id.to_string(),
            head,
            attempts: self.attempts,
            reason: reason.clone(),
            died_unix_ms: *at,
        })
    }

    pub fn place(&self, now: Millis) -> Place {
        match &self.state {
            State::Taken { ticket, until, .. } if *until > now => {
                Place::InFlight { attempt: self.attempts, ticket: *ticket }
            }
            State::Dead { reason, at } => {
                Place::Dead { attempts: self.attempts, reason: reason.clone(), died_unix_ms: *at }
            }
            State::Ready | State::Waiting { .. } | State::Taken { .. } => {
                Place::Waiting { attempts: self.attempts }
            }
        }
    }
}

/// The next place whose time has come.
fn pop_due(line: &mut BTreeSet<(Millis, u64)>, now: Millis) -> Option<u64> {
    let (until, place) = line.first().copied()?;
    (until <= now && line.pop_first().is_some()).then_some(place)
}

fn leave(spots: &mut HashMap<Arc<str>, usize>, spot: &Arc<str>) {
    if let Some(count) = spots.get_mut(spot) {
        *count -= 1;
        if *count == 0 {
            spots.remove(spot);
        }
    }
}

pub fn after(now: Millis, time: std::time::Duration) -> Millis {
    now.saturating_add(i64::try_from(time.as_millis()).unwrap_or(i64::MAX))
}

/// The wall clock: leases and delays outlive processes, so no other clock will do.
pub fn now() -> Millis {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leases_written_before_there_were_spots_are_read() {
        let written = r#"{"Taken":{"holder":"node-a","ticket":7,"until":1000}}"#;
        let state: State = serde_json::from_str(written).unwrap();
        assert_eq!(state, State::Taken { holder: "node-a".into(), spot: "".into(), ticket: 7, until: 1000 });
    }
}
