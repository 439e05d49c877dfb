use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use tokio::sync::watch;

use super::{
    Handle, Roles,
    held::{Held, lapse},
    plan::{Action, Seen, leave, plan},
};

const LEASE: Duration = Duration::from_secs(15);

/// Leases as `name=holder@age`, the age in seconds since the last renewal that was seen.
fn leases(now: Instant, text: &str) -> HashMap<String, Seen> {
    let lease = |part: &str| {
        let (name, rest) = part.split_once('=').unwrap();
        let (holder, age) = rest.split_once('@').unwrap();
        let seen = Seen {
            holder: Some(holder.to_owned()).filter(|holder| !holder.is_empty()),
            duration: LEASE,
            since: now - Duration::from_secs(age.parse().unwrap()),
            transitions: 1,
            version: Some("7".into()),
        };
        (format!("ballast-{name}"), seen)
    };
    text.split_whitespace().map(lease).collect()
}

fn words(actions: &[Action]) -> String {
    let mut words: Vec<String> = actions
        .iter()
        .map(|action| match action {
            Action::Hold { name, version: None, .. } => format!("make {name}"),
            Action::Hold { name, transitions: 1, .. } => format!("renew {name}"),
            Action::Hold { name, .. } => format!("take {name}"),
            Action::Release { name, .. } => format!("release {name}"),
            Action::Remove { name } => format!("remove {name}"),
        })
        .collect();
    words.sort();
    words.join(", ").replace("ballast-", "")
}

#[test]
fn roles_are_taken_and_left() {
    let now = Instant::now() + Duration::from_secs(3600);
    let table = [
        ("the first node does everything", "", "make master, make node-a, make scraper"),
        ("what is fresh is left alone", "node-a=a@1 master=a@1 scraper=a@1", ""),
        (
            "what is not is renewed",
            "node-a=a@5 master=a@5 scraper=a@5",
            "renew master, renew node-a, renew scraper",
        ),
        (
            "a second node takes the scraping off the master",
            "node-a=a@1 node-b=b@1 master=a@1 scraper=a@1",
            "release scraper",
        ),
        ("the master does not take it back", "node-a=a@1 node-b=b@1 master=a@1 scraper=@1", ""),
        ("but when it is alone", "node-a=a@1 node-b=b@16 master=a@1 scraper=b@16", "take scraper"),
        ("the other takes what is free", "node-a=a@1 node-b=b@1 master=b@1 scraper=@1", "take scraper"),
        ("nothing is taken before its time", "node-a=a@1 node-b=b@15 master=b@15 scraper=b@15", ""),
        (
            "a dead master is followed, and scraping left to the third",
            "node-a=a@1 node-b=b@16 node-c=c@1 master=b@16 scraper=c@1",
            "take master",
        ),
        (
            "the scraper that becomes master leaves scraping",
            "node-a=a@1 node-b=b@16 node-c=c@1 master=b@16 scraper=a@1",
            "release scraper, take master",
        ),
        (
            "an own lease of an earlier life is renewed at once",
            "node-a=a@99 master=a@99 scraper=a@99",
            "renew master, renew node-a, renew scraper",
        ),
        ("leftovers are swept", "node-a=a@1 node-b=b@200 master=a@1 scraper=a@1", "remove node-b"),
    ];
    for (what, given, expected) in table {
        let actions = plan("a", Duration::from_secs(4), now, &leases(now, given));
        assert_eq!(words(&actions), expected, "{what}");
    }
    let mine = leases(now, "node-a=a@1 master=a@1 scraper=b@1");
    assert_eq!(words(&leave("a", &mine)), "release master, remove node-a");
}

/// Nothing else happens: whoever should renew it may be waiting for an answer.
#[tokio::test]
async fn a_role_that_is_not_renewed_runs_out() {
    let soon = Some(Instant::now() + Duration::from_millis(50));
    let held = Mutex::new(Held { master: soon, scraper: Some(Instant::now() + LEASE), renewed: None });
    let roles = Roles { master: true, scraper: true, master_name: Some("a".into()), nodes: 2 };
    let (sender, mut known) = watch::channel(roles.clone());
    tokio::select! {
        () = lapse(&held, &sender, LEASE / 3) => {}
        changed = known.changed() => changed.unwrap(),
    }
    assert_eq!(*known.borrow(), Roles { master: false, master_name: None, ..roles });
}

#[test]
fn a_node_says_that_its_leases_are_not_renewed() {
    let began = Instant::now();
    let held = Arc::new(Mutex::new(Held { master: Some(began + LEASE), ..Held::default() }));
    let (_sender, roles) = watch::channel(Roles { nodes: 2, ..Roles::default() });
    let node = Handle { roles, held: held.clone(), lease: Some(LEASE), began };
    let after = |seconds| began + Duration::from_secs(seconds);
    let values = |node: &Handle, now| -> Vec<(String, f64)> {
        node.gauges(now).into_iter().map(|gauge| (gauge.name.replace("ballast_", ""), gauge.value)).collect()
    };
    let shown = |master, scraper, nodes| {
        [("role", master), ("role", scraper), ("nodes", nodes)]
            .map(|(name, n): (_, f64)| (name.to_owned(), n))
    };
    assert_eq!(node.check(after(30)), Ok(()));
    assert_eq!(node.check(after(31)), Err("this node could not renew its lease for 31 s".to_owned()));
    held.lock().unwrap().renewed = Some(after(30));
    assert_eq!(node.check(after(31)), Ok(()));
    assert_eq!(values(&node, after(14))[..3], shown(1.0, 0.0, 2.0));
    assert_eq!(values(&node, after(32))[..3], shown(0.0, 0.0, 2.0));
    assert_eq!(values(&node, after(32))[3..], [("lease_last_renewed_seconds".to_owned(), 2.0)]);

    let alone = Handle::alone("a");
    assert_eq!(
        (values(&alone, after(1000)), alone.check(after(1000))),
        (shown(1.0, 1.0, 1.0).to_vec(), Ok(()))
    );
}
