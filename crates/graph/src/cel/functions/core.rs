//! The core of the language: conversions, sizes, optionals.

use std::sync::Arc;

use kube_cel::cel::Value as Cel;

use super::no_overload;
use crate::cel::{
    Budget, Failure,
    value::{self, as_optional, optional, string, type_name},
};

/// `None` if the function is not one of these.
pub(super) fn call(name: &str, args: &[Cel], budget: &Budget) -> Option<Result<Cel, Failure>> {
    Some(match (name, args) {
        ("size", [of]) => size(of, budget),
        ("string", [of]) => text(of, budget).unwrap_or_else(|| Err(no_overload(name, args))),
        ("string", _) => return None,
        ("int", [of]) => int(of),
        ("uint", [of]) => uint(of),
        ("double", [of]) => double(of),
        ("bool", [of]) => match of {
            Cel::Bool(flag) => Ok(Cel::Bool(*flag)),
            Cel::String(text) => match text.as_str() {
                "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(Cel::Bool(true)),
                "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(Cel::Bool(false)),
                _ => Err(Failure::error("bool: the text is neither true nor false")),
            },
            _ => Err(no_overload(name, args)),
        },
        ("bytes", [Cel::String(text)]) => {
            budget.charge_bytes(text.len()).map(|()| Cel::Bytes(Arc::new(text.as_bytes().to_vec())))
        }
        ("bytes", [Cel::Bytes(bytes)]) => Ok(Cel::Bytes(bytes.clone())),
        ("dyn", [of]) => Ok(of.clone()),
        ("type", [of]) => Ok(string(type_name(of))),
        ("contains", [Cel::String(text), Cel::String(part)]) => {
            search(text, part, budget, |t, p| t.contains(p))
        }
        ("startsWith", [Cel::String(text), Cel::String(part)]) => {
            search(text, part, budget, |t, p| t.starts_with(p))
        }
        ("endsWith", [Cel::String(text), Cel::String(part)]) => {
            search(text, part, budget, |t, p| t.ends_with(p))
        }
        ("optional.of", [of]) => Ok(optional(Some(of.clone()))),
        ("optional.none", []) => Ok(optional(None)),
        ("optional.ofNonZeroValue", [of]) => Ok(optional((!is_zero(of)).then(|| of.clone()))),
        ("orValue", [of, other]) => match as_optional(of) {
            Some(inner) => Ok(inner.cloned().unwrap_or_else(|| other.clone())),
            None => Err(no_overload(name, args)),
        },
        ("or", [of, other]) => match (as_optional(of), as_optional(other)) {
            (Some(inner), Some(_)) => Ok(if inner.is_some() { of.clone() } else { other.clone() }),
            _ => Err(no_overload(name, args)),
        },
        ("value", [of]) => match as_optional(of) {
            Some(Some(inner)) => Ok(inner.clone()),
            Some(None) => Err(Failure::Pending("the value of an optional that is empty".into())),
            None => Err(no_overload(name, args)),
        },
        ("hasValue", [of]) => match as_optional(of) {
            Some(inner) => Ok(Cel::Bool(inner.is_some())),
            None => Err(no_overload(name, args)),
        },
        ("bytes" | "contains" | "startsWith" | "endsWith", _) => Err(no_overload(name, args)),
        _ => return None,
    })
}

fn size(of: &Cel, budget: &Budget) -> Result<Cel, Failure> {
    let size = match of {
        Cel::String(text) => {
            budget.charge_bytes(text.len())?;
            text.chars().count()
        }
        Cel::Bytes(bytes) => bytes.len(),
        Cel::List(items) => items.len(),
        Cel::Map(map) => map.map.len(),
        _ => return Err(no_overload("size", std::slice::from_ref(of))),
    };
    Ok(Cel::Int(i64::try_from(size).unwrap_or(i64::MAX)))
}

/// `None` for what only the libraries can print.
fn text(of: &Cel, budget: &Budget) -> Option<Result<Cel, Failure>> {
    Some(Ok(match of {
        Cel::String(_) => of.clone(),
        Cel::Int(number) => string(number.to_string()),
        Cel::UInt(number) => string(number.to_string()),
        Cel::Float(number) => string(number.to_string()),
        Cel::Bool(flag) => string(flag.to_string()),
        Cel::Timestamp(time) => string(value::rfc3339(time)),
        Cel::Duration(span) => {
            let seconds = span.num_milliseconds() as f64 / 1e3;
            string(format!("{seconds}s"))
        }
        Cel::Bytes(bytes) => {
            if let Err(failure) = budget.charge_bytes(bytes.len()) {
                return Some(Err(failure));
            }
            match std::str::from_utf8(bytes) {
                Ok(text) => string(text),
                Err(_) => return Some(Err(Failure::error("string: the bytes are not valid UTF-8"))),
            }
        }
        Cel::Opaque(opaque)
            if ["IP", "CIDR"].iter().any(|name| opaque.runtime_type_name().ends_with(name)) =>
        {
            return Some(super::library::call("string", false, vec![of.clone()], budget));
        }
        _ => return None,
    }))
}

fn int(of: &Cel) -> Result<Cel, Failure> {
    let out_of_range = || Failure::error("int: the number does not fit into 64 bits");
    Ok(Cel::Int(match of {
        Cel::Int(number) => *number,
        Cel::UInt(number) => i64::try_from(*number).map_err(|_| out_of_range())?,
        // 2^63 is the first double that does not fit
        Cel::Float(number) if number.abs() < 9_223_372_036_854_775_808.0 => *number as i64,
        Cel::Float(_) => return Err(out_of_range()),
        Cel::String(text) => {
            text.parse().map_err(|_| Failure::error("int: the text is not a whole number"))?
        }
        Cel::Timestamp(time) => time.timestamp(),
        other => return Err(no_overload("int", std::slice::from_ref(other))),
    }))
}

fn uint(of: &Cel) -> Result<Cel, Failure> {
    let out_of_range = || Failure::error("uint: the number is negative or does not fit into 64 bits");
    Ok(Cel::UInt(match of {
        Cel::UInt(number) => *number,
        Cel::Int(number) => u64::try_from(*number).map_err(|_| out_of_range())?,
        Cel::Float(number) if *number >= 0.0 && *number < 18_446_744_073_709_551_616.0 => *number as u64,
        Cel::Float(_) => return Err(out_of_range()),
        Cel::String(text) => {
            text.parse().map_err(|_| Failure::error("uint: the text is not a whole number"))?
        }
        other => return Err(no_overload("uint", std::slice::from_ref(other))),
    }))
}

fn double(of: &Cel) -> Result<Cel, Failure> {
    Ok(Cel::Float(match of {
        Cel::Float(number) => *number,
        Cel::Int(number) => *number as f64,
        Cel::UInt(number) => *number as f64,
        Cel::String(text) => text.parse().map_err(|_| Failure::error("double: the text is not a number"))?,
        other => return Err(no_overload("double", std::slice::from_ref(other))),
    }))
}

fn search(
    text: &str,
    part: &str,
    budget: &Budget,
    found: impl FnOnce(&str, &str) -> bool,
) -> Result<Cel, Failure> {
    budget.charge_bytes(text.len() + part.len())?;
    Ok(Cel::Bool(found(text, part)))
}

fn is_zero(of: &Cel) -> bool {
    match of {
        Cel::Null => true,
        Cel::Bool(flag) => !flag,
        Cel::Int(number) => *number == 0,
        Cel::UInt(number) => *number == 0,
        Cel::Float(number) => *number == 0.0,
        Cel::String(text) => text.is_empty(),
        Cel::Bytes(bytes) => bytes.is_empty(),
        Cel::List(items) => items.is_empty(),
        Cel::Map(map) => map.map.is_empty(),
        Cel::Duration(span) => span.is_zero(),
        Cel::Timestamp(_) | Cel::Opaque(_) | Cel::Function(..) => false,
    }
}
