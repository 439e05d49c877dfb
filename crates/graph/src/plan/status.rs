//! The status of an instance.

use std::collections::HashSet;

use serde_json::{Map, Value, json};

use super::{
    State,
    conditions::{BUILT_IN, Condition, READY},
    scale::Observation,
    text,
};
use crate::{
    Graph,
    cel::{
        Budget, Failure, Names,
        eval::eval,
        value::{from_json, to_json},
    },
    compile::StatusField,
    crd::OBSERVED_TEMPLATE_HASH,
    labels,
    simple::MarkKind,
};

pub(super) struct Inputs<'a> {
    pub graph: &'a Graph,
    pub instance: &'a Value,
    pub names: &'a Names<'a>,
    pub budget: &'a Budget,
    pub built_in: &'a [Condition],
    pub state: State,
    pub scale: &'a Observation,
    pub now: &'a str,
}

/// The status and the state: an author's conditions may be wrong, which is an error of the instance.
pub(super) fn write(inputs: &Inputs<'_>) -> (Value, State) {
    let mut status = Map::new();
    for (name, field) in &inputs.graph.status.fields {
        if let Some(value) = resolve(field, inputs) {
            status.insert(name.clone(), value);
        }
    }
    let (conditions, is_sound) = conditions(inputs);
    let state = if is_sound { inputs.state } else { State::Error };
    // ours win over fields of the same name
    status.insert("state".to_owned(), state.as_str().into());
    status.insert("conditions".to_owned(), conditions.into());
    let hash = inputs.instance["metadata"]["labels"].get(labels::TEMPLATE_HASH);
    if let Some(hash) = hash.filter(|_| inputs.graph.set_crd().is_some()) {
        status.insert(OBSERVED_TEMPLATE_HASH.to_owned(), hash.clone());
    }
    (Value::Object(status), state)
}

/// Only what resolves is written; a field goes again when what it came from goes.
fn resolve(field: &StatusField, inputs: &Inputs<'_>) -> Option<Value> {
    match field {
        StatusField::Computed(field) => {
            field.resolve(inputs.names, inputs.budget, "").ok().flatten().filter(|value| !value.is_null())
        }
        StatusField::Declared(MarkKind::Scale) => inputs.scale.replicas.map(Value::from),
        StatusField::Declared(MarkKind::Selector) => inputs.scale.selector.clone().map(Value::from),
        StatusField::Object(fields) => {
            let fields: Map<String, Value> = fields
                .iter()
                .filter_map(|(name, field)| Some((name.clone(), resolve(field, inputs)?)))
                .collect();
            (!fields.is_empty()).then_some(Value::Object(fields))
        }
        StatusField::List(items) => {
            let items: Vec<Value> = items.iter().filter_map(|item| resolve(item, inputs)).collect();
            (!items.is_empty()).then_some(Value::Array(items))
        }
    }
}

/// The built-in conditions, or those of the author; and whether the latter were all right.
fn conditions(inputs: &Inputs<'_>) -> (Vec<Value>, bool) {
    let previous = inputs.instance["status"]["conditions"].as_array().map(Vec::as_slice).unwrap_or_default();
    let generation = inputs.instance["metadata"]["generation"].as_i64();
    let built_in: Vec<Value> =
        inputs.built_in.iter().map(|condition| condition.to_json(previous, generation, inputs.now)).collect();
    let authored = &inputs.graph.status.conditions;
    if authored.is_empty() {
        return (built_in, true);
    }
    let mut names = inputs.names.clone();
    let mut seen = inputs.instance.clone();
    seen["status"] = json!({ "conditions": built_in });
    names.insert("schema", from_json(&seen, Some(&inputs.graph.instance)));
    let mut written: Vec<Value> = Vec::new();
    let mut types = HashSet::new();
    let mut is_sound = true;
    for code in authored {
        let value = eval(&code.expr, &names, inputs.budget).and_then(|value| to_json(&value, inputs.budget));
        match value {
            Ok(Some(value)) => {
                let condition = Condition {
                    type_: text(&value, "/type").to_owned(),
                    status: text(&value, "/status").to_owned(),
                    reason: text(&value, "/reason").to_owned(),
                    message: text(&value, "/message").to_owned(),
                };
                let is_status = ["True", "False", "Unknown"].contains(&condition.status.as_str());
                if condition.type_.is_empty() || !is_status || !types.insert(condition.type_.clone()) {
                    is_sound = false;
                    continue;
                }
                written.push(condition.to_json(previous, generation, inputs.now));
            }
            // one that has no value yet keeps the one it had
            Err(Failure::Pending(_)) => {}
            Ok(None) | Err(_) => is_sound = false,
        }
    }
    for before in previous {
        let type_ = text(before, "/type");
        if !types.contains(type_) && !BUILT_IN.contains(&type_) {
            types.insert(type_.to_owned());
            written.push(before.clone());
        }
    }
    // without a Ready of the author's own, ours stays: a Set waits for it
    if !types.contains(READY) {
        written.extend(built_in.into_iter().filter(|condition| condition["type"] == READY));
    }
    (written, is_sound)
}
