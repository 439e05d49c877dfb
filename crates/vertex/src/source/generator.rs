//! Messages out of nothing, at a rate.

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use bytes::Bytes;
use tokio::time::Instant;

use super::{Result, Source, now};
use crate::{
    buffer::Ticket,
    message::{Id, Message, Read},
};

/// `rpu` messages in every `duration`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Generator {
    pub rpu: u64,
    pub duration: Duration,
    /// Bytes of a message, eight at least: its number is in them.
    pub size: usize,
    /// So many keys, in turn.
    pub n_keys: u64,
    /// What each message holds instead.
    pub value: Option<Bytes>,
    /// Event times are up to so much earlier.
    pub jitter: Duration,
}

impl Default for Generator {
    fn default() -> Self {
        Generator {
            rpu: 5,
            duration: Duration::from_secs(1),
            size: 8,
            n_keys: 0,
            value: None,
            jitter: Duration::ZERO,
        }
    }
}

impl Generator {
    /// `run` tells the messages of one process from those of the next: the same number is not the same message.
    pub fn start(self, vertex: String, replica: u32, run: u64) -> Generating {
        let prefix = format!("{replica}-{run:x}");
        let state = State { ticked: Instant::now(), left: self.rpu, n_made: 0 };
        Generating { generator: self, vertex, prefix, state: Mutex::new(state) }
    }
}

pub struct Generating {
    generator: Generator,
    vertex: String,
    prefix: String,
    state: Mutex<State>,
}

struct State {
    /// When the current period began.
    ticked: Instant,
    /// Messages left in it. What nobody read in time is not made up for.
    left: u64,
    n_made: u64,
}

impl Generating {
    /// The numbers of the next messages, or when there are some again.
    fn take(&self, max: u64, now: Instant) -> std::result::Result<std::ops::Range<u64>, Instant> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let period = self.generator.duration.max(Duration::from_millis(1));
        let periods = now.duration_since(state.ticked).as_nanos() / period.as_nanos();
        if periods > 0 {
            state.ticked += period * u32::try_from(periods).unwrap_or(u32::MAX);
            state.left = self.generator.rpu;
        }
        let n = state.left.min(max);
        if n == 0 {
            return Err(state.ticked + period);
        }
        state.left -= n;
        state.n_made += n;
        Ok(state.n_made - n..state.n_made)
    }

    fn make(&self, number: u64) -> Read {
        let Generator { size, n_keys, value, jitter, .. } = &self.generator;
        let value = value.clone().unwrap_or_else(|| {
            let mut value = number.to_be_bytes().to_vec();
            value.resize((*size).max(8), 0);
            value.into()
        });
        let keys = if *n_keys > 0 { vec![format!("key-{}", number % n_keys)] } else { Vec::new() };
        let mut event_time = now();
        // spread by the number: a clock of its own would only make tests differ
        let early = jitter.as_secs().checked_mul(number % 97).map_or(0, |early| early / 97);
        event_time.seconds -= i64::try_from(early).unwrap_or(0);
        let id = Id { vertex: self.vertex.clone(), offset: format!("{}-{number}", self.prefix), index: 0 };
        let message = Message { id, keys, value, event_time: Some(event_time), ..Message::default() };
        Read { message, ticket: Ticket::of_bytes(Bytes::new()) }
    }
}

#[async_trait]
impl Source for Generating {
    async fn read(&self, max: usize, wait: Duration) -> Result<Vec<Read>> {
        let until = Instant::now() + wait;
        loop {
            match self.take(max as u64, Instant::now()) {
                Ok(numbers) => return Ok(numbers.map(|number| self.make(number)).collect()),
                Err(again) if again > until => {
                    tokio::time::sleep_until(until).await;
                    return Ok(Vec::new());
                }
                Err(again) => tokio::time::sleep_until(again).await,
            }
        }
    }

    async fn ack(&self, _: &[Ticket]) -> Result<()> {
        Ok(())
    }

    /// What is not forwarded is gone: it came out of nothing.
    async fn nack(&self, _: &[Ticket], _: Duration) -> Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_as_fit_into_a_period() {
        let generator = Generator { rpu: 10, n_keys: 2, size: 12, ..Generator::default() };
        let generating = generator.start("in".into(), 3, 0xabc);
        let start = generating.state.lock().unwrap().ticked;
        let at = |millis| start + Duration::from_millis(millis);
        assert_eq!(generating.take(7, at(0)), Ok(0..7));
        assert_eq!(generating.take(7, at(10)), Ok(7..10));
        assert_eq!(generating.take(7, at(20)), Err(at(1000)));
        assert_eq!(generating.take(100, at(3500)), Ok(10..20), "what was missed is not made up for");
        assert_eq!(generating.take(1, at(3600)), Err(at(4000)));
        let made = generating.make(7).message;
        assert_eq!((made.id.to_string().as_str(), made.keys.join(",").as_str()), ("in-3-abc-7-0", "key-1"));
        assert_eq!(made.value[..], [0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 0]);
    }
}
