//! What this node hears.

use std::{collections::HashMap, sync::Arc, time::Duration};

use futures::StreamExt;
use jiff::Timestamp;
use store::Change;
use tokio::time::{Instant, MissedTickBehavior};

use super::{GONE, PAUSE, PREFIX, Sharing, Word, parse_key};

/// Calls under way on other nodes, and when their node last said so.
type Active = HashMap<(Arc<str>, Arc<str>), (u32, Instant)>;

const CHECK: Duration = Duration::from_secs(1);

pub(super) async fn run(sharing: &Sharing) {
    let mut active = Active::new();
    let mut check = tokio::time::interval(CHECK);
    check.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        match sharing.store.watch(PREFIX).await {
            Ok(mut news) => loop {
                tokio::select! {
                    change = news.next() => match change {
                        Some(change) => hear(sharing, &mut active, &change),
                        None => break,
                    },
                    _ = check.tick(), if !active.is_empty() => refresh(sharing, &mut active, Instant::now()),
                }
            },
            Err(error) => tracing::warn!(%error, "calls of other nodes cannot be followed"),
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// What was said before this node came.
pub(super) async fn recall(sharing: &Sharing) -> store::Result<()> {
    for (key, entry) in sharing.store.list(PREFIX).await? {
        let word = serde_json::from_slice::<Word>(&entry.value);
        if let (Some((function, _)), Ok(word)) = (parse_key(&key), word) {
            sharing.activity.heard(&function.into(), word.last);
        }
    }
    Ok(())
}

fn hear(sharing: &Sharing, active: &mut Active, change: &Change) {
    let Some((function, node)) = parse_key(&change.key) else { return };
    let (function, node): (Arc<str>, Arc<str>) = (function.into(), node.into());
    let word = change.entry.as_ref().and_then(|entry| serde_json::from_slice::<Word>(&entry.value).ok());
    // What this node once said is news only after a restart; its calls of then have ended with it.
    let n_active = word.filter(|_| node != sharing.node).map_or(0, |word| word.active);
    let of = (function.clone(), node);
    if n_active > 0 {
        active.insert(of, (n_active, Instant::now()));
    } else {
        active.remove(&of);
    }
    if let Some(word) = word {
        sharing.activity.heard(&function, word.last);
    }
    sharing.activity.heard_active(&function, count(active, &function));
}

/// A call that is still under way is a sign of life at every moment; one of a node that fell silent is none.
fn refresh(sharing: &Sharing, active: &mut Active, now: Instant) {
    let before: Vec<_> = active.keys().map(|(function, _)| function.clone()).collect();
    active.retain(|_, (_, said)| now - *said < GONE);
    for function in before {
        let n_active = count(active, &function);
        if n_active > 0 {
            sharing.activity.heard(&function, Timestamp::now());
        }
        sharing.activity.heard_active(&function, n_active);
    }
}

fn count(active: &Active, function: &str) -> u32 {
    active.iter().filter(|((name, _), _)| **name == *function).map(|(_, (n, _))| n).sum()
}

#[cfg(test)]
mod tests {
    use store::{Embedded, Entry, Limits};

    use super::*;
    use crate::{Activity, Catalog, sharing::key};

    #[tokio::test]
    async fn calls_of_a_silent_node_end() {
        let sharing = Sharing {
            activity: Activity::default(),
            catalog: Catalog::default(),
            store: Arc::new(Embedded::memory(Limits::default()).unwrap()),
            node: "a".into(),
        };
        let mut active = Active::new();
        for (node, n_active) in [("a", 1), ("b", 2), ("c", 3)] {
            let word = Word { last: Timestamp::UNIX_EPOCH, active: n_active };
            let value = serde_json::to_vec(&word).unwrap().into();
            let entry = Some(Entry { value, revision: 1 });
            hear(&sharing, &mut active, &Change { key: key("f", node), entry });
        }
        let now = Instant::now();
        assert_eq!(sharing.activity.of("f").active_elsewhere, 5, "this node's own do not count");
        refresh(&sharing, &mut active, now);
        assert!(sharing.activity.of("f").elsewhere > Some(Timestamp::UNIX_EPOCH), "in use at every moment");
        hear(&sharing, &mut active, &Change { key: key("f", "c"), entry: None });
        assert_eq!(sharing.activity.of("f").active_elsewhere, 2);
        refresh(&sharing, &mut active, now + GONE);
        assert_eq!(sharing.activity.of("f").active_elsewhere, 0);
        assert!(active.is_empty());
    }
}
