//! A disk in memory that can be full: what a database on it does then needs neither root nor a mount to be tried.

use std::{
    io,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

/// Keeps its bytes when the database on it is closed. Clones are the same disk.
#[derive(Clone, Debug, Default)]
pub struct Disk {
    bytes: Arc<Mutex<Vec<u8>>>,
    is_full: Arc<AtomicBool>,
    /// Whoever writes waits.
    is_slow: Arc<AtomicBool>,
}

impl Disk {
    pub fn set_full(&self, is_full: bool) {
        self.is_full.store(is_full, Ordering::SeqCst);
    }

    /// Writers wait until it is no longer slow.
    pub fn set_slow(&self, is_slow: bool) {
        self.is_slow.store(is_slow, Ordering::SeqCst);
    }

    /// Whether somebody else holds it: a database that is not closed yet, for instance.
    pub fn is_in_use(&self) -> bool {
        Arc::strong_count(&self.bytes) > 1
    }

    fn check(&self) -> io::Result<()> {
        while self.is_slow.load(Ordering::SeqCst) {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        match self.is_full.load(Ordering::SeqCst) {
            true => Err(io::Error::new(io::ErrorKind::StorageFull, "no space left on device")),
            false => Ok(()),
        }
    }

    fn bytes(&self) -> MutexGuard<'_, Vec<u8>> {
        self.bytes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn position(offset: u64) -> io::Result<usize> {
    usize::try_from(offset).map_err(io::Error::other)
}

impl redb::StorageBackend for Disk {
    fn len(&self) -> io::Result<u64> {
        Ok(self.bytes().len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let start = position(offset)?;
        out.copy_from_slice(&self.bytes()[start..start + out.len()]);
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.check()?;
        self.bytes().resize(position(len)?, 0);
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        self.check()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.check()?;
        let start = position(offset)?;
        self.bytes()[start..start + data.len()].copy_from_slice(data);
        Ok(())
    }
}
