//! What is in the file.

use redb::{Database, ReadableDatabase, ReadableTable, Table, TableDefinition, WriteTransaction};

use super::state::State;
use crate::{Entry, queue};

/// Key to revision, time of expiry (0: none) and value.
pub const KEYS: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("keys");
/// Queue and place in its line to [`queue::Item`] as JSON.
const ITEMS: TableDefinition<'_, (&str, u64), &[u8]> = TableDefinition::new("items");
/// Queue and place in its line to head and body. Apart, because an item's state changes often and this never.
const BODIES: TableDefinition<'_, (&str, u64), &[u8]> = TableDefinition::new("bodies");
/// `number` to the last number given out: revisions, places and tickets never repeat.
const COUNTERS: TableDefinition<'_, &str, u64> = TableDefinition::new("counters");

pub struct Tables<'t> {
    pub keys: Table<'t, &'static str, &'static [u8]>,
    items: Table<'t, (&'static str, u64), &'static [u8]>,
    bodies: Table<'t, (&'static str, u64), &'static [u8]>,
    counters: Table<'t, &'static str, u64>,
}

/// A row of [`KEYS`].
pub struct KeyRow {
    pub entry: Entry,
    pub expires: Option<queue::Millis>,
}

impl<'t> Tables<'t> {
    pub fn open(transaction: &'t WriteTransaction) -> Result<Self, redb::Error> {
        Ok(Tables {
            keys: transaction.open_table(KEYS)?,
            items: transaction.open_table(ITEMS)?,
            bodies: transaction.open_table(BODIES)?,
            counters: transaction.open_table(COUNTERS)?,
        })
    }

    pub fn key(&self, key: &str, now: queue::Millis) -> Result<Option<KeyRow>, redb::Error> {
        let row = self.keys.get(key)?.map(|row| KeyRow::decode(row.value()));
        Ok(row.filter(|row| !row.is_expired(now)))
    }

    pub fn put_item(&mut self, queue: &str, place: u64, item: &queue::Item) -> Result<(), redb::Error> {
        let json = serde_json::to_vec(item).map_err(|error| redb::Error::Corrupted(error.to_string()))?;
        self.items.insert((queue, place), json.as_slice())?;
        Ok(())
    }

    pub fn put_body(&mut self, queue: &str, place: u64, packed: &[u8]) -> Result<(), redb::Error> {
        self.bodies.insert((queue, place), packed)?;
        Ok(())
    }

    pub fn remove_item(&mut self, queue: &str, place: u64) -> Result<(), redb::Error> {
        self.items.remove((queue, place))?;
        self.bodies.remove((queue, place))?;
        Ok(())
    }

    pub fn body(&self, queue: &str, place: u64) -> Result<Vec<u8>, redb::Error> {
        let row = self.bodies.get((queue, place))?;
        let lost = || redb::Error::Corrupted(format!("queue {queue}: item {place} has no body"));
        row.map(|row| row.value().to_vec()).ok_or_else(lost)
    }

    pub fn put_number(&mut self, number: u64) -> Result<(), redb::Error> {
        self.counters.insert("number", number)?;
        Ok(())
    }
}

impl KeyRow {
    pub fn encode(&self) -> Vec<u8> {
        let mut row = Vec::with_capacity(16 + self.entry.value.len());
        row.extend(self.entry.revision.to_be_bytes());
        row.extend(self.expires.unwrap_or(0).to_be_bytes());
        row.extend(&self.entry.value);
        row
    }

    pub fn decode(row: &[u8]) -> Self {
        let number = |at: usize| {
            let bytes = row.get(at..at + 8).and_then(|bytes| bytes.try_into().ok());
            u64::from_be_bytes(bytes.unwrap_or_default())
        };
        let expires = number(8).cast_signed();
        let value = bytes::Bytes::copy_from_slice(row.get(16..).unwrap_or_default());
        KeyRow {
            entry: Entry { value, revision: number(0) },
            expires: Some(expires).filter(|expires| *expires != 0),
        }
    }

    pub fn is_expired(&self, now: queue::Millis) -> bool {
        self.expires.is_some_and(|expires| expires <= now)
    }
}

/// Everything that is kept in memory beside the file.
pub fn load(database: &Database) -> Result<State, redb::Error> {
    let transaction = database.begin_write()?;
    drop(Tables::open(&transaction)?);
    transaction.commit()?;
    let transaction = database.begin_read()?;
    let number = transaction.open_table(COUNTERS)?.get("number")?.map_or(0, |value| value.value());
    let mut state = State { number, ..State::default() };
    for row in transaction.open_table(KEYS)?.iter()? {
        let (key, row) = row?;
        if let Some(expires) = KeyRow::decode(row.value()).expires {
            state.expiries.insert((expires, key.value().to_owned()));
        }
    }
    for row in transaction.open_table(ITEMS)?.iter()? {
        let (key, json) = row?;
        let (queue, place) = key.value();
        let item = serde_json::from_slice(json.value())
            .map_err(|error| redb::Error::Corrupted(format!("queue {queue}: item {place}: {error}")))?;
        state.queue(queue).insert(place, item);
    }
    Ok(state)
}
