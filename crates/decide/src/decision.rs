//! What every policy returns: the target and the whole chain of reasons that led to it.
//!
//! A [`Step`] is not a log line but the rule itself with the figures it worked on: [`Rule::apply`] is the arithmetic
//! and the record of it in one, so recorded steps can be replayed ([`replay`]) and words are made only when asked for.

use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize, Serializer, ser::SerializeStruct};

/// One link of a decision: which rule, on which figures, from what to what.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(bound(deserialize = "R: Deserialize<'de>, R::Value: Deserialize<'de>"))]
pub struct Step<R: Rule> {
    #[serde(flatten)]
    pub rule: R,
    pub before: R::Value,
    pub after: R::Value,
}

/// A rule with its input. Implementors are enums, one variant a rule, serialized with
/// `#[serde(tag = "rule", content = "input")]`, so that a step reads `{"rule", "input", "before", "after", "words"}`.
pub trait Rule: fmt::Debug {
    /// What is being decided: a replica count, or replicas together with request sizes.
    type Value: Clone + PartialEq + fmt::Debug + fmt::Display;

    /// The stable name in text and metrics; equal to the serialized tag.
    fn name(&self) -> &'static str;

    fn role(&self) -> Role {
        Role::Link
    }

    /// The arithmetic: total, deterministic, and a function of the recorded input and `before` alone.
    fn apply(&self, before: &Self::Value) -> Self::Value;

    /// How much this step says about the outcome, beyond having moved the value.
    fn weight(&self, _before: &Self::Value, _after: &Self::Value) -> Weight {
        Weight::Plain
    }

    /// A CamelCase code for conditions, Events and metric labels.
    fn code(&self, before: &Self::Value, after: &Self::Value) -> &'static str;

    /// The sentence for a person, without a full stop.
    fn words(&self, before: &Self::Value, after: &Self::Value, out: &mut fmt::Formatter<'_>) -> fmt::Result;
}

/// How a step takes part in the decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// One of several opinions about the same starting value; a later link combines them.
    Proposal,
    /// Takes the value the link before it left.
    Link,
}

/// What makes a step the reason of a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Weight {
    Plain,
    /// Explains why nothing changes, if nothing does.
    Holds,
    /// As good a reason as having moved the value.
    Decides,
}

/// A target and why. `M` is the policy's memory: give it back with the next observation.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision<M, R: Rule> {
    pub current: R::Value,
    pub desired: R::Value,
    pub reason: Reason,
    pub steps: Vec<Step<R>>,
    /// When time alone may change the answer (a window ends, a budget frees up); none if only new data can.
    pub next_check: Option<Timestamp>,
    pub memory: M,
}

/// The step that settled the matter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reason {
    pub code: &'static str,
    /// Index into [`Decision::steps`].
    pub step: usize,
}

/// Collects steps while a policy works; the value flows from link to link.
#[derive(Debug)]
pub struct Chain<R: Rule> {
    current: R::Value,
    value: R::Value,
    steps: Vec<Step<R>>,
}

/// Recorded steps that do not lead to their own results: another version's rules, or a damaged record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplayMismatch {
    pub step: usize,
    pub recorded: String,
    pub replayed: String,
}

// === impl Chain ===

impl<R: Rule> Chain<R> {
    pub fn new(current: R::Value) -> Self {
        Chain { value: current.clone(), current, steps: Vec::with_capacity(8) }
    }

    /// The value as the links so far leave it.
    pub fn value(&self) -> &R::Value {
        &self.value
    }

    /// Applies the rule to where its role says, and records it.
    pub fn push(&mut self, rule: R) -> &R::Value {
        match rule.role() {
            Role::Proposal => {
                let after = rule.apply(&self.current);
                self.steps.push(Step { rule, before: self.current.clone(), after });
            }
            Role::Link => {
                let after = rule.apply(&self.value);
                let before = std::mem::replace(&mut self.value, after.clone());
                self.steps.push(Step { rule, before, after });
            }
        }
        &self.steps[self.steps.len() - 1].after
    }

    /// Ends the chain. The reason is the last link that moved the value or decides by its weight; if there is none, the
    /// last that holds; if that is none either, the first link.
    pub fn finish<M>(self, memory: M, next_check: Option<Timestamp>) -> Decision<M, R> {
        let last_of = |wanted: fn(&Step<R>) -> bool| {
            self.steps.iter().rposition(|step| step.rule.role() == Role::Link && wanted(step))
        };
        let step = last_of(|step| step.before != step.after || step.weight() == Weight::Decides)
            .or_else(|| last_of(|step| step.weight() == Weight::Holds))
            .or_else(|| self.steps.iter().position(|step| step.rule.role() == Role::Link))
            .unwrap_or(0);
        let code = self.steps.get(step).map_or("NothingToDecide", Step::code);
        Decision {
            current: self.current,
            desired: self.value,
            reason: Reason { code, step },
            steps: self.steps,
            next_check,
            memory,
        }
    }
}

// === impl Step ===

impl<R: Rule> Step<R> {
    pub fn code(&self) -> &'static str {
        self.rule.code(&self.before, &self.after)
    }

    fn weight(&self) -> Weight {
        self.rule.weight(&self.before, &self.after)
    }

    pub fn words(&self) -> Words<'_, R> {
        Words(self)
    }
}

/// Renders a step's sentence when it is displayed, not before.
#[derive(Debug)]
pub struct Words<'a, R: Rule>(&'a Step<R>);

impl<R: Rule> fmt::Display for Words<'_, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.rule.words(&self.0.before, &self.0.after, f)
    }
}

impl<R: Rule + Serialize> Serialize for Step<R>
where
    R::Value: Serialize,
{
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Form<'a, R, V> {
            #[serde(flatten)]
            rule: &'a R,
            before: &'a V,
            after: &'a V,
            words: String,
        }
        Form { rule: &self.rule, before: &self.before, after: &self.after, words: self.words().to_string() }
            .serialize(serializer)
    }
}

// === impl Decision ===

impl<M, R: Rule> Decision<M, R> {
    pub fn changes(&self) -> bool {
        self.current != self.desired
    }

    /// The sentence of the step that settled the matter.
    pub fn why(&self) -> String {
        self.steps.get(self.reason.step).map(|step| step.words().to_string()).unwrap_or_default()
    }

    /// The whole chain in words, one line a step.
    pub fn explain(&self) -> Explanation<'_, M, R> {
        Explanation(self)
    }
}

impl<M: Serialize, R: Rule + Serialize> Serialize for Decision<M, R>
where
    R::Value: Serialize,
{
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct ReasonForm {
            code: &'static str,
            step: usize,
            words: String,
        }
        let mut form = serializer.serialize_struct("Decision", 6)?;
        form.serialize_field("current", &self.current)?;
        form.serialize_field("desired", &self.desired)?;
        form.serialize_field(
            "reason",
            &ReasonForm { code: self.reason.code, step: self.reason.step, words: self.why() },
        )?;
        form.serialize_field("steps", &self.steps)?;
        form.serialize_field("nextCheck", &self.next_check)?;
        form.serialize_field("memory", &self.memory)?;
        form.end()
    }
}

/// The text form of a decision: a headline, then a line a step.
#[derive(Debug)]
pub struct Explanation<'a, M, R: Rule>(&'a Decision<M, R>);

impl<M, R: Rule> fmt::Display for Explanation<'_, M, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let decision = self.0;
        if decision.changes() {
            write!(f, "{} -> {}", decision.current, decision.desired)?;
        } else {
            write!(f, "{} stays", decision.current)?;
        }
        write!(f, "  {}: {}", decision.reason.code, decision.why())?;
        let name_width = decision.steps.iter().map(|step| step.rule.name().len()).max().unwrap_or(0);
        let moves: Vec<String> =
            decision.steps.iter().map(|step| format!("{} -> {}", step.before, step.after)).collect();
        let move_width = moves.iter().map(String::len).max().unwrap_or(0);
        for (step, moved) in decision.steps.iter().zip(&moves) {
            write!(f, "\n  {:name_width$}  {moved:move_width$}  {}", step.rule.name(), step.words())?;
        }
        if let Some(at) = decision.next_check {
            write!(f, "\n  look again at {at}")?;
        }
        Ok(())
    }
}

/// Runs recorded steps again from `current`, and gives the value they lead to.
///
/// # Errors
/// If a rule does not give what was recorded, or a link does not start where the one before it ended.
pub fn replay<R: Rule>(current: R::Value, steps: &[Step<R>]) -> Result<R::Value, ReplayMismatch> {
    let mut value = current.clone();
    for (idx, step) in steps.iter().enumerate() {
        let before = match step.rule.role() {
            Role::Proposal => &current,
            Role::Link => &value,
        };
        let mismatch = |recorded: &R::Value, replayed: &R::Value| ReplayMismatch {
            step: idx,
            recorded: recorded.to_string(),
            replayed: replayed.to_string(),
        };
        if step.before != *before {
            return Err(mismatch(&step.before, before));
        }
        let after = step.rule.apply(before);
        if step.after != after {
            return Err(mismatch(&step.after, &after));
        }
        if step.rule.role() == Role::Link {
            value = after;
        }
    }
    Ok(value)
}

impl fmt::Display for ReplayMismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "step {} recorded {}, replaying gives {}", self.step, self.recorded, self.replayed)
    }
}

impl std::error::Error for ReplayMismatch {}

/// The earlier of two optional moments.
pub fn sooner(a: Option<Timestamp>, b: Option<Timestamp>) -> Option<Timestamp> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;

    use super::*;
    use crate::{
        hpa,
        testing::start,
        window::{Cooldown, after},
    };

    #[test]
    fn a_record_that_was_tampered_with_does_not_replay() {
        let mut chain = Chain::new(3);
        chain.push(hpa::Rule::Highest {
            proposed: Some(9),
            metric: None,
            standing: None,
            valid: 1,
            invalid: 0,
        });
        chain.push(hpa::Rule::Doubling { limit: 6 });
        let good = chain.finish((), None);
        assert_eq!(replay(3, &good.steps), Ok(6));
        assert_eq!((good.reason.code, good.reason.step), ("ScaleUpLimit", 1));

        let mut other_result = good.steps.clone();
        other_result[1].after = 7;
        let mut gap = good.steps.clone();
        gap.remove(0);
        for (steps, mismatch) in [
            (other_result, "step 1 recorded 7, replaying gives 6"),
            (gap, "step 0 recorded 9, replaying gives 3"),
        ] {
            assert_eq!(replay(3, &steps).map_err(|error| error.to_string()), Err(mismatch.to_owned()));
        }
    }

    #[test]
    fn a_cooldown_with_part_of_a_second_left_has_not_ended() {
        let now = start();
        let until = after(now, 1).checked_sub(SignedDuration::from_millis(600)).unwrap();
        assert_eq!(Cooldown::new(now, 3, until).seconds_left, 1);
    }
}
