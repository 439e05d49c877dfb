//! What was seen of one object over the longest lookback. Pure: the time comes in.

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use decide::vertex::{Buffer, Partition, Sample};
use engine::Key;
use jiff::{SignedDuration, Timestamp};
use metrics::Gauge;

use crate::{data_plane::Waiting, pipelines::vertex::Which};

/// The longest lookback, and a round more.
const LONGEST: SignedDuration = SignedDuration::from_secs(610);
/// More than 610 s hold at one look a second.
const MOST_LOOKS: usize = 700;
/// What pages of metrics show is of this time.
const SHOWN: SignedDuration = SignedDuration::from_secs(30);
/// Messages that wait, or are being worked on, in all partitions of a Vertex or a MonoVertex.
pub const PENDING: &str = "ballast_vertex_pending_messages";
/// Messages that all its pods read.
pub const RATE: &str = "ballast_vertex_messages_per_second";

/// A handle; clones share what is known.
#[derive(Clone, Debug, Default)]
pub struct Windows(Arc<Mutex<HashMap<(Which, Key), Window>>>);

#[derive(Debug, Default)]
pub struct Window {
    partitions: Vec<Arc<str>>,
    looks: VecDeque<Look>,
    /// The last figure of each pod's counters, by the pod's uid and partition.
    counters: HashMap<(String, Arc<str>), f64>,
    /// What all pods did, those included that are gone.
    processed: Vec<f64>,
    /// When pods last told something.
    counted_at: Option<Timestamp>,
}

#[derive(Clone, Debug)]
struct Look {
    at: Timestamp,
    waiting: Vec<Option<Waiting>>,
    processed: Vec<f64>,
    /// Whether every pod answered that should have.
    is_complete: bool,
    ready: i32,
    downstream_usage: f64,
}

/// One round's findings.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// In the order of the partitions; none if that is not known.
    pub waiting: Vec<Option<Waiting>>,
    pub pods: Vec<PodCounters>,
    pub is_complete: bool,
    pub ready: i32,
    /// The highest share of its usable length that a buffer directly downstream had.
    pub downstream_usage: f64,
}

/// What one pod says of itself.
#[derive(Clone, Debug, Default)]
pub struct PodCounters {
    pub uid: String,
    pub created: Option<Timestamp>,
    /// Messages read so far, by partition.
    pub read: BTreeMap<String, f64>,
}

// === impl Windows ===

impl Windows {
    pub fn record(&self, which: Which, key: &Key, partitions: &[Arc<str>], seen: &Seen, now: Timestamp) {
        let mut all = self.lock();
        all.entry((which, key.clone())).or_default().record(partitions, seen, now);
    }

    pub fn with<T>(&self, which: Which, key: &Key, read: impl FnOnce(&Window) -> T) -> Option<T> {
        self.lock().get(&(which, key.clone())).map(read)
    }

    /// See [`Window::is_news`]; nothing is known of an object that nobody has looked at.
    pub fn is_news(&self, which: Which, key: &Key, seen: &Seen, is_asleep: bool, usable: i64) -> bool {
        let is_news = |window: &Window| window.is_news(seen, is_asleep, usable);
        self.with(which, key, is_news).unwrap_or(true)
    }

    /// What waits for each object and how fast it works, as pages of metrics show it.
    pub fn gauges(&self, now: Timestamp) -> Vec<Gauge> {
        let oldest = now.checked_sub(SHOWN).unwrap_or(Timestamp::MIN);
        let of = |((which, key), window): (&(Which, Key), &Window)| {
            let figures = [(PENDING, window.pending_now(oldest)), (RATE, window.rate_now(oldest))];
            let labels = [("kind", which.name()), ("namespace", &key.namespace), ("name", &key.name)];
            let labels = labels.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
            let known = figures.into_iter().filter_map(|(name, value)| Some((name, value?)));
            known
                .map(|(name, value)| Gauge { name: name.to_owned(), labels: labels.clone(), value })
                .collect::<Vec<_>>()
        };
        self.lock().iter().flat_map(of).collect()
    }

    pub fn retain(&self, is_there: impl Fn(Which, &Key) -> bool) {
        self.lock().retain(|(which, key), _| is_there(*which, key));
    }

    pub fn forget(&self, which: Which, key: &Key) {
        self.lock().remove(&(which, key.clone()));
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<(Which, Key), Window>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl Window ===

impl Window {
    pub fn record(&mut self, partitions: &[Arc<str>], seen: &Seen, now: Timestamp) {
        if self.partitions != partitions {
            // Figures of other partitions say nothing about these.
            *self = Self { processed: vec![0.0; partitions.len()], ..Self::default() };
            self.partitions = partitions.to_vec();
        }
        for pod in &seen.pods {
            self.count(pod, self.counted_at);
        }
        if seen.is_complete || !seen.pods.is_empty() {
            self.counted_at = Some(now);
        }
        let is_there = |uid: &str| seen.pods.iter().any(|pod| pod.uid == uid);
        if seen.is_complete {
            self.counters.retain(|(uid, _), _| is_there(uid));
        }
        let oldest = now.checked_sub(LONGEST).unwrap_or(Timestamp::MIN);
        while self.looks.front().is_some_and(|look| look.at < oldest) || self.looks.len() >= MOST_LOOKS {
            self.looks.pop_front();
        }
        let mut waiting = seen.waiting.clone();
        waiting.resize(self.partitions.len(), None);
        self.looks.push_back(Look {
            at: now,
            waiting,
            processed: self.processed.clone(),
            is_complete: seen.is_complete,
            ready: seen.ready,
            downstream_usage: seen.downstream_usage,
        });
    }

    /// Adds what a pod did since it was last seen. A pod that misses a look is made up for when it answers again; the
    /// counter of one that was there before anybody looked is where counting begins.
    fn count(&mut self, pod: &PodCounters, before: Option<Timestamp>) {
        for (idx, partition) in self.partitions.iter().enumerate() {
            let Some(&value) = pod.read.get(&**partition) else { continue };
            if !value.is_finite() || value < 0.0 {
                continue;
            }
            let known = self.counters.insert((pod.uid.clone(), partition.clone()), value);
            let is_new = pod.created.zip(before).is_some_and(|(created, before)| created > before);
            self.processed[idx] += match known {
                Some(known) if value >= known => value - known,
                // The container began anew.
                Some(_) => value,
                None if is_new => value,
                None => 0.0,
            };
        }
    }

    fn since(&self, oldest: Timestamp) -> impl DoubleEndedIterator<Item = &Look> {
        let begin = self.looks.partition_point(|look| look.at < oldest);
        self.looks.range(begin..)
    }

    /// Whether a look shows what cannot wait for the pods to be asked too: messages for an object without pods, or a buffer that
    /// is full and was not.
    pub fn is_news(&self, seen: &Seen, is_asleep: bool, usable: i64) -> bool {
        let total = |waiting: &Option<Waiting>| waiting.map_or(0, Waiting::total);
        if is_asleep {
            return seen.waiting.iter().any(|waiting| total(waiting) > 0);
        }
        let is_full = |waiting: &Option<Waiting>| total(waiting) >= usable.max(1);
        let was_full = |idx: usize| {
            let before = self.looks.back().and_then(|look| look.waiting.get(idx));
            before.is_some_and(is_full)
        };
        seen.waiting.iter().enumerate().any(|(idx, waiting)| is_full(waiting) && !was_full(idx))
    }

    /// The figures of each partition. Of what waits there is the mean over the lookback, or what was seen last where that
    /// `counts_at_once`.
    pub fn partitions(&self, oldest: Timestamp, counts_at_once: impl Fn(Waiting) -> bool) -> Vec<Partition> {
        let of = |(idx, name): (usize, &Arc<str>)| {
            let (at, waiting) = self.waiting(oldest, idx, &counts_at_once).unzip();
            Partition {
                name: name.clone(),
                pending: waiting.map(|waiting| waiting.pending),
                ack_pending: waiting.map_or(0, |waiting| waiting.ack_pending),
                rate: self.rate(oldest, idx),
                at,
            }
        };
        self.partitions.iter().enumerate().map(of).collect()
    }

    /// With the time of the last look.
    fn waiting(
        &self,
        oldest: Timestamp,
        idx: usize,
        counts_at_once: impl Fn(Waiting) -> bool,
    ) -> Option<(Timestamp, Waiting)> {
        let known = || self.since(oldest).filter_map(|look| Some((look.at, look.waiting[idx]?)));
        let (at, last) = known().next_back()?;
        if counts_at_once(last) {
            return Some((at, last));
        }
        mean(known().map(|(_, waiting)| waiting)).map(|mean| (at, mean))
    }

    /// Messages a second between the first and the last look at which every pod answered.
    fn rate(&self, oldest: Timestamp, idx: usize) -> Option<f64> {
        let mut complete = self.since(oldest).filter(|look| look.is_complete);
        let (first, last) = (complete.next()?, complete.next_back()?);
        let seconds = last.at.duration_since(first.at).as_secs_f64();
        (seconds > 0.0).then(|| (last.processed[idx] - first.processed[idx]) / seconds)
    }

    /// In all partitions, as last seen; none if that is not known of one of them.
    fn pending_now(&self, oldest: Timestamp) -> Option<f64> {
        let last = self.since(oldest).next_back()?;
        last.waiting.iter().map(|waiting| waiting.map(|waiting| waiting.total() as f64)).sum()
    }

    fn rate_now(&self, oldest: Timestamp) -> Option<f64> {
        (0..self.partitions.len()).map(|idx| self.rate(oldest, idx)).sum()
    }

    /// The buffers as those upstream see them.
    pub fn buffers(&self, oldest: Timestamp, usable: i64) -> Vec<Buffer> {
        let buffer = |idx: usize| {
            let (at, waiting) = self.waiting(oldest, idx, |_| false).unzip();
            Buffer { pending: waiting.map(Waiting::total), usable, at }
        };
        (0..self.partitions.len()).map(buffer).collect()
    }

    /// Looks that tell all there is to learn from.
    pub fn samples(&self, oldest: Timestamp) -> Vec<Sample> {
        let sample = |look: &Look| {
            let waiting: Option<Vec<Waiting>> = look.waiting.iter().copied().collect();
            let waiting = waiting.filter(|_| look.is_complete)?;
            let sum = |of: fn(&Waiting) -> i64| waiting.iter().map(of).fold(0_i64, i64::saturating_add);
            Some(Sample {
                at: look.at,
                pending: sum(|waiting| waiting.pending),
                ack_pending: sum(|waiting| waiting.ack_pending),
                processed: look.processed.iter().sum(),
                ready: look.ready,
                downstream_usage: look.downstream_usage,
            })
        };
        self.since(oldest).filter_map(sample).collect()
    }

    #[cfg(test)]
    pub fn n_looks(&self) -> usize {
        self.looks.len()
    }
}

/// Rounded up, so that what is there now and then is not nothing.
fn mean(all: impl Iterator<Item = Waiting>) -> Option<Waiting> {
    let (mut n, mut pending, mut ack_pending) = (0_i128, 0_i128, 0_i128);
    for waiting in all {
        n += 1;
        pending += i128::from(waiting.pending);
        ack_pending += i128::from(waiting.ack_pending);
    }
    let of = |sum: i128| i64::try_from((sum + n - 1).div_euclid(n)).unwrap_or(i64::MAX);
    (n > 0).then(|| Waiting { pending: of(pending), ack_pending: of(ack_pending) })
}
