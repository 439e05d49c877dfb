use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use store::{Entry, Error, Expect, Limits};

use crate::home::{Home, LONG, eventually};

fn bytes(text: &str) -> Bytes {
    Bytes::copy_from_slice(text.as_bytes())
}

pub async fn keys_are_written_and_read(home: Home) {
    let store = home.open().await;
    assert_eq!(store.get("a/b").await.unwrap(), None);
    let first = store.put("a/b", bytes("one"), Expect::Anything, None).await.unwrap();
    let entry = Entry { value: bytes("one"), revision: first };
    assert_eq!(store.get("a/b").await.unwrap(), Some(entry));
    let second = store.put("a/b", bytes("two"), Expect::Anything, None).await.unwrap();
    assert!(second > first);
    assert_eq!(store.get("a/b").await.unwrap().unwrap().value, "two");
    // the empty value is a value
    store.put("empty", Bytes::new(), Expect::Anything, None).await.unwrap();
    assert_eq!(store.get("empty").await.unwrap().unwrap().value, "");
    store.delete("a/b", Expect::Anything).await.unwrap();
    assert_eq!(store.get("a/b").await.unwrap(), None);
    store.delete("a/b", Expect::Anything).await.unwrap();
    for key in ["a.b", "a b", "*", ">", "ünïcode/é", "a//b", "=41", "$", "x/"] {
        store.put(key, bytes(key), Expect::Nothing, None).await.unwrap();
        assert_eq!(store.get(key).await.unwrap().unwrap().value, key);
    }
    store.ready().await.unwrap();
}

pub async fn writers_name_what_they_expect(home: Home) {
    let store = home.open().await;
    let is_conflict = |result: Result<u64, Error>| matches!(result, Err(Error::Conflict { .. }));
    let first = store.put("key", bytes("1"), Expect::Nothing, None).await.unwrap();
    assert!(is_conflict(store.put("key", bytes("x"), Expect::Nothing, None).await));
    assert!(is_conflict(store.put("key", bytes("x"), Expect::Revision(first + 1), None).await));
    assert!(is_conflict(store.put("other", bytes("x"), Expect::Revision(first), None).await));
    let second = store.put("key", bytes("2"), Expect::Revision(first), None).await.unwrap();
    assert!(is_conflict(store.put("key", bytes("x"), Expect::Revision(first), None).await));
    assert!(matches!(store.delete("key", Expect::Revision(first)).await, Err(Error::Conflict { .. })));
    assert!(matches!(store.delete("key", Expect::Nothing).await, Err(Error::Conflict { .. })));
    assert_eq!(store.get("key").await.unwrap().unwrap().value, "2");
    store.delete("key", Expect::Revision(second)).await.unwrap();
    assert!(matches!(store.delete("key", Expect::Revision(second)).await, Err(Error::Conflict { .. })));
    // what was deleted can be made anew
    let third = store.put("key", bytes("3"), Expect::Nothing, None).await.unwrap();
    assert!(third > second);
    assert_eq!(store.get("other").await.unwrap(), None);
}

pub async fn keys_are_listed_in_order(home: Home) {
    let store = home.open().await;
    assert_eq!(store.list("").await.unwrap(), []);
    for key in ["b/2", "a", "b/10", "c", "b/1", "bb"] {
        store.put(key, bytes(key), Expect::Anything, None).await.unwrap();
    }
    store.delete("c", Expect::Anything).await.unwrap();
    let names = |prefix: &'static str| {
        let store = store.clone();
        async move {
            let found = store.list(prefix).await.unwrap();
            for (key, entry) in &found {
                assert_eq!(entry.value, key);
            }
            found.into_iter().map(|(key, _)| key).collect::<Vec<_>>()
        }
    };
    assert_eq!(names("").await, ["a", "b/1", "b/10", "b/2", "bb"]);
    assert_eq!(names("b").await, ["b/1", "b/10", "b/2", "bb"]);
    assert_eq!(names("b/").await, ["b/1", "b/10", "b/2"]);
    assert_eq!(names("b/1").await, ["b/1", "b/10"]);
    assert_eq!(names("c").await, [""; 0]);
}

pub async fn keys_with_a_time_pass(home: Home) {
    let store = home.open().await;
    let second = Some(Duration::from_secs(1));
    store.put("passes", bytes("1"), Expect::Anything, second).await.unwrap();
    store.put("stays", bytes("1"), Expect::Anything, second).await.unwrap();
    store.put("stays", bytes("2"), Expect::Anything, None).await.unwrap();
    eventually("the key passes", async || {
        let (entry, list) = (store.get("passes").await.unwrap(), store.list("passes").await.unwrap());
        if entry.is_none() && list.is_empty() { Ok(()) } else { Err((entry, list)) }
    })
    .await;
    assert_eq!(store.get("stays").await.unwrap().unwrap().value, "2");
    store.put("passes", bytes("again"), Expect::Nothing, None).await.unwrap();
    assert_eq!(store.get("passes").await.unwrap().unwrap().value, "again");
}

pub async fn watchers_see_what_is_there_and_what_changes(home: Home) {
    let [writer, reader] = home.nodes(2).await.try_into().ok().unwrap();
    writer.put("wake/a", bytes("1"), Expect::Anything, None).await.unwrap();
    writer.put("other", bytes("1"), Expect::Anything, None).await.unwrap();
    let mut changes = reader.watch("wake/").await.unwrap();
    let change = changes.next().await.unwrap();
    assert_eq!((change.key.as_str(), change.entry.unwrap().value), ("wake/a", bytes("1")));
    writer.put("wake", bytes("1"), Expect::Anything, None).await.unwrap();
    let revision = writer.put("wake/b", bytes("2"), Expect::Anything, None).await.unwrap();
    let change = changes.next().await.unwrap();
    assert_eq!(change.key, "wake/b");
    assert_eq!(change.entry, Some(Entry { value: bytes("2"), revision }));
    writer.delete("wake/a", Expect::Anything).await.unwrap();
    let change = changes.next().await.unwrap();
    assert_eq!((change.key.as_str(), change.entry), ("wake/a", None));
    // of many changes in a row at least the last is seen
    for number in 0..=100 {
        writer.put("wake/c", bytes(&number.to_string()), Expect::Anything, None).await.unwrap();
    }
    loop {
        let change = changes.next().await.unwrap();
        assert_eq!(change.key, "wake/c");
        if change.entry.unwrap().value == "100" {
            break;
        }
    }
}

pub async fn watchers_see_keys_pass(home: Home) {
    let store = home.open().await;
    let mut changes = store.watch("").await.unwrap();
    store.put("key", bytes("1"), Expect::Anything, Some(Duration::from_secs(1))).await.unwrap();
    let change = changes.next().await.unwrap();
    // on a machine slow enough it is gone already
    if change.entry.is_some() {
        let change = changes.next().await.unwrap();
        assert_eq!((change.key.as_str(), change.entry), ("key", None));
    }
    assert_eq!(store.get("key").await.unwrap(), None);
}

pub async fn large_values_are_refused(home: Home) {
    let home = home.with_limits(Limits { item_bytes: 1000, ..Limits::default() }).await;
    let store = home.open().await;
    store.put("key", vec![0; 1000].into(), Expect::Anything, None).await.unwrap();
    let refused = store.put("key", vec![0; 1001].into(), Expect::Anything, None).await;
    assert!(matches!(refused, Err(Error::TooLarge(_))), "{refused:?}");
    assert_eq!(store.get("key").await.unwrap().unwrap().value.len(), 1000);
}

pub async fn of_many_writers_one_wins(home: Home) {
    let nodes = home.nodes(3).await;
    nodes[0].put("count", bytes("0"), Expect::Nothing, None).await.unwrap();
    let mut tasks = Vec::new();
    for number in 0..6 {
        let node = nodes[number % nodes.len()].clone();
        tasks.push(tokio::spawn(async move {
            for _ in 0..10 {
                loop {
                    let entry = node.get("count").await.unwrap().unwrap();
                    let count: u32 = std::str::from_utf8(&entry.value).unwrap().parse().unwrap();
                    let value = bytes(&(count + 1).to_string());
                    match node.put("count", value, Expect::Revision(entry.revision), None).await {
                        Ok(_) => break,
                        Err(Error::Conflict { .. }) => {}
                        Err(error) => panic!("{error}"),
                    }
                }
            }
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(nodes[0].get("count").await.unwrap().unwrap().value, "60");
}

pub async fn results_are_bounded_in_all(home: Home) {
    let limits = Limits { results: store::Bound { items: 3, bytes: 5000 }, ..Limits::default() };
    let store = home.with_limits(limits).await.open().await;
    let key = |id: &str| format!("{}f/{id}", store::RESULTS);
    let put = async |id: &str, bytes: usize| {
        store.put(&key(id), vec![0; bytes].into(), Expect::Anything, Some(LONG)).await.unwrap();
    };
    let there = async |ids: &[&str]| {
        let mut there = String::new();
        for id in ids {
            if store.get(&key(id)).await.unwrap().is_some() {
                there.push_str(id);
            }
        }
        there
    };
    let all = ["a", "b", "c", "d", "e"];
    for id in ["a", "b", "c"] {
        put(id, 10).await;
    }
    // written again, it is the youngest
    put("a", 10).await;
    put("d", 10).await;
    assert_eq!(there(&all).await, "acd");
    put("e", 4000).await;
    put("b", 4000).await;
    assert_eq!(there(&all).await, "b");
    // other keys are not concerned
    for id in all {
        store.put(&format!("other/{id}"), vec![0; 4000].into(), Expect::Anything, None).await.unwrap();
    }
    assert_eq!(store.list("other/").await.unwrap().len(), 5);
}
