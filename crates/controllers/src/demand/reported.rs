//! What has been reported to people: each problem once, not once a second.

use std::{collections::HashMap, sync::Arc, time::Duration};

use api::slimfaas::Problem;
use decide::demand::{Cause, Decision, Rule};
use engine::effect::{Effect, Target};
use jiff::{SignedDuration, Timestamp};
use ondemand::Function;

use super::{
    plan::{COMPONENT, UNREAD},
    readings::TURNED_OFF,
};

pub struct Reported {
    /// A trigger that cannot be used for so long is worth a warning. Just after waking up none can: a rate needs two scrapes.
    patience: SignedDuration,
    functions: HashMap<Arc<str>, AboutFunction>,
    /// Workloads that are not functions, by uid.
    refused: Vec<(String, Problem)>,
}

#[derive(Default)]
struct AboutFunction {
    uid: String,
    problems: Vec<Problem>,
    invalid: Vec<InvalidTrigger>,
    waiting: Option<String>,
    /// Why its pods do not start; remembered until one is ready, as a crash loop runs in between.
    failure: Option<Arc<str>>,
}

struct InvalidTrigger {
    trigger: Arc<str>,
    cause: String,
    since: Timestamp,
    is_told: bool,
}

impl Reported {
    pub fn new(scrape_interval: Duration) -> Self {
        let patience = SignedDuration::try_from(scrape_interval * 3).unwrap_or(SignedDuration::MAX);
        Reported { patience, functions: HashMap::new(), refused: Vec::new() }
    }

    /// The Events for what is new about a function.
    pub fn of(
        &mut self,
        name: &Arc<str>,
        function: &Function,
        object: &Target,
        decision: &Decision,
        now: Timestamp,
    ) -> Vec<Effect> {
        let known = self.functions.entry(name.clone()).or_default();
        if known.uid != object.uid {
            *known = AboutFunction { uid: object.uid.clone(), ..AboutFunction::default() };
        }
        let mut effects = Vec::new();
        let new = function.problems.iter().filter(|problem| !known.problems.contains(problem));
        for Problem { annotation, message } in new {
            tracing::warn!(function = %name, annotation = %annotation, message, "an annotation cannot be used");
            effects.push(bad_annotation(object, annotation, message));
        }
        known.problems.clone_from(&function.problems);
        match function.start_failure() {
            Some(why) if known.failure.as_ref() != Some(&why) => {
                tracing::warn!(function = %name, "{why}");
                effects.push(Effect::warning(object.clone(), COMPONENT, "StartFailed", &*why));
                known.failure = Some(why);
            }
            None if function.ready().next().is_some() => known.failure = None,
            _ => {}
        }

        let mut invalid = Vec::new();
        let mut waiting = None;
        for step in &decision.steps {
            match &step.rule {
                // Not read yet: there will be an answer in a moment.
                Rule::InvalidTrigger { cause: Cause::NoReading, .. } => {}
                Rule::InvalidTrigger { trigger, cause } => {
                    let (trigger, cause) = (trigger.clone(), cause.to_string());
                    let before = known.invalid.iter().find(|one| one.trigger == trigger);
                    let since = before.map_or(now, |one| one.since);
                    let is_told = before.is_some_and(|one| one.is_told && one.cause == cause);
                    invalid.push(InvalidTrigger { trigger, cause, since, is_told });
                }
                Rule::Waiting { .. } | Rule::Unschedulable { .. } => waiting = Some(step.words().to_string()),
                Rule::Activity { idle: false, timeout_seconds, seconds_ago, .. } => {
                    let left = i64::from(*timeout_seconds) - seconds_ago;
                    tracing::debug!(function = %name, "{left} s left before scale down of {name}");
                }
                _ => {}
            }
        }
        // Told later, if it is still so then.
        invalid.retain(|one| !one.cause.ends_with(UNREAD));
        for one in invalid.iter_mut().filter(|one| one.is_due(now, self.patience)) {
            one.is_told = true;
            let InvalidTrigger { trigger, cause, .. } = one;
            tracing::warn!(function = %name, trigger = %trigger, "trigger {trigger} of {name} cannot be used: {cause}");
            if cause.starts_with(TURNED_OFF) {
                let message = format!("trigger {trigger} is {cause}");
                effects.push(Effect::warning(object.clone(), COMPONENT, "TriggerTurnedOff", message));
            }
        }
        known.invalid = invalid;
        if let Some(words) = waiting.as_ref().filter(|words| known.waiting.as_ref() != Some(words)) {
            tracing::info!("{name} {words}");
            effects.push(Effect::event(
                object.clone(),
                COMPONENT,
                decision.reason.code,
                format!("{name} {words}"),
            ));
        }
        known.waiting = waiting;
        effects
    }

    /// Functions about which there is something to tell although nothing has changed.
    pub fn due(&self, now: Timestamp) -> Vec<Arc<str>> {
        let is_due = |about: &AboutFunction| about.invalid.iter().any(|one| one.is_due(now, self.patience));
        self.functions.iter().filter(|(_, about)| is_due(about)).map(|(name, _)| name.clone()).collect()
    }

    /// The Events for what is new about workloads that may be meant as functions.
    pub fn refused(&mut self, all: &[(Target, Problem)]) -> Vec<Effect> {
        let refused: Vec<_> =
            all.iter().map(|(object, problem)| (object.uid.clone(), problem.clone())).collect();
        let mut effects = Vec::new();
        for ((object, Problem { annotation, message }), one) in all.iter().zip(&refused) {
            if !self.refused.contains(one) {
                tracing::warn!(workload = %object.name, annotation = %annotation, message, "not taken for a function");
                effects.push(bad_annotation(object, annotation, message));
            }
        }
        self.refused = refused;
        effects
    }

    pub fn forget(&mut self, name: &str) {
        self.functions.remove(name);
    }
}

impl InvalidTrigger {
    fn is_due(&self, now: Timestamp, patience: SignedDuration) -> bool {
        let lasts = || now.duration_since(self.since) >= patience;
        !self.is_told && (self.cause.starts_with(TURNED_OFF) || lasts())
    }
}

fn bad_annotation(object: &Target, annotation: &str, message: &str) -> Effect {
    Effect::warning(object.clone(), COMPONENT, "BadAnnotation", format!("{annotation}: {message}"))
}
