//! `fieldsV1`: a set as nested objects. `{"f:spec":{"f:replicas":{}}}` is `.spec.replicas`; a `.` inside says that
//! the path itself is in the set, too, which goes without saying for a path with nothing below it.

use serde_json::{Map, Value};

use super::{Node, PathElement, Set};

pub fn encode(set: &Set) -> Value {
    Value::Object(encode_nodes(set))
}

fn encode_nodes(set: &Set) -> Map<String, Value> {
    let fields = set.nodes().map(|(element, node)| {
        let mut inner = Map::new();
        if node.member && !node.below.is_empty() {
            inner.insert(".".into(), Value::Object(Map::new()));
        }
        inner.extend(encode_nodes(&node.below));
        (encode_element(element), Value::Object(inner))
    });
    fields.collect()
}

/// Unknown kinds of path elements are left out: a later version may have more of them.
pub fn decode(fields: &Value) -> Result<Set, String> {
    Ok(decode_node(fields)?.below)
}

fn decode_node(value: &Value) -> Result<Node, String> {
    let fields = match value {
        Value::Object(fields) => fields,
        Value::Null => return Ok(Node::member()),
        other => return Err(format!("expected a map of path elements, got {}", crate::go::plain(other))),
    };
    let mut node = Node::default();
    for (key, value) in fields {
        if key == "." {
            node.member = true;
        } else if let Some(element) = decode_element(key)? {
            node.below.attach(&element, decode_node(value)?);
        }
    }
    node.member |= node.below.is_empty();
    Ok(node)
}

fn encode_element(element: &PathElement) -> String {
    match element {
        PathElement::Field(name) => format!("f:{name}"),
        PathElement::Key(fields) => {
            let fields: Vec<_> = fields
                .iter()
                .map(|(name, value)| format!("{}:{}", json(&name.as_str().into()), json(value)))
                .collect();
            format!("k:{{{}}}", fields.join(","))
        }
        PathElement::Value(value) => format!("v:{}", json(value)),
        PathElement::Index(index) => format!("i:{index}"),
    }
}

/// The real server escapes for HTML; these characters stand only inside of strings.
fn json(value: &Value) -> String {
    let text = value.to_string();
    if !text.contains(['<', '>', '&', '\u{2028}', '\u{2029}']) {
        return text;
    }
    text.replace('<', "\\u003c")
        .replace('>', "\\u003e")
        .replace('&', "\\u0026")
        .replace('\u{2028}', "\\u2028")
        .replace('\u{2029}', "\\u2029")
}

fn decode_element(key: &str) -> Result<Option<PathElement>, String> {
    let Some((kind, rest)) = key.split_once(':').filter(|(kind, _)| kind.len() == 1) else {
        return Err(match key.len() {
            0 | 1 => "key must be 2 characters long:".into(),
            _ => format!("missing colon: {key}"),
        });
    };
    let parsed =
        |text: &str| serde_json::from_str::<Value>(text).map_err(|e| format!("{e} in path element {key}"));
    Ok(Some(match kind {
        "f" => PathElement::field(rest),
        "v" => PathElement::Value(parsed(rest)?),
        "i" => PathElement::Index(rest.parse().map_err(|_| format!("not an index: {key}"))?),
        "k" => match parsed(rest)? {
            Value::Object(fields) => PathElement::key(fields.into_iter().collect()),
            _ => return Err(format!("not a map of key fields: {key}")),
        },
        _ => return Ok(None),
    }))
}
