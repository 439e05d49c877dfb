//! The part of a field behind `|`: `default=1 description="how many" scale`.

/// The two words that stand without a value. All others need one, as in kro.
const FLAGS: [&str; 2] = ["scale", "scaleSelector"];

const KEYS: [&str; 17] = [
    "required",
    "default",
    "description",
    "minimum",
    "maximum",
    "enum",
    "validation",
    "immutable",
    "pattern",
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
    "uniqueItems",
    "listType",
    "listMapKey",
    "scale",
];

/// Markers that may be given more than once.
const REPEATABLE: [&str; 2] = ["validation", "listMapKey"];

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Marker {
    pub key: String,
    pub value: String,
}

/// The markers in the order in which they are written.
pub(super) fn parse(text: &str) -> Result<Vec<Marker>, String> {
    let mut markers: Vec<Marker> = Vec::new();
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        let end = rest.find(|c: char| c == '=' || c.is_whitespace()).unwrap_or(rest.len());
        let (key, tail) = rest.split_at(end);
        let (value, tail) = match tail.strip_prefix('=') {
            Some(tail) => value(key, tail)?,
            None if FLAGS.contains(&key) => ("true".to_owned(), tail),
            None => return Err(format!("marker '{key}' needs a value: {key}=…")),
        };
        if key.is_empty() {
            return Err(format!("a marker has no name before '={value}'"));
        }
        if !KEYS.contains(&key) && !FLAGS.contains(&key) {
            return Err(format!("unknown marker '{key}'"));
        }
        if !REPEATABLE.contains(&key) && markers.iter().any(|marker| marker.key == key) {
            return Err(format!("marker '{key}' is given twice"));
        }
        markers.push(Marker { key: key.to_owned(), value });
        rest = tail.trim_start();
    }
    Ok(markers)
}

/// A value ends at whitespace that is neither in double quotes nor in brackets.
fn value<'a>(key: &str, text: &'a str) -> Result<(String, &'a str), String> {
    let mut open = Vec::new();
    let mut quoted = false;
    let mut escaped = false;
    let mut end = text.len();
    for (at, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' if quoted => escaped = true,
            '"' => quoted = !quoted,
            _ if quoted => {}
            '{' => open.push('}'),
            '[' => open.push(']'),
            '}' | ']' if open.pop() != Some(c) => {
                return Err(format!("marker '{key}' has a '{c}' that closes nothing"));
            }
            c if c.is_whitespace() && open.is_empty() => {
                end = at;
                break;
            }
            _ => {}
        }
    }
    if quoted {
        return Err(format!("marker '{key}' has a quote that is not closed"));
    }
    if let Some(missing) = open.pop() {
        return Err(format!("marker '{key}' has a bracket that is not closed: '{missing}' is missing"));
    }
    let (value, tail) = text.split_at(end);
    if value.is_empty() {
        return Err(format!("marker '{key}' needs a value: {key}=…"));
    }
    Ok((unquoted(value), tail))
}

/// Without the quotes around it. Of escapes only `\"` and `\\` are undone, so that `\.` of a pattern survives.
fn unquoted(value: &str) -> String {
    let Some(inner) = value.strip_prefix('"').and_then(|value| value.strip_suffix('"')) else {
        return value.to_owned();
    };
    let mut text = String::with_capacity(inner.len());
    let mut chars = inner.chars().peekable();
    while let Some(c) = chars.next() {
        match (c, chars.peek()) {
            ('\\', Some(&next @ ('"' | '\\'))) => {
                chars.next();
                text.push(next);
            }
            _ => text.push(c),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &str) {
        let found = match parse(text) {
            Ok(markers) => markers
                .iter()
                .map(|marker| format!("{}={}", marker.key, marker.value))
                .collect::<Vec<_>>()
                .join("; "),
            Err(why) => format!("error: {why}"),
        };
        assert_eq!(found, expected, "{text}");
    }

    #[test]
    fn markers_are_read_as_kro_reads_them() {
        check("", "");
        check("required=true default=5", "required=true; default=5");
        check(r#"description="a b" required=true"#, "description=a b; required=true");
        check(r#"pattern="^\w+\.x$""#, r"pattern=^\w+\.x$");
        check(r#"description="say \"hi\" \\ now""#, r#"description=say "hi" \ now"#);
        check(r#"default={"a": "b c"} minItems=1"#, r#"default={"a": "b c"}; minItems=1"#);
        check(r#"default=["a", "b"]"#, r#"default=["a", "b"]"#);
        check(r#"default="""#, "default=");
        check(r#"validation="self > 0" validation="self < 9""#, "validation=self > 0; validation=self < 9");
        check("default=nginx:1.27", "default=nginx:1.27");
    }

    #[test]
    fn two_words_stand_without_a_value() {
        check("scale", "scale=true");
        check("scale default=1 minimum=0", "scale=true; default=1; minimum=0");
        check("default=1 scale", "default=1; scale=true");
        check("scale=false", "scale=false");
        check("scaleSelector", "scaleSelector=true");
        check("required", "error: marker 'required' needs a value: required=…");
        check("required default=1", "error: marker 'required' needs a value: required=…");
    }

    #[test]
    fn what_is_not_a_marker_is_refused() {
        check("colour=red", "error: unknown marker 'colour'");
        check("=red", "error: a marker has no name before '=red'");
        check("default=", "error: marker 'default' needs a value: default=…");
        check("required=true | default=1", "error: marker '|' needs a value: |=…");
        check("default=]", "error: marker 'default' has a ']' that closes nothing");
        check("default={\"a\"", "error: marker 'default' has a bracket that is not closed: '}' is missing");
        check("default=[}", "error: marker 'default' has a '}' that closes nothing");
        check(r#"default="a"#, "error: marker 'default' has a quote that is not closed");
        check("default=1 default=2", "error: marker 'default' is given twice");
    }
}
