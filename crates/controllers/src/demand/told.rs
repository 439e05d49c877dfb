//! What people have been told: each problem once, not once a second.

use std::{collections::HashMap, sync::Arc};

use api::slimfaas::Problem;
use decide::demand::{Decision, Rule};
use engine::{
    Executor,
    effect::{Effect, Target},
};
use functions::Function;

use super::plan::COMPONENT;

#[derive(Default)]
pub struct Told {
    functions: HashMap<Arc<str>, Of>,
    /// What is no function, by its uid.
    refused: Vec<(String, Problem)>,
}

#[derive(Default)]
struct Of {
    uid: String,
    problems: Vec<Problem>,
    /// Triggers that cannot be used, with the reason.
    invalid: Vec<(Arc<str>, String)>,
    waiting: Option<String>,
}

impl Told {
    /// Tells what is new about a function.
    pub fn of(
        &mut self,
        name: &Arc<str>,
        function: &Function,
        object: &Target,
        decision: &Decision,
        executor: &Executor,
    ) {
        let known = self.functions.entry(name.clone()).or_default();
        if known.uid != object.uid {
            *known = Of { uid: object.uid.clone(), ..Of::default() };
        }
        let mut effects = Vec::new();
        let new = function.problems.iter().filter(|problem| !known.problems.contains(problem));
        for Problem { annotation, message } in new {
            tracing::warn!(function = %name, annotation = %annotation, message, "an annotation cannot be used");
            effects.push(bad_annotation(object, annotation, message));
        }
        known.problems.clone_from(&function.problems);

        let mut invalid = Vec::new();
        let mut waiting = None;
        for step in &decision.steps {
            match &step.rule {
                Rule::InvalidTrigger { trigger, cause } => invalid.push((trigger.clone(), cause.to_string())),
                Rule::Waiting { .. } | Rule::Unschedulable { .. } => waiting = Some(step.words().to_string()),
                Rule::Activity { idle: false, timeout_seconds, seconds_ago, .. } => {
                    let left = i64::from(*timeout_seconds) - seconds_ago;
                    tracing::debug!(function = %name, "{left} s left before scale down of {name}");
                }
                _ => {}
            }
        }
        for (trigger, cause) in invalid.iter().filter(|one| !known.invalid.contains(one)) {
            tracing::warn!(function = %name, trigger = %trigger, "trigger {trigger} of {name} cannot be used: {cause}");
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
        send(effects, executor);
    }

    /// Tells what is new about workloads that may be meant as functions.
    pub fn refused(&mut self, all: &[(Target, Problem)], executor: &Executor) {
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
        send(effects, executor);
    }

    pub fn retain(&mut self, is_there: impl Fn(&str) -> bool) {
        self.functions.retain(|name, _| is_there(name));
    }
}

fn bad_annotation(object: &Target, annotation: &str, message: &str) -> Effect {
    Effect::warning(object.clone(), COMPONENT, "BadAnnotation", format!("{annotation}: {message}"))
}

fn send(effects: Vec<Effect>, executor: &Executor) {
    if !effects.is_empty() {
        let executor = executor.clone();
        tokio::spawn(async move { executor.execute(effects).await });
    }
}
