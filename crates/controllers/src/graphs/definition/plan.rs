//! What has to be written for a definition, and whether it may be served. Pure.

use api::kro::{self, ResourceGraphDefinition};
use engine::{
    Failure,
    effect::{Effect, Target},
};
use graph::{
    Error, Graph,
    crd::{Ensure, ensure},
    labels,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::CRD;
use crate::graphs::object::text;

/// Makes the API server take a version of a generated kind that existing objects may not fit.
const ALLOW_BREAKING: &str = "kro.run/allow-breaking-changes";
/// All annotations of an object together may have 256 KiB. A larger definition is not noted: until it is served again,
/// a restart with a version that is refused stops its instances.
const LARGEST_NOTE: usize = 200 << 10;

pub(super) struct Observed<'a> {
    pub definition: &'a ResourceGraphDefinition,
    pub graph: Result<&'a Graph, &'a [Error]>,
    /// The generated kinds as the API server has them: that of the instances, then that of the Sets.
    pub found: &'a [Option<Value>],
    pub failure: Option<&'a Failure>,
}

/// What is noted on the generated kind.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Noted {
    pub generation: Option<i64>,
    pub spec: kro::Spec,
}

#[derive(Debug, PartialEq)]
pub(super) struct Step {
    pub effects: Vec<Effect>,
    pub kinds: KindsAre,
    /// The kinds are as the definition says, so that its instances can be looked after.
    pub serve: bool,
}

/// The kinds that are generated.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum KindsAre {
    /// The definition is not accepted.
    NotAsked,
    Ready,
    /// Written and not yet served, or on their way out.
    Waiting(String),
    Refused(String),
}

pub(super) fn plan(observed: &Observed<'_>) -> Step {
    let Ok(graph) = observed.graph else {
        return Step { effects: Vec::new(), kinds: KindsAre::NotAsked, serve: false };
    };
    let annotations = observed.definition.metadata.annotations.as_ref();
    let allow = annotations.and_then(|all| all.get(ALLOW_BREAKING)).is_some_and(|value| value == "true");
    let mut step = Step { effects: Vec::new(), kinds: KindsAre::Ready, serve: true };
    let wanted = [Some(noted(graph, observed.definition)), graph.set_crd().cloned()];
    for (wanted, found) in wanted.into_iter().flatten().zip(observed.found) {
        let name = text(&wanted, "/metadata/name").to_owned();
        if found.as_ref().is_some_and(|found| !text(found, "/metadata/deletionTimestamp").is_empty()) {
            // its instances go first, which takes the controller that knows them
            step.kinds = KindsAre::Waiting(format!("CRD {name} is being deleted, and is made again then"));
            step.serve &= is_established(found.as_ref());
            continue;
        }
        match ensure(found.as_ref(), &wanted, graph.owner(), allow) {
            Ensure::Refused(why) => {
                return Step { effects: Vec::new(), kinds: KindsAre::Refused(why), serve: false };
            }
            Ensure::Unchanged if note(found.as_ref()) == note(Some(&wanted)) => {
                if !is_established(found.as_ref()) {
                    step.kinds = KindsAre::Waiting(format!("CRD {name} is not established yet"));
                    step.serve = false;
                }
            }
            Ensure::Create | Ensure::Unchanged | Ensure::Update(_) => {
                let target = match found {
                    Some(found) => Target {
                        uid: text(found, "/metadata/uid").to_owned(),
                        resource_version: Some(text(found, "/metadata/resourceVersion").to_owned()),
                        ..Target::absent(&CRD, None, &name)
                    },
                    None => Target::absent(&CRD, None, &name),
                };
                step.kinds = KindsAre::Waiting(format!("CRD {name} is being written"));
                step.serve = false;
                step.effects.push(Effect::Apply { target, must_be_absent: found.is_none(), body: wanted });
            }
        }
    }
    step
}

/// The kind of the instances, with a note of the definition that it comes from.
fn noted(graph: &Graph, definition: &ResourceGraphDefinition) -> Value {
    let mut crd = graph.crd().clone();
    let noted = Noted { generation: definition.metadata.generation, spec: definition.spec.clone() };
    let text = serde_json::to_string(&noted).ok().filter(|text| text.len() <= LARGEST_NOTE);
    crd["metadata"]["annotations"][labels::ACCEPTED] = text.unwrap_or_default().into();
    crd
}

fn note(crd: Option<&Value>) -> Option<&Value> {
    crd?.pointer("/metadata/annotations")?.get(labels::ACCEPTED)
}

fn is_established(crd: Option<&Value>) -> bool {
    let conditions = crd.and_then(|crd| crd["status"]["conditions"].as_array());
    conditions
        .into_iter()
        .flatten()
        .any(|condition| condition["type"] == "Established" && condition["status"] == "True")
}
