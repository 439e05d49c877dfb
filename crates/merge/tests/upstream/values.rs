//! Their values in Go source, as ours.

use merge::apply::fieldpath::{Path, PathElement, Set};
use serde_json::{Number, Value};

use crate::golang::Expr;

#[derive(Debug)]
pub enum Problem {
    Failed(String),
    Unsupported(String),
}

impl From<String> for Problem {
    fn from(why: String) -> Self {
        Self::Failed(why)
    }
}

pub fn unsupported<T>(why: impl Into<String>) -> Result<T, Problem> {
    Err(Problem::Unsupported(why.into()))
}

pub fn set_of(set: &Expr) -> Result<Set, Problem> {
    match set {
        Expr::Call(name, paths) if name == "_NS" => paths.iter().map(path_of).collect(),
        other => unsupported(format!("a set: {other:?}")),
    }
}

pub fn path_of(path: &Expr) -> Result<Path, Problem> {
    match path {
        Expr::Call(name, parts) if name == "_P" => {
            Ok(Path(parts.iter().map(element_of).collect::<Result<_, _>>()?))
        }
        other => unsupported(format!("a path: {other:?}")),
    }
}

pub fn element_of(part: &Expr) -> Result<PathElement, Problem> {
    match part {
        Expr::Text(name) => Ok(PathElement::field(name)),
        Expr::Number(index) => Ok(PathElement::Index(*index as i64)),
        Expr::Call(name, arguments) if name == "_V" => Ok(PathElement::Value(value_of(&arguments[0])?)),
        Expr::Call(name, arguments) if name == "_KBF" => {
            let fields = arguments
                .chunks(2)
                .map(|pair| Ok((pair[0].text().expect("a name").to_owned(), value_of(&pair[1])?)));
            Ok(PathElement::key(fields.collect::<Result<_, Problem>>()?))
        }
        other => unsupported(format!("a path element: {other:?}")),
    }
}

fn value_of(value: &Expr) -> Result<Value, Problem> {
    Ok(match value {
        Expr::Text(text) => text.as_str().into(),
        Expr::Number(n) if n.fract() == 0.0 => (*n as i64).into(),
        Expr::Number(n) => Number::from_f64(*n).map_or(Value::Null, Value::Number),
        Expr::Name(name) if name == "true" || name == "false" => (name == "true").into(),
        Expr::Call(name, arguments) if name == "float64" || name == "int64" => value_of(&arguments[0])?,
        other => return unsupported(format!("a value: {other:?}")),
    })
}
