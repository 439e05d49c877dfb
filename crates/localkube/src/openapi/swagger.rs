//! Swagger documents in protobuf: the only form in which client-go takes them.
//!
//! The messages are those of `openapi.v2` in github.com/google/gnostic-models; the numbers below are its fields.

use serde_json::Value;

pub const CONTENT_TYPE: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";

/// A message that is being written. What is absent is not written.
#[derive(Default)]
struct Message(Vec<u8>);

pub fn encode(document: &Value) -> Vec<u8> {
    let mut message = Message::default();
    message.text(1, &document["swagger"]);
    message.message(2, {
        let mut info = Message::default();
        info.text(1, &document["info"]["title"]);
        info.text(2, &document["info"]["version"]);
        info
    });
    let mut paths = Message::default();
    paths.named(2, &document["paths"], path);
    message.message(8, paths);
    let mut definitions = Message::default();
    definitions.named(1, &document["definitions"], schema);
    message.message(9, definitions);
    message.0
}

fn path(item: &Value) -> Message {
    let mut message = Message::default();
    for (number, method) in [(2, "get"), (3, "put"), (4, "post"), (5, "delete"), (8, "patch")] {
        if let Some(one) = item.get(method) {
            message.message(number, operation(one));
        }
    }
    message
}

fn operation(operation: &Value) -> Message {
    let mut message = Message::default();
    message.texts(6, &operation["produces"]);
    message.texts(7, &operation["consumes"]);
    for one in operation["parameters"].as_array().into_iter().flatten() {
        message.message(8, parameter(one));
    }
    let mut responses = Message::default();
    responses.named(1, &operation["responses"], |response| {
        let mut message = Message::default();
        message.text(1, &response["description"]);
        message.message(2, schema(&response["schema"]).within(1));
        message.within(1)
    });
    message.message(9, responses);
    message.extensions(13, operation);
    message
}

/// In the body, or in the query.
fn parameter(parameter: &Value) -> Message {
    let mut message = Message::default();
    if parameter["in"] == "body" {
        message.text(2, &parameter["name"]);
        message.text(3, &parameter["in"]);
        message.flag(4, &parameter["required"]);
        message.message(5, schema(&parameter["schema"]));
        return message.within(1).within(1);
    }
    message.text(2, &parameter["in"]);
    message.text(4, &parameter["name"]);
    message.text(6, &parameter["type"]);
    message.flag(20, &parameter["uniqueItems"]);
    message.within(3).within(2).within(1)
}

fn schema(schema: &Value) -> Message {
    let mut message = Message::default();
    message.text(1, &schema["$ref"]);
    message.text(2, &schema["format"]);
    message.text(3, &schema["title"]);
    message.text(4, &schema["description"]);
    if let Some(default) = schema.get("default") {
        message.message(5, any(default));
    }
    message.float(6, &schema["multipleOf"]);
    message.float(7, &schema["maximum"]);
    message.flag(8, &schema["exclusiveMaximum"]);
    message.float(9, &schema["minimum"]);
    message.flag(10, &schema["exclusiveMinimum"]);
    message.whole(11, &schema["maxLength"]);
    message.whole(12, &schema["minLength"]);
    message.text(13, &schema["pattern"]);
    message.whole(14, &schema["maxItems"]);
    message.whole(15, &schema["minItems"]);
    message.flag(16, &schema["uniqueItems"]);
    message.whole(17, &schema["maxProperties"]);
    message.whole(18, &schema["minProperties"]);
    message.texts(19, &schema["required"]);
    for one in schema["enum"].as_array().into_iter().flatten() {
        message.message(20, any(one));
    }
    match &schema["additionalProperties"] {
        Value::Null => {}
        Value::Bool(any) => {
            let mut boolean = Message::default();
            boolean.number(2, (*any).into());
            message.message(21, boolean);
        }
        described => message.message(21, self::schema(described).within(1)),
    }
    if schema["type"].is_string() {
        let mut kind = Message::default();
        kind.text(1, &schema["type"]);
        message.message(22, kind);
    }
    if schema["items"].is_object() {
        message.message(23, self::schema(&schema["items"]).within(1));
    }
    if schema["properties"].is_object() {
        let mut properties = Message::default();
        properties.named(1, &schema["properties"], self::schema);
        message.message(25, properties);
    }
    message.extensions(31, schema);
    message
}

/// Anything, as YAML, of which JSON is a part.
fn any(value: &Value) -> Message {
    let mut message = Message::default();
    message.bytes(2, value.to_string().as_bytes());
    message
}

// === impl Message ===

impl Message {
    fn varint(&mut self, mut value: u64) {
        while value > 0x7f {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    fn number(&mut self, field: u64, value: u64) {
        self.varint(field << 3);
        self.varint(value);
    }

    fn bytes(&mut self, field: u64, bytes: &[u8]) {
        self.varint(field << 3 | 2);
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    fn message(&mut self, field: u64, message: Self) {
        self.bytes(field, &message.0);
    }

    /// As the only field of another message.
    fn within(self, field: u64) -> Self {
        let mut outer = Self::default();
        outer.message(field, self);
        outer
    }

    fn text(&mut self, field: u64, value: &Value) {
        if let Some(text) = value.as_str() {
            self.bytes(field, text.as_bytes());
        }
    }

    fn texts(&mut self, field: u64, value: &Value) {
        for one in value.as_array().into_iter().flatten() {
            self.text(field, one);
        }
    }

    fn flag(&mut self, field: u64, value: &Value) {
        if value == &Value::Bool(true) {
            self.number(field, 1);
        }
    }

    fn whole(&mut self, field: u64, value: &Value) {
        if let Some(value) = value.as_u64() {
            self.number(field, value);
        }
    }

    fn float(&mut self, field: u64, value: &Value) {
        if let Some(value) = value.as_f64() {
            self.varint(field << 3 | 1);
            self.0.extend_from_slice(&value.to_le_bytes());
        }
    }

    /// Each member of an object, with its name.
    fn named(&mut self, field: u64, object: &Value, encode: impl Fn(&Value) -> Self) {
        for (name, value) in object.as_object().into_iter().flatten() {
            let mut named = Self::default();
            named.bytes(1, name.as_bytes());
            named.message(2, encode(value));
            self.message(field, named);
        }
    }

    /// What begins with `x-`.
    fn extensions(&mut self, field: u64, object: &Value) {
        for (name, value) in
            object.as_object().into_iter().flatten().filter(|(name, _)| name.starts_with("x-"))
        {
            let mut named = Self::default();
            named.bytes(1, name.as_bytes());
            named.message(2, any(value));
            self.message(field, named);
        }
    }
}
