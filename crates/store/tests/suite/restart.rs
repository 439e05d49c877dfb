use std::time::Duration;

use bytes::Bytes;
use store::{Counts, Expect, NewItem, Page, Place, Settle};

use crate::home::{Home, LONG, eventually, take};

pub async fn everything_outlives_a_restart(home: Home) {
    if home.forgets() {
        // memory is the one place that may forget: then it forgets all
        let store = store::open("memory:", store::Options::default()).await.unwrap();
        assert_eq!(store.queues().await.unwrap(), [""; 0]);
        return;
    }
    let store = home.open().await;
    let revision = store.put("key", Bytes::from("1"), Expect::Anything, None).await.unwrap();
    store.put("passing", Bytes::from("1"), Expect::Anything, Some(Duration::from_secs(1))).await.unwrap();
    for id in ["held", "lapsing", "retried", "dead", "ready"] {
        let item = NewItem { id: id.to_owned(), head: Bytes::from("h"), body: Bytes::from(id) };
        store.enqueue("q", item).await.unwrap();
    }
    let held = store.take("q", take(1, 9, LONG)).await.unwrap();
    store.take("q", take(1, 9, Duration::from_millis(50))).await.unwrap();
    let others = store.take("q", take(2, 9, LONG)).await.unwrap();
    let ids: Vec<_> = others.iter().map(|taken| taken.id.as_str()).collect();
    assert!(ids.ends_with(&["retried"]) || ids == ["retried", "dead"], "{ids:?}");
    for taken in others {
        let settle = match taken.id.as_str() {
            "dead" => Settle::Dead("gave up".to_owned()),
            _ => Settle::Retry(Duration::from_millis(50)),
        };
        store.settle("q", &taken.id, taken.ticket, settle).await.unwrap();
    }
    drop(store);

    let store = home.open().await;
    let entry = store.get("key").await.unwrap().unwrap();
    assert_eq!((entry.revision, &entry.value[..]), (revision, &b"1"[..]));
    assert!(store.put("key", Bytes::new(), Expect::Revision(revision), None).await.unwrap() > revision);
    eventually("the key passes", async || {
        let entry = store.get("passing").await.unwrap();
        if entry.is_none() { Ok(()) } else { Err(entry) }
    })
    .await;
    let counts = eventually("what waited is ready", async || {
        let counts = store.counts("q").await.unwrap();
        if counts.retry_pending == 0 && counts.in_flight == 1 { Ok(counts) } else { Err(counts) }
    })
    .await;
    assert_eq!(counts.ready + counts.dead, 4);
    assert_eq!(store.spots("q").await.unwrap()["here"], 1);
    let place = store.find("q", "held").await.unwrap();
    assert_eq!(place, Some(Place::InFlight { attempt: 1, ticket: held[0].ticket }));
    store.settle("q", "held", held[0].ticket, Settle::Done).await.unwrap();
    for dead in store.dead("q", Page { limit: 9, after: None }).await.unwrap().letters {
        assert_eq!((dead.id.as_str(), dead.reason.as_str(), dead.attempts), ("dead", "gave up", 1));
        assert!(store.bury("q", &dead.id).await.unwrap());
    }
    for taken in store.take("q", take(9, 9, LONG)).await.unwrap() {
        assert_eq!(taken.body, taken.id);
        assert!(taken.ticket > held[0].ticket, "tickets never repeat");
        store.settle("q", &taken.id, taken.ticket, Settle::Done).await.unwrap();
    }
    assert_eq!(store.counts("q").await.unwrap(), Counts::default());
}
