//! A disk that fails: what was answered with success stays, the rest is refused, and all goes well again by itself.

use std::sync::Arc;

use bytes::Bytes;
use disk::testing::Disk;
use futures::StreamExt;

use super::{Embedded, source::Source};
use crate::{Error, Expect, Limits, NewItem, Page, Place, Settle, Store, Take};

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

    disk.set_full(true);
    for _ in 0..3 {
        let refused = store.enqueue("q", item("during")).await;
        assert!(
            matches!(&refused, Err(Error::Unavailable(why)) if why.contains("no space is left for test.redb")),
            "{refused:?}"
        );
        let not_ready = store.ready().await;
        assert!(matches!(not_ready, Err(Error::Unavailable(_))), "{not_ready:?}");
    }
    // whoever watched cannot know what was missed
    assert_eq!(changes.next().await, None);

    disk.set_full(false);
    store.ready().await.unwrap();
    assert_eq!(store.find("q", "before").await.unwrap(), Some(Place::Waiting { attempts: 0 }));
    assert_eq!(store.get("key").await.unwrap().unwrap().value, "before");
    store.enqueue("q", item("during")).await.unwrap();
    assert_eq!(store.counts("q").await.unwrap().ready, 2);
    let mut changes = store.watch("").await.unwrap();
    assert_eq!(changes.next().await.unwrap().key, "key");
}

#[test]
fn a_disk_that_is_full_at_the_start() {
    let disk = Disk::default();
    disk.set_full(true);
    let refused = Embedded::start(Source::Disk(disk), Limits::default()).err();
    assert!(
        matches!(&refused, Some(Error::Open(why)) if why.contains("no space is left for test.redb")),
        "{refused:?}"
    );
}

/// Strangers ask for results by id, operators for dead letters: neither waits for a disk that is slow to write.
#[tokio::test]
async fn readers_do_not_wait_for_the_writer() {
    let disk = Disk::default();
    let store = Arc::new(Embedded::start(Source::Disk(disk.clone()), Limits::default()).unwrap());
    store.enqueue("q", item("dead")).await.unwrap();
    let take = Take {
        holder: "tester".into(),
        in_flight: 1,
        spots: vec!["here".into()],
        per_spot: 1,
        bytes: u64::MAX,
        lease: std::time::Duration::from_secs(3600),
    };
    let taken = store.take("q", take).await.unwrap().pop().unwrap();
    store.settle("q", "dead", taken.ticket, Settle::Dead("no".into())).await.unwrap();

    disk.set_slow(true);
    let writing = tokio::spawn({
        let store = store.clone();
        async move { store.enqueue("q", item("waits")).await }
    });
    let page = store.dead("q", Page { limit: 10, after: None }).await.unwrap();
    assert_eq!(page.letters.iter().map(|letter| letter.id.as_str()).collect::<Vec<_>>(), ["dead"]);
    assert!(matches!(store.find("q", "dead").await.unwrap(), Some(Place::Dead { .. })));
    assert!(store.head("q", "dead").await.unwrap().is_some());
    assert_eq!(store.get("async-result/q/none").await.unwrap(), None);
    assert!(!writing.is_finished());
    disk.set_slow(false);
    writing.await.unwrap().unwrap();
    assert!(store.find("q", "waits").await.unwrap().is_some());
}

/// Files of the first format have head and body in one row.
#[tokio::test]
async fn a_file_of_the_first_format_is_read() {
    use redb::{ReadableDatabase as _, TableDefinition};
    const ITEMS: TableDefinition<'_, (&str, u64), &[u8]> = TableDefinition::new("items");
    const BODIES: TableDefinition<'_, (&str, u64), &[u8]> = TableDefinition::new("bodies");
    let disk = Disk::default();
    {
        let database = redb::Builder::new().create_with_backend(disk.clone()).unwrap();
        let transaction = database.begin_write().unwrap();
        {
            let mut items = transaction.open_table(ITEMS).unwrap();
            let mut bodies = transaction.open_table(BODIES).unwrap();
            for (place, state) in [(1, r#""Ready""#), (2, r#"{"Dead":{"reason":"no","at":1900000000000}}"#)] {
                let item =
                    format!(r#"{{"id":"{place}","bytes":12,"enqueued":1,"attempts":0,"state":{state}}}"#);
                items.insert(("q", place), item.as_bytes()).unwrap();
                let packed = crate::packed::pack(b"head", format!("body {place}").as_bytes());
                bodies.insert(("q", place), &packed[..]).unwrap();
            }
        }
        transaction.commit().unwrap();
        drop(database.begin_read().unwrap());
    }
    let store = Embedded::start(Source::Disk(disk), Limits::default()).unwrap();
    let page = store.dead("q", Page { limit: 9, after: None }).await.unwrap();
    assert_eq!((page.letters.len(), &page.letters[0].head[..]), (1, &b"head"[..]));
    assert!(store.replay("q", "2").await.unwrap());
    let spots = vec!["here".into(), "here".into()];
    let lease = std::time::Duration::from_secs(3600);
    let take = Take { holder: "tester".into(), in_flight: 2, spots, per_spot: 2, bytes: u64::MAX, lease };
    let taken = store.take("q", take).await.unwrap();
    let seen: Vec<_> = taken.iter().map(|taken| (&taken.head[..], &taken.body[..])).collect();
    assert_eq!(seen, [(&b"head"[..], &b"body 1"[..]), (&b"head"[..], &b"body 2"[..])]);
}
