//! An Hvpa as a [`scaling::Policy`].

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use decide::hvpa::{Axis, Rule};
use engine::{
    Failure, Key, Verb,
    effect::{Effect, Plan, Target},
    kind::{self, Kind},
    object::annotation,
};
use jiff::{SignedDuration, Timestamp};
use scaling::{Controls, Look, Policy, Subject};

use super::{
    MANAGER, NAME,
    apply::Refused,
    hvpa_kind,
    memory::Memory,
    observe::{Caches, Seen, Sight},
    plan::{self, Decision},
    readings::Readings,
    status::{self, Facts},
    workload::kind_of,
};

/// A pod that the API refused to resize is tried again after this.
const REFUSED_FOR: SignedDuration = SignedDuration::from_mins(1);
/// So many failures in a row are no coincidence.
const FAILURES_BELIEVED: u32 = 3;

pub struct Shared {
    pub caches: Caches,
    pub readings: Arc<Readings>,
    failures: Mutex<HashMap<Key, Failed>>,
    /// Those whose last write of the target was about another version of it.
    outdated: Mutex<HashSet<Key>>,
}

/// What the API last refused for an Hvpa.
#[derive(Clone, Debug)]
struct Failed {
    at: Timestamp,
    failure: Failure,
    /// How often in a row.
    n: u32,
}

impl Failed {
    fn is_resize(&self) -> bool {
        self.failure.kind == kind::POD && self.failure.verb == Verb::Update
    }

    /// What is not tried again for a while is told for as long.
    fn lasts(&self, now: Timestamp) -> bool {
        let is_of_pod = self.failure.kind == kind::POD;
        let is_believed = !self.is_resize() || self.n >= FAILURES_BELIEVED;
        is_of_pod && is_believed && now.duration_since(self.at) < REFUSED_FOR
    }
}

pub struct Scaling(pub Arc<Shared>);

impl Shared {
    pub fn new(caches: Caches, readings: Arc<Readings>) -> Self {
        Self { caches, readings, failures: Mutex::default(), outdated: Mutex::default() }
    }

    fn failures(&self) -> MutexGuard<'_, HashMap<Key, Failed>> {
        self.failures.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn outdated(&self) -> MutexGuard<'_, HashSet<Key>> {
        self.outdated.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn failed(&self, key: &Key, now: Timestamp) -> Option<Failed> {
        self.failures().get(key).filter(|failed| now.duration_since(failed.at) < REFUSED_FOR).cloned()
    }

    fn refused(&self, key: &Key, now: Timestamp) -> Option<Refused> {
        let failed = self.failed(key, now).filter(|failed| failed.is_resize() && failed.lasts(now))?;
        Some(Refused { pod: failed.failure.name, message: failed.failure.message })
    }
}

impl Policy for Scaling {
    type Spec = ();
    type Observed = Seen;
    type Memory = Memory;
    type Rule = Rule;

    fn name(&self) -> &'static str {
        NAME
    }

    fn component(&self) -> &'static str {
        MANAGER
    }

    fn kind(&self, _: &Key) -> Option<Kind> {
        Some(hvpa_kind())
    }

    fn look(&self, key: &Key, _: Timestamp) -> Look<(), Seen> {
        let seen = match self.0.caches.see(key, &self.0.readings) {
            Sight::Gone => return Look::Gone,
            Sight::NotYet => return Look::NotYet,
            Sight::Seen(seen) => *seen,
        };
        let (controls, problems) = Controls::read(|name| annotation(&seen.hvpa.metadata, name));
        for (annotation, message) in problems {
            tracing::warn!(hvpa = %key, annotation, message, "an annotation cannot be used");
        }
        let target = match &seen.workload {
            Some(workload) => workload.target.clone(),
            None => Target::of(&hvpa_kind(), &seen.hvpa.metadata),
        };
        Look::Found(Box::new(Subject { target, controls, spec: (), observed: seen }))
    }

    fn decide(&self, now: Timestamp, (): &(), seen: &Seen, memory: Memory) -> Decision {
        let key = Key::of(&seen.hvpa.metadata);
        let was_outdated = self.0.outdated().remove(&key);
        plan::decide(now, seen, memory, self.0.refused(&key, now).as_ref(), was_outdated)
    }

    fn lacks_metrics(&self, decision: &Decision) -> bool {
        let is_unusable = |rule: &Rule| matches!(rule, Rule::Unusable { axis: Axis::Horizontal, .. });
        decision.steps.iter().any(|step| is_unusable(&step.rule))
    }

    /// Amounts change with every sample; what is made of them does not.
    fn gist(&self, decision: &Decision) -> String {
        let codes: Vec<&str> = decision.steps.iter().map(decide::Step::code).collect();
        format!("{} {} {}", decision.current, decision.desired, codes.join(" "))
    }

    fn decided(&self, subject: &Subject<(), Seen>, decision: &Decision, now: Timestamp) -> Vec<Effect> {
        let seen = &subject.observed;
        let mut effects = Vec::new();
        if let Err(trouble) = &seen.resolved
            && status::ready_reason(&seen.hvpa) != Some(trouble.reason)
        {
            let about = self.about(subject);
            effects.push(Effect::warning(about, MANAGER, trouble.reason, trouble.message.clone()));
        }
        let told = seen.hvpa.status.as_ref().and_then(|status| status.adopted_autoscaler.as_deref());
        if let Some(adopted) = seen.adopted().filter(|adopted| told != Some(adopted)) {
            let note = format!(
                "Scale by the metrics of HorizontalPodAutoscaler {adopted}, which is switched off, and within its bounds"
            );
            effects.push(Effect::event(self.about(subject), MANAGER, "AutoscalerAdopted", note));
        }
        // What was refused may be refused again: it is told first.
        if self.0.failed(&Key::of(&seen.hvpa.metadata), now).is_some() {
            effects.extend(self.status(seen, decision, subject.controls.holds(now), now));
        }
        effects
    }

    fn created(&self, key: &Key) -> Option<Timestamp> {
        let hvpa = self.0.caches.hvpas.get(key)?;
        hvpa.metadata.creation_timestamp.as_ref().map(|time| time.0)
    }

    fn gone(&self, key: &Key) {
        self.0.failures().remove(key);
        self.0.outdated().remove(key);
    }

    fn about(&self, subject: &Subject<(), Seen>) -> Target {
        Target::of(&hvpa_kind(), &subject.observed.hvpa.metadata)
    }

    fn write(&self, subject: &Subject<(), Seen>, decision: &Decision) -> Vec<Effect> {
        let hvpa = &subject.observed.hvpa;
        if kind_of(&hvpa.spec.target_ref).is_none() {
            // No cache will show it: whatever is decided next is decided about what is read after this write.
            self.0.readings.forget_scale(&Key::of(&hvpa.metadata));
        }
        plan::write(&subject.target, &subject.observed, decision)
    }

    fn follow_up(
        &self,
        subject: &Subject<(), Seen>,
        decision: &Decision,
        is_held: bool,
        now: Timestamp,
    ) -> Plan {
        let seen = &subject.observed;
        let refused = self.0.refused(&Key::of(&seen.hvpa.metadata), now);
        let mut plan = plan::follow_up(seen, decision, refused.as_ref(), is_held, now);
        if let Some(failed) = self.0.failed(&Key::of(&seen.hvpa.metadata), now) {
            plan.look_again(failed.at.checked_add(REFUSED_FOR).unwrap_or(now));
        }
        let by_another = || is_held.then(|| ("another policy decides about the target".to_owned(), None));
        let held = subject.controls.holds(now).or_else(by_another);
        plan.effects.extend(self.status(seen, decision, held, now));
        plan
    }

    fn not_written(&self, before: Memory, after: Memory) -> Memory {
        // Nothing was consumed, and nothing is larger or smaller than before.
        Memory { settled_at: after.settled_at.or(before.settled_at), ..before }
    }

    fn outcome(&self, key: &Key, failure: Option<&Failure>, now: Timestamp) {
        let is_of_target = |failure: &Failure| failure.kind != kind::POD && failure.kind != hvpa_kind();
        if failure.is_some_and(|failure| failure.conflict && is_of_target(failure)) {
            self.0.outdated().insert(key.clone());
            self.0.readings.forget_scale(key);
        }
        let mut failures = self.0.failures();
        let known = failures.remove(key);
        let next = match failure.filter(|failure| !failure.conflict) {
            Some(failure) => {
                let same = known.filter(|known| known.failure.name == failure.name);
                let n = same.map_or(0, |known| known.n).saturating_add(1);
                Some(Failed { at: now, failure: failure.clone(), n })
            }
            None => known.filter(|known| known.lasts(now)),
        };
        if let Some(next) = next {
            failures.insert(key.clone(), next);
        }
    }
}

impl Scaling {
    fn status(
        &self,
        seen: &Seen,
        decision: &Decision,
        held: Option<(String, Option<Timestamp>)>,
        now: Timestamp,
    ) -> Option<Effect> {
        let key = Key::of(&seen.hvpa.metadata);
        let refused = self.0.refused(&key, now);
        let wanted = &decision.desired.containers;
        let progress = plan::applying(seen, wanted, &decision.memory, refused.as_ref(), now).progress;
        let failure = self.0.failed(&key, now).map(|failed| failed.failure);
        let told = plan::recommended(seen, &decision.memory);
        status::write(&Facts { seen, decision, progress, failure, told, held: held.map(|(why, _)| why) }, now)
    }
}
