//! A store that counts, and that is not available when it is told not to be.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::BoxStream;
use http::StatusCode;
use store::{
    Change, Counts, DeadPage, Dropped, Entry, Error, Expect, NewItem, Page, Place, Result, Settle, Shared,
    Store, Take, Taken,
};

use crate::world::{FakePod, Node, answer, eventually, function, header, retries};

struct Flaky {
    inner: Shared,
    is_down: AtomicBool,
    /// Extensions that were granted, and the longest of them.
    extended: AtomicUsize,
    longest: Mutex<Duration>,
    /// Results that could not be kept.
    failed: AtomicUsize,
}

impl Flaky {
    fn new(inner: Shared) -> Arc<Self> {
        let (is_down, extended, longest, failed) = Default::default();
        Arc::new(Flaky { inner, is_down, extended, longest, failed })
    }

    fn check(&self) -> Result<()> {
        if self.is_down.load(Ordering::SeqCst) {
            return Err(Error::Unavailable("told so by the test".to_owned()));
        }
        Ok(())
    }
}

#[async_trait]
impl Store for Flaky {
    async fn get(&self, key: &str) -> Result<Option<Entry>> {
        self.check()?;
        self.inner.get(key).await
    }

    async fn put(&self, key: &str, value: Bytes, expect: Expect, ttl: Option<Duration>) -> Result<u64> {
        if let Err(error) = self.check() {
            self.failed.fetch_add(1, Ordering::SeqCst);
            return Err(error);
        }
        self.inner.put(key, value, expect, ttl).await
    }

    async fn delete(&self, key: &str, expect: Expect) -> Result<()> {
        self.inner.delete(key, expect).await
    }

    async fn list(&self, prefix: &str) -> Result<Vec<(String, Entry)>> {
        self.inner.list(prefix).await
    }

    async fn watch(&self, prefix: &str) -> Result<BoxStream<'static, Change>> {
        self.check()?;
        self.inner.watch(prefix).await
    }

    async fn enqueue(&self, queue: &str, item: NewItem) -> Result<()> {
        self.check()?;
        self.inner.enqueue(queue, item).await
    }

    async fn take(&self, queue: &str, take: Take) -> Result<Vec<Taken>> {
        self.check()?;
        self.inner.take(queue, take).await
    }

    async fn settle(&self, queue: &str, id: &str, ticket: u64, settle: Settle) -> Result<()> {
        self.check()?;
        self.inner.settle(queue, id, ticket, settle.clone()).await?;
        if let Settle::Extend(lease) = settle {
            let mut longest = self.longest.lock().unwrap();
            *longest = lease.max(*longest);
            self.extended.fetch_add(1, Ordering::SeqCst);
        }
        Ok(())
    }

    async fn find(&self, queue: &str, id: &str) -> Result<Option<Place>> {
        self.check()?;
        self.inner.find(queue, id).await
    }

    async fn counts(&self, queue: &str) -> Result<Counts> {
        self.check()?;
        self.inner.counts(queue).await
    }

    async fn spots(&self, queue: &str) -> Result<HashMap<Arc<str>, usize>> {
        self.check()?;
        self.inner.spots(queue).await
    }

    async fn queues(&self) -> Result<Vec<String>> {
        self.inner.queues().await
    }

    async fn queue_changes(&self) -> Result<BoxStream<'static, String>> {
        self.check()?;
        self.inner.queue_changes().await
    }

    async fn head(&self, queue: &str, id: &str) -> Result<Option<Bytes>> {
        self.check()?;
        self.inner.head(queue, id).await
    }

    async fn dead(&self, queue: &str, page: Page) -> Result<DeadPage> {
        self.check()?;
        self.inner.dead(queue, page).await
    }

    fn dropped(&self) -> Dropped {
        self.inner.dropped()
    }

    async fn replay(&self, queue: &str, id: &str) -> Result<bool> {
        self.inner.replay(queue, id).await
    }

    async fn bury(&self, queue: &str, id: &str) -> Result<bool> {
        self.inner.bury(queue, id).await
    }

    async fn ready(&self) -> Result<()> {
        self.check()
    }
}

pub async fn without_the_store_nothing_is_accepted(store: Shared) {
    let flaky = Flaky::new(store);
    let node = Node::start(flaky.clone(), &[function("f", retries(0), Vec::new())]).await;
    flaky.is_down.store(true, Ordering::SeqCst);
    let refused = node.post("/async-function/f", "").await;
    assert_eq!((refused.status(), header(&refused, "retry-after")), (StatusCode::SERVICE_UNAVAILABLE, "1"));
    for path in ["/async-function-result/f/1", "/async-function-dead/f"] {
        assert_eq!(node.get(path).await.status(), StatusCode::SERVICE_UNAVAILABLE, "{path}");
    }
    let callback = node.post("/async-function-callback/f/1/success", "").await;
    assert_eq!(callback.status(), StatusCode::SERVICE_UNAVAILABLE);
    flaky.is_down.store(false, Ordering::SeqCst);
    node.accept("/async-function/f", "").await;
}

pub async fn long_calls_keep_their_lease(store: Shared) {
    let flaky = Flaky::new(store);
    let gate = Arc::new(tokio::sync::Semaphore::new(0));
    let inside = gate.clone();
    let pod = FakePod::start(move |_| {
        let gate = inside.clone();
        async move {
            let _open = gate.acquire().await;
            answer(200, "")
        }
    })
    .await;
    let options = gateway::Options { async_lease: Duration::from_secs(3), ..gateway::Options::default() };
    let functions = [function("f", retries(0), vec![pod.ready()])];
    let node = Node::start_with(flaky.clone(), &functions, options, true).await;
    let id = node.accept("/async-function/f", "").await;
    eventually("the lease is extended twice", || async {
        let extended = flaky.extended.load(Ordering::SeqCst);
        if extended >= 2 { Ok(()) } else { Err(extended) }
    })
    .await;
    gate.add_permits(100);
    assert_eq!(node.result("f", &id).await.status(), StatusCode::OK);
}

pub async fn an_answer_outlives_an_outage_of_the_store(store: Shared) {
    let flaky = Flaky::new(store);
    let down = flaky.clone();
    // the store goes away while the pod works
    let pod = FakePod::start(move |asked| {
        if asked.headers["slimfaas-try-number"] == "1" {
            down.is_down.store(true, Ordering::SeqCst);
        }
        async { answer(200, "worth keeping") }
    })
    .await;
    let node = Node::start(flaky.clone(), &[function("f", retries(0), vec![pod.ready()])]).await;
    let id = node.accept("/async-function/f", "").await;
    eventually("the result could not be kept", || async {
        if flaky.failed.load(Ordering::SeqCst) == 0 { Err(pod.tries()) } else { Ok(()) }
    })
    .await;
    flaky.is_down.store(false, Ordering::SeqCst);
    let result = node.result("f", &id).await;
    assert_eq!((result.status().as_u16(), &result.body()[..]), (200, &b"worth keeping"[..]), "{result:?}");
}

pub async fn a_function_that_calls_back_keeps_its_call(store: Shared) {
    let flaky = Flaky::new(store);
    let pod = FakePod::start(|_| async { answer(202, "") }).await;
    let functions = [function("f", retries(0), vec![pod.ready()])];
    let master = Node::start(flaky.clone(), &functions).await;
    let other = Node::start_idle(flaky.clone(), &functions).await;
    let id = other.accept("/async-function/f", "").await;
    // what is left of its time and a lease more, whether or not the node lives
    let lease = Duration::from_secs(600);
    eventually("the call is leased for its whole time", || async {
        let longest = *flaky.longest.lock().unwrap();
        if longest > lease { Ok(()) } else { Err(longest) }
    })
    .await;
    drop(master);
    let path = format!("/async-function-callback/f/{id}/success");
    assert_eq!(other.post(&path, "").await.status(), StatusCode::OK);
    assert_eq!(other.result("f", &id).await.status(), StatusCode::OK);
    assert_eq!(pod.tries(), ["1"]);
}
