//! News for one listener: the latest under each name, so that a slow listener costs no more than there are names.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};

use futures::{StreamExt, stream::BoxStream};
use tokio::sync::Notify;

/// The end that tells; dropping it ends the listener's stream.
pub struct Mailbox<V> {
    inner: Weak<Inner<V>>,
}

struct Inner<V> {
    pending: Mutex<Pending<V>>,
    news: Notify,
}

struct Pending<V> {
    latest: BTreeMap<String, V>,
    closed: bool,
}

pub fn new<V: Send + 'static>() -> (Mailbox<V>, BoxStream<'static, (String, V)>) {
    let pending = Mutex::new(Pending { latest: BTreeMap::new(), closed: false });
    let inner = Arc::new(Inner { pending, news: Notify::new() });
    let mailbox = Mailbox { inner: Arc::downgrade(&inner) };
    let stream = futures::stream::unfold(inner, |inner| async move {
        loop {
            let news = inner.news.notified();
            {
                let mut pending = inner.pending();
                if let Some(first) = pending.latest.pop_first() {
                    drop(pending);
                    return Some((first, inner.clone()));
                }
                if pending.closed {
                    return None;
                }
            }
            news.await;
        }
    });
    (mailbox, stream.boxed())
}

impl<V> Inner<V> {
    fn pending(&self) -> MutexGuard<'_, Pending<V>> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<V> Mailbox<V> {
    /// False if nobody listens any more.
    pub fn tell(&self, name: &str, news: V) -> bool {
        let Some(inner) = self.inner.upgrade() else { return false };
        inner.pending().latest.insert(name.to_owned(), news);
        inner.news.notify_one();
        true
    }
}

impl<V> Drop for Mailbox<V> {
    fn drop(&mut self) {
        if let Some(inner) = self.inner.upgrade() {
            inner.pending().closed = true;
            inner.news.notify_one();
        }
    }
}
