//! The JSON form: an `autoscaling/v2` spec as it stands in a manifest, and pods as a person would describe them.
//!
//! [`Input::resolve`] translates names into indices, so that the decision itself compares no strings.

mod observed;
mod spec;

pub use observed::{ContainerForm, ObservedForm, PodForm, ReadingForm};
pub use spec::{
    BehaviorForm, ContainerResourceForm, ExternalForm, IdentifierForm, LabelSelector, MetricForm, MetricType,
    ObjectForm, ObjectRef, PodsForm, Requirement, ResourceForm, RulesForm, SpecForm, TargetForm, TargetType,
};

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Decision, Memory, Observed, Settings, Spec};
use crate::input::{InputError, moment};

/// Everything one HPA decision depends on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Input {
    #[serde(deserialize_with = "moment")]
    pub now: Timestamp,
    pub spec: SpecForm,
    #[serde(default)]
    pub settings: Settings,
    pub observed: ObservedForm,
    /// What the decision before returned; leave it out the first time.
    #[serde(default)]
    pub memory: Memory,
}

impl Input {
    /// # Errors
    /// If the spec contradicts itself or a reading belongs to no metric.
    pub fn resolve(&self) -> Result<(Spec, Observed), InputError> {
        let spec = self.spec.resolve(self.settings).map_err(|error| error.under("spec"))?;
        let observed = self.observed.resolve(&spec, &self.spec).map_err(|error| error.under("observed"))?;
        Ok((spec, observed))
    }

    /// # Errors
    /// As [`Input::resolve`], and if something comes twice or contradicts itself.
    pub fn decide(self) -> Result<Decision, InputError> {
        self.observed.check(&self.spec).map_err(|error| error.under("observed"))?;
        let (spec, observed) = self.resolve()?;
        Ok(super::decide(self.now, &spec, &observed, self.memory))
    }
}
