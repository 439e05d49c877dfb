//! A disk that fails: what was answered with success stays, the rest is refused, and all goes well again by itself.

use std::{
    io,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
};

use bytes::Bytes;
use futures::StreamExt;

use super::{Embedded, source::Source};
use crate::{Error, Expect, Limits, NewItem, Place, Store};

/// Keeps its bytes when the database on it is closed.
#[derive(Clone, Debug, Default)]
pub struct Disk {
    bytes: Arc<Mutex<Vec<u8>>>,
    is_full: Arc<AtomicBool>,
}

impl Disk {
    fn check(&self) -> io::Result<()> {
        match self.is_full.load(Ordering::SeqCst) {
            true => Err(io::Error::new(io::ErrorKind::StorageFull, "no space left")),
            false => Ok(()),
        }
    }
}

impl redb::StorageBackend for Disk {
    fn len(&self) -> io::Result<u64> {
        Ok(self.bytes.lock().unwrap().len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let start = usize::try_from(offset).unwrap();
        out.copy_from_slice(&self.bytes.lock().unwrap()[start..start + out.len()]);
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.check()?;
        self.bytes.lock().unwrap().resize(usize::try_from(len).unwrap(), 0);
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        self.check()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.check()?;
        let start = usize::try_from(offset).unwrap();
        self.bytes.lock().unwrap()[start..start + data.len()].copy_from_slice(data);
        Ok(())
    }
}

fn item(id: &str) -> NewItem {
    NewItem { id: id.to_owned(), head: Bytes::new(), body: Bytes::from(id.to_owned()) }
}

#[tokio::test]
async fn a_disk_that_fails_and_recovers() {
    let disk = Disk::default();
    let store = Embedded::start(Source::Disk(disk.clone()), Limits::default()).unwrap();
    store.enqueue("q", item("before")).await.unwrap();
    store.put("key", Bytes::from("before"), Expect::Anything, None).await.unwrap();
    let mut changes = store.watch("").await.unwrap();
    assert_eq!(changes.next().await.unwrap().key, "key");

    disk.is_full.store(true, Ordering::SeqCst);
    for _ in 0..3 {
        let refused = store.enqueue("q", item("during")).await;
        assert!(matches!(refused, Err(Error::Unavailable(_))), "{refused:?}");
        let not_ready = store.ready().await;
        assert!(matches!(not_ready, Err(Error::Unavailable(_))), "{not_ready:?}");
    }
    // whoever watched cannot know what was missed
    assert_eq!(changes.next().await, None);

    disk.is_full.store(false, Ordering::SeqCst);
    store.ready().await.unwrap();
    assert_eq!(store.find("q", "before").await.unwrap(), Some(Place::Waiting { attempts: 0 }));
    assert_eq!(store.get("key").await.unwrap().unwrap().value, "before");
    store.enqueue("q", item("during")).await.unwrap();
    assert_eq!(store.counts("q").await.unwrap().ready, 2);
    let mut changes = store.watch("").await.unwrap();
    assert_eq!(changes.next().await.unwrap().key, "key");
}
