//! Request bodies into JSON trees, with a note of every key that was given twice.

use std::{cell::RefCell, fmt};

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use crate::go_syntax;

pub struct Decoded {
    pub value: Value,
    /// Paths as in `spec.replicas`.
    pub duplicates: Vec<String>,
}

pub fn json(body: &[u8]) -> Result<Decoded, String> {
    let notes = Notes::default();
    let mut deserializer = serde_json::Deserializer::from_slice(body);
    let value = Node(&notes)
        .deserialize(&mut deserializer)
        .and_then(|value| deserializer.end().map(|()| value))
        .map_err(|_| go_syntax::explain(body))?;
    Ok(Decoded { value, duplicates: notes.duplicates.into_inner() })
}

pub fn yaml(body: &[u8]) -> Result<Decoded, String> {
    // JSON is YAML, and by far the most common kind of it here.
    if body.trim_ascii_start().starts_with(b"{")
        && let Ok(decoded) = json(body)
    {
        return Ok(decoded);
    }
    let text = std::str::from_utf8(body).map_err(|error| error.to_string())?;
    let value = serde_saphyr::from_str::<Value>(text).map_err(|error| error.to_string())?;
    Ok(Decoded { value, duplicates: Vec::new() })
}

#[derive(Default)]
struct Notes {
    path: RefCell<Vec<String>>,
    duplicates: RefCell<Vec<String>>,
}

impl Notes {
    fn push(&self, key: String) {
        self.path.borrow_mut().push(key);
    }

    fn pop(&self) {
        self.path.borrow_mut().pop();
    }

    fn duplicate(&self, key: &str) {
        let mut path = String::new();
        for part in self.path.borrow().iter() {
            if !path.is_empty() && !part.starts_with('[') {
                path.push('.');
            }
            path.push_str(part);
        }
        if !path.is_empty() {
            path.push('.');
        }
        path.push_str(key);
        self.duplicates.borrow_mut().push(path);
    }
}

struct Node<'a>(&'a Notes);

impl<'de> DeserializeSeed<'de> for Node<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Node<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Value, E> {
        Number::from_f64(value).map(Value::Number).ok_or_else(|| E::custom("number out of range"))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        loop {
            self.0.push(format!("[{}]", list.len()));
            let item = access.next_element_seed(Node(self.0))?;
            self.0.pop();
            match item {
                Some(item) => list.push(item),
                None => return Ok(Value::Array(list)),
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(key) = access.next_key::<String>()? {
            self.0.push(key.clone());
            let value = access.next_value_seed(Node(self.0))?;
            self.0.pop();
            if map.contains_key(&key) {
                self.0.duplicate(&key);
            }
            map.insert(key, value);
        }
        Ok(Value::Object(map))
    }
}
