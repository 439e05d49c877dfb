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
pub struct Told(HashMap<Arc<str>, Of>);

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
        let known = self.0.entry(name.clone()).or_default();
        if known.uid != object.uid {
            *known = Of { uid: object.uid.clone(), ..Of::default() };
        }
        let mut effects = Vec::new();
        let new = function.problems.iter().filter(|problem| !known.problems.contains(problem));
        for Problem { annotation, message } in new {
            tracing::warn!(function = %name, annotation = %annotation, message, "an annotation cannot be used");
            let note = format!("{annotation}: {message}");
            effects.push(Effect::warning(object.clone(), COMPONENT, "BadAnnotation", note));
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
        if !effects.is_empty() {
            let executor = executor.clone();
            tokio::spawn(async move { executor.execute(effects).await });
        }
    }

    pub fn retain(&mut self, is_there: impl Fn(&str) -> bool) {
        self.0.retain(|name, _| is_there(name));
    }
}
