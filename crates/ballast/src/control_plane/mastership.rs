//! What only the master does.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use admin::{Family, Figure};
use controllers::{Context, Gauges, Lead, roles};
use engine::Watching;
use futures::future::join_all;
use metrics::Gauge;
use tokio::sync::watch;

/// How often a node looks whether its lease has run out, besides being told.
const LOOK_AGAIN: Duration = Duration::from_millis(500);

/// Tells whether this node is the master.
pub async fn follow(mut roles: watch::Receiver<roles::Roles>, told: watch::Sender<bool>) {
    loop {
        let is_master = roles.borrow_and_update().master;
        told.send_if_modified(|known| std::mem::replace(known, is_master) != is_master);
        if roles.changed().await.is_err() {
            // a node that is alone stays what it is
            return std::future::pending().await;
        }
    }
}

/// The controllers that run while this node is the master: two of each would argue about the same objects.
#[derive(Clone)]
pub struct Mastership {
    pub controllers: Arc<[(&'static str, Lead)]>,
    pub context: Context,
    pub roles: roles::Handle,
    pub led: Led,
}

/// What is known of the controllers that run now. A handle; clones share it.
#[derive(Clone, Default)]
pub struct Led(Arc<Mutex<BTreeMap<&'static str, Member>>>);

#[derive(Clone)]
struct Member {
    watching: Watching,
    gauges: Option<Gauges>,
}

// === impl Mastership ===

impl Mastership {
    pub async fn run(self) {
        let mut changes = self.roles.changes();
        loop {
            if self.roles.is_master() {
                self.term().await;
                self.context.history.resign();
            }
            changed(&mut changes).await;
        }
    }

    /// From the beginning of a term to the end of all that ran in it.
    async fn term(&self) {
        let controllers = join_all(self.controllers.iter().map(|(name, lead)| self.lead(name, *lead)));
        let Context { history, store, fence, .. } = &self.context;
        tokio::select! {
            _ = async { tokio::join!(controllers, self.end_of_term()) } => {}
            () = history.publish(store, fence) => {}
        }
    }

    async fn lead(&self, name: &'static str, lead: Lead) {
        // A store that is away may hold one up, but not the others, and not the end of the term.
        let running = tokio::select! {
            running = (lead.start)(self.context.clone()) => running,
            () = self.end_of_term() => return,
        };
        let member = Member { watching: running.scope.watching(), gauges: running.gauges.clone() };
        self.led.own().insert(name, member);
        self.end_of_term().await;
        running.scope.stop().await;
        self.led.own().remove(name);
    }

    async fn end_of_term(&self) {
        let mut changes = self.roles.changes();
        while self.roles.is_master() {
            changed(&mut changes).await;
        }
    }
}

/// Nobody tells of a lease that ran out and was renewed before anybody looked.
async fn changed(roles: &mut watch::Receiver<roles::Roles>) {
    tokio::select! {
        Ok(()) = roles.changed() => {}
        () = tokio::time::sleep(LOOK_AGAIN) => {}
    }
}

// === impl Led ===

impl Led {
    pub fn gauges(&self) -> Vec<Gauge> {
        let members = self.own().clone();
        members.values().filter_map(|member| member.gauges.as_ref()).flat_map(|gauges| gauges()).collect()
    }

    /// Whether each has what it waits for.
    pub fn family(&self) -> Family {
        let mut family = Family::new(
            "ballast_controller_ready",
            "Whether a controller of the master has seen all objects that it works with",
            admin::Kind::Gauge,
        );
        let figure = |(name, member): (&&str, &Member)| Figure {
            suffix: "",
            labels: vec![("controller".to_owned(), (*name).to_owned())],
            value: f64::from(u8::from(member.watching.missing().is_empty())),
        };
        family.figures = self.own().iter().map(figure).collect();
        family
    }

    /// In words, one for each that waits for a kind: it may not be installed. The others do not wait for it.
    pub fn waiting(&self) -> Vec<String> {
        let members = self.own();
        let waiting = members.iter().filter_map(|(name, member)| {
            let missing = member.watching.missing();
            (!missing.is_empty()).then(|| format!("controller {name} waits for {}", missing.join(", ")))
        });
        waiting.collect()
    }

    fn own(&self) -> MutexGuard<'_, BTreeMap<&'static str, Member>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
