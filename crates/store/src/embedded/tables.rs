//! What is in the file.

use bytes::Bytes;
use redb::{
    Database, ReadOnlyTable, ReadableDatabase, ReadableTable, Table, TableDefinition, WriteTransaction,
};

use super::state::State;
use crate::{DeadPage, Entry, PAGE_BYTES, Page, packed, queue};

/// Key to revision, time of expiry (0: none) and value.
pub const KEYS: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("keys");
/// Queue and place in its line to [`queue::Item`] as JSON.
const ITEMS: TableDefinition<'_, (&str, u64), &[u8]> = TableDefinition::new("items");
/// Queue and place in its line to head. Apart, because an item's state changes often and this never.
const HEADS: TableDefinition<'_, (&str, u64), &[u8]> = TableDefinition::new("heads");
/// Queue and place in its line to body. Apart, because heads are looked at without bodies.
const BODIES: TableDefinition<'_, (&str, u64), &[u8]> = TableDefinition::new("bodies");
/// Queue and id to the place in its line.
const PLACES: TableDefinition<'_, (&str, &str), u64> = TableDefinition::new("places");
/// Queue and place in its line of dead items.
const DEAD: TableDefinition<'_, (&str, u64), ()> = TableDefinition::new("dead");
/// `number` to the last number given out: revisions, places and tickets never repeat. `format` to [`FORMAT`].
const COUNTERS: TableDefinition<'_, &str, u64> = TableDefinition::new("counters");
/// In the first, head and body were packed into one row, and neither places nor the dead had tables.
const FORMAT: u64 = 2;

pub struct Tables<'t> {
    pub keys: Table<'t, &'static str, &'static [u8]>,
    items: Table<'t, (&'static str, u64), &'static [u8]>,
    heads: Table<'t, (&'static str, u64), &'static [u8]>,
    bodies: Table<'t, (&'static str, u64), &'static [u8]>,
    places: Table<'t, (&'static str, &'static str), u64>,
    dead: Table<'t, (&'static str, u64), ()>,
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
            heads: transaction.open_table(HEADS)?,
            bodies: transaction.open_table(BODIES)?,
            places: transaction.open_table(PLACES)?,
            dead: transaction.open_table(DEAD)?,
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
        match item.state {
            queue::State::Dead { .. } => drop(self.dead.insert((queue, place), ())?),
            _ => drop(self.dead.remove((queue, place))?),
        }
        Ok(())
    }

    pub fn put_new(
        &mut self,
        queue: &str,
        place: u64,
        item: &queue::Item,
        head: &[u8],
        body: &[u8],
    ) -> Result<(), redb::Error> {
        self.heads.insert((queue, place), head)?;
        self.bodies.insert((queue, place), body)?;
        self.places.insert((queue, &*item.id), place)?;
        self.put_item(queue, place, item)
    }

    pub fn remove_item(&mut self, queue: &str, place: u64, id: &str) -> Result<(), redb::Error> {
        self.items.remove((queue, place))?;
        self.heads.remove((queue, place))?;
        self.bodies.remove((queue, place))?;
        self.dead.remove((queue, place))?;
        self.places.remove((queue, id))?;
        Ok(())
    }

    pub fn head_and_body(&self, queue: &str, place: u64) -> Result<(Bytes, Bytes), redb::Error> {
        Ok((row(&self.heads, queue, place)?, row(&self.bodies, queue, place)?))
    }

    pub fn put_number(&mut self, number: u64) -> Result<(), redb::Error> {
        self.counters.insert("number", number)?;
        Ok(())
    }
}

fn row(
    table: &impl ReadableTable<(&'static str, u64), &'static [u8]>,
    queue: &str,
    place: u64,
) -> Result<Bytes, redb::Error> {
    let row = table.get((queue, place))?;
    let lost = || redb::Error::Corrupted(format!("queue {queue}: a part of item {place} is missing"));
    row.map(|row| Bytes::copy_from_slice(row.value())).ok_or_else(lost)
}

fn item(queue: &str, place: u64, json: &[u8]) -> Result<queue::Item, redb::Error> {
    serde_json::from_slice(json)
        .map_err(|error| redb::Error::Corrupted(format!("queue {queue}: item {place}: {error}")))
}

/// Items as they were last written, beside whoever writes.
pub struct Committed {
    items: ReadOnlyTable<(&'static str, u64), &'static [u8]>,
    heads: ReadOnlyTable<(&'static str, u64), &'static [u8]>,
    places: ReadOnlyTable<(&'static str, &'static str), u64>,
    dead: ReadOnlyTable<(&'static str, u64), ()>,
}

impl Committed {
    pub fn open(database: &Database) -> Result<Self, redb::Error> {
        let transaction = database.begin_read()?;
        Ok(Committed {
            items: transaction.open_table(ITEMS)?,
            heads: transaction.open_table(HEADS)?,
            places: transaction.open_table(PLACES)?,
            dead: transaction.open_table(DEAD)?,
        })
    }

    pub fn place(&self, queue: &str, id: &str) -> Result<Option<u64>, redb::Error> {
        Ok(self.places.get((queue, id))?.map(|place| place.value()))
    }

    pub fn item(&self, queue: &str, place: u64) -> Result<Option<queue::Item>, redb::Error> {
        self.items.get((queue, place))?.map(|json| item(queue, place, json.value())).transpose()
    }

    pub fn head(&self, queue: &str, place: u64) -> Result<Bytes, redb::Error> {
        row(&self.heads, queue, place)
    }

    pub fn dead(&self, queue: &str, page: Page) -> Result<DeadPage, redb::Error> {
        let (mut found, mut bytes) = (DeadPage::default(), 0);
        let first = page.after.map_or(0, |after| after.saturating_add(1));
        let mut last = None;
        for row in self.dead.range((queue, first)..=(queue, u64::MAX))? {
            let (_, place) = row?.0.value();
            if found.letters.len() >= page.limit || bytes >= PAGE_BYTES {
                found.next = last;
                break;
            }
            let head = self.head(queue, place)?;
            bytes += head.len();
            found.letters.extend(self.item(queue, place)?.and_then(|item| item.as_dead(head)));
            last = Some(place);
        }
        Ok(found)
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
        let value = Bytes::copy_from_slice(row.get(16..).unwrap_or_default());
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
    {
        let mut tables = Tables::open(&transaction)?;
        if tables.counters.get("format")?.map(|format| format.value()) != Some(FORMAT) {
            tables.convert()?;
        }
    }
    transaction.commit()?;
    let transaction = database.begin_read()?;
    let number = transaction.open_table(COUNTERS)?.get("number")?.map_or(0, |value| value.value());
    let mut state = State { number, ..State::default() };
    for row in transaction.open_table(KEYS)?.iter()? {
        let (key, row) = row?;
        let row = KeyRow::decode(row.value());
        state.results.put(key.value(), row.entry.revision, row.entry.value.len());
        if let Some(expires) = row.expires {
            state.expiries.insert((expires, key.value().to_owned()));
        }
    }
    for row in transaction.open_table(ITEMS)?.iter()? {
        let (key, json) = row?;
        let (queue, place) = key.value();
        state.queue(queue).insert(place, item(queue, place, json.value())?);
    }
    Ok(state)
}

impl Tables<'_> {
    /// From the first format.
    fn convert(&mut self) -> Result<(), redb::Error> {
        let mut items = Vec::new();
        for row in self.items.iter()? {
            let (key, json) = row?;
            let (queue, place) = key.value();
            items.push((queue.to_owned(), place, item(queue, place, json.value())?));
        }
        for (queue, place, item) in items {
            let (head, body) = packed::unpack(row(&self.bodies, &queue, place)?);
            self.put_new(&queue, place, &item, &head, &body)?;
        }
        self.counters.insert("format", FORMAT)?;
        Ok(())
    }
}
