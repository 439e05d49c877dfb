//! What this node tells.

use std::{collections::HashMap, sync::Arc, time::Duration};

use bytes::Bytes;
use futures::{FutureExt, StreamExt, future::BoxFuture, stream::FuturesUnordered};
use store::Expect;
use tokio::time::Instant;

use super::{KEPT, PAUSE, REFRESH, Sharing, Word, key};
use crate::{Calls, Function};

/// What was told last, and when.
#[derive(Clone, Copy)]
struct Told {
    word: Word,
    at: Instant,
}

#[derive(Default)]
struct Teller {
    told: HashMap<Arc<str>, Told>,
    /// Functions that must wait after a failure.
    failed: HashMap<Arc<str>, Instant>,
}

type Writing = FuturesUnordered<BoxFuture<'static, (Arc<str>, Result<Word, store::Error>)>>;

pub(super) async fn run(sharing: &Sharing) {
    let mut changes = sharing.activity.changes();
    let mut teller = Teller::default();
    let (mut writing, mut under_way) = (Writing::new(), Vec::<Arc<str>>::new());
    changes.mark_changed();
    let mut next: Option<Instant> = None;
    loop {
        tokio::select! {
            changed = changes.changed() => {
                if changed.is_err() {
                    return;
                }
            }
            Some((name, written)) = writing.next() => {
                under_way.retain(|other| *other != name);
                teller.wrote(name, written, Instant::now());
            }
            () = tokio::time::sleep_until(next.unwrap_or_else(Instant::now)), if next.is_some() => {}
        }
        let now = Instant::now();
        next = None;
        for (name, calls) in sharing.activity.all() {
            // One write at a time for each function: what comes meanwhile goes with the next.
            if under_way.contains(&name) {
                continue;
            }
            let function = sharing.catalog.get(&name);
            match teller.due(&name, &calls, function.as_deref(), now) {
                Some((at, word)) if at <= now => {
                    under_way.push(name.clone());
                    writing.push(write(sharing.clone(), name, word).boxed());
                }
                Some((at, _)) => next = Some(next.map_or(at, |next| next.min(at))),
                None => {}
            }
        }
    }
}

async fn write(sharing: Sharing, name: Arc<str>, word: Word) -> (Arc<str>, Result<Word, store::Error>) {
    // A timestamp and a number: this cannot fail.
    let value = Bytes::from(serde_json::to_vec(&word).unwrap_or_default());
    let written = sharing.store.put(&key(&name, &sharing.node), value, Expect::Anything, Some(KEPT)).await;
    (name, written.map(|_| word))
}

impl Teller {
    fn wrote(&mut self, name: Arc<str>, written: Result<Word, store::Error>, now: Instant) {
        match written {
            Ok(word) => {
                self.failed.remove(&name);
                self.told.insert(name, Told { word, at: now });
            }
            Err(error) => {
                tracing::warn!(function = %name, %error, "other nodes could not be told of calls");
                self.failed.insert(name, now + PAUSE);
            }
        }
    }

    /// What is to be told of a function, and when; nothing if all is told.
    fn due(
        &self,
        name: &str,
        calls: &Calls,
        function: Option<&Function>,
        now: Instant,
    ) -> Option<(Instant, Word)> {
        let word = Word { last: calls.last?, active: calls.active };
        let at = match self.told.get(name) {
            None => now,
            Some(told) if told.word == word => {
                if word.active == 0 {
                    return None;
                }
                told.at + REFRESH
            }
            Some(told) => {
                let is_at_zero = function.is_some_and(|function| function.ready().next().is_none());
                let is_call = word.last > told.word.last;
                if is_at_zero && is_call { now } else { told.at + gap(function) }
            }
        };
        let at = self.failed.get(name).map_or(at, |not_before| at.max(*not_before));
        Some((at, word))
    }
}

/// How long news about a function that runs may wait: less than a node that hears nothing would keep it.
fn gap(function: Option<&Function>) -> Duration {
    let timeout = function.map_or(300, |function| function.settings.scaling.timeout_seconds);
    (Duration::from_secs(u64::from(timeout)) / 4).clamp(Duration::from_millis(250), Duration::from_secs(3))
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;
    use crate::sharing::tests::function;

    #[test]
    fn what_is_told_when() {
        let (up, down) = (function("up", true), function("down", false));
        let (began, mut teller) = (Instant::now(), Teller::default());
        let calls = |last: i64, active| Calls {
            last: Some(Timestamp::from_second(last).unwrap()),
            active,
            ..Calls::default()
        };
        let wait = |teller: &Teller, calls: Calls, function: &Function| {
            teller.due("f", &calls, Some(function), began).map(|(at, _)| (at - began).as_secs())
        };
        assert_eq!(wait(&teller, Calls::default(), &up), None, "never called");
        assert_eq!(wait(&teller, calls(1, 1), &up), Some(0), "never told");
        let (_, word) = teller.due("f", &calls(1, 1), Some(&up), began).unwrap();
        teller.wrote("f".into(), Ok(word), began);
        assert_eq!(wait(&teller, calls(1, 1), &up), Some(5), "under way: refreshed");
        assert_eq!(wait(&teller, calls(2, 0), &up), Some(3), "ended");
        assert_eq!(wait(&teller, calls(2, 2), &up), Some(3), "one more call");
        assert_eq!(wait(&teller, calls(2, 2), &down), Some(0), "a call at zero");
        teller.wrote("f".into(), Err(store::Error::Unavailable(String::new())), began);
        assert_eq!(wait(&teller, calls(2, 2), &down), Some(1), "after a failure");
        let (_, word) = teller.due("f", &calls(2, 0), Some(&up), began).unwrap();
        teller.wrote("f".into(), Ok(word), began);
        assert_eq!(wait(&teller, calls(2, 0), &up), None, "all is told");
        assert_eq!(wait(&teller, calls(2, 0), &down), None, "all is told");
    }
}
