//! What a policy has to say for itself; everything else is the scaler's.

use decide::{Decision, Rule};
use engine::{
    Failure, Key,
    effect::{Effect, Plan, Target},
    kind::Kind,
};
use jiff::Timestamp;
use serde::{Serialize, de::DeserializeOwned};

use crate::{capacity::Capacity, controls::Controls, rescale, writers::Writers};

pub trait Policy: Send + Sync + 'static {
    type Spec: Send + Sync;
    type Observed: Send + Sync;
    type Memory: Clone + Default + PartialEq + Serialize + DeserializeOwned + Send + Sync;
    type Rule: Rule<Value: Capacity> + Serialize + Send + Sync;

    /// In the record of decisions and as the name of its controller.
    fn name(&self) -> &'static str;

    /// Who Events are said to come from.
    fn component(&self) -> &'static str;

    /// The kind of the object that a key names, if it is there.
    fn kind(&self, key: &Key) -> Option<Kind>;

    /// What there is to decide about.
    fn look(&self, key: &Key, now: Timestamp) -> Look<Self::Spec, Self::Observed>;

    fn decide(
        &self,
        now: Timestamp,
        spec: &Self::Spec,
        observed: &Self::Observed,
        memory: Self::Memory,
    ) -> Decision<Self::Memory, Self::Rule>;

    /// Whether the decision had to do without the metrics it wants.
    fn lacks_metrics(&self, decision: &Decision<Self::Memory, Self::Rule>) -> bool;

    /// What of a decision is worth keeping a record of; the same text, the same record.
    fn gist(&self, decision: &Decision<Self::Memory, Self::Rule>) -> String;

    /// Told of each decision, written or not. The Events that it asks for are sent.
    fn decided(
        &self,
        subject: &Subject<Self::Spec, Self::Observed>,
        decision: &Decision<Self::Memory, Self::Rule>,
        now: Timestamp,
    ) -> Vec<Effect>;

    /// Who else writes the count.
    fn writers(&self, _: &Key) -> Writers {
        Writers::default()
    }

    /// Since when the object has been there that asks for this policy. Of two policies on one target the older decides.
    fn created(&self, _: &Key) -> Option<Timestamp> {
        None
    }

    /// The object is no more.
    fn gone(&self, key: &Key);

    /// Who the decision is about, for Events and the record; usually what is scaled.
    fn about(&self, subject: &Subject<Self::Spec, Self::Observed>) -> Target {
        subject.target.clone()
    }

    /// The write of a decision that changes something.
    fn write(
        &self,
        subject: &Subject<Self::Spec, Self::Observed>,
        decision: &Decision<Self::Memory, Self::Rule>,
    ) -> Vec<Effect> {
        rescale(&subject.target, decision).into_iter().collect()
    }

    /// What is left to do after a decision, whether it changes anything or not. While writes are held, nothing may be
    /// scaled by it.
    fn follow_up(
        &self,
        _subject: &Subject<Self::Spec, Self::Observed>,
        _decision: &Decision<Self::Memory, Self::Rule>,
        _is_held: bool,
        _now: Timestamp,
    ) -> Plan {
        Plan::default()
    }

    /// What is remembered of a decision that somebody asked not to write.
    fn not_written(&self, _before: Self::Memory, after: Self::Memory) -> Self::Memory {
        after
    }

    /// Why the last plan for the object ended early; none if it did not.
    fn outcome(&self, _key: &Key, _failure: Option<&Failure>, _now: Timestamp) {}
}

pub enum Look<S, O> {
    /// There is no such object, or it is not ours to scale.
    Gone,
    /// What is known is older than it should be: to be looked at again in a moment.
    NotYet,
    Found(Box<Subject<S, O>>),
}

/// One object, as it is now.
pub struct Subject<S, O> {
    pub target: Target,
    pub controls: Controls,
    pub spec: S,
    pub observed: O,
}
