//! The part of a field before `|`: `string`, `[]integer`, `map[string][]Port`.

use schema::Type;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum TypeExpr {
    Atomic(Type),
    /// Anything: an object whose fields are not known.
    Object,
    List(Box<TypeExpr>),
    Map(Box<TypeExpr>),
    Custom(String),
}

/// Lists of lists of …: as deep as kro goes.
const DEEPEST: usize = 16;

pub(super) fn parse(text: &str) -> Result<TypeExpr, String> {
    let mut wrappers = Vec::new();
    let mut rest = text.trim();
    if rest.is_empty() {
        return Err("the type is missing".into());
    }
    loop {
        if wrappers.len() > DEEPEST {
            return Err(format!("lists and maps are nested more than {DEEPEST} deep"));
        }
        if let Some(tail) = rest.strip_prefix("[]") {
            wrappers.push(TypeExpr::List as fn(Box<TypeExpr>) -> TypeExpr);
            rest = tail;
            if rest.is_empty() {
                return Err("'[]' needs the type of its elements: []string".into());
            }
        } else if let Some(tail) = rest.strip_prefix("map[") {
            let Some((key, value)) = tail.split_once(']') else {
                return Err("'map[' is not closed: map[string]string".into());
            };
            if key != "string" {
                return Err(format!("the key of a map must be string, not '{key}'"));
            }
            if value.is_empty() {
                return Err("'map[string]' needs the type of its values: map[string]string".into());
            }
            wrappers.push(TypeExpr::Map);
            rest = value;
        } else {
            break;
        }
    }
    let innermost = match rest {
        "string" => TypeExpr::Atomic(Type::String),
        "integer" => TypeExpr::Atomic(Type::Integer),
        "boolean" => TypeExpr::Atomic(Type::Boolean),
        "float" => TypeExpr::Atomic(Type::Number),
        "object" => TypeExpr::Object,
        name => TypeExpr::Custom(name.to_owned()),
    };
    Ok(wrappers.into_iter().rev().fold(innermost, |inner, wrap| wrap(Box::new(inner))))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &str) {
        let found = match parse(text) {
            Ok(expr) => format!("{expr:?}"),
            Err(why) => format!("error: {why}"),
        };
        assert_eq!(found, expected, "{text}");
    }

    #[test]
    fn types_nest() {
        check("string", "Atomic(String)");
        check(" float ", "Atomic(Number)");
        check("object", "Object");
        check("[]integer", "List(Atomic(Integer))");
        check("map[string][]Port", r#"Map(List(Custom("Port")))"#);
        check("[]map[string]boolean", "List(Map(Atomic(Boolean)))");
    }

    #[test]
    fn what_is_not_a_type_is_refused() {
        check("", "error: the type is missing");
        check("[]", "error: '[]' needs the type of its elements: []string");
        check("map[string]", "error: 'map[string]' needs the type of its values: map[string]string");
        check("map[integer]string", "error: the key of a map must be string, not 'integer'");
        check("map[string", "error: 'map[' is not closed: map[string]string");
        check(&format!("{}string", "[]".repeat(17)), "error: lists and maps are nested more than 16 deep");
        assert!(parse(&format!("{}string", "[]".repeat(16))).is_ok());
        assert!(parse(&"[]".repeat(1_000_000)).is_err());
    }
}
