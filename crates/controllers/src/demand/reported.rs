//! What has been reported to people: each problem once, not once a second.

use std::{collections::HashMap, sync::Arc};

use api::slimfaas::Problem;
use decide::demand::{Cause, Decision, Rule};
use engine::effect::{Effect, Target};
use ondemand::Function;

use super::{
    plan::{COMPONENT, UNREAD},
    readings::TURNED_OFF,
};

#[derive(Default)]
pub struct Reported {
    functions: HashMap<Arc<str>, AboutFunction>,
    /// Workloads that are not functions, by uid.
    refused: Vec<(String, Problem)>,
}

#[derive(Default)]
struct AboutFunction {
    uid: String,
    problems: Vec<Problem>,
    /// Triggers that cannot be used, with the reason.
    invalid: Vec<(Arc<str>, String)>,
    waiting: Option<String>,
    /// Why its pods do not start; remembered until one is ready, as a crash loop runs in between.
    failure: Option<Arc<str>>,
}

impl Reported {
    /// The Events for what is new about a function.
    pub fn of(
        &mut self,
        name: &Arc<str>,
        function: &Function,
        object: &Target,
        decision: &Decision,
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
                Rule::InvalidTrigger { trigger, cause } => invalid.push((trigger.clone(), cause.to_string())),
                Rule::Waiting { .. } | Rule::Unschedulable { .. } => waiting = Some(step.words().to_string()),
                Rule::Activity { idle: false, timeout_seconds, seconds_ago, .. } => {
                    let left = i64::from(*timeout_seconds) - seconds_ago;
                    tracing::debug!(function = %name, "{left} s left before scale down of {name}");
                }
                _ => {}
            }
        }
        // Told later, if it is still so then.
        invalid.retain(|(_, cause)| !cause.ends_with(UNREAD));
        let is_news = |one: &&(Arc<str>, String)| !known.invalid.contains(one);
        for (trigger, cause) in invalid.iter().filter(is_news) {
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

fn bad_annotation(object: &Target, annotation: &str, message: &str) -> Effect {
    Effect::warning(object.clone(), COMPONENT, "BadAnnotation", format!("{annotation}: {message}"))
}
