//! Nothing dies unnoticed: every long-running task is started here.
//!
//! A task that panics or ends although it should not is logged with its name and counted. It is started again after a
//! pause that doubles ([`Supervisor::keep`]), or its end is the end of the process ([`Supervisor::run`]).

use std::{
    any::Any,
    collections::BTreeMap,
    future::Future,
    panic::AssertUnwindSafe,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures::FutureExt;
use tokio::{
    sync::watch,
    task::{AbortHandle, JoinSet},
    time::Instant,
};
use tracing::error;

const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// A task that ran for so long has recovered: its next failure counts as the first.
const STABLE_AFTER: Duration = Duration::from_secs(60);
/// One failure may be chance; a task that fails so often in a row does not do its work although it is running.
const FAILURES_IN_A_ROW: u32 = 3;

/// A handle; clones share the tasks.
#[derive(Clone, Default)]
pub struct Supervisor(Arc<Inner>);

#[derive(Default)]
struct Inner {
    tasks: Mutex<JoinSet<()>>,
    figures: Mutex<BTreeMap<Arc<str>, Figures>>,
    fatal: watch::Sender<Option<String>>,
    /// Tasks are told to end: that they do is no failure.
    is_stopping: AtomicBool,
}

/// One task of a supervisor, which goes on if this is dropped.
#[derive(Clone)]
pub struct Task {
    abort: AbortHandle,
    /// Its other end goes with the task.
    ended: watch::Receiver<()>,
}

/// What is known of the tasks of one name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// How many should run, and how many of them do.
    pub wanted: usize,
    pub running: usize,
    /// Panics, those included that ended the work on one object and not the task.
    pub panics: u64,
    pub restarts: u64,
    /// Failures since a task of this name last ran for a minute.
    failures_in_a_row: u32,
    last_failure: Option<String>,
}

// === impl Supervisor ===

impl Supervisor {
    /// Runs what `start` makes, and again when it ends, until the handle is aborted or the supervisor shut down.
    pub fn keep<F>(&self, name: impl Into<Arc<str>>, mut start: impl FnMut() -> F + Send + 'static) -> Task
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let task = Registered::new(self, name.into());
        self.spawn(async move {
            let mut pause = FIRST_PAUSE;
            loop {
                task.change(|figures| figures.running += 1);
                let began = Instant::now();
                let how = outcome(async { start().await }).await;
                if task.supervisor.is_stopping() {
                    return;
                }
                task.failed(&how, began.elapsed() > STABLE_AFTER);
                if began.elapsed() > STABLE_AFTER {
                    pause = FIRST_PAUSE;
                }
                error!(task = %task.name, "{}; starting it again in {pause:?}", how.words());
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(LONGEST_PAUSE);
                task.change(|figures| figures.restarts += 1);
            }
        })
    }

    /// Runs what cannot be started twice. Its end is told by [`Supervisor::failed`], after which the process should end.
    pub fn run(&self, name: impl Into<Arc<str>>, work: impl Future<Output = ()> + Send + 'static) -> Task {
        let task = Registered::new(self, name.into());
        let supervisor = self.clone();
        self.spawn(async move {
            task.change(|figures| figures.running += 1);
            let how = outcome(work).await;
            if supervisor.is_stopping() {
                return;
            }
            task.failed(&how, false);
            let message = format!("task {}: {}", task.name, how.words());
            error!(task = %task.name, "{}", how.words());
            supervisor.0.fatal.send_if_modified(|known| {
                let is_first = known.is_none();
                known.get_or_insert(message);
                is_first
            });
            // Stays registered: the node is not well until the process ends.
            std::future::pending::<()>().await;
        })
    }

    /// Runs something that ends by itself; only a panic is a failure.
    pub fn run_to_end(&self, name: impl Into<Arc<str>>, work: impl Future<Output = ()> + Send + 'static) {
        let (supervisor, name) = (self.clone(), name.into());
        self.spawn(async move {
            if let Outcome::Panicked(message) = outcome(work).await {
                supervisor.panicked(&name, &message);
            }
        });
    }

    /// Notes a panic that ended the work on one object and nothing else.
    pub fn panicked(&self, name: &str, message: &str) {
        error!(task = name, "panicked: {message}");
        self.figures_mut().entry(name.into()).or_default().panics += 1;
    }

    /// Resolves when a task is gone that the process cannot do without, with what happened.
    pub async fn failed(&self) -> String {
        let mut fatal = self.0.fatal.subscribe();
        match fatal.wait_for(Option::is_some).await {
            Ok(message) => message.clone().unwrap_or_default(),
            // the sender lives as long as self
            Err(_) => std::future::pending().await,
        }
    }

    /// # Errors
    /// Which task does not run, or runs only to fail.
    pub fn check(&self) -> Result<(), String> {
        for (name, figures) in self.figures_mut().iter() {
            let is_failing = figures.failures_in_a_row >= FAILURES_IN_A_ROW;
            if figures.running < figures.wanted || is_failing {
                let how = figures.last_failure.as_deref().unwrap_or("it has not been started");
                return Err(format!("task {name} is not running well: {how}"));
            }
        }
        Ok(())
    }

    pub fn figures(&self) -> BTreeMap<Arc<str>, Figures> {
        self.figures_mut().clone()
    }

    /// From now on a task may end by itself.
    pub fn begin_stop(&self) {
        self.0.is_stopping.store(true, Ordering::SeqCst);
    }

    fn is_stopping(&self) -> bool {
        self.0.is_stopping.load(Ordering::SeqCst)
    }

    /// Ends all tasks and waits until they are gone.
    pub async fn shutdown(&self) {
        self.begin_stop();
        let mut tasks = std::mem::take(&mut *self.0.tasks.lock().unwrap_or_else(PoisonError::into_inner));
        tasks.shutdown().await;
    }

    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) -> Task {
        let mut tasks = self.0.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        // Those that were aborted on purpose, or came to their end.
        while tasks.try_join_next().is_some() {}
        let (alive, ended) = watch::channel(());
        let abort = tasks.spawn(async move {
            let _alive = alive;
            task.await;
        });
        Task { abort, ended }
    }

    fn figures_mut(&self) -> MutexGuard<'_, BTreeMap<Arc<str>, Figures>> {
        self.0.figures.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl Task ===

impl Task {
    pub fn abort(&self) {
        self.abort.abort();
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.ended.has_changed().is_err()
    }

    /// Resolves when nothing of it is left.
    pub async fn ended(mut self) {
        while self.ended.changed().await.is_ok() {}
    }
}

/// How a task came to its end.
enum Outcome {
    Ended,
    Panicked(String),
}

impl Outcome {
    fn words(&self) -> String {
        match self {
            Self::Ended => "it ended although it should not".to_owned(),
            Self::Panicked(message) => format!("it panicked: {message}"),
        }
    }
}

async fn outcome(work: impl Future<Output = ()>) -> Outcome {
    match AssertUnwindSafe(work).catch_unwind().await {
        Ok(()) => Outcome::Ended,
        Err(panic) => Outcome::Panicked(panic_message(&*panic).to_owned()),
    }
}

/// What a panic said, if it said it in words.
pub fn panic_message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("it gave no reason")
}

/// One task among those of its name, for as long as it is wanted.
struct Registered {
    supervisor: Supervisor,
    name: Arc<str>,
    is_running: Mutex<bool>,
}

impl Registered {
    fn new(supervisor: &Supervisor, name: Arc<str>) -> Self {
        supervisor.figures_mut().entry(name.clone()).or_default().wanted += 1;
        Self { supervisor: supervisor.clone(), name, is_running: Mutex::new(false) }
    }

    fn change(&self, change: impl FnOnce(&mut Figures)) {
        let mut all = self.supervisor.figures_mut();
        let figures = all.entry(self.name.clone()).or_default();
        let before = figures.running;
        change(figures);
        *self.is_running.lock().unwrap_or_else(PoisonError::into_inner) = figures.running > before;
    }

    fn failed(&self, how: &Outcome, was_stable: bool) {
        self.change(|figures| {
            figures.running -= 1;
            figures.panics += u64::from(matches!(how, Outcome::Panicked(_)));
            figures.failures_in_a_row = if was_stable { 1 } else { figures.failures_in_a_row + 1 };
            figures.last_failure = Some(how.words());
        });
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        let mut all = self.supervisor.figures_mut();
        let Some(figures) = all.get_mut(&self.name) else { return };
        figures.wanted -= 1;
        if *self.is_running.lock().unwrap_or_else(PoisonError::into_inner) {
            figures.running -= 1;
        }
        if figures.wanted == 0 {
            figures.failures_in_a_row = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use expect_test::expect;

    use super::*;

    fn shown(supervisor: &Supervisor) -> String {
        let lines = supervisor.figures().into_iter().map(|(name, figures)| {
            let Figures { wanted, running, panics, restarts, .. } = figures;
            format!("{name}: {running} of {wanted} run, {panics} panics, {restarts} restarts\n")
        });
        lines.collect::<String>() + &format!("{:?}\n", supervisor.check())
    }

    #[tokio::test(start_paused = true)]
    async fn a_task_that_panics_or_ends_is_seen_and_started_again() {
        let supervisor = Supervisor::default();
        let n_starts = Arc::new(AtomicUsize::new(0));
        let (counted, went_on) = (n_starts.clone(), Arc::new(tokio::sync::Notify::new()));
        let told = went_on.clone();
        let handle = supervisor.keep("worker", move || {
            let (n, told) = (counted.fetch_add(1, Ordering::SeqCst), told.clone());
            async move {
                match n {
                    0 => panic!("index out of bounds"),
                    1 => {}
                    _ => {
                        told.notify_one();
                        std::future::pending().await
                    }
                }
            }
        });
        let mut out = String::new();
        while n_starts.load(Ordering::SeqCst) < 1 {
            tokio::task::yield_now().await;
        }
        out += &shown(&supervisor);
        went_on.notified().await;
        out += &shown(&supervisor);
        handle.abort();
        handle.ended().await;
        out += &shown(&supervisor);
        expect![[r#"
            worker: 0 of 1 run, 1 panics, 0 restarts
            Err("task worker is not running well: it panicked: index out of bounds")
            worker: 1 of 1 run, 1 panics, 2 restarts
            Ok(())
            worker: 0 of 0 run, 1 panics, 2 restarts
            Ok(())
        "#]]
        .assert_eq(&out);
    }

    #[tokio::test(start_paused = true)]
    async fn a_task_that_only_ever_fails_makes_the_node_unready_although_it_is_restarted() {
        let supervisor = Supervisor::default();
        supervisor.keep("worker", || async { tokio::time::sleep(Duration::from_secs(1)).await });
        while supervisor.figures().get("worker").is_none_or(|figures| figures.restarts < 3) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert_eq!(supervisor.figures()["worker"].running, 1);
        assert_eq!(
            supervisor.check(),
            Err("task worker is not running well: it ended although it should not".to_owned())
        );
    }

    #[tokio::test]
    async fn what_cannot_be_started_again_ends_the_process() {
        let supervisor = Supervisor::default();
        supervisor.run("leases", async { panic!("poisoned") });
        assert_eq!(supervisor.failed().await, "task leases: it panicked: poisoned");
        assert!(supervisor.check().is_err());
        // what was shut down has not failed
        let supervisor = Supervisor::default();
        supervisor.run("leases", std::future::pending());
        supervisor.shutdown().await;
        assert_eq!(supervisor.check(), Ok(()));
    }
}
