//! What a JSON reader has to complain of, in the words of JSON: no names of Rust types, and never longer than a line or
//! two, whatever the input quotes.

use super::{cut, shown};

/// A list of expected names may be long; what was found may not.
const LONGEST_EXPECTED: usize = 400;

/// `message` as serde has it, without the place in the text, and that place.
pub(super) fn reworded(message: &str) -> String {
    let (message, place) = split_place(message);
    let mut words = plain(message);
    if let Some((line, column)) = place {
        words.push_str(&format!(" at line {line} column {column}"));
    }
    words
}

fn split_place(message: &str) -> (&str, Option<(&str, &str)>) {
    let parts = message.rsplit_once(" at line ").and_then(|(rest, place)| {
        let (line, column) = place.split_once(" column ")?;
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        (is_number(line) && is_number(column)).then_some((rest, Some((line, column))))
    });
    parts.unwrap_or((message, None))
}

fn plain(message: &str) -> String {
    for prefix in ["invalid type: ", "invalid value: "] {
        if let Some((found, expected)) =
            message.strip_prefix(prefix).and_then(|rest| rest.rsplit_once(", expected "))
        {
            return format!("expected {}, found {}", kind(expected), thing(found));
        }
    }
    if let Some((length, expected)) =
        message.strip_prefix("invalid length ").and_then(|rest| rest.split_once(", expected "))
    {
        return format!("expected {}, found a list of {length}", kind(expected));
    }
    for (prefix, noun) in [("unknown field `", "field"), ("unknown variant `", "value")] {
        if let Some((name, rest)) = message.strip_prefix(prefix).and_then(|rest| rest.split_once("`, ")) {
            return format!(
                "unknown {noun} {}, {}",
                shown(name),
                cut(rest, LONGEST_EXPECTED).replace('`', "")
            );
        }
    }
    if let Some(field) = message.strip_prefix("missing field `").and_then(|rest| rest.strip_suffix('`')) {
        return format!("the field {field} is missing");
    }
    if let Some(field) = message.strip_prefix("duplicate field `").and_then(|rest| rest.strip_suffix('`')) {
        return format!("the field {field} comes twice; give it once");
    }
    cut(message, LONGEST_EXPECTED)
}

/// What was expected. Rust's names stand for kinds of JSON values.
fn kind(expected: &str) -> String {
    let first = expected.split_whitespace().next().unwrap_or_default();
    match first {
        "struct" | "map" => "an object".to_owned(),
        "tuple" | "sequence" => "a list".to_owned(),
        "enum" | "variant" => "one of the names that the schema lists".to_owned(),
        "unit" => "null".to_owned(),
        "i8" | "i16" | "i32" => format!("a whole number of at most {}", i32::MAX),
        "u8" | "u16" | "u32" => format!("a whole number from 0 to {}", u32::MAX),
        "i64" | "i128" | "isize" => "a whole number".to_owned(),
        "u64" | "u128" | "usize" => "a whole number, 0 or more".to_owned(),
        "f32" | "f64" => "a number".to_owned(),
        _ => match expected {
            "a sequence" => "a list".to_owned(),
            "a map" => "an object".to_owned(),
            "a string" | "a borrowed string" => "a text".to_owned(),
            "a boolean" => "true or false".to_owned(),
            other => cut(other, LONGEST_EXPECTED),
        },
    }
}

/// What was found, such as `string "ten"`, `integer `3`` or `map`.
fn thing(found: &str) -> String {
    let quoted = |rest: &str| rest.trim_matches('`').to_owned();
    match found.split_once(' ') {
        Some(("string", text)) => {
            let text = text.strip_prefix('"').and_then(|text| text.strip_suffix('"')).unwrap_or(text);
            // Already escaped by whoever quoted it.
            format!("\"{}\"", cut(text, 60))
        }
        Some(("integer" | "boolean", rest)) => quoted(rest),
        Some(("floating", rest)) => quoted(rest.trim_start_matches("point ")),
        _ => match found {
            "map" => "an object".to_owned(),
            "sequence" => "a list".to_owned(),
            "null" | "unit value" | "Option value" => "null".to_owned(),
            other => cut(other, 60),
        },
    }
}
