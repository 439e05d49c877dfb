//! Timers that are set for every call and hardly ever fire.
//!
//! To set and to unset one of tokio's timers takes the lock of the event loop's clock twice, and often a system call that
//! interrupts the event loop's sleep. So a timer that is no longer needed goes on, and whoever needs one of the same length
//! next takes it over: it fires too early then, and is set again only if its new owner is still there.

use std::{
    cell::RefCell,
    future::Future,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use pin_project_lite::pin_project;
use tokio::time::{Instant, Sleep};

use crate::workers;

/// Ready at its deadline. Nothing is set before it is polled for the first time.
#[derive(Debug)]
pub(crate) struct Timer {
    length: Duration,
    deadline: Instant,
    /// Fires at the deadline or before.
    running: Option<Pin<Box<Sleep>>>,
}

pin_project! {
    /// Ends with the future, or without it at the deadline.
    pub(crate) struct Within<F> {
        #[pin]
        future: F,
        timer: Timer,
    }
}

/// Gives timers of one length to hyper.
pub(crate) struct Timers(pub Duration);

/// Left over by this worker's calls, by their length. Another thread has another event loop.
#[derive(Default)]
struct Spare(Vec<(Duration, Vec<Pin<Box<Sleep>>>)>);

/// Functions may each have a time limit of their own; those of the first few are kept.
const LENGTHS: usize = 16;
/// More are running only while as many calls are.
const MOST_SPARE: usize = 1024;

thread_local! {
    static SPARE: RefCell<Spare> = RefCell::default();
}

// === impl Timer ===

impl Timer {
    pub(crate) fn new(from: Instant, length: Duration) -> Self {
        Timer { length, deadline: deadline(from, length), running: None }
    }

    pub(crate) fn set(&mut self, deadline: Instant) {
        self.deadline = deadline;
    }

    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Timer { length, deadline, running } = self;
        let running = running.get_or_insert_with(|| {
            Spare::of_this_worker(|spare| spare.take(*length))
                .flatten()
                .unwrap_or_else(|| Box::pin(tokio::time::sleep_until(*deadline)))
        });
        if running.deadline() > *deadline {
            running.as_mut().reset(*deadline);
        }
        loop {
            ready!(running.as_mut().poll(cx));
            if Instant::now() >= *deadline {
                return Poll::Ready(());
            }
            running.as_mut().reset(*deadline);
        }
    }
}

/// A deadline that is absurdly far away is none.
pub(crate) fn deadline(from: Instant, length: Duration) -> Instant {
    const A_YEAR: Duration = Duration::from_secs(365 * 24 * 3600);
    from + length.min(A_YEAR)
}

impl Drop for Timer {
    fn drop(&mut self) {
        if let Some(running) = self.running.take() {
            Spare::of_this_worker(|spare| spare.give(self.length, running));
        }
    }
}

/// The result of `future`, if there is one so long after `from`.
pub(crate) fn within<F: Future>(from: Instant, length: Duration, future: F) -> Within<F> {
    Within { future, timer: Timer::new(from, length) }
}

impl<F: Future> Future for Within<F> {
    type Output = Option<F::Output>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<F::Output>> {
        let this = self.project();
        if let Poll::Ready(output) = this.future.poll(cx) {
            return Poll::Ready(Some(output));
        }
        this.timer.poll(cx).map(|()| None)
    }
}

// === impl Timers ===

impl hyper::rt::Timer for Timers {
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn hyper::rt::Sleep>> {
        self.sleep_until((Instant::now() + duration).into_std())
    }

    fn sleep_until(&self, deadline: std::time::Instant) -> Pin<Box<dyn hyper::rt::Sleep>> {
        Box::pin(Timer { length: self.0, deadline: deadline.into(), running: None })
    }

    fn now(&self) -> std::time::Instant {
        Instant::now().into_std()
    }
}

impl Future for Timer {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        Timer::poll(&mut self, cx)
    }
}

impl hyper::rt::Sleep for Timer {}

// === impl Spare ===

impl Spare {
    /// Only workers have an event loop that lives as long as their thread.
    fn of_this_worker<T>(use_it: impl FnOnce(&mut Spare) -> T) -> Option<T> {
        if workers::current() == 0 {
            return None;
        }
        SPARE.try_with(|spare| use_it(&mut spare.borrow_mut())).ok()
    }

    fn take(&mut self, length: Duration) -> Option<Pin<Box<Sleep>>> {
        self.0.iter_mut().find(|(of, _)| *of == length)?.1.pop()
    }

    fn give(&mut self, length: Duration, timer: Pin<Box<Sleep>>) {
        let n_lengths = self.0.len();
        match self.0.iter_mut().find(|(of, _)| *of == length) {
            Some((_, timers)) if timers.len() < MOST_SPARE => timers.push(timer),
            None if n_lengths < LENGTHS => self.0.push((length, vec![timer])),
            _ => {}
        }
    }
}
