//! An object as it is kept: its JSON bytes and the few values that selectors need.
//!
//! Bytes, not a tree: a list or a watch event is then a copy of memory, and ten thousand small objects take some
//! ten megabytes. Every record is laid out the same way, so that the resource version can be put in late, when the
//! writer knows it:
//!
//! ```text
//! {"apiVersion":"v1","kind":"Pod","metadata":{"resourceVersion":"42","name":…},"spec":…}
//!  └──────────────────── head ────────────────────────────────┘  └───── tail ──────────┘
//! ```

use bytes::Bytes;
use serde_json::{Map, Value};

use crate::registry::SelectableField;

#[derive(Debug)]
pub struct Record {
    pub revision: u64,
    /// `namespace/name`, or `name` for a kind without namespaces.
    pub key: Box<str>,
    pub labels: Labels,
    /// One value for each selectable field of the kind, in the row's order.
    pub fields: Box<[Box<str>]>,
    json: Bytes,
    head: u32,
}

/// A record that still lacks its resource version.
#[derive(Clone, Debug)]
pub struct Draft {
    key: Box<str>,
    labels: Labels,
    fields: Box<[Box<str>]>,
    text: Vec<u8>,
    head: u32,
}

pub type Labels = Box<[(Box<str>, Box<str>)]>;

// === impl Draft ===

impl Draft {
    pub fn new(key: &str, object: &Value, selectable: &[SelectableField]) -> Self {
        let empty = Map::new();
        let top = object.as_object().unwrap_or(&empty);
        let metadata = top.get("metadata").and_then(Value::as_object).unwrap_or(&empty);

        let mut text = Vec::with_capacity(512);
        text.extend_from_slice(b"{\"apiVersion\":");
        write_json(&mut text, top.get("apiVersion").unwrap_or(&Value::Null));
        text.extend_from_slice(b",\"kind\":");
        write_json(&mut text, top.get("kind").unwrap_or(&Value::Null));
        text.extend_from_slice(b",\"metadata\":{\"resourceVersion\":\"");
        let head = text.len();
        text.push(b'"');
        for (key, value) in metadata.iter().filter(|(key, _)| *key != "resourceVersion") {
            write_field(&mut text, key, value);
        }
        text.push(b'}');
        for (key, value) in
            top.iter().filter(|(key, _)| !matches!(key.as_str(), "apiVersion" | "kind" | "metadata"))
        {
            write_field(&mut text, key, value);
        }
        text.push(b'}');

        let labels = metadata.get("labels").and_then(Value::as_object).map(|labels| {
            labels
                .iter()
                .map(|(key, value)| (key.as_str().into(), value.as_str().unwrap_or_default().into()))
                .collect()
        });
        let fields = selectable.iter().map(|field| field.read(object).into_boxed_str()).collect();
        Self { key: key.into(), labels: labels.unwrap_or_default(), fields, text, head: head as u32 }
    }

    pub fn finish(self, revision: u64) -> Record {
        let Self { key, labels, fields, text, head } = self;
        let json = splice(&text[..head as usize], revision, &text[head as usize..]);
        Record { revision, key, labels, fields, json, head }
    }

    pub fn key(&self) -> &str {
        &self.key
    }

    /// Whether `record` says the same, its resource version aside.
    pub fn equals(&self, record: &Record) -> bool {
        self.head == record.head
            && self.text[..self.head as usize] == record.json[..record.head as usize]
            && self.text[self.head as usize..] == *record.tail()
    }
}

fn write_json(out: &mut Vec<u8>, value: &Value) {
    // Writing a tree of JSON into memory has no way to fail.
    let _ = serde_json::to_writer(out, value);
}

fn write_field(out: &mut Vec<u8>, key: &str, value: &Value) {
    out.push(b',');
    let _ = serde_json::to_writer(&mut *out, key);
    out.push(b':');
    write_json(out, value);
}

fn splice(head: &[u8], revision: u64, tail: &[u8]) -> Bytes {
    let digits = revision.to_string();
    let mut json = Vec::with_capacity(head.len() + digits.len() + tail.len());
    json.extend_from_slice(head);
    json.extend_from_slice(digits.as_bytes());
    json.extend_from_slice(tail);
    Bytes::from(json)
}

// === impl Record ===

impl Record {
    pub fn json(&self) -> &Bytes {
        &self.json
    }

    pub fn to_value(&self) -> Value {
        serde_json::from_slice(&self.json).unwrap_or_default()
    }

    fn tail(&self) -> &[u8] {
        let digits = self.json[self.head as usize..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        &self.json[self.head as usize + digits..]
    }

    /// The same content under another resource version: what the event of a deletion shows.
    pub fn at_revision(&self, revision: u64) -> Record {
        Record {
            revision,
            key: self.key.clone(),
            labels: self.labels.clone(),
            fields: self.fields.clone(),
            json: splice(&self.json[..self.head as usize], revision, self.tail()),
            head: self.head,
        }
    }

    pub fn namespace(&self) -> &str {
        self.key.split_once('/').map_or("", |(namespace, _)| namespace)
    }

    pub fn name(&self) -> &str {
        self.key.split_once('/').map_or(&self.key, |(_, name)| name)
    }

    /// Whether the bytes already speak this version of the API.
    pub fn is_version(&self, group: &str, version: &str) -> bool {
        const PREFIX: usize = b"{\"apiVersion\":\"".len();
        let rest = self.json.get(PREFIX..).unwrap_or_default();
        let rest = if group.is_empty() {
            Some(rest)
        } else {
            rest.strip_prefix(group.as_bytes()).and_then(|rest| rest.strip_prefix(b"/"))
        };
        rest.and_then(|rest| rest.strip_prefix(version.as_bytes()))
            .is_some_and(|rest| rest.first() == Some(&b'"'))
    }

    /// The JSON behind `apiVersion` and `kind`, without the brace before it.
    pub fn untyped(&self) -> &[u8] {
        const METADATA: usize = b"\"metadata\":{\"resourceVersion\":\"".len();
        &self.json[self.head as usize - METADATA..]
    }

    pub fn size(&self) -> usize {
        self.json.len()
    }
}
