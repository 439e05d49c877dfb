//! One run of one container: from its configuration to its end.

use std::{future::pending, io, pin::pin, sync::Arc, time::Duration};

use futures::FutureExt;
use jiff::Timestamp;
use k8s_openapi::api::core::v1 as k8s;
use rustix::process::Signal;
use tokio::{
    net::unix::pipe,
    sync::{mpsc, watch},
    time,
};
use tokio_util::sync::CancellationToken;

use super::{
    actor::PodContext,
    container::{Terminated, memory_limit},
    disk::RunDir,
    machine::Event,
    reasons,
    status::container_id,
};
use crate::{
    env,
    launch::{Bind, CANNOT_START, Input, Spec, Streams},
    logs::{Log, Query},
    objects::Snapshot,
    probes::{self, Action, Outcome, Target},
    process::{self, Ending, Process, cgroup::Group},
    registry::{Running, Stdin},
    terminal::Terminal,
    volumes,
};

const TERMINATION_PATH: &str = "/dev/termination-log";
/// A kubelet's bounds on what a container may say of its end.
const MESSAGE_BYTES: usize = 4096;
const LOG_MESSAGE_BYTES: usize = 2048;
const LOG_MESSAGE_LINES: usize = 80;

pub struct Runner {
    pub context: Arc<PodContext>,
    pub pod: Arc<k8s::Pod>,
    pub spec: k8s::Container,
    pub index: usize,
    pub instance: u32,
    pub events: mpsc::Sender<Event>,
    /// Until when to be gone, once somebody wants that.
    pub stop_by: watch::Receiver<Option<Timestamp>>,
}

// === impl Runner ===

impl Runner {
    pub async fn start(mut self, objects: Snapshot) {
        let run = self.run_dir();
        let prepared = self.prepare(&run, &objects);
        let mut launch = match prepared {
            Ok(launch) => launch,
            Err(message) => {
                let (container, instance) = (self.index, self.instance);
                return self.send(Event::NotConfigured { container, instance, message }).await;
            }
        };
        let (output, stdin) = match self.streams(&run, &mut launch) {
            Ok(ends) => ends,
            Err(error) => return self.cannot_start(&run, format!("cannot open its streams: {error}")).await,
        };
        let log = Log::open(run.path());
        let log_stop = CancellationToken::new();
        let pump = tokio::spawn({
            let (log, stop) = (Arc::clone(&log), log_stop.clone());
            async move { log.pump(output, stop).await }
        });
        self.register(&log, None);
        match self.context.shared.launcher.spawn(&launch).await {
            Ok(child) => {
                let session = child.id().and_then(|pid| i32::try_from(pid).ok()).unwrap_or_default();
                let since = Timestamp::now();
                self.register(&log, Some(Running { id: self.id(), session, since }));
                self.open(&launch, stdin);
                let ending = self.supervise(Process::Child(child), session, launch, true).await;
                log_stop.cancel();
                let _ = pump.await;
                self.finish(&run, &log, ending, Some(since)).await;
            }
            Err(error) => {
                log_stop.cancel();
                let _ = pump.await;
                self.cannot_start(&run, error.to_string()).await;
            }
        }
    }

    /// Told to stop before there was anything to stop.
    pub async fn give_up(self) {
        let (container, instance) = (self.index, self.instance);
        let message = "stopped before it was started".to_owned();
        self.send(Event::NotConfigured { container, instance, message }).await;
    }

    /// Takes over a run that an earlier node process began.
    pub async fn adopt(mut self, objects: Snapshot, since: Timestamp) {
        let run = self.run_dir();
        let identity = run.process();
        let process = identity.as_ref().and_then(|identity| Process::adopt(identity, &self.id()).ok());
        let log = Log::open(run.path());
        let (Some(process), Some(identity), Ok(fifo)) = (process, identity, run.open_output()) else {
            self.register(&log, None);
            return self.finish(&run, &log, None, Some(since)).await;
        };
        let log_stop = CancellationToken::new();
        let pump = tokio::spawn({
            let (log, stop) = (Arc::clone(&log), log_stop.clone());
            async move { log.pump(fifo, stop).await }
        });
        self.register(&log, Some(Running { id: self.id(), session: identity.pid, since }));
        let mut launch = self.launch_spec(&run, &objects).unwrap_or_default();
        let group = self.context.shared.cgroups.as_ref().and_then(|cgroups| cgroups.existing(&self.id()));
        launch.cgroup = group.map(|group| group.procs());
        // The end of the earlier node has ended a stdin that was to be used once, and a terminal.
        let stdin = Stdin::of(&launch).ok().flatten().filter(|stdin| matches!(stdin, Stdin::Fifo(_)));
        self.open(&launch, stdin.filter(|_| !self.spec.tty.unwrap_or_default()));
        let ending = self.supervise(process, identity.pid, launch, false).await;
        log_stop.cancel();
        let _ = pump.await;
        self.finish(&run, &log, ending, Some(since)).await;
    }

    fn prepare(&self, run: &RunDir, objects: &Snapshot) -> Result<Spec, String> {
        run.create().map_err(|error| format!("cannot create {}: {error}", run.path().display()))?;
        let mut launch = self.launch_spec(run, objects)?;
        if let (Some(cgroups), Some(bytes)) = (&self.context.shared.cgroups, memory_limit(&self.spec)?) {
            let group =
                cgroups.group(&self.id(), bytes).map_err(|error| format!("cannot limit memory: {error}"))?;
            launch.cgroup = Some(group.procs());
        }
        Ok(launch)
    }

    /// The node's ends of the container's streams; they have to be open before the container opens its own.
    fn streams(&self, run: &RunDir, launch: &mut Spec) -> io::Result<(pipe::Receiver, Option<Stdin>)> {
        if !self.spec.tty.unwrap_or_default() {
            return Ok((run.open_output()?, Stdin::of(launch)?));
        }
        let (terminal, path) = Terminal::open()?;
        launch.streams = Streams::Terminal(path);
        launch.env.entry("TERM".to_owned()).or_insert_with(|| "xterm".to_owned());
        let writable = self.spec.stdin.unwrap_or_default();
        Ok((terminal.output, Some(Stdin::Terminal { window: terminal.window, writable })))
    }

    fn launch_spec(&self, run: &RunDir, objects: &Snapshot) -> Result<Spec, String> {
        let shared = &self.context.shared;
        let facts = &self.context.facts;
        let api_server = shared.options.api_server.as_ref();
        let mut vars = env::build(&shared.host_env, &self.pod, &self.spec, facts, api_server, objects)?;
        let mut binds = volumes::resolve(&self.context.dir.volumes(), &self.pod, &self.spec, &vars)?;
        let mut argv = env::argv(&self.spec, &vars).ok_or("the container has no command")?;
        let mut directory = self.spec.working_dir.clone().filter(|dir| !dir.is_empty());
        binds.extend(self.termination_bind(run, &argv, &vars));
        let scratch = self.context.dir.root();
        if shared.launcher.namespaces {
            vars.insert("BALLAST_ROOT".to_owned(), String::new());
        } else {
            let root = scratch.join(&self.spec.name);
            let paths =
                volumes::lay_out(&root, &binds).map_err(|error| format!("{}: {error}", root.display()))?;
            for value in vars.values_mut().chain(&mut argv).chain(&mut directory) {
                *value = paths.rewrite(value);
            }
            vars.insert("BALLAST_ROOT".to_owned(), root.to_string_lossy().into_owned());
            binds.clear();
        }
        vars.insert(process::ID_VARIABLE.to_owned(), self.id());
        let input = self
            .spec
            .stdin
            .unwrap_or_default()
            .then(|| Input { path: run.input(), once: self.spec.stdin_once.unwrap_or_default() });
        Ok(Spec {
            argv,
            env: vars,
            directory: directory.map(Into::into),
            streams: Streams::Log { output: run.output(), input },
            record: Some(run.record()),
            cgroup: None,
            binds,
            scratch,
        })
    }

    /// The file for a container's last words. The default path lies in `/dev`, where making room means a mount per
    /// device, so it is there only when the manifest mentions it.
    fn termination_bind(&self, run: &RunDir, argv: &[String], vars: &env::Vars) -> Option<Bind> {
        let path = self.spec.termination_message_path.as_deref().unwrap_or(TERMINATION_PATH);
        let mentioned = || argv.iter().chain(vars.values()).any(|text| text.contains(path));
        (path != TERMINATION_PATH || mentioned()).then(|| Bind {
            source: run.termination(),
            target: path.into(),
            read_only: false,
        })
    }

    /// Lives beside the process until it ends, and then sees to it that nothing of it is left.
    async fn supervise(&mut self, mut process: Process, session: i32, launch: Spec, new: bool) -> Ending {
        let target = Target {
            address: self.context.facts.pod_ip,
            container: self.spec.clone(),
            launcher: self.context.shared.launcher.clone(),
            spec: launch,
            scratch: self.context.dir.scratch(),
        };
        let ending = {
            let mut life = pin!(self.live(&target, new).fuse());
            let mut stopping = pin!(self.stop(&target, session).fuse());
            loop {
                tokio::select! {
                    ending = process.wait() => break ending,
                    () = &mut life => {}
                    () = &mut stopping => {}
                }
            }
        };
        // What the first process leaves behind dies with it, as it would with a container.
        let id = self.id();
        let _ = tokio::task::spawn_blocking(move || process::signal(&id, session, Signal::KILL)).await;
        ending
    }

    async fn live(&self, target: &Target, new: bool) {
        let (container, instance) = (self.index, self.instance);
        if new {
            let hook = self.spec.lifecycle.as_ref().and_then(|lifecycle| lifecycle.post_start.as_ref());
            let outcome = match hook {
                Some(hook) => target.perform(&Action::of_hook(hook), Duration::MAX).await,
                None => Outcome::Success,
            };
            self.send(Event::Started { container, instance }).await;
            if let Outcome::Failure(message) = outcome {
                let reason = reasons::FAILED_POST_START_HOOK;
                self.send(Event::HookFailed { container, instance, reason, message }).await;
                return pending().await;
            }
        }
        let (sender, mut reports) = mpsc::channel(8);
        let forward = async {
            while let Some(report) = reports.recv().await {
                self.send(Event::Probe { container, instance, report }).await;
            }
        };
        futures::join!(probes::run(&self.spec, target, sender), forward);
    }

    /// Waits for the order to stop; then hook, SIGTERM, SIGKILL.
    async fn stop(&self, target: &Target, session: i32) {
        let mut stop_by = self.stop_by.clone();
        let Ok(Some(by)) = stop_by.wait_for(Option::is_some).await.map(|by| *by) else {
            return pending().await;
        };
        if let Some(hook) = self.spec.lifecycle.as_ref().and_then(|lifecycle| lifecycle.pre_stop.as_ref())
            && by > Timestamp::now()
        {
            let action = Action::of_hook(hook);
            let timeout = until(by);
            let outcome = tokio::select! {
                outcome = target.perform(&action, timeout) => outcome,
                () = deadline(stop_by.clone()) => Outcome::Failure("the grace period ended first".to_owned()),
            };
            if let Outcome::Failure(message) = outcome {
                let (container, instance, reason) =
                    (self.index, self.instance, reasons::FAILED_PRE_STOP_HOOK);
                self.send(Event::HookFailed { container, instance, reason, message }).await;
            }
        }
        self.signal(session, Signal::TERM).await;
        deadline(stop_by).await;
        // Again and again: a process may have been forking just then.
        loop {
            self.signal(session, Signal::KILL).await;
            time::sleep(Duration::from_secs(1)).await;
        }
    }

    async fn signal(&self, session: i32, signal: Signal) {
        let id = self.id();
        let _ = tokio::task::spawn_blocking(move || process::signal(&id, session, signal)).await;
    }

    async fn finish(&self, run: &RunDir, log: &Log, ending: Ending, started_at: Option<Timestamp>) {
        let group = self.context.shared.cgroups.as_ref().and_then(|cgroups| cgroups.existing(&self.id()));
        let out_of_memory = group.as_ref().is_some_and(Group::ran_out_of_memory);
        if let Some(group) = group {
            group.remove();
        }
        let (exit_code, reason) = explain(ending, out_of_memory);
        let message = match ending {
            Some(_) => self.last_words(run, log, exit_code),
            None => Some(
                "the container was started by an earlier run of the node, which alone could have learned \
                          how it ended"
                    .to_owned(),
            ),
        };
        let end = Terminated {
            instance: self.instance,
            exit_code,
            reason: reason.to_owned(),
            message,
            started_at,
            finished_at: Timestamp::now(),
        };
        self.ended(run, end).await;
    }

    async fn cannot_start(&self, run: &RunDir, message: String) {
        let end = Terminated {
            instance: self.instance,
            exit_code: i32::from(CANNOT_START),
            reason: reasons::START_ERROR.to_owned(),
            message: Some(message.clone()),
            started_at: Some(Timestamp::UNIX_EPOCH),
            finished_at: Timestamp::now(),
        };
        self.context.tell(Some(&self.spec.name), true, reasons::FAILED, format!("Error: {message}"));
        self.ended(run, end).await;
    }

    async fn ended(&self, run: &RunDir, end: Terminated) {
        self.context.shared.registry.set_ended(&self.context.uid, &self.spec.name);
        if let Err(error) = run.write_end(&end) {
            tracing::warn!(%error, run = %run.path().display(), "cannot record the container's end");
        }
        let (container, instance) = (self.index, self.instance);
        self.send(Event::Ended { container, instance, end }).await;
    }

    /// The termination message: the file, or on an error the end of the log if the manifest says so.
    fn last_words(&self, run: &RunDir, log: &Log, exit_code: i32) -> Option<String> {
        let written = std::fs::read(run.termination()).unwrap_or_default();
        let text = |bytes: &[u8]| Some(String::from_utf8_lossy(bytes).into_owned()).filter(|t| !t.is_empty());
        let falls_back = self.spec.termination_message_policy.as_deref() == Some("FallbackToLogsOnError");
        if written.is_empty() && falls_back && exit_code != 0 {
            let query = Query { tail_lines: Some(LOG_MESSAGE_LINES), ..Query::default() };
            let tail = query.select(&log.content());
            return text(&tail[tail.len().saturating_sub(LOG_MESSAGE_BYTES)..]);
        }
        text(&written[..written.len().min(MESSAGE_BYTES)])
    }

    fn register(&self, log: &Arc<Log>, running: Option<Running>) {
        let (uid, name) = (&self.context.uid, &self.spec.name);
        self.context.shared.registry.set_run(uid, name, self.instance, Arc::clone(log), running);
    }

    /// From now on there may be other commands in the container, and others may watch it.
    fn open(&self, launch: &Spec, stdin: Option<Stdin>) {
        let (uid, name) = (&self.context.uid, &self.spec.name);
        let address = self.context.facts.pod_ip;
        self.context.shared.registry.open(uid, name, launch.clone(), stdin, address);
    }

    fn run_dir(&self) -> RunDir {
        self.context.dir.run(&self.spec.name, self.instance)
    }

    fn id(&self) -> String {
        container_id(&self.context.uid, &self.spec.name, self.instance)
    }

    async fn send(&self, event: Event) {
        // The pod's task is gone only when the pod is.
        let _ = self.events.send(event).await;
    }
}

fn explain(ending: Ending, out_of_memory: bool) -> (i32, &'static str) {
    use std::os::unix::process::ExitStatusExt;
    let Some(status) = ending else { return (137, reasons::STATUS_UNKNOWN) };
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(255);
    match (out_of_memory, code) {
        (true, 1..) => (code, reasons::OOM_KILLED),
        (_, 0) => (0, reasons::COMPLETED),
        _ => (code, reasons::ERROR),
    }
}

fn until(by: Timestamp) -> Duration {
    Duration::try_from(by.duration_since(Timestamp::now())).unwrap_or_default()
}

/// Sleeps until the time to stop by, which may still be moved up.
async fn deadline(mut stop_by: watch::Receiver<Option<Timestamp>>) {
    loop {
        let by = stop_by.borrow_and_update().unwrap_or(Timestamp::MAX);
        tokio::select! {
            () = time::sleep(until(by)) => return,
            changed = stop_by.changed() => if changed.is_err() {
                return time::sleep(until(by)).await;
            },
        }
    }
}
