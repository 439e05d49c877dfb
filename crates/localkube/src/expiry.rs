//! Events do not live for ever.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

use crate::{
    server::WeakServer,
    storage::{Action, Change, ReadAt, TableId},
};

/// Deletes what was not written for `ttl`, in the tables whose rows say that their objects expire.
pub async fn run(server: WeakServer, ttl: Duration) {
    let Some((tables, mut watchers)) = server.upgrade().map(|server| {
        let registry = server.registry();
        let mut tables: Vec<TableId> =
            registry.kinds().filter(|kind| kind.rules.expires).map(|kind| kind.table).collect();
        tables.dedup();
        tables.sort_unstable();
        tables.dedup();
        let watchers: Vec<_> =
            tables.iter().map(|table| server.store().watch(*table, server.store().revision())).collect();
        (tables, watchers)
    }) else {
        return;
    };
    // Oldest first. A write puts the object at the end again; its earlier entry then has an old revision.
    let mut queue: VecDeque<(Instant, TableId, Box<str>, u64)> = VecDeque::new();
    let mut first = true;
    let pause = (ttl / 60).clamp(Duration::from_millis(100), Duration::from_secs(30));
    loop {
        let Some(server) = server.upgrade() else { return };
        let now = Instant::now();
        for (table, watcher) in tables.iter().zip(&mut watchers) {
            let events = watcher.poll_events();
            if std::mem::take(&mut first) || events.is_err() {
                // From before our time, or too many to follow: their time starts now.
                if let Ok(listing) =
                    server.store().list(*table, "", None, ReadAt::Latest, usize::MAX, |_| true)
                {
                    queue.extend(
                        listing
                            .records
                            .iter()
                            .map(|record| (now, *table, record.key.clone(), record.revision)),
                    );
                    *watcher = server.store().watch(*table, listing.revision);
                }
                continue;
            }
            for event in events.map(|(events, _)| events).unwrap_or_default() {
                if event.action != Action::Deleted {
                    queue.push_back((now, *table, event.record.key.clone(), event.revision));
                }
            }
        }
        while let Some((written, ..)) = queue.front()
            && now.duration_since(*written) >= ttl
        {
            let Some((_, table, key, revision)) = queue.pop_front() else { break };
            // A newer write makes this stale, which is as it should be.
            let _ = server.store().commit(table, Change::Delete { key, revision }).await;
        }
        drop(server);
        tokio::time::sleep(pause).await;
    }
}
