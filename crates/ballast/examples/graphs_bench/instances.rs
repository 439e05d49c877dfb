//! What a watch shows of instances.

use std::{
    collections::HashMap,
    pin::pin,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use futures::StreamExt;
use kube::{
    Api,
    api::DynamicObject,
    runtime::{
        WatchStreamExt,
        watcher::{self, Event, watcher},
    },
};
use tokio::sync::mpsc;

/// After so long without an event nothing is going to happen any more.
const STUCK: Duration = Duration::from_secs(120);

pub struct Instances {
    known: HashMap<String, Instance>,
    n_active: usize,
    events: mpsc::UnboundedReceiver<(Event<DynamicObject>, Instant)>,
}

pub struct Instance {
    pub is_active: bool,
    /// Its condition says so, of what it is now.
    pub is_ready: bool,
    /// Which template of its Set it was made from.
    pub template: Option<String>,
    created: Instant,
    activated: Option<Instant>,
}

impl Instances {
    pub fn watch(api: Api<DynamicObject>) -> Self {
        let (sender, events) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            let mut seen = pin!(watcher(api, watcher::Config::default()).default_backoff());
            while let Some(event) = seen.next().await {
                let Ok(event) = event else { continue };
                if sender.send((event, Instant::now())).is_err() {
                    return;
                }
            }
        });
        Self { known: HashMap::new(), n_active: 0, events }
    }

    pub fn all(&self) -> impl Iterator<Item = &Instance> {
        self.known.values()
    }

    /// Until there are so many, all of them active; none if they are to go.
    pub async fn until(&mut self, n_instances: usize) -> Result<()> {
        while self.known.len() != n_instances || self.n_active != n_instances {
            self.next().await?;
        }
        Ok(())
    }

    /// Waits for something to happen.
    pub async fn next(&mut self) -> Result<()> {
        let Ok(event) = tokio::time::timeout(STUCK, self.events.recv()).await else {
            bail!(
                "nothing happens, with {} instances of which {} are active",
                self.known.len(),
                self.n_active
            );
        };
        let (event, at) = event.context("the watch has ended")?;
        match event {
            Event::Apply(object) | Event::InitApply(object) => self.seen(&object, at),
            Event::Delete(object) => {
                let gone = object.metadata.name.as_ref().and_then(|name| self.known.remove(name));
                self.n_active -= usize::from(gone.is_some_and(|gone| gone.is_active));
            }
            Event::Init | Event::InitDone => {}
        }
        Ok(())
    }

    /// From the first sight of each to when it was active, in order.
    pub fn times(&self) -> Vec<Duration> {
        let time = |one: &Instance| Some(one.activated?.duration_since(one.created));
        let mut times: Vec<Duration> = self.all().filter_map(time).collect();
        times.sort();
        times
    }

    fn seen(&mut self, object: &DynamicObject, at: Instant) {
        let status = &object.data["status"];
        let conditions = status["conditions"].as_array();
        let ready = conditions.and_then(|all| all.iter().find(|condition| condition["type"] == "Ready"));
        let generation = object.metadata.generation;
        let labels = object.metadata.labels.as_ref();
        let name = object.metadata.name.clone().unwrap_or_default();
        let before = self.known.get(&name);
        let is_active = status["state"] == "ACTIVE";
        let seen = Instance {
            is_active,
            is_ready: ready.is_some_and(|ready| {
                ready["status"] == "True" && ready["observedGeneration"].as_i64() == generation
            }),
            template: labels.and_then(|labels| labels.get(graph::labels::TEMPLATE_HASH)).cloned(),
            created: before.map_or(at, |before| before.created),
            activated: before.and_then(|before| before.activated).or(is_active.then_some(at)),
        };
        self.n_active -= usize::from(before.is_some_and(|before| before.is_active));
        self.n_active += usize::from(is_active);
        self.known.insert(name, seen);
    }
}
