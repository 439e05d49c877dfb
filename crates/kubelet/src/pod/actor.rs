//! The task of one pod: feeds the planner and does what it says.

use std::{
    collections::{BTreeSet, HashMap},
    net::Ipv4Addr,
    sync::Arc,
    time::Duration,
};

use jiff::Timestamp;
use k8s_openapi::api::core::v1 as k8s;
use tokio::{
    sync::{Mutex, mpsc, watch},
    task::JoinSet,
    time,
};

use super::{
    container::{State, memory_limit},
    disk::{Owner, PodDir},
    machine::{Cause, Effect, Event, Machine, specs},
    publish::{self, Desired},
    recover::{Trace, Traces, recover},
    runner::Runner,
    status::{self, container_id},
};
use crate::{
    Shared,
    downward::Facts,
    logs::Log,
    objects::{self, Snapshot, Watched},
    volumes::{self, tokens::Tokens},
};

/// What everything that works on one pod needs.
pub struct PodContext {
    pub shared: Arc<Shared>,
    pub uid: String,
    pub reference: k8s::ObjectReference,
    init_containers: BTreeSet<String>,
    pub dir: PodDir,
    pub facts: Facts,
    watched: Vec<Arc<Watched>>,
    /// Held while volumes are written: one writer at a time.
    tokens: Mutex<Option<Tokens>>,
}

struct Actor {
    context: Arc<PodContext>,
    machine: Machine,
    events: mpsc::Sender<Event>,
    stops: HashMap<usize, watch::Sender<Option<Timestamp>>>,
    status: watch::Sender<Option<Desired>>,
    rendered: Option<k8s::PodStatus>,
    /// Ended with the actor.
    tasks: JoinSet<()>,
}

/// Events in flight: a pod has few, and a full channel only makes their senders wait.
const EVENTS: usize = 64;
/// A full disk may have room again.
const RETRY: Duration = Duration::from_secs(10);

/// How to reach a pod's task.
pub struct Handle {
    pub events: mpsc::Sender<Event>,
    pub task: tokio::task::JoinHandle<()>,
}

/// Starts the task of a pod, new or from before.
pub fn spawn(shared: Arc<Shared>, pod: k8s::Pod) -> Handle {
    let (events, receiver) = mpsc::channel(EVENTS);
    let task = tokio::spawn(run(shared, pod, events.clone(), receiver));
    Handle { events, task }
}

async fn run(
    shared: Arc<Shared>,
    pod: k8s::Pod,
    events: mpsc::Sender<Event>,
    mut receiver: mpsc::Receiver<Event>,
) {
    let mut pod = Arc::new(pod);
    let uid = pod.metadata.uid.clone().unwrap_or_default();
    let dir = PodDir::new(&shared.pods_dir, &uid);
    let Some(address) = claim_address(&shared, &pod, &dir) else {
        tracing::error!(uid, "no loopback address is free");
        return;
    };
    let owner = Owner {
        namespace: pod.metadata.namespace.clone().unwrap_or_default(),
        name: pod.metadata.name.clone().unwrap_or_default(),
        uid: uid.clone(),
        address,
    };
    while let Err(error) = dir.create(&owner) {
        let message = format!("Failed to create pod sandbox: {error}");
        shared.events.tell(reference(&pod), true, "FailedCreatePodSandBox", message);
        tokio::select! {
            () = time::sleep(RETRY) => {}
            event = receiver.recv() => match event {
                Some(Event::Pod(new)) => pod = new,
                Some(Event::Gone | Event::Shutdown { .. }) | None => return,
                Some(_) => {}
            }
        }
    }
    let names = specs(&pod).map(|container| container.name.as_str());
    shared.registry.add_pod(&uid, &owner.namespace, &owner.name, dir.clone(), names);
    let traces = traces(&uid, &dir);
    for (container, instance) in traces.keys() {
        let run = dir.run(container, *instance);
        shared.registry.set_run(&uid, container, *instance, Log::ended(run.path()), None);
    }
    let (machine, alive) =
        recover(Arc::clone(&pod), address, shared.options.restart_delays, &traces, Timestamp::now());
    let context = Arc::new(PodContext {
        uid,
        reference: reference(&pod),
        init_containers: pod
            .spec
            .iter()
            .flat_map(|spec| spec.init_containers.iter().flatten())
            .map(|container| container.name.clone())
            .collect(),
        dir,
        facts: Facts {
            pod_ip: address,
            host_ip: shared.options.host_ip,
            allocatable: shared.capacity.clone(),
        },
        watched: objects::referenced(&pod).iter().map(|key| shared.objects.watch(key)).collect(),
        tokens: Mutex::default(),
        shared,
    });
    let (status, status_receiver) = watch::channel(None);
    let client = context.shared.client.clone();
    let writer = tokio::spawn(publish::run(client, (*pod).clone(), status_receiver));
    let mut actor = Actor {
        context,
        machine,
        events,
        stops: HashMap::new(),
        status,
        rendered: pod.status.clone(),
        tasks: JoinSet::new(),
    };
    actor.follow_objects();
    for (container, instance) in alive {
        actor.start(container, instance, true);
    }
    let cause = actor.work(pod, &mut receiver).await;
    actor.leave(cause, writer).await;
}

fn reference(pod: &k8s::Pod) -> k8s::ObjectReference {
    k8s::ObjectReference {
        api_version: Some("v1".to_owned()),
        kind: Some("Pod".to_owned()),
        namespace: pod.metadata.namespace.clone(),
        name: pod.metadata.name.clone(),
        uid: pod.metadata.uid.clone(),
        ..k8s::ObjectReference::default()
    }
}

fn claim_address(shared: &Shared, pod: &k8s::Pod, dir: &PodDir) -> Option<Ipv4Addr> {
    if pod.spec.as_ref().is_some_and(|spec| spec.host_network == Some(true)) {
        return Some(shared.options.host_ip);
    }
    let from_api = pod.status.as_ref().and_then(|status| status.pod_ip.as_deref()?.parse().ok());
    let wanted = dir.owner().map(|owner| owner.address).or(from_api);
    shared.addresses.claim(pod.metadata.uid.as_deref().unwrap_or_default(), wanted)
}

/// What an earlier run of the node left of this pod.
fn traces(uid: &str, dir: &PodDir) -> Traces {
    let trace = |(container, instance): (String, u32)| {
        let run = dir.run(&container, instance);
        let since = run.started_at();
        let id = container_id(uid, &container, instance);
        let trace = match (run.end(), run.process()) {
            (Some(end), _) => Trace::Ended(end),
            (None, Some(process)) if process.is_alive_as(&id) => {
                Trace::Alive { since: since.unwrap_or_else(Timestamp::now) }
            }
            (None, Some(_)) => Trace::Vanished { since },
            // Only the directory: its process was never started.
            (None, None) => return None,
        };
        Some(((container, instance), trace))
    };
    dir.runs().into_iter().filter_map(trace).collect()
}

// === impl PodContext ===

impl PodContext {
    pub fn tell(&self, container: Option<&str>, warning: bool, reason: &'static str, message: String) {
        let mut about = self.reference.clone();
        about.field_path = container.map(|name| {
            let list = if self.init_containers.contains(name) { "initContainers" } else { "containers" };
            format!("spec.{list}{{{name}}}")
        });
        self.shared.events.tell(about, warning, reason, message);
    }

    /// Every object that the pod refers to, as soon as the API has spoken of each.
    async fn snapshot(&self) -> Snapshot {
        let mut snapshot = Snapshot::new();
        for watched in &self.watched {
            snapshot.insert(watched.key.clone(), watched.loaded().await);
        }
        snapshot
    }

    /// Brings the volumes up to date; tells when to look again because a token runs out.
    async fn prepare_volumes(self: Arc<Self>, pod: Arc<k8s::Pod>) -> (Result<(), String>, Option<Timestamp>) {
        let snapshot = self.snapshot().await;
        let mut tokens = self.tokens.lock().await;
        let stale = tokens.as_ref().is_none_or(|t| t.renew_at.is_some_and(|at| at <= Timestamp::now()));
        if stale {
            match Tokens::request(&self.shared.client, &pod).await {
                Ok(new) => *tokens = Some(new),
                Err(error) => return (Err(error), None),
            }
        }
        let current = tokens.clone().unwrap_or_default();
        let renew_at = current.renew_at;
        let context = Arc::clone(&self);
        let write = move || {
            let (own, claims) = (context.dir.volumes(), context.dir.claims());
            volumes::prepare(&own, &claims, &pod, &context.facts, &snapshot, &current)
        };
        let result = tokio::task::spawn_blocking(write).await.unwrap_or_else(|error| Err(error.to_string()));
        (result, renew_at)
    }
}

// === impl Actor ===

impl Actor {
    async fn work(&mut self, pod: Arc<k8s::Pod>, receiver: &mut mpsc::Receiver<Event>) -> Cause {
        let mut event = Some(Event::Pod(pod));
        loop {
            if let Some(event) = event.take() {
                for effect in self.machine.apply(Timestamp::now(), event) {
                    self.perform(effect);
                }
                self.show();
                match self.machine.stopped() {
                    Some(Cause::Finished | Cause::DeadlineExceeded) => {
                        self.context.shared.addresses.release(&self.context.uid);
                    }
                    Some(cause) => return cause,
                    None => {}
                }
            }
            let wake = self
                .machine
                .next_wake()
                .map(|at| Duration::try_from(at.duration_since(Timestamp::now())).unwrap_or_default());
            event = tokio::select! {
                event = receiver.recv() => event,
                () = time::sleep(wake.unwrap_or_default()), if wake.is_some() => Some(Event::Tick),
            };
        }
    }

    fn perform(&mut self, effect: Effect) {
        match effect {
            Effect::PrepareVolumes => {
                let (context, pod) = (Arc::clone(&self.context), Arc::clone(&self.machine.pod));
                let events = self.events.clone();
                self.tasks.spawn(async move {
                    let (result, renew_at) = context.prepare_volumes(pod).await;
                    let _ = events.send(Event::Volumes(result)).await;
                    if let Some(at) = renew_at {
                        let wait =
                            Duration::try_from(at.duration_since(Timestamp::now())).unwrap_or_default();
                        time::sleep(wait).await;
                        let _ = events.send(Event::ObjectsChanged).await;
                    }
                });
            }
            Effect::Start { container, instance } => self.start(container, instance, false),
            Effect::Stop { container, by, .. } => {
                if let Some(stop) = self.stops.get(&container) {
                    stop.send_replace(Some(by));
                }
            }
            Effect::Tell { container, warning, reason, message } => {
                let container = container.and_then(|index| specs(&self.machine.pod).nth(index));
                self.context.tell(container.map(|c| c.name.as_str()), warning, reason, message);
            }
            Effect::Resize { container } => self.resize(container),
        }
    }

    fn start(&mut self, index: usize, instance: u32, adopt: bool) {
        let Some(spec) = specs(&self.machine.pod).nth(index).cloned() else { return };
        let (stop, stop_by) = watch::channel(None);
        self.stops.insert(index, stop);
        let since = match self.machine.containers[index].state {
            State::Running { since } => since,
            _ => Timestamp::now(),
        };
        let context = Arc::clone(&self.context);
        let runner = Runner {
            context: Arc::clone(&context),
            pod: Arc::clone(&self.machine.pod),
            spec,
            index,
            instance,
            events: self.events.clone(),
            stop_by,
        };
        self.tasks.spawn(async move {
            let mut stop_by = runner.stop_by.clone();
            let told_to_stop = async { stop_by.wait_for(Option::is_some).await.is_ok() };
            let objects = tokio::select! {
                objects = context.snapshot() => Some(objects),
                // The API is silent, and the node is to stop.
                _ = told_to_stop, if !adopt => None,
            };
            let Some(objects) = objects else { return runner.give_up().await };
            if adopt { runner.adopt(objects, since).await } else { runner.start(objects).await }
        });
    }

    fn resize(&self, index: usize) {
        let Some(spec) = specs(&self.machine.pod).nth(index) else { return };
        let id = container_id(&self.context.uid, &spec.name, self.machine.containers[index].instance);
        let bytes = memory_limit(spec).ok().flatten().unwrap_or(u64::MAX >> 1);
        let cgroups = self.context.shared.cgroups.as_ref();
        if cgroups.is_none() {
            let message = format!(
                "Container {} has other requests and limits now; this node has no cgroups and enforces neither",
                spec.name
            );
            self.context.tell(Some(&spec.name), false, "ResizeNotEnforced", message);
        }
        let group = cgroups.and_then(|cgroups| cgroups.existing(&id));
        if let Some(Err(error)) = group.map(|group| group.limit(bytes)) {
            let message = format!("cannot change the memory limit of {}: {error}", spec.name);
            self.context.tell(Some(&spec.name), true, "ResizeError", message);
        }
    }

    fn follow_objects(&mut self) {
        for watched in &self.context.watched {
            let (mut state, events) = (watched.state.clone(), self.events.clone());
            self.tasks.spawn(async move {
                let _ = state.wait_for(|loaded| *loaded != objects::Loaded::Pending).await;
                while state.changed().await.is_ok() {
                    if events.send(Event::ObjectsChanged).await.is_err() {
                        return;
                    }
                }
            });
        }
    }

    /// Shows the world what the planner thinks, unless the node is leaving: then the API keeps what it has.
    fn show(&mut self) {
        let registry = &self.context.shared.registry;
        for (spec, container) in specs(&self.machine.pod).zip(&self.machine.containers) {
            let waiting = match &container.state {
                State::Waiting { reason, .. } => Some(*reason),
                _ => None,
            };
            registry.set_waiting(&self.context.uid, &spec.name, waiting);
        }
        let cause = self.machine.stop.map(|stop| stop.cause);
        if matches!(cause, Some(Cause::Shutdown | Cause::Gone)) {
            return;
        }
        let host_ip = self.context.shared.options.host_ip;
        let status = status::render(&self.machine, host_ip, self.rendered.as_ref(), Timestamp::now());
        let delete = self.machine.stopped() == Some(Cause::Deleted);
        let desired = Desired { status: status.clone(), delete };
        self.rendered = Some(status);
        self.status.send_if_modified(|current| {
            let modified = current.as_ref() != Some(&desired);
            *current = Some(desired);
            modified
        });
    }

    async fn leave(mut self, cause: Cause, writer: tokio::task::JoinHandle<()>) {
        self.tasks.shutdown().await;
        if cause == Cause::Deleted {
            let _ = writer.await;
        } else {
            writer.abort();
        }
        if cause != Cause::Shutdown {
            self.context.shared.addresses.release(&self.context.uid);
            self.context.shared.registry.remove_pod(&self.context.uid);
            if let Err(error) = self.context.dir.remove() {
                tracing::warn!(%error, uid = self.context.uid, "cannot remove the pod's directory");
            }
        }
    }
}
