use std::time::{Duration, SystemTime, UNIX_EPOCH};

use futures::future::{BoxFuture, FutureExt};

use crate::Millis;

/// Where a scraper gets the time from, so that tests can be it.
pub trait Clock: Send + Sync + 'static {
    fn now(&self) -> Millis;
    /// Ready once `now` has reached `time`.
    fn sleep_until(&self, time: Millis) -> BoxFuture<'static, ()>;
}

#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Millis {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Millis::try_from(since.as_millis()).unwrap_or(Millis::MAX)
    }

    fn sleep_until(&self, time: Millis) -> BoxFuture<'static, ()> {
        let wait = time.saturating_sub(self.now()).max(0) as u64;
        tokio::time::sleep(Duration::from_millis(wait)).boxed()
    }
}
