use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use bytes::Bytes;
use futures::StreamExt;
use store::{Bound, Counts, Dead, Error, Limits, NewItem, Page, Place, Settle, Shared, Taken};

use crate::home::{Home, LONG, eventually, take, take_at};

const SHORT: Duration = Duration::from_millis(100);

fn item(id: &str) -> NewItem {
    let head = Bytes::from(format!("head of {id}"));
    NewItem { id: id.to_owned(), head, body: Bytes::from(format!("body of {id}")) }
}

async fn enqueue(store: &Shared, ids: &[&str]) {
    for id in ids {
        store.enqueue("q", item(id)).await.unwrap();
    }
}

async fn take_one(store: &Shared, lease: Duration) -> Taken {
    let taken = store.take("q", take(1, 100, lease)).await.unwrap();
    assert_eq!(taken.len(), 1, "{taken:?}");
    taken.into_iter().next().unwrap()
}

async fn take_eventually(store: &Shared, lease: Duration) -> Taken {
    eventually("there is an item to take", async || {
        store.take("q", take(1, 100, lease)).await.unwrap().pop().ok_or(())
    })
    .await
}

async fn all_dead(store: &Shared) -> Vec<Dead> {
    let page = store.dead("q", Page { limit: 1000, after: None }).await.unwrap();
    assert_eq!(page.next, None);
    page.letters
}

/// One after the other, so that it is known which is older.
async fn kill(store: &Shared, queue: &str, ids: &[&str], bytes: usize) {
    for id in ids {
        let item = NewItem { body: vec![0; bytes].into(), ..item(id) };
        store.enqueue(queue, item).await.unwrap();
        let taken = store.take(queue, take(1, 1, LONG)).await.unwrap().pop().unwrap();
        store.settle(queue, id, taken.ticket, Settle::Dead("no".into())).await.unwrap();
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

async fn dead_ids(store: &Shared, queue: &str) -> Vec<String> {
    let page = store.dead(queue, Page { limit: 1000, after: None }).await.unwrap();
    page.letters.into_iter().map(|letter| letter.id).collect()
}

fn ids(taken: &[Taken]) -> Vec<&str> {
    taken.iter().map(|taken| taken.id.as_str()).collect()
}

pub async fn first_in_first_out(home: Home) {
    let store = home.open().await;
    assert_eq!(store.take("q", take(5, 5, LONG)).await.unwrap(), []);
    enqueue(&store, &["c", "a", "b", "d"]).await;
    let taken = store.take("q", take(2, 10, LONG)).await.unwrap();
    assert_eq!(ids(&taken), ["c", "a"]);
    assert_eq!((&taken[0].head[..], &taken[0].body[..]), (&b"head of c"[..], &b"body of c"[..]));
    assert_eq!((taken[0].attempt, taken[1].attempt), (1, 1));
    // two are given out, so one more may be
    assert_eq!(ids(&store.take("q", take(9, 3, LONG)).await.unwrap()), ["b"]);
    assert_eq!(store.take("q", take(9, 3, LONG)).await.unwrap(), []);
    store.settle("q", "c", taken[0].ticket, Settle::Done).await.unwrap();
    assert_eq!(ids(&store.take("q", take(9, 3, LONG)).await.unwrap()), ["d"]);
}

pub async fn the_same_item_is_added_once(home: Home) {
    let store = home.open().await;
    enqueue(&store, &["a", "a", "b", "a"]).await;
    let taken = store.take("q", take(9, 9, LONG)).await.unwrap();
    assert_eq!(ids(&taken), ["a", "b"]);
    enqueue(&store, &["b"]).await;
    assert_eq!(store.counts("q").await.unwrap(), Counts { in_flight: 2, ..Counts::default() });
    // once it is done its name is free
    store.settle("q", "a", taken[0].ticket, Settle::Done).await.unwrap();
    enqueue(&store, &["a"]).await;
    let again = take_one(&store, LONG).await;
    assert_eq!((again.id.as_str(), again.attempt), ("a", 1));
    let refused = store.settle("q", "a", taken[0].ticket, Settle::Done).await;
    assert!(matches!(refused, Err(Error::Conflict { .. })), "{refused:?}");
    store.settle("q", "a", again.ticket, Settle::Done).await.unwrap();
}

pub async fn limits_hold_among_racing_takers(home: Home) {
    const ITEMS: usize = 60;
    const LIMIT: usize = 4;
    let nodes = home.nodes(3).await;
    let names: Vec<String> = (0..ITEMS).map(|number| number.to_string()).collect();
    enqueue(&nodes[0], &names.iter().map(String::as_str).collect::<Vec<_>>()).await;
    let (held, most, done) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicUsize::new(0));
    let shared = Arc::new((held, most, done));
    let mut takers = Vec::new();
    for number in 0..6 {
        let node = nodes[number % nodes.len()].clone();
        let shared = shared.clone();
        takers.push(tokio::spawn(async move {
            let (held, most, done) = &*shared;
            let began = Instant::now();
            let mut mine = Vec::new();
            while done.load(Ordering::SeqCst) < ITEMS {
                assert!(began.elapsed() < Duration::from_secs(300), "{} done", done.load(Ordering::SeqCst));
                for taken in node.take("q", take(2, LIMIT, LONG)).await.unwrap() {
                    let now = held.fetch_add(1, Ordering::SeqCst) + 1;
                    most.fetch_max(now, Ordering::SeqCst);
                    tokio::task::yield_now().await;
                    held.fetch_sub(1, Ordering::SeqCst);
                    node.settle("q", &taken.id, taken.ticket, Settle::Done).await.unwrap();
                    done.fetch_add(1, Ordering::SeqCst);
                    mine.push(taken.id);
                }
            }
            mine
        }));
    }
    let mut all = Vec::new();
    for taker in takers {
        all.extend(taker.await.unwrap());
    }
    assert_eq!(all.len(), ITEMS);
    assert_eq!(all.into_iter().collect::<BTreeSet<_>>(), names.into_iter().collect());
    assert!(shared.1.load(Ordering::SeqCst) <= LIMIT);
    assert_eq!(nodes[0].counts("q").await.unwrap(), Counts::default());
}

/// A spot has its own limit, whoever fills it; what is full is passed over, not waited for.
pub async fn no_spot_has_more_than_its_limit(home: Home) {
    let [here, there] = home.nodes(2).await.try_into().ok().unwrap();
    enqueue(&here, &["1", "2", "3", "4", "5"]).await;
    let spots = |taken: &[Taken]| taken.iter().map(|taken| taken.spot).collect::<Vec<_>>();
    let first = here.take("q", take_at(&["a", "a", "b"], 1, 9, LONG)).await.unwrap();
    assert_eq!((ids(&first), spots(&first)), (vec!["1", "2"], vec![0, 2]));
    let second = eventually("the other node knows of the items", async || {
        let taken = there.take("q", take_at(&["b", "a", "c"], 1, 9, LONG)).await.unwrap();
        if taken.is_empty() { Err(()) } else { Ok(taken) }
    })
    .await;
    assert_eq!((ids(&second), spots(&second)), (vec!["3"], vec![2]));
    // a lease that passes makes room where it was
    for taken in first {
        here.settle("q", &taken.id, taken.ticket, Settle::Extend(SHORT)).await.unwrap();
    }
    let spots = eventually("the first leases pass", async || {
        let spots = there.spots("q").await.unwrap();
        if spots.len() == 1 { Ok(spots) } else { Err(spots) }
    })
    .await;
    assert_eq!(spots["c"], 1);
    there.settle("q", "3", second[0].ticket, Settle::Extend(LONG)).await.unwrap();
    let third = there.take("q", take_at(&["c", "a"], 1, 9, LONG)).await.unwrap();
    assert_eq!((ids(&third), third[0].spot), (vec!["1"], 1));
    there.settle("q", "3", second[0].ticket, Settle::Retry(LONG)).await.unwrap();
    assert_eq!(there.spots("q").await.unwrap().keys().map(|spot| &**spot).collect::<Vec<_>>(), ["a"]);
}

pub async fn what_nobody_settles_is_given_out_again(home: Home) {
    let store = home.open().await;
    enqueue(&store, &["a"]).await;
    let first = take_one(&store, SHORT).await;
    let second = take_eventually(&store, LONG).await;
    assert_eq!((second.id.as_str(), second.attempt), ("a", 2));
    assert_eq!(second.enqueued_unix_ms, first.enqueued_unix_ms);
    for late in [Settle::Done, Settle::Retry(LONG), Settle::Dead("late".into()), Settle::Extend(LONG)] {
        let refused = store.settle("q", "a", first.ticket, late).await;
        assert!(matches!(refused, Err(Error::Conflict { .. })), "{refused:?}");
    }
    store.settle("q", "a", second.ticket, Settle::Done).await.unwrap();
    let refused = store.settle("q", "a", second.ticket, Settle::Done).await;
    assert!(matches!(refused, Err(Error::Conflict { .. })), "{refused:?}");
    // late, but nobody else has it: work that was done is not done again
    enqueue(&store, &["b"]).await;
    let taken = take_one(&store, SHORT).await;
    eventually("the lease passes", async || {
        let counts = store.counts("q").await.unwrap();
        if counts.in_flight == 0 { Ok(()) } else { Err(counts) }
    })
    .await;
    let refused = store.settle("q", "b", taken.ticket, Settle::Extend(LONG)).await;
    assert!(matches!(refused, Err(Error::Conflict { .. })), "{refused:?}");
    store.settle("q", "b", taken.ticket, Settle::Done).await.unwrap();
    assert_eq!(store.counts("q").await.unwrap(), Counts::default());
}

pub async fn leases_can_be_changed(home: Home) {
    let store = home.open().await;
    enqueue(&store, &["a"]).await;
    let taken = take_one(&store, LONG).await;
    store.settle("q", "a", taken.ticket, Settle::Extend(SHORT)).await.unwrap();
    let again = take_eventually(&store, LONG).await;
    assert_eq!(again.attempt, 2);
    store.settle("q", "a", again.ticket, Settle::Extend(LONG)).await.unwrap();
    assert_eq!(store.counts("q").await.unwrap().in_flight, 1);
    store.settle("q", "a", again.ticket, Settle::Done).await.unwrap();
}

pub async fn retries_wait_for_their_time(home: Home) {
    let store = home.open().await;
    enqueue(&store, &["soon", "later"]).await;
    let taken = store.take("q", take(2, 2, LONG)).await.unwrap();
    store.settle("q", "later", taken[1].ticket, Settle::Retry(LONG)).await.unwrap();
    let began = Instant::now();
    let delay = Duration::from_millis(300);
    store.settle("q", "soon", taken[0].ticket, Settle::Retry(delay)).await.unwrap();
    let again = take_eventually(&store, LONG).await;
    assert!(began.elapsed() >= delay - Duration::from_millis(5), "{:?}", began.elapsed());
    assert_eq!((again.id.as_str(), again.attempt), ("soon", 2));
    assert_eq!(store.take("q", take(9, 9, LONG)).await.unwrap(), []);
    let counts = Counts { in_flight: 1, retry_pending: 1, ..Counts::default() };
    assert_eq!(store.counts("q").await.unwrap(), counts);
}

pub async fn the_dead_are_kept_apart(home: Home) {
    let store = home.open().await;
    enqueue(&store, &["a", "b"]).await;
    for taken in store.take("q", take(2, 2, LONG)).await.unwrap() {
        store.settle("q", &taken.id, taken.ticket, Settle::Dead("answer 500\nü".into())).await.unwrap();
    }
    assert_eq!(store.take("q", take(9, 9, LONG)).await.unwrap(), []);
    let dead = all_dead(&store).await;
    let seen: Vec<_> = dead.iter().map(|dead| (dead.id.as_str(), &dead.head[..], dead.attempts)).collect();
    assert_eq!(seen, [("a", &b"head of a"[..], 1), ("b", &b"head of b"[..], 1)]);
    assert_eq!(dead[0].reason, "answer 500\nü");
    assert!(dead[0].died_unix_ms > 1_600_000_000_000);
    assert_eq!(store.counts("q").await.unwrap().dead, 2);

    assert!(store.replay("q", "a").await.unwrap());
    assert!(!store.replay("q", "a").await.unwrap());
    let again = take_one(&store, LONG).await;
    assert_eq!((again.id.as_str(), again.attempt, &again.body[..]), ("a", 1, &b"body of a"[..]));
    assert!(!store.bury("q", "a").await.unwrap(), "it is not dead");
    assert!(store.bury("q", "b").await.unwrap());
    assert!(!store.bury("q", "b").await.unwrap());
    assert!(!store.replay("q", "never").await.unwrap());
    assert_eq!(all_dead(&store).await, []);
    store.settle("q", "a", again.ticket, Settle::Done).await.unwrap();
    assert_eq!(store.queues().await.unwrap(), [""; 0]);
}

pub async fn the_dead_come_in_pages(home: Home) {
    let store = home.open().await;
    kill(&store, "q", &["a", "b", "c", "d", "e"], 10).await;
    kill(&store, "r", &["x"], 10).await;
    let (mut after, mut pages) = (None, Vec::new());
    loop {
        let page = store.dead("q", Page { limit: 2, after }).await.unwrap();
        pages.push(page.letters.iter().map(|letter| letter.id.clone()).collect::<Vec<_>>().join(""));
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    assert_eq!(pages, ["ab", "cd", "e"]);
    // what goes in between moves nothing
    let first = store.dead("q", Page { limit: 2, after: None }).await.unwrap();
    assert!(store.bury("q", "b").await.unwrap() && store.bury("q", "c").await.unwrap());
    let second = store.dead("q", Page { limit: 2, after: first.next }).await.unwrap();
    assert_eq!(second.letters.iter().map(|letter| letter.id.as_str()).collect::<Vec<_>>(), ["d", "e"]);
    assert_eq!(second.next, None);
    assert_eq!(store.dead("nobody", Page { limit: 2, after: None }).await.unwrap().letters, []);
    assert_eq!(store.head("q", "a").await.unwrap().as_deref(), Some(&b"head of a"[..]));
    assert_eq!(store.head("q", "b").await.unwrap(), None);
    // a page is bounded by its bytes too
    for id in ["1", "2", "3"] {
        store.enqueue("large", NewItem { head: vec![b'h'; 700_000].into(), ..item(id) }).await.unwrap();
        let taken = store.take("large", take(1, 1, LONG)).await.unwrap().pop().unwrap();
        store.settle("large", id, taken.ticket, Settle::Dead("no".into())).await.unwrap();
    }
    let page = store.dead("large", Page { limit: 1000, after: None }).await.unwrap();
    assert_eq!((page.letters.len(), page.next.is_some()), (2, true));
    let page = store.dead("large", Page { limit: 1000, after: page.next }).await.unwrap();
    assert_eq!((page.letters.len(), page.next), (1, None));
}

pub async fn the_dead_are_bounded_in_all(home: Home) {
    let limits = Limits { dead: Bound { items: 4, bytes: 5000 }, queue_items: 2, ..Limits::default() };
    let home = home.with_limits(limits).await;
    let store = home.open().await;
    kill(&store, "q", &["a", "b", "c"], 10).await;
    kill(&store, "r", &["x", "y"], 10).await;
    // the oldest had to go, whichever queue it was in; and the dead take up no room in their queue
    assert_eq!(
        (dead_ids(&store, "q").await.join(""), dead_ids(&store, "r").await.join("")),
        ("bc".into(), "xy".into())
    );
    assert_eq!(store.dropped().dead_letters, 1);
    kill(&store, "r", &["large"], 4980).await;
    assert_eq!(
        (dead_ids(&store, "q").await.join(""), dead_ids(&store, "r").await.join("")),
        ("".into(), "large".into())
    );
    assert_eq!(store.dropped().dead_letters, 5);
    assert_eq!(store.find("q", "b").await.unwrap(), None);
    assert_eq!(store.counts("q").await.unwrap(), Counts::default());
}

pub async fn the_dead_pass_with_age(home: Home) {
    let limits = Limits { dead_age: Duration::from_millis(200), ..Limits::default() };
    let home = home.with_limits(limits).await;
    let store = home.open().await;
    kill(&store, "q", &["a"], 10).await;
    eventually("it is forgotten", async || {
        let dead = dead_ids(&store, "q").await;
        if dead.is_empty() { Ok(()) } else { Err(dead) }
    })
    .await;
    assert_eq!(store.dropped().dead_letters, 1);
    assert_eq!(store.find("q", "a").await.unwrap(), None);
}

pub async fn full_queues_refuse(home: Home) {
    let limits = Limits { item_bytes: 1000, queue_items: 3, queue_bytes: 1500, ..Limits::default() };
    let home = home.with_limits(limits).await;
    let store = home.open().await;
    enqueue(&store, &["a", "b", "c"]).await;
    let full = store.enqueue("q", item("d")).await;
    assert!(matches!(full, Err(Error::Full { .. })), "{full:?}");
    assert_eq!(full.unwrap_err().to_string(), "queue q is full: it holds 3 items");
    // others are not concerned
    store.enqueue("other", item("d")).await.unwrap();
    let taken = take_one(&store, LONG).await;
    let full = store.enqueue("q", item("d")).await;
    assert!(matches!(full, Err(Error::Full { .. })), "{full:?}");
    store.settle("q", &taken.id, taken.ticket, Settle::Done).await.unwrap();
    enqueue(&store, &["d"]).await;

    let of_size = |id: &str, size: usize| NewItem { body: vec![0; size].into(), ..item(id) };
    let large = store.enqueue("bytes", of_size("a", 1000)).await;
    assert!(matches!(large, Err(Error::TooLarge(_))), "{large:?}");
    store.enqueue("bytes", of_size("a", 900)).await.unwrap();
    let full = store.enqueue("bytes", of_size("b", 900)).await;
    assert!(matches!(full, Err(Error::Full { .. })), "{full:?}");
    store.enqueue("bytes", of_size("b", 400)).await.unwrap();
}

pub async fn counts_tell_where_items_are(home: Home) {
    let store = home.open().await;
    assert_eq!(store.counts("q").await.unwrap(), Counts::default());
    enqueue(&store, &["a", "b", "c", "d", "e"]).await;
    let oldest = store.counts("q").await.unwrap().oldest_unix_ms;
    assert!(oldest.is_some_and(|oldest| oldest > 1_600_000_000_000));
    let taken = store.take("q", take(3, 9, LONG)).await.unwrap();
    store.settle("q", "a", taken[0].ticket, Settle::Dead("no".into())).await.unwrap();
    store.settle("q", "b", taken[1].ticket, Settle::Retry(LONG)).await.unwrap();
    let counts = store.counts("q").await.unwrap();
    assert_eq!((counts.ready, counts.in_flight, counts.retry_pending, counts.dead), (2, 1, 1, 1));
    assert!(counts.oldest_unix_ms >= oldest);
    assert_eq!(store.queues().await.unwrap(), ["q"]);
}

pub async fn items_are_found_by_id(home: Home) {
    let [here, there] = home.nodes(2).await.try_into().ok().unwrap();
    assert_eq!(there.find("q", "a").await.unwrap(), None);
    enqueue(&here, &["a"]).await;
    assert_eq!(there.find("q", "a").await.unwrap(), Some(Place::Waiting { attempts: 0 }));
    let taken = take_one(&here, LONG).await;
    let in_flight = Place::InFlight { attempt: 1, ticket: taken.ticket };
    assert_eq!(there.find("q", "a").await.unwrap(), Some(in_flight));
    // whoever knows the ticket settles, wherever it is
    there.settle("q", "a", taken.ticket, Settle::Retry(Duration::ZERO)).await.unwrap();
    assert_eq!(here.find("q", "a").await.unwrap(), Some(Place::Waiting { attempts: 1 }));
    let taken = take_eventually(&here, LONG).await;
    there.settle("q", "a", taken.ticket, Settle::Dead("no".into())).await.unwrap();
    let Some(Place::Dead { attempts: 2, reason, died_unix_ms }) = here.find("q", "a").await.unwrap() else {
        panic!("it is dead");
    };
    assert!(reason == "no" && died_unix_ms > 1_600_000_000_000, "{reason} at {died_unix_ms}");
    assert!(there.bury("q", "a").await.unwrap());
    assert_eq!(here.find("q", "a").await.unwrap(), None);
}

pub async fn changes_are_told(home: Home) {
    let [here, there] = home.nodes(2).await.try_into().ok().unwrap();
    enqueue(&here, &["a"]).await;
    eventually(
        "the other node knows",
        async || {
            if there.queues().await.unwrap() == ["q"] { Ok(()) } else { Err(()) }
        },
    )
    .await;
    let mut changes = there.queue_changes().await.unwrap();
    assert_eq!(changes.next().await.unwrap(), "q");
    here.enqueue("other", item("a")).await.unwrap();
    assert_eq!(changes.next().await.unwrap(), "other");
    // a lease that passes is news too
    let taken = take_one(&here, SHORT).await;
    loop {
        assert_eq!(changes.next().await.unwrap(), "q");
        if let Some(again) = here.take("q", take(1, 1, LONG)).await.unwrap().pop() {
            assert_eq!((again.id, again.attempt), (taken.id, 2));
            break;
        }
    }
}

pub async fn any_name_will_do(home: Home) {
    let store = home.open().await;
    for name in ["a.b", "a b", "*", ">", "é", "x/y", "", "=41"] {
        store.enqueue(name, item(name)).await.unwrap();
        let taken = store.take(name, take(1, 1, LONG)).await.unwrap().pop().unwrap();
        assert_eq!((taken.id.as_str(), &taken.body[..]), (name, format!("body of {name}").as_bytes()));
        store.settle(name, name, taken.ticket, Settle::Done).await.unwrap();
    }
    assert_eq!(store.queues().await.unwrap(), [""; 0]);
}
