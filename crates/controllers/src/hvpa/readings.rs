//! Asks the metrics APIs beside the decisions, and learns from what they say: a decision uses the last answers there are.

use std::{
    collections::{BTreeSet, HashMap},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use api::hvpa::TargetRef;
use decide::{
    hpa,
    hvpa::{ContainerSize, HorizontalRecommendation, VerticalRecommendation},
    recommender,
};
use engine::{Key, Queue};
use futures::{StreamExt, stream};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::{autoscaling::v2::HorizontalPodAutoscalerSpec, core::v1::Pod};
use scaling::{Memories, Remembered};
use tokio::{sync::Notify, time::timeout};
use workloads::{Advisor, Question};

use super::{
    horizontal,
    observe::Trouble,
    scale::{self, Scaled},
    vertical,
};

/// For all answers about one Hvpa.
const PATIENCE: Duration = Duration::from_secs(10);
const AT_ONCE: usize = 8;
/// A crash forgets no more than this of what was learnt.
const KEEP_EVERY: SignedDuration = SignedDuration::from_mins(5);

/// What the metrics say about one Hvpa.
#[derive(Clone, Debug, Default)]
pub struct Reading {
    pub horizontal: Option<Result<HorizontalRecommendation, String>>,
    pub vertical: Option<Result<VerticalRecommendation, String>>,
}

/// What is to be asked for an Hvpa.
pub struct Asked {
    pub uid: String,
    pub namespace: String,
    pub selector: String,
    pub replicas: i32,
    pub status_replicas: i32,
    pub pods: Vec<Arc<Pod>>,
    pub sizes: Vec<ContainerSize>,
    /// If the algorithm is ours.
    pub horizontal: Option<HorizontalPodAutoscalerSpec>,
    /// If the recommender is ours.
    pub vertical: Option<recommender::Spec>,
}

#[derive(Default)]
pub struct Readings {
    known: Mutex<HashMap<Key, Known>>,
    /// Of targets that no cache has.
    scales: Mutex<HashMap<Key, LastScale>>,
    /// Those that nobody has asked about yet.
    new: Mutex<BTreeSet<Key>>,
    news: Notify,
}

/// What was asked for, and the answer.
type LastScale = (TargetRef, Result<Scaled, Trouble>);

#[derive(Clone, Default)]
struct Known {
    uid: String,
    reading: Reading,
    windows: hpa::Memory,
    learnt: recommender::Memory,
    learnt_at: Option<Timestamp>,
    kept_at: Option<Timestamp>,
}

pub struct Task {
    pub readings: Arc<Readings>,
    pub advisor: Advisor,
    pub histories: Memories<recommender::Memory>,
    pub queue: Arc<Queue<Key>>,
    pub every: Duration,
    pub learn_every: Duration,
}

impl Readings {
    pub fn get(&self, key: &Key) -> Reading {
        let known = self.known();
        let Some(known) = known.get(key) else {
            drop(known);
            self.ask_soon(key);
            return Reading::default();
        };
        known.reading.clone()
    }

    pub fn ask_soon(&self, key: &Key) {
        self.new.lock().unwrap_or_else(PoisonError::into_inner).insert(key.clone());
        self.news.notify_one();
    }

    /// What an Hvpa scales, as it was last read. Nothing if it has yet to be.
    pub fn scale(&self, key: &Key, reference: &TargetRef) -> Option<Result<Scaled, Trouble>> {
        let known =
            self.scales().get(key).filter(|(of, _)| of == reference).map(|(_, answer)| answer.clone());
        if known.is_none() {
            self.ask_soon(key);
        }
        known
    }

    /// It is about to be changed, or was found to be out of date.
    pub fn forget_scale(&self, key: &Key) {
        self.scales().remove(key);
    }

    fn scales(&self) -> MutexGuard<'_, HashMap<Key, LastScale>> {
        self.scales.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn known(&self) -> MutexGuard<'_, HashMap<Key, Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take_new(&self) -> Vec<Key> {
        let mut new = self.new.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *new).into_iter().collect()
    }
}

impl Task {
    /// `all` are the Hvpas there are, `to_read` the target of one if it has to be asked for, `ask` what else to ask for it.
    pub async fn run(
        self: Arc<Self>,
        all: impl Fn() -> Vec<Key> + Send + Sync,
        to_read: impl Fn(&Key) -> Option<TargetRef> + Send + Sync,
        ask: impl Fn(&Key) -> Option<Asked> + Send + Sync,
    ) {
        let mut ticks = tokio::time::interval(self.every);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            let keys = tokio::select! {
                _ = ticks.tick() => all(),
                () = self.readings.news.notified() => self.readings.take_new(),
            };
            let (task, to_read, ask) = (&self, &to_read, &ask);
            stream::iter(keys)
                .for_each_concurrent(AT_ONCE, |key| async move {
                    if let Some(reference) = to_read(&key) {
                        task.read_scale(&key, reference).await;
                    }
                    match ask(&key) {
                        Some(asked) => task.read(key, asked).await,
                        None => drop(task.readings.known().remove(&key)),
                    }
                })
                .await;
            self.forget_gone(&all()).await;
        }
    }

    async fn read_scale(&self, key: &Key, reference: TargetRef) {
        let known = self.readings.scales().get(key).filter(|(of, _)| *of == reference).cloned();
        let known = known.map(|(_, answer)| answer);
        let last = known.as_ref().and_then(|known| known.as_ref().ok());
        let Advisor { client, kinds, .. } = &self.advisor;
        let answer = timeout(PATIENCE, scale::read(client, kinds, &key.namespace, &reference, last)).await;
        let answer = answer.unwrap_or_else(|_| {
            let late = format!("no answer within {} s", PATIENCE.as_secs());
            last.cloned().ok_or(Trouble::new("TargetUnreadable", late))
        });
        let is_news = known.as_ref() != Some(&answer);
        self.readings.scales().insert(key.clone(), (reference, answer));
        if is_news {
            self.queue.add(key.clone());
        }
    }

    async fn read(&self, key: Key, asked: Asked) {
        let now = Timestamp::now();
        let mut known = self.readings.known().get(&key).cloned().unwrap_or_default();
        if known.uid != asked.uid {
            let learnt = self.histories.get(&key).memory;
            known = Known { uid: asked.uid.clone(), learnt, ..Known::default() };
        }
        let usage = async {
            match timeout(PATIENCE, self.advisor.usage(&asked.namespace, &asked.selector)).await {
                Ok(usage) => usage,
                Err(_) => Err(format!("no answer from metrics.k8s.io within {} s", PATIENCE.as_secs())),
            }
        };
        let usage = usage.await;
        if let Some(spec) = &asked.horizontal {
            let question = Question {
                namespace: &asked.namespace,
                spec,
                replicas: asked.replicas,
                status_replicas: asked.status_replicas,
                selector: &asked.selector,
                pods: &asked.pods,
                memory: known.windows.clone(),
            };
            let advice = timeout(PATIENCE, self.advisor.advise(question, usage.clone(), now)).await;
            let advice = advice.unwrap_or_else(|_| Err("the metrics APIs do not answer".to_owned()));
            known.reading.horizontal = Some(advice.map(|advice| {
                let nothing = Default::default();
                let recommendation = horizontal::from_advice(&advice, usage.as_ref().unwrap_or(&nothing));
                known.windows = advice.decision.memory;
                recommendation
            }));
        }
        if let Some(spec) = &asked.vertical {
            known.reading.vertical = match &usage {
                Ok(usage) if self.is_due(&known, now) => {
                    let seen = vertical::seen(&asked.pods, usage, now);
                    let learnt = recommender::recommend(now, spec, &seen, &known.learnt);
                    let sampled_at = usage.values().filter_map(|usage| usage.at).min();
                    let advice = vertical::from_recommender(&learnt, &asked.sizes, sampled_at);
                    known.learnt = vertical::bounded(learnt.memory, &spec.options, now);
                    known.learnt_at = Some(now);
                    Some(Ok(advice))
                }
                Ok(_) => known.reading.vertical.take(),
                Err(why) => Some(Err(why.clone())),
            };
            self.keep(&key, &mut known, now).await;
        }
        self.readings.known().insert(key.clone(), known);
        self.queue.add(key);
    }

    fn is_due(&self, known: &Known, now: Timestamp) -> bool {
        let elapsed = |at: Timestamp| Duration::try_from(now.duration_since(at)).unwrap_or_default();
        !matches!(known.reading.vertical, Some(Ok(_)))
            || known.learnt_at.is_none_or(|at| elapsed(at) >= self.learn_every)
    }

    async fn keep(&self, key: &Key, known: &mut Known, now: Timestamp) {
        if known.kept_at.is_some_and(|at| now.duration_since(at) < KEEP_EVERY) {
            return;
        }
        let remembered = Remembered { memory: known.learnt.clone(), ..Remembered::default() };
        match self.histories.keep(key, remembered, true, now).await {
            Ok(()) => known.kept_at = Some(now),
            Err(error) => tracing::warn!(hvpa = %key, %error, "what was learnt of its usage was not kept"),
        }
    }

    async fn forget_gone(&self, all: &[Key]) {
        let all: BTreeSet<&Key> = all.iter().collect();
        let gone: Vec<Key> = self.histories.keys().into_iter().filter(|key| !all.contains(key)).collect();
        for key in gone {
            self.histories.forget(&key).await;
        }
        self.readings.known().retain(|key, _| all.contains(key));
        self.readings.scales().retain(|key, _| all.contains(key));
    }
}
