//! The last decisions in the store: the master tells them there, so that every node can say why, and the next master
//! until it has decided itself.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use bytes::Bytes;
use decide::{
    Step,
    demand::{Decision, Rule},
};
use futures::{StreamExt, stream};
use store::{Expect, Shared};

use super::decisions::{Decisions, Own};
use crate::roles;

const PREFIX: &str = "decision/";
/// A function's decision is told at most once in this time; what failed is tried again after it.
const PAUSE: Duration = Duration::from_secs(1);
const WRITES_AT_ONCE: usize = 16;

/// What was told of each function, as [`gist`] has it.
type Told = BTreeMap<Arc<str>, String>;

/// Of one function. Without text it is gone.
struct News {
    name: Arc<str>,
    gist: String,
    text: Option<Bytes>,
}

/// Follows what the masters tell.
pub async fn hear(decisions: &Decisions, store: &Shared) {
    loop {
        match store.watch(PREFIX).await {
            Ok(mut changes) => {
                while let Some(change) = changes.next().await {
                    if let Some(name) = change.key.strip_prefix(PREFIX) {
                        decisions.heard(name, change.entry.map(|entry| entry.value));
                    }
                }
            }
            Err(error) => tracing::warn!(%error, "the master's decisions cannot be followed"),
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Tells what is new in this node's own decisions, for one time of being master.
pub async fn tell(decisions: &Decisions, store: &Shared, roles: &roles::Handle) {
    let mut own = decisions.own();
    own.mark_changed();
    let mut told = Told::new();
    while own.changed().await.is_ok() {
        let Some(all) = own.borrow_and_update().clone() else { continue };
        let news = news(&all, &told, decisions.told().keys());
        told.retain(|name, _| all.contains_key(name));
        let mut writes = stream::iter(news.into_iter().map(|news| async move {
            let written = write(store, roles, &news).await;
            (news, written)
        }))
        .buffer_unordered(WRITES_AT_ONCE);
        while let Some((news, written)) = writes.next().await {
            match written {
                Ok(()) if news.text.is_some() => drop(told.insert(news.name, news.gist)),
                Ok(()) => decisions.heard(&news.name, None),
                Err(error) => {
                    tracing::warn!(function = %news.name, %error, "other nodes could not be told of a decision");
                    own.mark_changed();
                }
            }
        }
        tokio::time::sleep(PAUSE).await;
    }
}

fn news<'a>(own: &Own, told: &Told, in_store: impl Iterator<Item = &'a Arc<str>>) -> Vec<News> {
    let gone = in_store.filter(|name| !own.contains_key(*name));
    let gone = gone.map(|name| News { name: name.clone(), gist: String::new(), text: None });
    let new = own.iter().filter_map(|(name, decided)| {
        let gist = gist(&decided.decision);
        let is_new = told.get(name) != Some(&gist);
        is_new.then(|| News { name: name.clone(), gist, text: Some(decided.shown().to_string().into()) })
    });
    gone.chain(new).collect()
}

/// What of a decision is worth telling. That the last call is a second older is not.
fn gist(decision: &Decision) -> String {
    let mut gist = format!("{} {} {}", decision.current, decision.desired, decision.reason.code);
    for step in &decision.steps {
        let words = match &step.rule {
            Rule::Activity { last, idle, timeout_seconds, .. } => {
                let (last, idle, timeout_seconds) = (last.clone(), *idle, *timeout_seconds);
                let rule = Rule::Activity { last, idle, timeout_seconds, seconds_ago: 0 };
                Step { rule, before: step.before, after: step.after }.words().to_string()
            }
            _ => step.words().to_string(),
        };
        gist += "\n";
        gist += &words;
    }
    gist
}

async fn write(store: &Shared, roles: &roles::Handle, news: &News) -> store::Result<()> {
    // The last moment: what the next master told is newer.
    if !roles.is_master() {
        return Ok(());
    }
    let key = format!("{PREFIX}{}", news.name);
    match &news.text {
        Some(text) => store.put(&key, text.clone(), Expect::Anything, None).await.map(drop),
        None => store.delete(&key, Expect::Anything).await,
    }
}

#[cfg(test)]
mod tests {
    use decide::demand::{self, Activity, ActivitySource, Observed, Schedule, Spec};
    use expect_test::expect;
    use jiff::{SignedDuration, Timestamp};

    use super::*;
    use crate::demand::Decided;

    /// So many seconds after the only call.
    fn decided(seconds: i64, current: i32) -> Arc<Decided> {
        let call = Timestamp::UNIX_EPOCH;
        let at = call + SignedDuration::from_secs(seconds);
        let activity = Some(Activity { at: call, source: ActivitySource::Call, of: None });
        let observed = Observed { current, activity, ..Observed::default() };
        let schedule = Schedule::default();
        let spec = Spec { min: 0, at_start: 1, timeout_seconds: 300, schedule, scale: None };
        let decision = demand::decide(at, &spec, &observed, demand::Memory::default());
        Arc::new(Decided { at, ready: 1, problems: BTreeMap::new(), decision })
    }

    #[test]
    fn only_what_people_would_read_is_told() {
        let mut told = Told::new();
        let mut out = String::new();
        let rows = [
            ("called", 0, 0),
            ("awake", 1, 1),
            ("a second later", 2, 1),
            ("in the last second", 300, 1),
            ("idle", 301, 1),
            ("asleep", 302, 0),
            ("an hour later", 3902, 0),
        ];
        for (what, seconds, current) in rows {
            let own = Own::new([("fib".into(), decided(seconds, current))].into());
            for News { name, gist, text } in news(&own, &told, [].into_iter()) {
                let text: serde_json::Value = serde_json::from_slice(&text.unwrap()).unwrap();
                out += &format!("{what}: {} {}\n", text["Desired"], text["Why"]);
                told.insert(name, gist);
            }
        }
        expect![[r#"
            called: 1 "wakes up with 1"
            awake: 1 "a call 1 s ago, timeout 300 s"
            idle: 0 "idle, so down to the minimum of 0"
            asleep: 0 "nothing for 302 s, timeout 300 s; the last was a call"
        "#]]
        .assert_eq(&out);
    }

    #[test]
    fn what_is_gone_is_taken_back() {
        let own = Own::new([("fib".into(), decided(0, 1))].into());
        let told = [("fib".into(), gist(&own["fib"].decision))].into();
        let in_store: [Arc<str>; 2] = ["fib".into(), "gone".into()];
        let news = news(&own, &told, in_store.iter());
        let told: Vec<_> = news.iter().map(|news| (&*news.name, news.text.is_some())).collect();
        assert_eq!(told, [("gone", false)]);
    }
}
