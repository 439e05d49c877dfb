//! Room in memory for asynchronous calls under way: what is taken out of the store, and what pods answer.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

pub(crate) struct Memory {
    free: Arc<Semaphore>,
    size: usize,
}

/// Given back when it is dropped.
#[derive(Debug, Default)]
pub(crate) struct Room(#[expect(dead_code, reason = "held, not read")] Option<OwnedSemaphorePermit>);

/// Room for calls that are about to be taken.
pub(crate) struct Batch(Option<OwnedSemaphorePermit>);

impl Memory {
    pub(crate) fn new(bytes: usize) -> Self {
        let size = bytes.clamp(1, u32::MAX as usize).min(Semaphore::MAX_PERMITS);
        Memory { free: Arc::new(Semaphore::new(size)), size }
    }

    pub(crate) fn taken(&self) -> usize {
        self.size - self.free.available_permits()
    }

    /// Waits until there is room for a call of `largest` bytes; one that is larger than all there is has it alone.
    pub(crate) async fn batch(&self, largest: usize) -> Batch {
        Batch(self.acquire(largest).await)
    }

    /// Nobody waits for more while holding some, or two could wait for each other.
    pub(crate) async fn room(&self, bytes: usize) -> Room {
        Room(self.acquire(bytes).await)
    }

    async fn acquire(&self, bytes: usize) -> Option<OwnedSemaphorePermit> {
        let bytes = u32::try_from(bytes.min(self.size)).unwrap_or(u32::MAX);
        self.free.clone().acquire_many_owned(bytes).await.ok()
    }
}

impl Batch {
    pub(crate) fn bytes(&self) -> usize {
        self.0.as_ref().map_or(0, OwnedSemaphorePermit::num_permits)
    }

    /// For one of the calls that were taken.
    pub(crate) fn split(&mut self, bytes: usize) -> Room {
        let bytes = bytes.min(self.bytes());
        Room(self.0.as_mut().and_then(|permits| permits.split(bytes)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn calls_share_what_there_is() {
        let memory = Memory::new(100);
        let mut batch = memory.batch(1000).await;
        assert_eq!((batch.bytes(), memory.taken()), (100, 100));
        let (first, second) = (batch.split(30), batch.split(50));
        drop(batch);
        assert_eq!(memory.taken(), 80);
        let mut waiting = Box::pin(memory.room(40));
        assert!(futures::poll!(&mut waiting).is_pending());
        drop(first);
        let answer = waiting.await;
        assert_eq!(memory.taken(), 90);
        drop((second, answer));
        assert_eq!(memory.taken(), 0);
    }
}
