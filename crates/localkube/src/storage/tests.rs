use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn draft(key: &str, value: u64) -> Draft {
    Draft::new(
        key,
        &json!({"apiVersion": "v1", "kind": "Thing", "metadata": {"name": key}, "value": value}),
        &[],
    )
}

fn shown(listing: &Listing) -> Vec<(String, u64)> {
    listing
        .records
        .iter()
        .map(|record| (record.key.to_string(), record.to_value()["value"].as_u64().unwrap()))
        .collect()
}

fn all(store: &Store, table: TableId, at: ReadAt) -> Result<Vec<(String, u64)>, Compacted> {
    store.list(table, "", None, at, usize::MAX, |_| true).map(|listing| shown(&listing))
}

#[test]
fn a_record_is_its_json_with_the_revision_in_it() {
    let object = json!({"kind": "K", "apiVersion": "g/v1", "status": {}, "metadata": {"name": "n", "labels": {"a": "b"}, "resourceVersion": "7"}});
    let record = Draft::new("ns/n", &object, &[]).finish(42);
    let mut expected = object.clone();
    expected["metadata"]["resourceVersion"] = "42".into();
    assert_eq!(record.to_value(), expected);
    assert_eq!((record.namespace(), record.name()), ("ns", "n"));
    assert!(record.is_version("g", "v1") && !record.is_version("g", "v") && !record.is_version("", "v1"));
    assert!(Draft::new("ns/n", &expected, &[]).equals(&record), "the revision does not count");
    assert_eq!(record.at_revision(50).to_value()["metadata"]["resourceVersion"], "50");
    let untyped: Value = serde_json::from_slice(&[b"{", record.untyped()].concat()).unwrap();
    assert!(untyped.get("kind").is_none() && untyped["metadata"]["name"] == "n");
}

#[tokio::test]
async fn a_write_must_know_what_it_replaces() {
    let (store, _) = Store::open(&Storage::Memory).unwrap();
    let table = store.table("things");
    let first = store.commit(table, Change::Create(draft("a", 1))).await.unwrap();
    assert!(matches!(store.commit(table, Change::Create(draft("a", 2))).await, Err(CommitError::Exists)));
    let second = store.commit(table, Change::Replace(draft("a", 2), first.revision)).await.unwrap();
    assert!(second.revision > first.revision);
    let stale = store.commit(table, Change::Replace(draft("a", 3), first.revision)).await;
    assert!(matches!(stale, Err(CommitError::Stale)));
    let stale = store.commit(table, Change::Delete { key: "a".into(), revision: first.revision }).await;
    assert!(matches!(stale, Err(CommitError::Stale)));
    store.commit(table, Change::Delete { key: "a".into(), revision: second.revision }).await.unwrap();
    assert!(store.get(table, "a").is_none());
}

#[tokio::test]
async fn what_was_acknowledged_is_there_after_a_restart() {
    for sync in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let storage = Storage::File { path: dir.path().join("deep/objects.redb"), sync };
        let (store, loaded) = Store::open(&storage).unwrap();
        assert!(loaded.is_empty());
        let table = store.table("things");
        let writes =
            (0..50).map(|index| {
                let store = &store;
                async move {
                    store.commit(table, Change::Create(draft(&format!("k{index}"), index))).await.unwrap()
                }
            });
        let records = futures::future::join_all(writes).await;
        let last = store
            .commit(table, Change::Delete { key: "k0".into(), revision: records[0].revision })
            .await
            .unwrap();
        assert!(Store::open(&storage).is_err(), "one server at a time");
        drop(store);

        // The thread that owns the file ends soon after the last handle.
        let (store, loaded) = loop {
            match Store::open(&storage) {
                Ok(opened) => break opened,
                Err(_) => tokio::task::yield_now().await,
            }
        };
        assert_eq!(store.revision(), last.revision, "no revision is given out twice");
        assert_eq!(loaded.len(), 49);
        assert!(loaded.iter().all(|one| one.table == "things" && one.key != "k0"));
    }
}

#[tokio::test]
async fn watchers_get_what_they_missed_or_are_told_that_they_cannot() {
    let (store, _) = Store::open(&Storage::Memory).unwrap();
    let table = store.table("things");
    let mut watcher = store.watch(table, 0);
    let mut revision = store.commit(table, Change::Create(draft("a", 0))).await.unwrap().revision;
    for value in 1..4 {
        revision = store.commit(table, Change::Replace(draft("a", value), revision)).await.unwrap().revision;
    }
    let (events, seen) = watcher.poll_events().unwrap();
    assert_eq!((events.len(), seen), (4, revision));
    assert!(watcher.poll_events().unwrap().0.is_empty());
    store.compact();
    assert!(store.watch(table, revision).poll_events().is_ok());
    assert_eq!(store.watch(table, revision - 1).poll_events().unwrap_err(), Compacted { oldest: revision });
}

#[tokio::test]
async fn a_line_is_shared_while_it_is_news() {
    let (store, _) = Store::open(&Storage::Memory).unwrap();
    let table = store.table("things");
    let mut watcher = store.watch(table, 0);
    store.commit(table, Change::Create(draft("a", 0))).await.unwrap();
    let first = watcher.poll_events().unwrap().0.remove(0);
    let made = |text: &'static str| first.line.get(|| bytes::Bytes::from_static(text.as_bytes()));
    assert_eq!([made("one"), made("two")], ["one", "one"]);
    for number in 0..1000 {
        store.commit(table, Change::Create(draft(&format!("b{number}"), 0))).await.unwrap();
    }
    assert_eq!([made("three"), made("four")], ["three", "four"]);
}

proptest! {
    #![proptest_config(repeatable::cases(256))]

    /// Reading at a revision gives what a reader saw at that revision.
    #[test]
    fn the_past_can_be_read(writes in prop::collection::vec((0..5_u8, any::<bool>()), 1..60)) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let (store, _) = Store::open(&Storage::Memory).unwrap();
            let table = store.table("things");
            let mut history = vec![(store.revision(), Vec::new())];
            for (index, (key, delete)) in writes.into_iter().enumerate() {
                let key = format!("k{key}");
                let change = match (store.get(table, &key), delete) {
                    (None, true) => continue,
                    (None, false) => Change::Create(draft(&key, index as u64)),
                    (Some(old), true) => Change::Delete { key: key.into(), revision: old.revision },
                    (Some(old), false) => Change::Replace(draft(&key, index as u64), old.revision),
                };
                store.commit(table, change).await.unwrap();
                history.push((store.revision(), all(&store, table, ReadAt::Latest).unwrap()));
            }
            for (revision, seen) in &history {
                prop_assert_eq!(&all(&store, table, ReadAt::Exactly(*revision)).unwrap(), seen);
            }
            // Page by page is the same as at once.
            let (revision, seen) = &history[history.len() / 2];
            let (mut pages, mut after) = (Vec::new(), None::<String>);
            loop {
                let page = store.list(table, "", after.as_deref(), ReadAt::Exactly(*revision), 2, |_| true).unwrap();
                pages.extend(shown(&page));
                after = page.records.last().map(|record| record.key.to_string());
                if page.remaining == 0 {
                    break;
                }
            }
            prop_assert_eq!(&pages, seen);
            Ok(())
        })?;
    }
}

/// Until it takes a write: the file is tried again by itself.
async fn until_writable(store: &Store) {
    while store.trouble().is_some() {
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn a_disk_that_fills_up_and_gets_space_again() {
    let disk = disk::testing::Disk::default();
    let (store, _) = Store::on(Medium::Disk(disk.clone())).unwrap();
    let table = store.table("things");
    store.commit(table, Change::Create(draft("before", 1))).await.unwrap();
    let mut watcher = store.watch(table, store.revision());

    for round in 0..3 {
        disk.set_full(true);
        for _ in 0..3 {
            let refused = store.commit(table, Change::Create(draft(&format!("during-{round}"), 2))).await;
            assert!(matches!(refused, Err(CommitError::Failed(Error::Full { .. }))), "{refused:?}");
            assert!(matches!(store.trouble(), Some(Error::Full { .. })), "{:?}", store.trouble());
        }
        // what is there can be read all the time
        assert_eq!(store.get(table, "before").unwrap().to_value()["value"], 1);
        disk.set_full(false);
        until_writable(&store).await;
        let after = Change::Create(draft(&format!("after-{round}"), 3));
        store.commit(table, after).await.unwrap();
    }
    let names: Vec<String> =
        all(&store, table, ReadAt::Latest).unwrap().into_iter().map(|(key, _)| key).collect();
    assert_eq!(names, ["after-0", "after-1", "after-2", "before"]);
    let told: Vec<String> =
        watcher.poll_events().unwrap().0.iter().map(|event| event.record.key.to_string()).collect();
    assert_eq!(told, ["after-0", "after-1", "after-2"]);

    drop((watcher, store));
    while disk.is_in_use() {
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    let (_, entries) = Store::on(Medium::Disk(disk)).unwrap();
    assert_eq!(entries.iter().map(|entry| entry.key.as_str()).collect::<Vec<_>>(), names);
}

#[test]
fn a_disk_that_is_full_at_the_start() {
    let disk = disk::testing::Disk::default();
    disk.set_full(true);
    let refused = Store::on(Medium::Disk(disk)).err().unwrap();
    assert!(matches!(refused, Error::Full { .. }), "{refused}");
}
