//! What an expression makes, found without running it. Only what is certainly wrong is called wrong.

use std::{collections::HashMap, sync::Arc};

use kube_cel::cel::Value as Cel;

use super::types::Type;
use crate::cel::{
    ast::{Binary, Expr, Kind, Loop, LoopKind, Unary},
    functions::{self, Result_},
};

/// The types of names in scope.
pub(crate) type Scope<'a> = HashMap<&'a str, Type>;

pub(crate) fn infer(expr: &Expr, scope: &Scope<'_>) -> Result<Type, String> {
    Checker { scope, locals: Vec::new() }.infer(expr)
}

struct Checker<'a> {
    scope: &'a Scope<'a>,
    locals: Vec<(&'a str, Type)>,
}

impl<'a> Checker<'a> {
    fn infer(&mut self, expr: &'a Expr) -> Result<Type, String> {
        match &expr.kind {
            Kind::Literal(value) => Ok(literal(value)),
            Kind::Name(name) => {
                let local = self.locals.iter().rev().find(|(other, _)| other == name);
                match local.map(|(_, found)| found).or_else(|| self.scope.get(name.as_str())) {
                    Some(found) => Ok(found.clone()),
                    None if functions::type_called(name).is_some() => Ok(Type::Dyn),
                    None => Err(format!("undeclared reference to '{name}'")),
                }
            }
            Kind::Select { of, field, optional } => {
                let found = self.infer(of)?.field(field)?;
                Ok(match found {
                    found @ Type::Optional(_) => found,
                    found if *optional => Type::Optional(Arc::new(found)),
                    found => found,
                })
            }
            Kind::Has { of, field } => {
                self.infer(of)?.field(field)?;
                Ok(Type::Bool)
            }
            Kind::Index { of, index, optional } => {
                let (of, index) = (self.infer(of)?, self.infer(index)?);
                let (inner, is_optional) = match &of {
                    Type::Optional(inner) => ((**inner).clone(), true),
                    _ => (of.clone(), *optional),
                };
                let found = match inner {
                    Type::List(item) if index.is_dyn() || index.is_number() => (*item).clone(),
                    Type::Map(entry) if !entry.0.is_disjoint(&index) => entry.1.clone(),
                    Type::List(_) | Type::Map(_) => return Err(no_overload("_[_]", &[&of, &index])),
                    Type::Object(_) | Type::Literal(_) | Type::Dyn | Type::Never | Type::Null => Type::Dyn,
                    _ => return Err(no_overload("_[_]", &[&of, &index])),
                };
                Ok(if is_optional { Type::Optional(Arc::new(found)) } else { found })
            }
            Kind::Call { name, target, args } => self.call(name, target.as_deref(), args),
            Kind::Unary(operator, of) => {
                let of = self.infer(of)?;
                match (operator, &of) {
                    (Unary::Not, Type::Bool) | (Unary::Negate, Type::Int | Type::Double) => Ok(of),
                    (Unary::Not, of) if of.is_dyn() => Ok(Type::Bool),
                    (Unary::Negate, of) if of.is_dyn() => Ok(Type::Dyn),
                    (Unary::Not, _) => Err(no_overload("!_", &[&of])),
                    (Unary::Negate, _) => Err(no_overload("-_", &[&of])),
                }
            }
            Kind::Binary(operator, left, right) => {
                let (left, right) = (self.infer(left)?, self.infer(right)?);
                binary(*operator, &left, &right)
            }
            Kind::Conditional(parts) => {
                let [condition, yes, no] = &**parts;
                let condition = self.infer(condition)?;
                if !matches!(condition, Type::Bool) && !condition.is_dyn() {
                    return Err(no_overload("_?_:_", &[&condition]));
                }
                Ok(self.infer(yes)?.join(&self.infer(no)?))
            }
            Kind::List(elements) => {
                let mut element = Type::Never;
                for (is_optional, item) in elements {
                    let item = self.infer(item)?;
                    element = element.join(&unwrapped(*is_optional, item));
                }
                Ok(Type::list(element))
            }
            Kind::Map(entries) => self.map(entries),
            Kind::Loop(loop_) => self.run(loop_),
            Kind::Bind { name, value, body } => {
                let value = self.infer(value)?;
                self.with(vec![(name, value)], |checker| checker.infer(body))
            }
        }
    }

    fn map(&mut self, entries: &'a [(bool, Expr, Expr)]) -> Result<Type, String> {
        let mut fields = std::collections::BTreeMap::new();
        let (mut key_type, mut value_type) = (Type::Never, Type::Never);
        let mut is_literal = true;
        for (is_optional, key, value) in entries {
            key_type = key_type.join(&self.infer(key)?);
            let value = unwrapped(*is_optional, self.infer(value)?);
            value_type = value_type.join(&value);
            match &key.kind {
                Kind::Literal(Cel::String(name)) => {
                    fields.insert(name.to_string(), value);
                }
                _ => is_literal = false,
            }
        }
        match is_literal && !entries.is_empty() {
            true => Ok(Type::Literal(Arc::new(fields))),
            false => Ok(Type::map(key_type, value_type)),
        }
    }

    fn with<T>(
        &mut self,
        variables: Vec<(&'a str, Type)>,
        run: impl FnOnce(&mut Self) -> Result<T, String>,
    ) -> Result<T, String> {
        let before = self.locals.len();
        self.locals.extend(variables);
        let result = run(self);
        self.locals.truncate(before);
        result
    }

    fn run(&mut self, loop_: &'a Loop) -> Result<Type, String> {
        let over = self.infer(&loop_.over)?;
        let (first, (key, value)) = match (loop_.kind, &over) {
            (LoopKind::OptMap | LoopKind::OptFlatMap, Type::Optional(inner)) => {
                ((**inner).clone(), (Type::Dyn, Type::Dyn))
            }
            (LoopKind::OptMap | LoopKind::OptFlatMap, over) if over.is_dyn() => {
                (Type::Dyn, (Type::Dyn, Type::Dyn))
            }
            (LoopKind::OptMap | LoopKind::OptFlatMap, over) => return Err(no_overload("optMap", &[over])),
            _ => over.elements()?,
        };
        let variables = match &loop_.variables {
            (name, None) => vec![(name.as_str(), first.clone())],
            (one, Some(two)) => vec![(one.as_str(), key.clone()), (two.as_str(), value)],
        };
        let body = self.with(variables, |checker| {
            if let Some(filter) = &loop_.filter {
                condition(&checker.infer(filter)?)?;
            }
            checker.infer(&loop_.body)
        })?;
        Ok(match loop_.kind {
            LoopKind::All | LoopKind::Exists | LoopKind::ExistsOne => {
                condition(&body)?;
                Type::Bool
            }
            LoopKind::Filter => {
                condition(&body)?;
                Type::list(first)
            }
            LoopKind::Map | LoopKind::TransformList => Type::list(body),
            LoopKind::TransformMap => Type::map(key, body),
            LoopKind::TransformMapEntry => match body {
                Type::Map(entry) => Type::Map(entry),
                Type::Literal(fields) => {
                    let value = fields.values().fold(Type::Never, |one, other| one.join(other));
                    Type::map(Type::String, value)
                }
                body if body.is_dyn() => Type::Dyn,
                body => return Err(no_overload("transformMapEntry", &[&body])),
            },
            LoopKind::SortBy => over,
            LoopKind::OptMap => Type::Optional(Arc::new(body)),
            LoopKind::OptFlatMap => body,
        })
    }

    fn call(&mut self, name: &str, target: Option<&'a Expr>, args: &'a [Expr]) -> Result<Type, String> {
        let Some(signature) = functions::find(name) else {
            return Err(format!("uses unknown functions: {name}"));
        };
        signature.check_call(target.is_some(), args.len())?;
        let all: Vec<Type> =
            target.into_iter().chain(args).map(|arg| self.infer(arg)).collect::<Result<_, _>>()?;
        let first = all.first().cloned().unwrap_or(Type::Dyn);
        fits(name, &all)?;
        Ok(match signature.result {
            Result_::Bool => Type::Bool,
            Result_::Int => Type::Int,
            Result_::Uint => Type::Uint,
            Result_::Double => Type::Double,
            Result_::String => Type::String,
            Result_::Bytes => Type::Bytes,
            Result_::Timestamp => Type::Timestamp,
            Result_::Duration => Type::Duration,
            Result_::Named(name) => Type::Named(name),
            Result_::Strings => Type::list(Type::String),
            Result_::Ints => Type::list(Type::Int),
            Result_::Dyn => Type::Dyn,
            Result_::Optional => Type::Optional(Arc::new(match (name, &first) {
                ("first" | "last", Type::List(item)) => (**item).clone(),
                ("first" | "last", _) => Type::Dyn,
                ("optional.none", _) => Type::Never,
                _ => first,
            })),
            Result_::Same => first,
            Result_::Element => match first {
                Type::List(item) => (*item).clone(),
                _ => Type::Dyn,
            },
            Result_::Inner => match (&first, all.get(1)) {
                (Type::Optional(inner), Some(other)) => inner.join(other),
                (Type::Optional(inner), None) => (**inner).clone(),
                _ => Type::Dyn,
            },
        })
    }
}

fn literal(value: &Cel) -> Type {
    match value {
        Cel::Int(_) => Type::Int,
        Cel::UInt(_) => Type::Uint,
        Cel::Float(_) => Type::Double,
        Cel::Bool(_) => Type::Bool,
        Cel::String(_) => Type::String,
        Cel::Bytes(_) => Type::Bytes,
        Cel::Null => Type::Null,
        _ => Type::Dyn,
    }
}

fn unwrapped(is_optional: bool, found: Type) -> Type {
    match found {
        Type::Optional(inner) if is_optional => (*inner).clone(),
        found => found,
    }
}

fn no_overload(name: &str, types: &[&Type]) -> String {
    let types: Vec<String> = types.iter().map(ToString::to_string).collect();
    format!("found no matching overload for '{name}' applied to '({})'", types.join(", "))
}

/// A condition is a bool, or an optional of one.
pub(crate) fn condition(found: &Type) -> Result<(), String> {
    match found {
        Type::Bool => Ok(()),
        Type::Optional(inner) => condition(inner),
        found if found.is_dyn() => Ok(()),
        found => Err(format!("must return bool, not {found}")),
    }
}

fn binary(operator: Binary, left: &Type, right: &Type) -> Result<Type, String> {
    let wrong = || Err(no_overload(operator.name(), &[left, right]));
    let either_dyn = left.is_dyn() || right.is_dyn();
    match operator {
        Binary::And | Binary::Or => {
            let is_bool = |side: &Type| matches!(side, Type::Bool) || side.is_dyn();
            if is_bool(left) && is_bool(right) { Ok(Type::Bool) } else { wrong() }
        }
        Binary::Equal | Binary::NotEqual => {
            if left.is_disjoint(right) {
                wrong()
            } else {
                Ok(Type::Bool)
            }
        }
        Binary::Less | Binary::LessEqual | Binary::Greater | Binary::GreaterEqual => {
            let comparable = |side: &Type| side.is_scalar() && !matches!(side, Type::Null | Type::Named(_));
            let is_fine = match either_dyn {
                true => (left.is_dyn() || comparable(left)) && (right.is_dyn() || comparable(right)),
                false => comparable(left) && comparable(right) && !left.is_disjoint(right),
            };
            if is_fine { Ok(Type::Bool) } else { wrong() }
        }
        Binary::In => match right {
            Type::List(item) if !item.is_disjoint(left) => Ok(Type::Bool),
            Type::Map(_) | Type::Object(_) | Type::Literal(_) | Type::Dyn | Type::Never => Ok(Type::Bool),
            _ => wrong(),
        },
        Binary::Add => match (left, right) {
            (Type::String, Type::String) => Ok(Type::String),
            (Type::Bytes, Type::Bytes) => Ok(Type::Bytes),
            (Type::List(_), Type::List(_)) => Ok(left.join(right)),
            (Type::Timestamp, Type::Duration) | (Type::Duration, Type::Timestamp) => Ok(Type::Timestamp),
            (Type::Duration, Type::Duration) => Ok(Type::Duration),
            _ => number(left, right, operator),
        },
        Binary::Subtract => match (left, right) {
            (Type::Timestamp, Type::Duration) => Ok(Type::Timestamp),
            (Type::Timestamp, Type::Timestamp) | (Type::Duration, Type::Duration) => Ok(Type::Duration),
            _ => number(left, right, operator),
        },
        Binary::Multiply | Binary::Divide | Binary::Remainder => number(left, right, operator),
    }
}

fn number(left: &Type, right: &Type, operator: Binary) -> Result<Type, String> {
    let known = match (left.is_dyn(), right.is_dyn()) {
        (true, true) => return Ok(Type::Dyn),
        (true, false) => right,
        (false, true) => left,
        (false, false) if left.to_string() == right.to_string() => left,
        (false, false) => return Err(no_overload(operator.name(), &[left, right])),
    };
    match known {
        Type::Double if operator == Binary::Remainder => Err(no_overload(operator.name(), &[left, right])),
        found if found.is_number() => Ok(found.clone()),
        // text, lists and times can be added to something that is not known yet
        Type::String | Type::Bytes if operator == Binary::Add => Ok(known.clone()),
        Type::List(_) if operator == Binary::Add => Ok(Type::list(Type::Dyn)),
        Type::Timestamp | Type::Duration if matches!(operator, Binary::Add | Binary::Subtract) => {
            Ok(Type::Dyn)
        }
        _ => Err(no_overload(operator.name(), &[left, right])),
    }
}

/// Calls whose arguments are certainly of the wrong type.
fn fits(name: &str, args: &[Type]) -> Result<(), String> {
    let is_text = |arg: &Type| arg.is_dyn() || matches!(arg, Type::String);
    let is_list = |arg: &Type| arg.is_dyn() || matches!(arg, Type::List(_));
    let is_map =
        |arg: &Type| arg.is_dyn() || matches!(arg, Type::Map(_) | Type::Object(_) | Type::Literal(_));
    let is_fine = match (name, args) {
        (
            "contains" | "startsWith" | "endsWith" | "matches" | "find" | "findAll" | "split" | "charAt"
            | "lowerAscii" | "upperAscii" | "replace" | "substring" | "trim" | "format" | "strings.quote"
            | "quantity" | "isQuantity" | "url" | "isURL" | "isIP" | "cidr" | "isCIDR" | "semver"
            | "isSemver" | "json.unmarshal" | "hash.fnv64a" | "hash.sha256" | "hash.md5" | "base64.decode",
            [first, ..],
        ) => is_text(first),
        ("base64.encode", [first]) => first.is_dyn() || matches!(first, Type::Bytes),
        (
            "join"
            | "slice"
            | "flatten"
            | "distinct"
            | "sort"
            | "isSorted"
            | "sum"
            | "min"
            | "max"
            | "first"
            | "last"
            | "lists.setAtIndex"
            | "lists.insertAtIndex"
            | "lists.removeAtIndex",
            [first, ..],
        ) => is_list(first),
        ("merge" | "deepMerge", [first, second]) => is_map(first) && is_map(second),
        ("labelSelector", [first]) => is_map(first),
        ("size", [first]) => {
            is_text(first) || is_list(first) || is_map(first) || matches!(first, Type::Bytes)
        }
        ("string", [first]) => {
            first.is_dyn()
                || matches!(first, Type::Named("net.IP" | "net.CIDR"))
                || (first.is_scalar() && !matches!(first, Type::Null | Type::Named(_)))
        }
        ("int" | "double" | "uint", [first]) => {
            first.is_dyn() || first.is_number() || matches!(first, Type::String | Type::Timestamp)
        }
        ("orValue" | "or" | "value" | "hasValue", [first, ..]) => {
            first.is_dyn() || matches!(first, Type::Optional(_))
        }
        ("lists.range", [first]) => first.is_dyn() || matches!(first, Type::Int),
        _ => true,
    };
    if is_fine { Ok(()) } else { Err(no_overload(name, &args.iter().collect::<Vec<_>>())) }
}
