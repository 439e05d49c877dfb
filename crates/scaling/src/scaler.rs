//! Runs a policy as a controller of the engine.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use engine::{
    Failure, Key, PlanError, Queue, Reconcile,
    effect::{Effect, Plan, Target},
    kind::Kind,
};
use futures::future::BoxFuture;
use jiff::{SignedDuration, Timestamp};

use crate::{
    capacity::Capacity,
    claims::{Claim, Claims},
    controls::Controls,
    history::{History, Object, Outcome, Record},
    memory::{Memories, Remembered},
    policy::{Look, Policy},
    writers::{Verdict, Wish, judge},
};

/// The reason of Events about somebody else who writes the count.
const CONFLICT: &str = "ConflictingWriter";
/// After a failure of the store, with scale-downs held back.
const STORE_RETRY: SignedDuration = SignedDuration::from_secs(1);
/// Until what is known has caught up with what was written.
const CATCH_UP: SignedDuration = SignedDuration::from_millis(10);

pub struct Scaler<P: Policy> {
    policy: P,
    memories: Memories<P::Memory>,
    history: History,
    claims: Claims,
    /// Conflicts that people have been told of.
    told: Mutex<HashMap<Key, String>>,
}

impl<P: Policy> Scaler<P> {
    pub fn new(policy: P, memories: Memories<P::Memory>, history: History) -> Self {
        Self { policy, memories, history, claims: Claims::default(), told: Mutex::default() }
    }

    /// Among other policies of this process: an object that another one decides about is left to that.
    pub fn among(self, claims: &Claims, queue: &Arc<Queue<Key>>) -> Self {
        let queue = queue.clone();
        claims.enter(self.policy.name(), move |key| queue.add(key.clone()));
        Self { claims: claims.clone(), ..self }
    }

    /// What is there to hold the write, besides what people ask for.
    fn conflict(&self, key: &Key, target: &Target, wish: Wish<'_>) -> Verdict {
        let (policy, created) = (self.policy.name(), self.policy.created(key));
        let claim = Claim { created, policy, key: key.clone() };
        if let Err(holder) = self.claims.claim(&target.into(), claim) {
            let (other, object) = (holder.policy, &holder.key.name);
            return Verdict {
                holds: Some(format!("policy {other} of {object} decides about it")),
                conflict: Some(format!(
                    "policy {other} of {object} decides about it, which is older: remove one of the two"
                )),
            };
        }
        judge(&self.policy.writers(key), wish)
    }

    /// An Event for a conflict that people have not been told of.
    fn tell(&self, key: &Key, target: &Target, conflict: Option<&String>) -> Option<Effect> {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(conflict) = conflict else {
            told.remove(key);
            return None;
        };
        if told.insert(key.clone(), conflict.clone()).as_ref() == Some(conflict) {
            return None;
        }
        tracing::warn!(object = %Object::from(target), namespace = key.namespace, "{conflict}");
        Some(Effect::warning(target.clone(), self.policy.component(), CONFLICT, conflict.clone()))
    }

    async fn turn(&self, key: &Key, now: Timestamp) -> Result<Plan, PlanError> {
        let subject = match self.policy.look(key, now) {
            Look::Found(subject) => subject,
            Look::NotYet => {
                return Ok(Plan { effects: Vec::new(), next: Some(later(now, CATCH_UP)) });
            }
            Look::Gone => {
                self.forget(key).await;
                return Ok(Plan::default());
            }
        };
        let Remembered { memory, lacking_since, has_written, counts } = self.memories.get(key);
        let has_written = has_written || self.policy.writers(key).has(self.policy.component());
        let before = memory.clone();
        let mut decision = self.policy.decide(now, &subject.spec, &subject.observed, memory);
        let lacking_since = self.policy.lacks_metrics(&decision).then(|| lacking_since.unwrap_or(now));
        let fallback = fallback(&subject.controls, lacking_since, decision.desired.replicas(), now);
        if let Some((replicas, _)) = fallback.raised {
            decision.desired = decision.desired.with_replicas(replicas);
        }
        let wish = Wish {
            manager: self.policy.component(),
            has_written,
            counts,
            current: decision.current.replicas(),
            desired: decision.desired.replicas(),
            asked: subject.controls.on_conflict,
        };
        let Verdict { holds, conflict } = self.conflict(key, &subject.target, wish);
        let held = subject.controls.holds(now).or(holds.map(|why| (why, None)));
        if held.is_some() && decision.changes() {
            decision.memory = self.policy.not_written(before, decision.memory);
        }
        let mut plan = Plan::from(self.policy.decided(&subject, &decision, now));
        let about = self.policy.about(&subject);
        plan.effects.extend(self.tell(key, &about, conflict.as_ref()));
        for at in [decision.next_check, fallback.due].into_iter().flatten() {
            plan.look_again(at.max(now));
        }
        if let Some((_, Some(until))) = &held {
            plan.look_again(*until);
        }
        let is_written = decision.changes() && held.is_none();
        let counts = counts.after(decision.current.replicas(), decision.desired.replicas(), is_written);
        let remembered = Remembered { memory: decision.memory.clone(), lacking_since, has_written, counts };
        if let Err(error) = self.memories.keep(key, remembered, is_written, now).await {
            if matches!(error, store::Error::Conflict { .. }) {
                return Err(PlanError(format!("another node decided meanwhile: {error}")));
            }
            tracing::warn!(%key, %error, "the memory of decisions was not kept");
            plan.look_again(later(now, STORE_RETRY));
            // To wake somebody up cannot wait for a store that is away; to scale down can.
            if decision.current.shrinks_to(&decision.desired) {
                return Ok(plan);
            }
        }
        let is_held = held.is_some();
        let outcome = match held {
            _ if !decision.changes() => Outcome::Nothing,
            None => Outcome::Written,
            Some((why, _)) => Outcome::Held(why),
        };
        let gist = format!("{}\n{outcome:?} {conflict:?}", self.policy.gist(&decision));
        let mut record = Record::new(now, self.policy.name(), &about, &decision, outcome);
        record.conflict = conflict;
        if let Some((_, why)) = fallback.raised {
            (record.reason, record.why) = ("MetricsFallback".to_owned(), why);
        }
        if is_written {
            plan.effects.extend(self.policy.write(&subject, &decision));
            let headline = headline(&record);
            tracing::info!(%key, "{headline}");
            plan.push(Effect::event(about, self.policy.component(), record.reason.clone(), headline));
        }
        let Plan { effects, next } = self.policy.follow_up(&subject, &decision, is_held, now);
        plan.effects.extend(effects);
        if let Some(at) = next {
            plan.look_again(at);
        }
        self.history.note(record, gist);
        Ok(plan)
    }

    async fn forget(&self, key: &Key) {
        self.memories.forget(key).await;
        self.claims.release(key, self.policy.name());
        self.told.lock().unwrap_or_else(PoisonError::into_inner).remove(key);
        self.policy.gone(key);
        let is_of_it = |record: &Record| {
            let object = &record.object;
            record.policy == self.policy.name()
                && (&object.namespace, &object.name) == (&key.namespace, &key.name)
        };
        for record in self.history.select(is_of_it) {
            self.history.forget(&record.object);
        }
    }
}

impl<P: Policy> Reconcile for Scaler<P> {
    fn name(&self) -> &'static str {
        self.policy.name()
    }

    fn kind(&self, key: &Key) -> Option<Kind> {
        self.policy.kind(key)
    }

    fn plan<'a>(
        &'a self,
        key: &'a Key,
        failure: Option<&'a Failure>,
        now: Timestamp,
    ) -> BoxFuture<'a, Result<Plan, PlanError>> {
        self.policy.outcome(key, failure, now);
        Box::pin(self.turn(key, now))
    }
}

fn later(now: Timestamp, by: SignedDuration) -> Timestamp {
    now.checked_add(by).unwrap_or(now)
}

/// `Scale up fibonacci from 0 to 1: wakes up with 1`
fn headline(Record { object, current, desired, sizes, why, .. }: &Record) -> String {
    let way = if desired > current { "up" } else { "down" };
    match sizes {
        Some((before, after)) if before != after && current == desired => {
            format!("Resize {} from {before} to {after}: {why}", object.name)
        }
        Some((before, after)) if before != after => format!(
            "Scale {way} {} from {current} to {desired} and resize it from {before} to {after}: {why}",
            object.name
        ),
        _ => format!("Scale {way} {} from {current} to {desired}: {why}", object.name),
    }
}

#[derive(Default)]
struct InForce {
    /// To how many, and why.
    raised: Option<(i32, String)>,
    /// When it will be, if nothing changes.
    due: Option<Timestamp>,
}

/// Raises the count while metrics are missing. It never lowers it: nothing is known that would justify that.
fn fallback(controls: &Controls, lacking_since: Option<Timestamp>, desired: i32, now: Timestamp) -> InForce {
    let (Some(fallback), Some(since)) = (controls.fallback, lacking_since) else { return InForce::default() };
    let due = since.checked_add(fallback.after).unwrap_or(Timestamp::MAX);
    if now < due {
        return InForce { due: Some(due), raised: None };
    }
    let why = format!(
        "no metrics for {} s, so at least {} as ballast.dev/fallback-replicas says",
        now.duration_since(since).as_secs(),
        fallback.replicas
    );
    InForce { raised: (fallback.replicas > desired).then_some((fallback.replicas, why)), due: None }
}

#[cfg(test)]
mod failover;
#[cfg(test)]
mod tests;
