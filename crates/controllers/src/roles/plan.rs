//! What a node does about the leases it sees. Pure: the time comes in.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use k8s_openapi::api::coordination::v1::LeaseSpec;

use super::{MASTER, PRESENCE, SCRAPER};

/// A lease as this node sees it.
#[derive(Clone, Debug)]
pub struct Seen {
    pub holder: Option<String>,
    pub duration: Duration,
    /// When it was last seen to be renewed.
    pub since: Instant,
    pub transitions: i32,
    pub version: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Take or renew; without a version it is made.
    Hold {
        name: String,
        version: Option<String>,
        transitions: i32,
    },
    Release {
        name: String,
        version: String,
        transitions: i32,
    },
    /// What a node that is gone left behind.
    Remove {
        name: String,
    },
}

/// A node's own lease is removed by the others when it is so many times overdue.
const GONE_AFTER: u32 = 10;

pub fn duration(spec: &LeaseSpec) -> Duration {
    Duration::from_secs(spec.lease_duration_seconds.unwrap_or(15).clamp(1, 24 * 3600).unsigned_abs().into())
}

impl Seen {
    pub fn new(spec: &LeaseSpec, since: Instant, version: Option<String>) -> Self {
        Seen {
            holder: spec.holder_identity.clone().filter(|holder| !holder.is_empty()),
            duration: duration(spec),
            since,
            transitions: spec.lease_transitions.unwrap_or(0),
            version,
        }
    }

    pub fn is_free(&self, now: Instant) -> bool {
        self.holder.is_none() || now.saturating_duration_since(self.since) > self.duration
    }

    fn is_held_by(&self, node: &str) -> bool {
        self.holder.as_deref() == Some(node)
    }
}

/// Nodes that are there, `me` included.
pub fn nodes(me: &str, now: Instant, leases: &HashMap<String, Seen>) -> usize {
    let others = leases.iter().filter(|(name, seen)| {
        name.strip_prefix(PRESENCE).is_some_and(|node| node != me) && !seen.is_free(now)
    });
    others.count() + 1
}

/// What to write now. A lease of ours is renewed when its last renewal is older than `fresh_enough`.
pub fn plan(me: &str, fresh_enough: Duration, now: Instant, leases: &HashMap<String, Seen>) -> Vec<Action> {
    let mut actions = Vec::new();
    let mut hold = |name: &str| match leases.get(name) {
        None => actions.push(Action::Hold { name: name.to_owned(), version: None, transitions: 0 }),
        Some(seen) => {
            let is_ours = seen.is_held_by(me);
            if !is_ours || now.saturating_duration_since(seen.since) >= fresh_enough {
                let transitions = seen.transitions.saturating_add(i32::from(!is_ours));
                actions.push(Action::Hold {
                    name: name.to_owned(),
                    version: seen.version.clone(),
                    transitions,
                });
            }
        }
    };
    hold(&format!("{PRESENCE}{me}"));
    let may_take = |name: &str| leases.get(name).is_none_or(|seen| seen.is_held_by(me) || seen.is_free(now));
    let is_master = may_take(MASTER);
    if is_master {
        hold(MASTER);
    }
    // The master's own work must not be delayed by thousands of scrapes, as long as somebody else can do them.
    let leaves_scraping = is_master && nodes(me, now, leases) > 1;
    if !leaves_scraping && may_take(SCRAPER) {
        hold(SCRAPER);
    }
    if leaves_scraping && let Some(seen) = leases.get(SCRAPER).filter(|seen| seen.is_held_by(me)) {
        actions.push(release(SCRAPER, seen));
    }
    for (name, seen) in leases {
        let overdue = now.saturating_duration_since(seen.since) > seen.duration * GONE_AFTER;
        if is_master && overdue && name.strip_prefix(PRESENCE).is_some_and(|node| node != me) {
            actions.push(Action::Remove { name: name.clone() });
        }
    }
    actions
}

/// What a node gives back when it goes.
pub fn leave(me: &str, leases: &HashMap<String, Seen>) -> Vec<Action> {
    let mut actions = Vec::new();
    for name in [MASTER, SCRAPER] {
        if let Some(seen) = leases.get(name).filter(|seen| seen.is_held_by(me)) {
            actions.push(release(name, seen));
        }
    }
    let own = format!("{PRESENCE}{me}");
    if leases.contains_key(&own) {
        actions.push(Action::Remove { name: own });
    }
    actions
}

fn release(name: &str, seen: &Seen) -> Action {
    Action::Release {
        name: name.to_owned(),
        version: seen.version.clone().unwrap_or_default(),
        transitions: seen.transitions,
    }
}
