//! Operators on values: checked arithmetic, comparison across number types, equality by content.

use std::{cmp::Ordering, sync::Arc};

use kube_cel::cel::{Value as Cel, objects::Key};

use super::{
    Budget, Failure,
    ast::Binary,
    value::{self, as_key, type_name},
};

pub(super) fn apply(operator: Binary, left: Cel, right: Cel, budget: &Budget) -> Result<Cel, Failure> {
    match operator {
        Binary::Equal => equal(&left, &right, budget).map(Cel::Bool),
        Binary::NotEqual => equal(&left, &right, budget).map(|equal| Cel::Bool(!equal)),
        Binary::Less | Binary::LessEqual | Binary::Greater | Binary::GreaterEqual => {
            let ordering =
                compare(&left, &right).ok_or_else(|| no_overload(operator.name(), &left, &right))?;
            Ok(Cel::Bool(match operator {
                Binary::Less => ordering == Some(Ordering::Less),
                Binary::LessEqual => matches!(ordering, Some(Ordering::Less | Ordering::Equal)),
                Binary::Greater => ordering == Some(Ordering::Greater),
                _ => matches!(ordering, Some(Ordering::Greater | Ordering::Equal)),
            }))
        }
        Binary::In => contains(&left, &right, budget),
        Binary::Add => add(left, right, budget),
        _ => arithmetic(operator, &left, &right),
    }
}

pub(super) fn no_overload(name: &str, left: &Cel, right: &Cel) -> Failure {
    Failure::error(format!("no such overload: {name} of {} and {}", type_name(left), type_name(right)))
}

/// Equality by content; numbers of different types are equal if they mean the same.
pub(super) fn equal(left: &Cel, right: &Cel, budget: &Budget) -> Result<bool, Failure> {
    budget.charge(1)?;
    Ok(match (left, right) {
        (Cel::List(left), Cel::List(right)) => {
            if left.len() != right.len() {
                return Ok(false);
            }
            for (left, right) in left.iter().zip(right.iter()) {
                if !equal(left, right, budget)? {
                    return Ok(false);
                }
            }
            true
        }
        (Cel::Map(left), Cel::Map(right)) => {
            if left.map.len() != right.map.len() {
                return Ok(false);
            }
            for (key, left) in left.map.iter() {
                match lookup(right, key) {
                    Some(right) if equal(left, right, budget)? => {}
                    _ => return Ok(false),
                }
            }
            true
        }
        (Cel::String(left), Cel::String(right)) => {
            budget.charge_bytes(left.len().min(right.len()))?;
            left == right
        }
        (Cel::Bytes(left), Cel::Bytes(right)) => {
            budget.charge_bytes(left.len().min(right.len()))?;
            left == right
        }
        (Cel::Int(_) | Cel::UInt(_) | Cel::Float(_), Cel::Int(_) | Cel::UInt(_) | Cel::Float(_)) => {
            compare(left, right).flatten() == Some(Ordering::Equal)
        }
        (Cel::Opaque(a), Cel::Opaque(b)) => match (value::as_optional(left), value::as_optional(right)) {
            (Some(Some(left)), Some(Some(right))) => equal(left, right, budget)?,
            (Some(left), Some(right)) => left.is_none() && right.is_none(),
            _ => a.opaque_eq(b.as_ref()),
        },
        (Cel::Bool(left), Cel::Bool(right)) => left == right,
        (Cel::Null, Cel::Null) => true,
        (Cel::Duration(left), Cel::Duration(right)) => left == right,
        (Cel::Timestamp(left), Cel::Timestamp(right)) => left == right,
        _ => false,
    })
}

/// `None` if the two cannot be compared, `Some(None)` if one is not a number at all (NaN).
pub(super) fn compare(left: &Cel, right: &Cel) -> Option<Option<Ordering>> {
    let integer = |value: &Cel| match value {
        Cel::Int(number) => Some(i128::from(*number)),
        Cel::UInt(number) => Some(i128::from(*number)),
        _ => None,
    };
    let float = |value: &Cel| match value {
        Cel::Float(number) => Some(*number),
        other => integer(other).map(|number| number as f64),
    };
    Some(match (left, right) {
        (Cel::String(left), Cel::String(right)) => Some(left.cmp(right)),
        (Cel::Bytes(left), Cel::Bytes(right)) => Some(left.cmp(right)),
        (Cel::Bool(left), Cel::Bool(right)) => Some(left.cmp(right)),
        (Cel::Duration(left), Cel::Duration(right)) => Some(left.cmp(right)),
        (Cel::Timestamp(left), Cel::Timestamp(right)) => Some(left.cmp(right)),
        _ => match (integer(left), integer(right)) {
            (Some(left), Some(right)) => Some(left.cmp(&right)),
            _ => float(left)?.partial_cmp(&float(right)?),
        },
    })
}

/// The value of a key; an int finds a uint of the same size.
pub(super) fn lookup<'a>(map: &'a kube_cel::cel::objects::Map, key: &Key) -> Option<&'a Cel> {
    map.get(key)
}

fn contains(needle: &Cel, haystack: &Cel, budget: &Budget) -> Result<Cel, Failure> {
    match haystack {
        Cel::List(items) => {
            for item in items.iter() {
                if equal(needle, item, budget)? {
                    return Ok(Cel::Bool(true));
                }
            }
            Ok(Cel::Bool(false))
        }
        Cel::Map(map) => {
            let found = as_key(needle).is_some_and(|key| lookup(map, &key).is_some());
            Ok(Cel::Bool(found))
        }
        _ => Err(no_overload("@in", needle, haystack)),
    }
}

fn add(left: Cel, right: Cel, budget: &Budget) -> Result<Cel, Failure> {
    match (left, right) {
        (Cel::String(mut left), Cel::String(right)) => {
            budget.charge_bytes(left.len() + right.len())?;
            Arc::make_mut(&mut left).push_str(&right);
            Ok(Cel::String(left))
        }
        (Cel::Bytes(mut left), Cel::Bytes(right)) => {
            budget.charge_bytes(left.len() + right.len())?;
            Arc::make_mut(&mut left).extend_from_slice(&right);
            Ok(Cel::Bytes(left))
        }
        (Cel::List(mut left), Cel::List(right)) => {
            budget.charge((left.len() + right.len()) as u64)?;
            Arc::make_mut(&mut left).extend(right.iter().cloned());
            Ok(Cel::List(left))
        }
        (left, right) => arithmetic(Binary::Add, &left, &right),
    }
}

fn arithmetic(operator: Binary, left: &Cel, right: &Cel) -> Result<Cel, Failure> {
    let overflow = || Failure::error(format!("integer overflow: {}", operator.name()));
    match (left, right) {
        (Cel::Int(left), Cel::Int(right)) => {
            if *right == 0 && matches!(operator, Binary::Divide | Binary::Remainder) {
                return Err(by_zero(operator));
            }
            let result = match operator {
                Binary::Add => left.checked_add(*right),
                Binary::Subtract => left.checked_sub(*right),
                Binary::Multiply => left.checked_mul(*right),
                Binary::Divide => left.checked_div(*right),
                _ => left.checked_rem(*right),
            };
            result.map(Cel::Int).ok_or_else(overflow)
        }
        (Cel::UInt(left), Cel::UInt(right)) => {
            if *right == 0 && matches!(operator, Binary::Divide | Binary::Remainder) {
                return Err(by_zero(operator));
            }
            let result = match operator {
                Binary::Add => left.checked_add(*right),
                Binary::Subtract => left.checked_sub(*right),
                Binary::Multiply => left.checked_mul(*right),
                Binary::Divide => left.checked_div(*right),
                _ => left.checked_rem(*right),
            };
            result.map(Cel::UInt).ok_or_else(overflow)
        }
        (Cel::Float(left), Cel::Float(right)) => match operator {
            Binary::Add => Ok(Cel::Float(left + right)),
            Binary::Subtract => Ok(Cel::Float(left - right)),
            Binary::Multiply => Ok(Cel::Float(left * right)),
            Binary::Divide => Ok(Cel::Float(left / right)),
            _ => Err(no_overload(operator.name(), &Cel::Float(*left), &Cel::Float(*right))),
        },
        (Cel::Timestamp(time), Cel::Duration(span)) if operator == Binary::Add => {
            time.checked_add_signed(*span).map(Cel::Timestamp).ok_or_else(overflow)
        }
        (Cel::Duration(span), Cel::Timestamp(time)) if operator == Binary::Add => {
            time.checked_add_signed(*span).map(Cel::Timestamp).ok_or_else(overflow)
        }
        (Cel::Timestamp(time), Cel::Duration(span)) if operator == Binary::Subtract => {
            time.checked_sub_signed(*span).map(Cel::Timestamp).ok_or_else(overflow)
        }
        (Cel::Timestamp(left), Cel::Timestamp(right)) if operator == Binary::Subtract => {
            Ok(Cel::Duration(left.signed_duration_since(*right)))
        }
        (Cel::Duration(left), Cel::Duration(right)) if operator == Binary::Add => {
            left.checked_add(right).map(Cel::Duration).ok_or_else(overflow)
        }
        (Cel::Duration(left), Cel::Duration(right)) if operator == Binary::Subtract => {
            left.checked_sub(right).map(Cel::Duration).ok_or_else(overflow)
        }
        _ => Err(no_overload(operator.name(), left, right)),
    }
}

fn by_zero(operator: Binary) -> Failure {
    Failure::error(if operator == Binary::Divide { "division by zero" } else { "modulus by zero" })
}
