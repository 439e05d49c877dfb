//! The machine that runs expressions.

use std::{cmp::Ordering, collections::HashMap};

use kube_cel::cel::{Value as Cel, objects::Key};

use super::{
    Budget,
    ast::{Binary, Expr, Kind, Loop, LoopKind, Unary},
    functions, operators,
    value::{as_key, as_optional, key_text, list, map, optional, sorted, type_name},
};
use crate::error::shown;

/// What the names of an expression stand for.
pub(crate) type Names<'a> = HashMap<&'a str, Cel>;

/// Why an expression has no value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// It asks for something that is not there yet: a field of a status, an element, a resource.
    Pending(String),
    Error(String),
    OverBudget,
}

/// Runs `expr` from the beginning of a fresh allowance.
pub(crate) fn eval(expr: &Expr, names: &Names<'_>, budget: &Budget) -> Result<Cel, Failure> {
    budget.next_expression();
    Machine { names, locals: Vec::new(), budget }.eval(expr)
}

struct Machine<'a> {
    names: &'a Names<'a>,
    /// Variables of macros, innermost last.
    locals: Vec<(&'a str, Cel)>,
    budget: &'a Budget,
}

// === impl Failure ===

impl Failure {
    pub fn error(message: impl Into<String>) -> Self {
        Self::Error(message.into())
    }

    pub fn message(&self) -> String {
        match self {
            Self::Pending(what) => format!("waiting for {what}"),
            Self::Error(message) => message.clone(),
            Self::OverBudget => "the expression costs more than is allowed".to_owned(),
        }
    }
}

// === impl Machine ===

impl<'a> Machine<'a> {
    fn eval(&mut self, expr: &'a Expr) -> Result<Cel, Failure> {
        self.budget.charge(1)?;
        match &expr.kind {
            Kind::Literal(value) => Ok(value.clone()),
            Kind::Name(name) => self.name(name),
            Kind::Select { of, field, optional: false } => {
                let value = self.eval(of)?;
                match as_optional(&value) {
                    Some(Some(inner)) => Ok(optional(find(inner, field)?)),
                    Some(None) => Ok(value),
                    None => find(&value, field)?.ok_or_else(|| missing(expr, field)),
                }
            }
            Kind::Select { of, field, optional: true } => {
                let value = self.eval(of)?;
                let inner = match as_optional(&value) {
                    Some(inner) => inner,
                    None => Some(&value),
                };
                Ok(optional(inner.map(|inner| find(inner, field)).transpose()?.flatten()))
            }
            Kind::Has { of, field } => {
                let value = self.eval(of)?;
                let inner = match as_optional(&value) {
                    Some(inner) => inner,
                    None => Some(&value),
                };
                let found = inner.map(|inner| find(inner, field)).transpose()?.flatten();
                Ok(Cel::Bool(found.is_some_and(|found| !matches!(found, Cel::Null))))
            }
            Kind::Index { of, index, optional: asked } => {
                let value = self.eval(of)?;
                let index = self.eval(index)?;
                let (inner, is_optional) = match as_optional(&value) {
                    Some(inner) => (inner, true),
                    None => (Some(&value), *asked),
                };
                let Some(inner) = inner else { return Ok(optional(None)) };
                match element(inner, &index) {
                    Ok(found) if is_optional => Ok(optional(Some(found))),
                    Err(Failure::Pending(_)) if is_optional => Ok(optional(None)),
                    other => other,
                }
            }
            Kind::Call { name, .. } if !functions::is_known(name) => {
                Err(Failure::error(format!("unknown function '{}'", shown(name))))
            }
            Kind::Call { name, target, args } => {
                let target = target.as_deref().map(|target| self.eval(target)).transpose()?;
                let args: Vec<Cel> = args.iter().map(|arg| self.eval(arg)).collect::<Result<_, _>>()?;
                functions::call(name, target, args, self.budget)
            }
            Kind::Unary(operator, of) => match (operator, self.eval(of)?) {
                (Unary::Not, Cel::Bool(flag)) => Ok(Cel::Bool(!flag)),
                (Unary::Negate, Cel::Int(number)) => {
                    number.checked_neg().map(Cel::Int).ok_or_else(|| Failure::error("integer overflow"))
                }
                (Unary::Negate, Cel::Float(number)) => Ok(Cel::Float(-number)),
                (_, other) => {
                    Err(Failure::error(format!("no such overload: a sign before {}", type_name(&other))))
                }
            },
            Kind::Binary(Binary::And, left, right) => self.logic(left, right, false),
            Kind::Binary(Binary::Or, left, right) => self.logic(left, right, true),
            Kind::Binary(operator, left, right) => {
                let left = self.eval(left)?;
                let right = self.eval(right)?;
                operators::apply(*operator, left, right, self.budget)
            }
            Kind::Conditional(parts) => {
                let [condition, yes, no] = &**parts;
                match self.eval(condition)? {
                    Cel::Bool(true) => self.eval(yes),
                    Cel::Bool(false) => self.eval(no),
                    other => {
                        Err(Failure::error(format!("a condition must be a bool, not {}", type_name(&other))))
                    }
                }
            }
            Kind::List(elements) => {
                let mut items = Vec::with_capacity(elements.len());
                for (is_optional, element) in elements {
                    items.extend(unwrapped(*is_optional, self.eval(element)?)?);
                }
                Ok(list(items))
            }
            Kind::Map(entries) => {
                let mut result = HashMap::with_capacity(entries.len());
                for (is_optional, key, value) in entries {
                    let key = self.eval(key)?;
                    let value = unwrapped(*is_optional, self.eval(value)?)?;
                    let key = as_key(&key)
                        .ok_or_else(|| Failure::error(format!("a {} cannot be a key", type_name(&key))))?;
                    if result.contains_key(&key) {
                        return Err(Failure::error(format!(
                            "the key {} is given twice",
                            shown(&key_text(&key))
                        )));
                    }
                    if let Some(value) = value {
                        result.insert(key, value);
                    }
                }
                Ok(map(result))
            }
            Kind::Loop(loop_) => self.run(loop_),
            Kind::Bind { name, value, body } => {
                let value = self.eval(value)?;
                self.with(&[(name, value)], |machine| machine.eval(body))
            }
        }
    }

    fn name(&self, name: &str) -> Result<Cel, Failure> {
        let local = self.locals.iter().rev().find(|(other, _)| *other == name).map(|(_, value)| value);
        match local.or_else(|| self.names.get(name)) {
            Some(value) => Ok(value.clone()),
            None => functions::type_called(name).ok_or_else(|| Failure::Pending(shown(name))),
        }
    }

    /// `&&` and `||` do not care about a failure on one side if the other side decides.
    fn logic(&mut self, left: &'a Expr, right: &'a Expr, decides: bool) -> Result<Cel, Failure> {
        let mut failure = None;
        for side in [left, right] {
            match self.eval(side) {
                Ok(Cel::Bool(flag)) if flag == decides => return Ok(Cel::Bool(decides)),
                Ok(Cel::Bool(_)) => {}
                Ok(other) => {
                    let why = format!("&& and || are for bools, not {}", type_name(&other));
                    failure.get_or_insert(Failure::error(why));
                }
                Err(Failure::OverBudget) => return Err(Failure::OverBudget),
                Err(why) => {
                    failure.get_or_insert(why);
                }
            }
        }
        failure.map_or(Ok(Cel::Bool(!decides)), Err)
    }

    fn with<T>(
        &mut self,
        variables: &[(&'a str, Cel)],
        run: impl FnOnce(&mut Self) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let before = self.locals.len();
        self.locals.extend_from_slice(variables);
        let result = run(self);
        self.locals.truncate(before);
        result
    }

    fn run(&mut self, loop_: &'a Loop) -> Result<Cel, Failure> {
        let over = self.eval(&loop_.over)?;
        if matches!(loop_.kind, LoopKind::OptMap | LoopKind::OptFlatMap) {
            return self.run_optional(loop_, &over);
        }
        let rounds = rounds(&over, loop_.variables.1.is_some())?;
        self.budget.charge(rounds.len() as u64)?;
        match loop_.kind {
            LoopKind::All => self.quantify(loop_, rounds, false),
            LoopKind::Exists => self.quantify(loop_, rounds, true),
            LoopKind::ExistsOne => {
                let mut n_found = 0;
                for round in rounds {
                    n_found += i32::from(self.flag(loop_, &loop_.body, &round)?);
                }
                Ok(Cel::Bool(n_found == 1))
            }
            LoopKind::Filter => {
                let mut kept = Vec::new();
                for round in rounds {
                    if self.flag(loop_, &loop_.body, &round)? {
                        kept.push(round.first);
                    }
                }
                Ok(list(kept))
            }
            LoopKind::Map | LoopKind::TransformList => {
                let mut results = Vec::new();
                self.each(loop_, rounds, |_, value| {
                    results.push(value);
                    Ok(())
                })?;
                Ok(list(results))
            }
            LoopKind::TransformMap => {
                let mut results = HashMap::new();
                self.each(loop_, rounds, |key, value| {
                    let key = as_key(&key).ok_or_else(|| Failure::error("not a key"))?;
                    results.insert(key, value);
                    Ok(())
                })?;
                Ok(map(results))
            }
            LoopKind::TransformMapEntry => {
                let mut results: HashMap<Key, Cel> = HashMap::new();
                self.each(loop_, rounds, |_, entry| {
                    let Cel::Map(entry) = entry else {
                        return Err(Failure::error("transformMapEntry must make a map of one entry"));
                    };
                    for (key, value) in sorted(&entry) {
                        if results.insert(key.clone(), value.clone()).is_some() {
                            let key = shown(&key_text(key));
                            return Err(Failure::error(format!("the key {key} is made twice")));
                        }
                    }
                    Ok(())
                })?;
                Ok(map(results))
            }
            LoopKind::SortBy => {
                let mut keyed = Vec::with_capacity(rounds.len());
                for round in rounds {
                    let key = self.body(loop_, &loop_.body, &round)?;
                    keyed.push((key, round.first));
                }
                self.sort(keyed)
            }
            LoopKind::OptMap | LoopKind::OptFlatMap => self.run_optional(loop_, &over),
        }
    }

    fn run_optional(&mut self, loop_: &'a Loop, over: &Cel) -> Result<Cel, Failure> {
        let Some(inner) = as_optional(over) else {
            return Err(Failure::error(format!("optMap is for optionals, not {}", type_name(over))));
        };
        let Some(inner) = inner else { return Ok(optional(None)) };
        let round = Round { first: inner.clone(), second: None };
        let value = self.body(loop_, &loop_.body, &round)?;
        match loop_.kind {
            LoopKind::OptFlatMap if as_optional(&value).is_some() => Ok(value),
            LoopKind::OptFlatMap => Err(Failure::error("optFlatMap must make an optional")),
            _ => Ok(optional(Some(value))),
        }
    }

    /// A failure in one round does not matter if another decides.
    fn quantify(&mut self, loop_: &'a Loop, rounds: Vec<Round>, decides: bool) -> Result<Cel, Failure> {
        let mut failure = None;
        for round in rounds {
            match self.flag(loop_, &loop_.body, &round) {
                Ok(flag) if flag == decides => return Ok(Cel::Bool(decides)),
                Ok(_) => {}
                Err(Failure::OverBudget) => return Err(Failure::OverBudget),
                Err(why) => {
                    failure.get_or_insert(why);
                }
            }
        }
        failure.map_or(Ok(Cel::Bool(!decides)), Err)
    }

    /// The body's value for each round that the filter lets through, with the round's first variable.
    fn each(
        &mut self,
        loop_: &'a Loop,
        rounds: Vec<Round>,
        mut keep: impl FnMut(Cel, Cel) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        for round in rounds {
            if let Some(filter) = &loop_.filter
                && !self.flag(loop_, filter, &round)?
            {
                continue;
            }
            let value = self.body(loop_, &loop_.body, &round)?;
            keep(round.first, value)?;
        }
        Ok(())
    }

    fn body(&mut self, loop_: &'a Loop, body: &'a Expr, round: &Round) -> Result<Cel, Failure> {
        let (first, second) = &loop_.variables;
        match (second, &round.second) {
            (Some(second), Some(value)) => {
                let variables = [(first.as_str(), round.first.clone()), (second.as_str(), value.clone())];
                self.with(&variables, |machine| machine.eval(body))
            }
            _ => self.with(&[(first.as_str(), round.first.clone())], |machine| machine.eval(body)),
        }
    }

    fn flag(&mut self, loop_: &'a Loop, body: &'a Expr, round: &Round) -> Result<bool, Failure> {
        match self.body(loop_, body, round)? {
            Cel::Bool(flag) => Ok(flag),
            other => Err(Failure::error(format!(
                "the condition of a macro must be a bool, not {}",
                type_name(&other)
            ))),
        }
    }

    fn sort(&self, mut keyed: Vec<(Cel, Cel)>) -> Result<Cel, Failure> {
        self.budget.charge(keyed.len() as u64 * u64::from(keyed.len().max(2).ilog2()))?;
        let mut failure = None;
        keyed.sort_by(|(left, _), (right, _)| match operators::compare(left, right) {
            Some(Some(ordering)) => ordering,
            _ => {
                failure.get_or_insert_with(|| operators::no_overload("sortBy", left, right));
                Ordering::Equal
            }
        });
        match failure {
            Some(why) => Err(why),
            None => Ok(list(keyed.into_iter().map(|(_, value)| value).collect())),
        }
    }
}

/// What the variables of a macro are in one round.
struct Round {
    first: Cel,
    second: Option<Cel>,
}

fn rounds(over: &Cel, both: bool) -> Result<Vec<Round>, Failure> {
    match over {
        Cel::List(items) => Ok(items
            .iter()
            .enumerate()
            .map(|(index, item)| match both {
                true => Round { first: Cel::Int(index as i64), second: Some(item.clone()) },
                false => Round { first: item.clone(), second: None },
            })
            .collect()),
        Cel::Map(map) => Ok(sorted(map)
            .into_iter()
            .map(|(key, value)| Round { first: key.into(), second: both.then(|| value.clone()) })
            .collect()),
        other => Err(Failure::error(format!("a macro runs over a list or a map, not {}", type_name(other)))),
    }
}

/// An entry with `?`: what is in the optional, or nothing.
fn unwrapped(is_optional: bool, value: Cel) -> Result<Option<Cel>, Failure> {
    if !is_optional {
        return Ok(Some(value));
    }
    match as_optional(&value) {
        Some(inner) => Ok(inner.cloned()),
        None => {
            Err(Failure::error(format!("an entry with ? must be an optional, not {}", type_name(&value))))
        }
    }
}

fn missing(expr: &Expr, field: &str) -> Failure {
    let path = expr.as_path().map_or_else(|| field.to_owned(), |path| path.join("."));
    Failure::Pending(shown(&path))
}

/// The field, if it is there.
fn find(value: &Cel, field: &str) -> Result<Option<Cel>, Failure> {
    match value {
        Cel::Map(map) => {
            Ok(operators::lookup(map, &Key::String(std::sync::Arc::new(field.to_owned()))).cloned())
        }
        // JSON does not tell an absent field from one that is null
        Cel::Null => Ok(None),
        other => Err(Failure::error(format!(
            "type {} does not support field selection of '{field}'",
            type_name(other)
        ))),
    }
}

fn element(value: &Cel, index: &Cel) -> Result<Cel, Failure> {
    match value {
        Cel::List(items) => {
            let position = match index {
                Cel::Int(number) => usize::try_from(*number).ok(),
                Cel::UInt(number) => usize::try_from(*number).ok(),
                Cel::Float(number) if number.fract() == 0.0 && *number >= 0.0 => Some(*number as usize),
                other => {
                    return Err(Failure::error(format!(
                        "a list is indexed by an int, not {}",
                        type_name(other)
                    )));
                }
            };
            let found = position.and_then(|position| items.get(position)).cloned();
            found.ok_or_else(|| Failure::Pending(format!("element {index:?} of a list of {}", items.len())))
        }
        Cel::Map(map) => {
            let key = as_key(index)
                .ok_or_else(|| Failure::error(format!("a {} cannot be a key", type_name(index))))?;
            let found = operators::lookup(map, &key).cloned();
            found.ok_or_else(|| Failure::Pending(format!("the key '{}'", shown(&key_text(&key)))))
        }
        Cel::Null => Err(Failure::Pending("an element of null".to_owned())),
        other => Err(Failure::error(format!("no such overload: an index into {}", type_name(other)))),
    }
}
