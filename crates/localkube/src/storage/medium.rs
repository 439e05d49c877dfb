//! Where the file of a store is, and how it is opened.

use std::{ops::Bound, path::PathBuf};

use redb::{
    BackendError, Builder, Database, ReadableDatabase, ReadableTable, StorageBackend, TableDefinition,
    backends::FileBackend,
};

use super::{Error, Stored};

/// `table\0key` to the JSON of the object.
pub const OBJECTS: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("objects");
/// `revision` to the last revision given out, so that a deletion never lets one be given out twice.
pub const COUNTERS: TableDefinition<'_, &str, u64> = TableDefinition::new("counters");
/// Holds something only while it is tried whether there is room.
const ROOM: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("room");
/// Space for so much must be there before a disk counts as no longer full: with less, the next write would fill it again.
const ROOM_BYTES: usize = 1 << 20;
/// Everything is also in memory, so that the file needs next to no cache.
const CACHE_BYTES: usize = 4 << 20;

#[derive(Debug)]
pub enum Medium {
    File {
        path: PathBuf,
        sync: bool,
    },
    #[cfg(test)]
    Disk(disk::testing::Disk),
}

impl Medium {
    pub fn open(&self) -> Result<Database, Error> {
        let mut builder = Builder::new();
        builder.set_cache_size(CACHE_BYTES);
        let opened = match self {
            Self::File { path, sync } => {
                let open = || -> Result<Database, redb::Error> {
                    if let Some(parent) = path.parent() {
                        std::fs::create_dir_all(parent)?;
                    }
                    let file = disk::private_file(path)?;
                    Ok(if *sync {
                        builder.create_file(file)?
                    } else {
                        builder.create_with_backend(Unsynced(FileBackend::new(file)?))?
                    })
                };
                open()
            }
            #[cfg(test)]
            Self::Disk(disk) => builder.create_with_backend(disk.clone()).map_err(Into::into),
        };
        opened.map_err(|error| match self.full(&error) {
            Some(full) => full,
            None => Error::Open { path: self.path(), why: error.to_string() },
        })
    }

    /// The last revision given out, and all objects.
    pub fn load(&self, database: &Database) -> Result<(u64, Vec<Stored>), Error> {
        load(database).map_err(|error| match self.full(&error) {
            Some(full) => full,
            None => Error::Load { path: self.path(), why: error.to_string() },
        })
    }

    /// Fails unless something of a certain size can be written.
    pub fn try_room(&self, database: &Database) -> Result<(), Error> {
        let try_room = || -> Result<(), redb::Error> {
            for content in [Some(vec![0; ROOM_BYTES]), None] {
                let transaction = database.begin_write()?;
                {
                    let mut room = transaction.open_table(ROOM)?;
                    match &content {
                        Some(bytes) => drop(room.insert("room", bytes.as_slice())?),
                        None => drop(room.remove("room")?),
                    }
                }
                transaction.commit()?;
            }
            Ok(())
        };
        try_room().map_err(|error| self.refused(&error))
    }

    pub fn refused(&self, error: &redb::Error) -> Error {
        self.full(error).unwrap_or_else(|| Error::Commit(error.to_string()))
    }

    fn full(&self, error: &redb::Error) -> Option<Error> {
        match error {
            redb::Error::Io(io) if disk::is_full(io) => Some(Error::Full { path: self.path() }),
            _ => None,
        }
    }

    fn path(&self) -> PathBuf {
        match self {
            Self::File { path, .. } => path.clone(),
            #[cfg(test)]
            Self::Disk(_) => PathBuf::from("test.redb"),
        }
    }
}

pub fn revision(database: &Database) -> Result<u64, redb::Error> {
    let transaction = database.begin_read()?;
    Ok(transaction.open_table(COUNTERS)?.get("revision")?.map_or(0, |value| value.value()))
}

fn load(database: &Database) -> Result<(u64, Vec<Stored>), redb::Error> {
    let transaction = database.begin_write()?;
    transaction.open_table(OBJECTS)?;
    transaction.open_table(COUNTERS)?;
    transaction.commit()?;
    let mut entries = Vec::new();
    let transaction = database.begin_read()?;
    for entry in transaction.open_table(OBJECTS)?.iter()? {
        let (key, json) = entry?;
        if let Some((table, key)) = key.value().split_once('\0') {
            entries.push(Stored {
                table: table.to_owned(),
                key: key.to_owned(),
                json: json.value().to_vec(),
            });
        }
    }
    Ok((revision(database)?, entries))
}

/// A file that leaves it to the operating system when data reaches the disk.
#[derive(Debug)]
struct Unsynced(FileBackend);

impl StorageBackend for Unsynced {
    fn len(&self) -> std::io::Result<u64> {
        self.0.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> std::io::Result<()> {
        self.0.read(offset, out)
    }

    fn set_len(&self, len: u64) -> std::io::Result<()> {
        self.0.set_len(len)
    }

    fn sync_data(&self) -> std::io::Result<()> {
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> std::io::Result<()> {
        self.0.write(offset, data)
    }

    fn close(&self) -> std::io::Result<()> {
        self.0.close()
    }

    fn try_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.0.try_lock_range(start, end)
    }

    fn try_lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.0.try_lock_shared_range(start, end)
    }

    fn lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.0.lock_range(start, end)
    }

    fn lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.0.lock_shared_range(start, end)
    }

    fn unlock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.0.unlock_range(start, end)
    }

    fn query_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.0.query_lock_range(start, end)
    }
}
