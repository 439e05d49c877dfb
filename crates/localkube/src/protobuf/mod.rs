//! Request bodies in protobuf, as newer kubectl sends them for some built-in kinds, turned into the JSON that all
//! else here works on. Which field has which number is data: `messages.txt`.

mod wire;

use std::{collections::HashMap, sync::LazyLock};

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use self::wire::{Field, Payload, Reader};
use crate::object;

/// What every such body starts with, before an envelope that names the type of the content.
const MAGIC: &[u8] = b"k8s\0";
/// Messages nest as deep as the data says; a body that claims to be deeper is no object of ours.
const MAX_DEPTH: usize = 64;

/// API groups and versions, and what `messages.txt` calls their packages.
const PACKAGES: &[(&str, &str)] = &[
    ("v1", "core"),
    ("apps/v1", "apps"),
    ("autoscaling/v1", "autoscaling1"),
    ("autoscaling/v2", "autoscaling2"),
    ("batch/v1", "batch"),
    ("networking.k8s.io/v1", "networking"),
    ("scheduling.k8s.io/v1", "scheduling"),
    ("storage.k8s.io/v1", "storage"),
    ("policy/v1", "policy"),
    ("rbac.authorization.k8s.io/v1", "rbac"),
    ("coordination.k8s.io/v1", "coordination"),
    ("discovery.k8s.io/v1", "discovery"),
    ("events.k8s.io/v1", "events"),
    ("authentication.k8s.io/v1", "authentication"),
    ("authorization.k8s.io/v1", "authorization"),
];

struct Descriptor {
    name: &'static str,
    kind: Kind,
    repeated: bool,
    map: bool,
    /// Whether an absent field differs from a zero.
    optional: bool,
}

#[derive(Clone, Copy)]
enum Kind {
    Text,
    Integer,
    Boolean,
    Double,
    Bytes,
    Time {
        micro: bool,
    },
    Duration,
    Quantity,
    IntOrString,
    /// JSON inside.
    Raw,
    Message(&'static str),
}

type Message = HashMap<u32, Descriptor>;

static MESSAGES: LazyLock<HashMap<&'static str, Message>> = LazyLock::new(|| {
    include_str!("messages.txt")
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(parse_message)
        .collect()
});

fn parse_message(line: &'static str) -> Option<(&'static str, Message)> {
    let mut words = line.split(' ');
    let name = words.next()?;
    let fields = words.filter_map(|word| {
        let mut parts = word.splitn(3, ':');
        let (number, name, kind) = (parts.next()?, parts.next()?, parts.next()?);
        let descriptor = Descriptor {
            name,
            optional: number.ends_with('?'),
            repeated: kind.starts_with('*'),
            map: kind.starts_with('%'),
            kind: match kind.trim_start_matches(['*', '%']) {
                "string" => Kind::Text,
                "int" => Kind::Integer,
                "bool" => Kind::Boolean,
                "double" => Kind::Double,
                "bytes" => Kind::Bytes,
                "time" => Kind::Time { micro: false },
                "microtime" => Kind::Time { micro: true },
                "duration" => Kind::Duration,
                "quantity" => Kind::Quantity,
                "intorstring" => Kind::IntOrString,
                "raw" => Kind::Raw,
                message => Kind::Message(message),
            },
        };
        Some((number.trim_end_matches('?').parse().ok()?, descriptor))
    });
    Some((name, fields.collect()))
}

/// The object in a body.
pub fn decode(body: &[u8]) -> Result<Value, String> {
    let envelope = body
        .strip_prefix(MAGIC)
        .ok_or("provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]")?;
    let (mut api_version, mut kind, mut content) = (String::new(), String::new(), &[][..]);
    for field in Reader::new(envelope) {
        match field? {
            Field { number: 1, payload: Payload::Bytes(bytes) } => {
                for field in Reader::new(bytes) {
                    match field? {
                        Field { number: 1, payload: Payload::Bytes(text) } => api_version = utf8(text)?,
                        Field { number: 2, payload: Payload::Bytes(text) } => kind = utf8(text)?,
                        _ => {}
                    }
                }
            }
            Field { number: 2, payload: Payload::Bytes(bytes) } => content = bytes,
            _ => {}
        }
    }
    let message = message_of(&api_version, &kind)
        .ok_or_else(|| format!("{kind} of {api_version} is not understood in protobuf; send JSON"))?;
    let mut object = decode_message(message, content, 0)?;
    object.insert("apiVersion".to_owned(), api_version.into());
    object.insert("kind".to_owned(), kind.into());
    Ok(Value::Object(object))
}

fn message_of(api_version: &str, kind: &str) -> Option<&'static str> {
    // Options come under the version of whatever they are options of.
    let name = if kind == "DeleteOptions" {
        "meta.DeleteOptions".to_owned()
    } else {
        let (_, package) = PACKAGES.iter().find(|(version, _)| *version == api_version)?;
        format!("{package}.{kind}")
    };
    MESSAGES.get_key_value(name.as_str()).map(|(name, _)| *name)
}

fn decode_message(name: &str, bytes: &[u8], depth: usize) -> Result<Map<String, Value>, String> {
    if depth > MAX_DEPTH {
        return Err("protobuf: messages are nested too deep".to_owned());
    }
    let message = MESSAGES.get(name).ok_or_else(|| format!("protobuf: no message {name}"))?;
    let mut object = Map::new();
    for field in Reader::new(bytes) {
        let Field { number, payload } = field?;
        let Some(descriptor) = message.get(&number) else { continue };
        if descriptor.map {
            let (key, value) = decode_entry(descriptor, payload, depth)?;
            let map = object.entry(descriptor.name).or_insert_with(|| json!({}));
            if let Value::Object(map) = map {
                map.insert(key, value);
            }
            continue;
        }
        let value = decode_value(descriptor.kind, payload, depth)?;
        if descriptor.repeated {
            let list = object.entry(descriptor.name).or_insert_with(|| json!([]));
            if let Value::Array(list) = list {
                list.push(value);
            }
        } else if descriptor.name == "-" {
            if let Value::Object(inner) = value {
                object.extend(inner);
            }
        } else if descriptor.optional || !is_zero(&value) {
            object.insert(descriptor.name.to_owned(), value);
        }
    }
    Ok(object)
}

fn decode_entry(
    descriptor: &Descriptor,
    payload: Payload<'_>,
    depth: usize,
) -> Result<(String, Value), String> {
    let Payload::Bytes(bytes) = payload else { return Err("protobuf: a map entry is no message".to_owned()) };
    let mut key = String::new();
    let mut value = decode_value(descriptor.kind, Payload::Bytes(&[]), depth)?;
    for field in Reader::new(bytes) {
        match field? {
            Field { number: 1, payload: Payload::Bytes(text) } => key = utf8(text)?,
            Field { number: 2, payload } => value = decode_value(descriptor.kind, payload, depth)?,
            _ => {}
        }
    }
    Ok((key, value))
}

/// Go writes every field that is no pointer, set or not.
fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(value) => !value,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.is_empty(),
    }
}

fn decode_value(kind: Kind, payload: Payload<'_>, depth: usize) -> Result<Value, String> {
    use base64::{Engine, prelude::BASE64_STANDARD};
    Ok(match (kind, payload) {
        (Kind::Text, Payload::Bytes(bytes)) => utf8(bytes)?.into(),
        (Kind::Bytes, Payload::Bytes(bytes)) => BASE64_STANDARD.encode(bytes).into(),
        (Kind::Integer, Payload::Number(number)) => (number as i64).into(),
        (Kind::Boolean, Payload::Number(number)) => (number != 0).into(),
        (Kind::Double, Payload::Fixed64(bits)) => f64::from_bits(bits).into(),
        (Kind::Time { micro }, Payload::Bytes(bytes)) => decode_time(bytes, micro)?,
        (Kind::Duration, Payload::Bytes(bytes)) => {
            let (nanos, ..) = numbers(bytes)?;
            format!("{}s", nanos as f64 / 1e9).into()
        }
        (Kind::Quantity, Payload::Bytes(bytes)) => text_at(bytes, 1)?.into(),
        (Kind::IntOrString, Payload::Bytes(bytes)) => match numbers(bytes)? {
            (0, number) => number.into(),
            _ => text_at(bytes, 3)?.into(),
        },
        (Kind::Raw, Payload::Bytes(bytes)) => {
            let mut raw = Value::Null;
            for field in Reader::new(bytes) {
                if let Field { number: 1, payload: Payload::Bytes(text) } = field? {
                    raw = serde_json::from_slice(text).map_err(|error| error.to_string())?;
                }
            }
            raw
        }
        (Kind::Message(name), Payload::Bytes(bytes)) => {
            let mut object = decode_message(name, bytes, depth + 1)?;
            if name.ends_with(".ExtraValue") {
                object.remove("items").unwrap_or_else(|| json!([]))
            } else {
                Value::Object(object)
            }
        }
        (Kind::Integer | Kind::Boolean | Kind::Double, Payload::Bytes([])) => Value::Null,
        _ => return Err("protobuf: a field has the wrong wire type".to_owned()),
    })
}

fn decode_time(bytes: &[u8], micro: bool) -> Result<Value, String> {
    let (seconds, nanos) = numbers(bytes)?;
    if seconds == 0 && nanos == 0 {
        return Ok(Value::Null);
    }
    let at = Timestamp::new(seconds, i32::try_from(nanos).unwrap_or_default())
        .map_err(|error| error.to_string())?;
    Ok(if micro { object::micro_timestamp(at) } else { object::timestamp(at) }.into())
}

/// The integers in fields 1 and 2.
fn numbers(bytes: &[u8]) -> Result<(i64, i64), String> {
    let mut found = (0, 0);
    for field in Reader::new(bytes) {
        match field? {
            Field { number: 1, payload: Payload::Number(number) } => found.0 = number as i64,
            Field { number: 2, payload: Payload::Number(number) } => found.1 = number as i64,
            _ => {}
        }
    }
    Ok(found)
}

fn text_at(bytes: &[u8], wanted: u32) -> Result<String, String> {
    for field in Reader::new(bytes) {
        match field? {
            Field { number, payload: Payload::Bytes(text) } if number == wanted => return utf8(text),
            _ => {}
        }
    }
    Ok(String::new())
}

fn utf8(bytes: &[u8]) -> Result<String, String> {
    String::from_utf8(bytes.to_vec()).map_err(|_| "protobuf: a text is not valid UTF-8".to_owned())
}

#[cfg(test)]
mod tests;
