//! What of the buffers is on disk. What is delivered is not: after a restart everything waits again.

use std::collections::HashMap;

use redb::{Database, ReadableDatabase, ReadableTable, Table, TableDefinition, WriteTransaction};

use super::{Row, Rows, line::Line};
use crate::buffer::Settings;

/// Name to number and settings, as JSON.
const BUFFERS: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("buffers");
pub const MESSAGES: TableDefinition<'_, (u64, u64), &[u8]> = TableDefinition::new("messages");
/// Ids and when they were published, in milliseconds.
const RECENT: TableDefinition<'_, (u64, &str), u64> = TableDefinition::new("recent");
/// The last sequence of a buffer: messages are never named twice, or the next vertex would take them for duplicates.
const SEQUENCES: TableDefinition<'_, u64, u64> = TableDefinition::new("sequences");
const SECRET: TableDefinition<'_, (), &[u8]> = TableDefinition::new("secret");

pub struct Tables<'t> {
    pub buffers: Table<'t, &'static str, &'static [u8]>,
    pub messages: Table<'t, (u64, u64), &'static [u8]>,
    pub recent: Table<'t, (u64, &'static str), u64>,
    pub sequences: Table<'t, u64, u64>,
    secret: Table<'t, (), &'static [u8]>,
}

impl<'t> Tables<'t> {
    pub fn open(transaction: &'t WriteTransaction) -> Result<Self, redb::Error> {
        Ok(Tables {
            buffers: transaction.open_table(BUFFERS)?,
            messages: transaction.open_table(MESSAGES)?,
            recent: transaction.open_table(RECENT)?,
            sequences: transaction.open_table(SEQUENCES)?,
            secret: transaction.open_table(SECRET)?,
        })
    }

    pub fn remove_buffer(&mut self, name: &str, number: u64) -> Result<(), redb::Error> {
        self.buffers.remove(name)?;
        self.messages.retain_in((number, 0)..=(number, u64::MAX), |_, _| false)?;
        self.recent.retain_in((number, "")..(number + 1, ""), |_, _| false)?;
        self.sequences.remove(number)?;
        Ok(())
    }
}

/// All that is there, and the key that signs tokens: `fresh` if there is none yet.
pub fn load(database: &Database, fresh: &[u8]) -> Result<(Rows, Vec<u8>), redb::Error> {
    let transaction = database.begin_write()?;
    let secret = {
        let mut tables = Tables::open(&transaction)?;
        let known = tables.secret.get(())?.map(|known| known.value().to_vec());
        match known {
            Some(known) => known,
            None => {
                tables.secret.insert((), fresh)?;
                fresh.to_vec()
            }
        }
    };
    transaction.commit()?;
    let transaction = database.begin_read()?;
    let (mut rows, mut names) = (HashMap::<u64, Row>::new(), HashMap::<u64, String>::new());
    for entry in transaction.open_table(BUFFERS)?.iter()? {
        let (name, row) = entry?;
        let (number, settings) = serde_json::from_slice::<(u64, Settings)>(row.value())
            .map_err(|error| redb::Error::Corrupted(format!("buffer {}: {error}", name.value())))?;
        names.insert(number, name.value().to_owned());
        rows.insert(number, Row { number, settings, line: Line::default() });
    }
    for entry in transaction.open_table(SEQUENCES)?.iter()? {
        let (number, last) = entry?;
        if let Some(row) = rows.get_mut(&number.value()) {
            row.line.last_sequence = last.value();
        }
    }
    for entry in transaction.open_table(MESSAGES)?.iter()? {
        let (key, payload) = entry?;
        let (number, sequence) = key.value();
        if let Some(row) = rows.get_mut(&number) {
            row.line.load(sequence, payload.value().len() as u64);
        }
    }
    let mut recent = Vec::new();
    for entry in transaction.open_table(RECENT)?.iter()? {
        let (key, at) = entry?;
        let (number, id) = key.value();
        recent.push((at.value(), number, id.to_owned()));
    }
    recent.sort_unstable();
    for (at, number, id) in recent {
        if let Some(row) = rows.get_mut(&number) {
            row.line.remember(id, at);
        }
    }
    let rows = rows.into_iter().filter_map(|(number, row)| Some((names.remove(&number)?, row)));
    Ok((rows.collect(), secret))
}
