//! Manifests with expressions in them: `${…}` found, parsed, and put together again with values.

use serde_json::{Map, Value};

use crate::{
    cel::{Budget, Failure, Names, ast::Expr, eval::eval, parse, value::to_json},
    error::{Error, child, shown},
};

/// Objects and lists in one another. Kubernetes' own kinds stay below 30.
const DEEPEST: usize = 100;

/// An expression and how it was written.
#[derive(Clone, Debug)]
pub(crate) struct Code {
    pub text: String,
    pub expr: Expr,
}

/// A value of a manifest.
#[derive(Clone, Debug)]
pub(crate) enum Field {
    Literal(Value),
    /// The whole text is one expression: the field gets its value, of whatever type.
    Standalone(Code),
    /// Text with expressions in it: each of them makes a string.
    Text(Vec<Piece>),
    Object(Vec<(String, Field)>),
    List(Vec<Field>),
}

#[derive(Clone, Debug)]
pub(crate) enum Piece {
    Plain(String),
    Code(Code),
}

/// A field that could not be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unresolved {
    pub path: String,
    pub expression: String,
    pub failure: Failure,
}

enum Found<'a> {
    Plain(&'a str),
    Code(&'a str),
}

/// Splits text at its expressions. A `${` that is never closed is plain text, and `$${` means nothing special.
fn scan(text: &str) -> Result<Vec<Found<'_>>, String> {
    let mut found = Vec::new();
    let mut plain_from = 0;
    let mut at = 0;
    while let Some(start) = text[at..].find("${").map(|start| at + start) {
        let Some(end) = close(text, start + 2)? else { break };
        if start > plain_from {
            found.push(Found::Plain(&text[plain_from..start]));
        }
        found.push(Found::Code(&text[start + 2..end]));
        at = end + 1;
        plain_from = at;
    }
    if plain_from < text.len() {
        found.push(Found::Plain(&text[plain_from..]));
    }
    Ok(found)
}

/// Where the `}` is that closes an expression. Braces in strings do not count.
fn close(text: &str, from: usize) -> Result<Option<usize>, String> {
    let mut depth = 0;
    let mut quote = None;
    let mut escaped = false;
    for (offset, c) in text[from..].char_indices() {
        let at = from + offset;
        match (quote, c) {
            _ if escaped => escaped = false,
            (Some(_), '\\') => escaped = true,
            (Some(open), c) if c == open => quote = None,
            (Some(_), _) => {}
            (None, '"' | '\'') => quote = Some(c),
            (None, '$') if text[at..].starts_with("${") => {
                return Err("nested expressions are not allowed unless inside string literals".to_owned());
            }
            (None, '{') => depth += 1,
            (None, '}') if depth == 0 => return Ok(Some(at)),
            (None, '}') => depth -= 1,
            _ => {}
        }
    }
    Ok(None)
}

/// Whether there is any expression in the text.
pub(crate) fn has_expression(text: &str) -> bool {
    scan(text).map_or(true, |found| found.iter().any(|found| matches!(found, Found::Code(_))))
}

/// The expression that the whole text is, and what stands behind it (`${…} | scale`).
pub(crate) fn standalone(text: &str, path: &str) -> Result<Code, Error> {
    match scan(text).map_err(|why| Error::at(path, why))?.as_slice() {
        [Found::Code(source)] => code(source, path),
        _ => Err(Error::at(
            path,
            format!("only standalone expressions are allowed: '{}' must be ${{…}}", shown(text)),
        )),
    }
}

/// `${…}` and the text behind it, if the text begins with an expression and has no other.
pub(crate) fn leading(text: &str) -> Option<(&str, &str)> {
    match scan(text).ok()?.as_slice() {
        [Found::Code(source), Found::Plain(rest)] => Some((source, rest)),
        _ => None,
    }
}

pub(crate) fn code(source: &str, path: &str) -> Result<Code, Error> {
    let expr = parse(source).map_err(|error| {
        let column = source.get(..error.at).map_or(0, |before| before.chars().count()) + 1;
        let message =
            format!("expression '{}' cannot be read: {} (column {column})", shown(source), error.message);
        Error::at(path, message)
    })?;
    Ok(Code { text: source.to_owned(), expr })
}

/// Reads a manifest. Only values are looked at, never keys.
pub(crate) fn read(value: &Value, path: &str) -> Result<Field, Vec<Error>> {
    let mut errors = Vec::new();
    let field = read_at(value, path, 0, &mut errors);
    if errors.is_empty() { Ok(field) } else { Err(errors) }
}

fn read_at(value: &Value, path: &str, depth: usize, errors: &mut Vec<Error>) -> Field {
    if depth > DEEPEST {
        errors.push(Error::at(path, format!("nested more than {DEEPEST} deep")));
        return Field::Literal(Value::Null);
    }
    match value {
        Value::String(text) => text_field(text, path).unwrap_or_else(|error| {
            errors.push(error);
            Field::Literal(Value::Null)
        }),
        Value::Array(items) => {
            let read = |(index, item)| read_at(item, &format!("{path}[{index}]"), depth + 1, errors);
            Field::List(items.iter().enumerate().map(read).collect())
        }
        Value::Object(fields) => {
            let read = |(name, value): (&String, &Value)| {
                (name.clone(), read_at(value, &child(path, name), depth + 1, errors))
            };
            Field::Object(fields.iter().map(read).collect())
        }
        other => Field::Literal(other.clone()),
    }
}

fn text_field(text: &str, path: &str) -> Result<Field, Error> {
    let found = scan(text).map_err(|why| Error::at(path, why))?;
    if let [Found::Code(source)] = found.as_slice() {
        return code(source, path).map(Field::Standalone);
    }
    if !found.iter().any(|found| matches!(found, Found::Code(_))) {
        return Ok(Field::Literal(Value::String(text.to_owned())));
    }
    let pieces = found.into_iter().map(|found| match found {
        Found::Plain(text) => Ok(Piece::Plain(text.to_owned())),
        Found::Code(source) => code(source, path).map(Piece::Code),
    });
    Ok(Field::Text(pieces.collect::<Result<_, _>>()?))
}

// === impl Field ===

impl Field {
    /// Calls `visit` with every expression.
    pub fn each<'a>(&'a self, visit: &mut dyn FnMut(&'a Code)) {
        match self {
            Self::Literal(_) => {}
            Self::Standalone(code) => visit(code),
            Self::Text(pieces) => {
                for piece in pieces {
                    if let Piece::Code(code) = piece {
                        visit(code);
                    }
                }
            }
            Self::Object(fields) => fields.iter().for_each(|(_, field)| field.each(visit)),
            Self::List(items) => items.iter().for_each(|item| item.each(visit)),
        }
    }

    /// The field that these names lead to.
    pub fn at(&self, path: &[&str]) -> Option<&Field> {
        match (path.split_first(), self) {
            (None, field) => Some(field),
            (Some((name, rest)), Self::Object(fields)) => {
                fields.iter().find(|(other, _)| other == name)?.1.at(rest)
            }
            _ => None,
        }
    }

    /// The value, with every expression run; `None` if it is to be left out.
    pub fn resolve(
        &self,
        names: &Names<'_>,
        budget: &Budget,
        path: &str,
    ) -> Result<Option<Value>, Unresolved> {
        let failed = |code: &Code, failure: Failure| Unresolved {
            path: path.to_owned(),
            expression: shown(&code.text),
            failure,
        };
        match self {
            Self::Literal(value) => Ok(Some(value.clone())),
            Self::Standalone(code) => {
                let value = eval(&code.expr, names, budget).map_err(|why| failed(code, why))?;
                to_json(&value, budget).map_err(|why| failed(code, why))
            }
            Self::Text(pieces) => {
                let mut text = String::new();
                for piece in pieces {
                    match piece {
                        Piece::Plain(plain) => text.push_str(plain),
                        Piece::Code(code) => match eval(&code.expr, names, budget) {
                            Ok(kube_cel::cel::Value::String(part)) => {
                                budget.charge_bytes(part.len()).map_err(|why| failed(code, why))?;
                                text.push_str(&part);
                            }
                            Ok(other) => {
                                let name = crate::cel::value::type_name(&other);
                                let why = format!("text needs a string, not {name}: use string(…)");
                                return Err(failed(code, Failure::Error(why)));
                            }
                            Err(why) => return Err(failed(code, why)),
                        },
                    }
                }
                Ok(Some(Value::String(text)))
            }
            Self::Object(fields) => {
                let mut object = Map::new();
                for (name, field) in fields {
                    if let Some(value) = field.resolve(names, budget, &child(path, name))? {
                        object.insert(name.clone(), value);
                    }
                }
                Ok(Some(Value::Object(object)))
            }
            Self::List(items) => {
                let mut list = Vec::with_capacity(items.len());
                for (index, item) in items.iter().enumerate() {
                    list.extend(item.resolve(names, budget, &format!("{path}[{index}]"))?);
                }
                Ok(Some(Value::Array(list)))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::cel::value::from_json;

    fn pieces(text: &str) -> String {
        match scan(text) {
            Ok(found) => found
                .iter()
                .map(|found| match found {
                    Found::Plain(text) => format!("<{text}>"),
                    Found::Code(text) => format!("[{text}]"),
                })
                .collect(),
            Err(why) => format!("error: {why}"),
        }
    }

    #[test]
    fn expressions_are_found_in_text() {
        for (text, expected) in [
            ("plain", "<plain>"),
            ("${a}", "[a]"),
            ("x-${a}-${b}", "<x->[a]<->[b]"),
            ("${ {'a': {'b': 1}}.a.b }", "[ {'a': {'b': 1}}.a.b ]"),
            (r#"${"}" + a}"#, r#"["}" + a]"#),
            ("${'}' + a}", "['}' + a]"),
            (r#"${"\"}" + a}"#, r#"["\"}" + a]"#),
            (r#"${"${nested}"}"#, r#"["${nested}"]"#),
            ("${a", "<${a>"),
            ("$a {b} $ {c}", "<$a {b} $ {c}>"),
            ("$${a}", "<$>[a]"),
            ("${a}${b}", "[a][b]"),
            ("ä${a}ö", "<ä>[a]<ö>"),
            ("${a ${b}}", "error: nested expressions are not allowed unless inside string literals"),
        ] {
            assert_eq!(pieces(text), expected, "{text}");
        }
    }

    #[test]
    fn a_manifest_is_put_together() {
        let template = json!({
            "name": "${schema.name}-web",
            "count": "${schema.count}",
            "list": ["a", "${schema.name}", "${omit()}"],
            "gone": "${omit()}",
            "${key}": 5,
        });
        let field = read(&template, "").unwrap();
        // text of an instance that looks like an expression is text
        let given = from_json(&json!({ "name": "${schema.count}", "count": 3 }), None);
        let names: Names<'_> = [("schema", given)].into();
        let value = field.resolve(&names, &Budget::for_plan(), "").unwrap().unwrap();
        assert_eq!(
            value,
            json!({ "name": "${schema.count}-web", "count": 3, "list": ["a", "${schema.count}"], "${key}": 5 })
        );
    }

    #[test]
    fn what_cannot_be_made_says_where() {
        let field = read(&json!({ "spec": { "list": [{ "name": "x${schema.count}" }] } }), "").unwrap();
        let names: Names<'_> = [("schema", from_json(&json!({ "count": 3 }), None))].into();
        let unresolved = field.resolve(&names, &Budget::for_plan(), "").unwrap_err();
        assert_eq!(unresolved.path, "spec.list[0].name");
        assert!(unresolved.failure.message().contains("text needs a string, not int"));
        let errors = read(&json!({ "a": "${1 +}", "b": ["${x y}"] }), "spec").unwrap_err();
        let shown: Vec<String> = errors.iter().map(ToString::to_string).collect();
        assert_eq!(
            shown,
            [
                "spec.a: expression '1 +' cannot be read: the expression ends too early (column 4)",
                "spec.b[0]: expression 'x y' cannot be read: unexpected 'y' (column 3)",
            ]
        );
    }
}
