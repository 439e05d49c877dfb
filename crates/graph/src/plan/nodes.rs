//! The nodes of a graph, one after the other.

use std::{
    borrow::Cow,
    collections::{BTreeMap, HashMap},
};

use kube_cel::cel::Value as Cel;
use schema::{Schema, Scope as Reach};
use serde_json::Value;

use super::{Identity, NodePlan, NodeState, Observed, applyset, owned, text};
use crate::{
    Graph,
    cel::{
        Budget, Failure, Names,
        eval::eval,
        value::{as_optional, from_json, list},
    },
    compile::{Node, Source},
    error::shown,
    labels, selector,
    template::{Code, Unresolved},
};

/// What became of a node.
#[derive(Clone, Debug)]
pub(super) struct Outcome {
    /// By number, the number of the declaration.
    pub node: usize,
    pub id: String,
    pub state: NodeState,
    pub desired: Vec<Value>,
    pub reason: Option<String>,
    /// Its template has no value yet: what it wants is not known.
    pub is_pending: bool,
    /// As they are in the cluster, in the order of the collection.
    pub found: Vec<Value>,
}

// === impl Outcome ===

impl Outcome {
    pub fn is_ready(&self) -> bool {
        matches!(self.state, NodeState::Synced | NodeState::Skipped)
    }

    /// Whether what is wanted is known in full, so that everything else can go.
    pub fn is_settled(&self) -> bool {
        !self.is_pending && !matches!(self.state, NodeState::Error | NodeState::Deleting)
    }

    pub fn into_plan(self) -> NodePlan {
        NodePlan {
            is_ready: self.is_ready(),
            id: self.id,
            state: self.state,
            desired: self.desired,
            reason: self.reason,
        }
    }
}

pub(super) struct Run<'a> {
    graph: &'a Graph,
    instance: &'a Value,
    observed: &'a dyn Observed,
    budget: &'a Budget,
    names: Names<'a>,
    outcomes: Vec<Outcome>,
    /// Where in `outcomes` a node is.
    position: HashMap<usize, usize>,
    claimed: HashMap<Identity, &'a str>,
}

/// What the iterators are in one round.
type Variables<'a> = Vec<(&'a str, Cel)>;

/// Why a node has no objects to apply.
enum Stop {
    Skipped,
    Waiting(String),
    Deleting(String),
    Failed(String),
}

impl From<Unresolved> for Stop {
    fn from(unresolved: Unresolved) -> Self {
        let Unresolved { path, expression, failure } = unresolved;
        match failure {
            Failure::Pending(what) => Self::Waiting(format!("{path}: \"{expression}\" waits for {what}")),
            failure => Self::Failed(format!("{path}: expression \"{expression}\": {}", failure.message())),
        }
    }
}

impl<'a> Run<'a> {
    pub fn new(
        graph: &'a Graph,
        instance: &'a Value,
        observed: &'a dyn Observed,
        budget: &'a Budget,
    ) -> Self {
        let mut seen = instance.clone();
        if let Some(fields) = seen.as_object_mut() {
            fields.remove("status");
        }
        let names = Names::from([("schema", from_json(&seen, Some(&graph.instance)))]);
        Self {
            graph,
            instance,
            observed,
            budget,
            names,
            outcomes: Vec::new(),
            position: HashMap::new(),
            claimed: HashMap::new(),
        }
    }

    pub fn all(&mut self) {
        for number in &self.graph.order.sorted {
            let node = &self.graph.nodes[*number];
            let outcome = self.node(*number, node);
            self.position.insert(*number, self.outcomes.len());
            self.outcomes.push(outcome);
        }
    }

    pub fn finish(self) -> (Vec<Outcome>, Names<'a>) {
        (self.outcomes, self.names)
    }

    fn node(&mut self, number: usize, node: &'a Node) -> Outcome {
        let mut outcome = Outcome {
            node: number,
            id: node.id.clone(),
            state: NodeState::InProgress,
            desired: Vec::new(),
            reason: None,
            is_pending: false,
            found: Vec::new(),
        };
        let result =
            self.included(node).and_then(|()| self.dependencies(node)).and_then(|()| match &node.source {
                Source::Template(_) => self.managed(node, &mut outcome),
                Source::External(_) => self.external(node, &mut outcome),
                Source::ExternalCollection { .. } => self.external_collection(node, &mut outcome),
            });
        match result {
            Ok(()) => {}
            Err(Stop::Skipped) => outcome.state = NodeState::Skipped,
            Err(Stop::Waiting(why)) => {
                outcome.is_pending = true;
                outcome.reason = Some(why);
            }
            Err(Stop::Deleting(why)) => {
                outcome.state = NodeState::Deleting;
                outcome.desired.clear();
                outcome.reason = Some(why);
            }
            Err(Stop::Failed(why)) => {
                outcome.state = NodeState::Error;
                outcome.desired.clear();
                outcome.reason = Some(why);
            }
        }
        outcome
    }

    fn outcome(&self, node: usize) -> Option<&Outcome> {
        self.position.get(&node).map(|position| &self.outcomes[*position])
    }

    /// A node is left out if it says so, or if something it needs is left out.
    fn included(&self, node: &Node) -> Result<(), Stop> {
        let is_skipped =
            |other: &usize| self.outcome(*other).is_some_and(|other| other.state == NodeState::Skipped);
        if node.dependencies.iter().any(is_skipped) {
            return Err(Stop::Skipped);
        }
        if node.include_when.is_empty() {
            return Ok(());
        }
        self.wait_for(&node.include_dependencies)?;
        for code in &node.include_when {
            match self.flag(code, &self.names) {
                Ok(true) => {}
                Ok(false) => return Err(Stop::Skipped),
                Err(Failure::Pending(what)) if !node.include_dependencies.is_empty() => {
                    return Err(Stop::Waiting(format!(
                        "includeWhen \"{}\" waits for {what}",
                        shown(&code.text)
                    )));
                }
                Err(failure) => {
                    let why = failure.message();
                    return Err(Stop::Failed(format!("includeWhen \"{}\": {why}", shown(&code.text))));
                }
            }
        }
        Ok(())
    }

    fn dependencies(&self, node: &Node) -> Result<(), Stop> {
        self.wait_for(&node.dependencies)
    }

    fn wait_for(&self, needed: &std::collections::BTreeSet<usize>) -> Result<(), Stop> {
        let missing: Vec<&str> = needed
            .iter()
            .filter_map(|other| self.outcome(*other))
            .filter(|other| !other.is_ready())
            .map(|other| other.id.as_str())
            .collect();
        if missing.is_empty() {
            Ok(())
        } else {
            Err(Stop::Waiting(format!("waits for {}", missing.join(", "))))
        }
    }

    /// An absent value counts as false where a condition is asked for.
    fn flag(&self, code: &Code, names: &Names<'_>) -> Result<bool, Failure> {
        let value = eval(&code.expr, names, self.budget)?;
        match as_optional(&value).unwrap_or(Some(&value)) {
            Some(Cel::Bool(flag)) => Ok(*flag),
            None | Some(Cel::Null) => Ok(false),
            Some(_) => Err(Failure::error("must return bool")),
        }
    }

    fn managed(&mut self, node: &'a Node, outcome: &mut Outcome) -> Result<(), Stop> {
        let desired = self.desired(node)?;
        let id = applyset::applyset_id(self.instance);
        let mut found = Vec::new();
        let mut outdated = None;
        for object in &desired {
            let identity = Identity::of(object);
            if let Some(other) = self.claimed.insert(identity.clone(), &node.id) {
                let why = match other == node.id {
                    true => format!("identity collision: {identity} is made twice"),
                    false => format!(
                        "found resources with conflicts: resourceID: {other} conflicts with resourceID: {}",
                        node.id
                    ),
                };
                return Err(Stop::Failed(why));
            }
            let Some(live) = self.observed.get(&identity) else { continue };
            if !text(&live, "/metadata/deletionTimestamp").is_empty() {
                return Err(Stop::Deleting(format!("{identity} is being deleted")));
            }
            let part_of = live["metadata"]["labels"].get(labels::PART_OF).and_then(Value::as_str);
            if part_of.is_some_and(|other| other != id) {
                return Err(Stop::Failed(format!("{identity}: resource belongs to a different ApplySet")));
            }
            if !applyset::is_current(&live, object) {
                outdated.get_or_insert(identity);
            }
            found.push(live.into_owned());
        }
        let is_complete = found.len() == desired.len();
        outcome.desired = desired
            .into_iter()
            .map(|object| {
                let live = self.observed.get(&Identity::of(&object));
                owned::without_scaled_fields(object, live.as_deref())
            })
            .collect();
        outcome.found = found;
        self.settle(node, outcome, is_complete);
        if let (true, Some(identity)) = (is_complete, outdated) {
            outcome.state = NodeState::InProgress;
            outcome.reason = Some(format!("{identity} is to be updated"));
        }
        Ok(())
    }

    /// Tells the names what was found, and whether it is ready.
    fn settle(&mut self, node: &'a Node, outcome: &mut Outcome, is_complete: bool) {
        let schema = Some(node.known.schema.as_ref());
        self.know(node, &outcome.found, schema);
        if !is_complete {
            outcome.state = NodeState::InProgress;
            let missing = if node.is_external() { "does not exist" } else { "is to be created" };
            outcome.reason = Some(format!("{} {missing}", node.id));
            if node.is_external() {
                outcome.state = NodeState::WaitingForReadiness;
            }
            return;
        }
        match self.is_ready(node, &outcome.found) {
            Ok(None) => outcome.state = NodeState::Synced,
            Ok(Some(why)) => {
                outcome.state = NodeState::WaitingForReadiness;
                outcome.reason = Some(why);
            }
            Err(why) => {
                outcome.state = NodeState::Error;
                outcome.reason = Some(why);
            }
        }
    }

    fn know(&mut self, node: &'a Node, found: &[Value], schema: Option<&Schema>) {
        let mut values: Vec<Cel> = found.iter().map(|object| from_json(object, schema)).collect();
        if node.is_collection() {
            self.names.insert(&node.id, list(values));
        } else if let Some(value) = values.pop() {
            self.names.insert(&node.id, value);
        }
    }

    /// `None` if it is ready, otherwise what is not true yet.
    fn is_ready(&self, node: &Node, found: &[Value]) -> Result<Option<String>, String> {
        if node.ready_when.is_empty() {
            return Ok(None);
        }
        let mut names: Names<'_> = HashMap::new();
        if let Some(own) = self.names.get(node.id.as_str()) {
            names.insert(&node.id, own.clone());
        }
        for object in found {
            if let Some(why) = is_behind(object) {
                return Ok(Some(why));
            }
            if node.is_collection() {
                names.insert("each", from_json(object, Some(&node.known.schema)));
            }
            for code in &node.ready_when {
                let which = || format!("readyWhen \"{}\" of {}", shown(&code.text), Identity::of(object));
                match self.flag(code, &names) {
                    Ok(true) => {}
                    Ok(false) => return Ok(Some(format!("{} is false", which()))),
                    Err(Failure::Pending(what)) => return Ok(Some(format!("{} waits for {what}", which()))),
                    Err(failure) => return Err(format!("{}: {}", which(), failure.message())),
                }
            }
        }
        Ok(None)
    }

    /// The objects that a node wants, complete with what ties them to the instance.
    fn desired(&self, node: &'a Node) -> Result<Vec<Value>, Stop> {
        let Source::Template(template) = &node.source else { return Ok(Vec::new()) };
        let rounds = self.rounds(node)?;
        let n_rounds = rounds.len();
        let mut desired = Vec::with_capacity(n_rounds);
        for (index, round) in rounds.into_iter().enumerate() {
            let object = match round {
                None => template.resolve(&self.names, self.budget, "")?,
                Some(variables) => {
                    let mut names = self.names.clone();
                    names.extend(variables);
                    template.resolve(&names, self.budget, "")?
                }
            };
            let mut object = object.unwrap_or_default();
            self.place(node, &mut object)?;
            let collection = (!node.for_each.is_empty()).then_some((index, n_rounds));
            applyset::tie(self.graph, self.instance, node, collection, &mut object);
            desired.push(object);
        }
        Ok(desired)
    }

    /// What the iterators are, round by round; `None` for the one round of a node without iterators.
    fn rounds(&self, node: &'a Node) -> Result<Vec<Option<Variables<'a>>>, Stop> {
        if node.for_each.is_empty() {
            return Ok(vec![None]);
        }
        let mut dimensions = Vec::new();
        let mut size: usize = 1;
        for (name, code) in &node.for_each {
            let failed = |failure: Failure| {
                Stop::from(Unresolved {
                    path: format!("forEach.{name}"),
                    expression: shown(&code.text),
                    failure,
                })
            };
            match eval(&code.expr, &self.names, self.budget).map_err(failed)? {
                Cel::List(items) => {
                    size = size.saturating_mul(items.len());
                    dimensions.push((name.as_str(), items));
                }
                _ => {
                    return Err(Stop::Failed(format!(
                        "forEach.{name}: \"{}\" must return a list",
                        shown(&code.text)
                    )));
                }
            }
        }
        let most = self.graph.options.max_collection;
        if size > most {
            return Err(Stop::Failed(format!(
                "collection size of {size} is over the maximum collection size of {most}"
            )));
        }
        // the last dimension varies fastest
        let round = |mut index: usize| {
            let mut variables = Vec::with_capacity(dimensions.len());
            for (name, items) in dimensions.iter().rev() {
                variables.push((*name, items[index % items.len()].clone()));
                index /= items.len();
            }
            Some(variables)
        };
        Ok((0..size).map(round).collect())
    }

    /// Names have to be there, and objects live where the instance does unless they say otherwise.
    fn place(&self, node: &Node, object: &mut Value) -> Result<(), Stop> {
        let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) else {
            return Err(Stop::Failed("metadata is missing".to_owned()));
        };
        if metadata.get("name").and_then(Value::as_str).is_none_or(str::is_empty) {
            return Err(Stop::Failed("metadata.name must not be empty".to_owned()));
        }
        if node.known.scope == Reach::Cluster {
            return Ok(());
        }
        if metadata.get("namespace").and_then(Value::as_str).is_none_or(str::is_empty) {
            let namespace = text(self.instance, "/metadata/namespace");
            if namespace.is_empty() {
                return Err(Stop::Failed(
                    "metadata.namespace must not be empty: the instance has none".to_owned(),
                ));
            }
            metadata.insert("namespace".to_owned(), namespace.into());
        }
        Ok(())
    }

    fn external(&mut self, node: &'a Node, outcome: &mut Outcome) -> Result<(), Stop> {
        let Source::External(field) = &node.source else { return Ok(()) };
        let mut object = field.resolve(&self.names, self.budget, "")?.unwrap_or_default();
        self.place(node, &mut object)?;
        let live = self.observed.get(&Identity::of(&object));
        outcome.found = live.into_iter().map(Cow::into_owned).collect();
        let is_complete = !outcome.found.is_empty();
        self.settle(node, outcome, is_complete);
        Ok(())
    }

    fn external_collection(&mut self, node: &'a Node, outcome: &mut Outcome) -> Result<(), Stop> {
        let Source::ExternalCollection { selector, namespace } = &node.source else { return Ok(()) };
        let selector = selector.resolve(&self.names, self.budget, "metadata.selector")?.unwrap_or_default();
        let namespace = match namespace {
            Some(field) => field.resolve(&self.names, self.budget, "metadata.namespace")?,
            None => None,
        };
        let namespace = namespace.as_ref().and_then(Value::as_str).map(str::to_owned).or_else(|| {
            // under an instance of the cluster, no namespace means all of them
            let own = text(self.instance, "/metadata/namespace");
            (node.known.scope == Reach::Namespaced && !own.is_empty()).then(|| own.to_owned())
        });
        let all = self.observed.list(&node.api_version, &node.kind, namespace.as_deref());
        outcome.found = all
            .into_iter()
            .filter(|object| selector::matches(&selector, object["metadata"].get("labels")))
            .map(Cow::into_owned)
            .collect();
        self.settle(node, outcome, true);
        Ok(())
    }
}

/// A status from before the last change of the spec says nothing about readiness, whatever the author asks of it. Right
/// after a change it still has the counts of what ran before: believed, it would let a Set go on to its next instance.
fn is_behind(object: &Value) -> Option<String> {
    let generation = object["metadata"]["generation"].as_i64()?;
    let observed = object["status"]["observedGeneration"].as_i64()?;
    (observed < generation).then(|| {
        let identity = Identity::of(object);
        format!("the status of {identity} is about generation {observed}, not yet about {generation}")
    })
}

/// Outcomes by the number of their node.
pub(super) fn by_number(outcomes: &[Outcome]) -> BTreeMap<usize, &Outcome> {
    outcomes.iter().map(|outcome| (outcome.node, outcome)).collect()
}
