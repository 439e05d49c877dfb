//! JSON patch (RFC 6902), with the behaviour and the words of the library that the real server uses: negative
//! indices count from the end, `replace` of an absent field sets it, and the messages below.

use std::io;

use serde_json::Value;

use crate::apply::value::equal;

/// Copies may add so many bytes of JSON to an object, all together: each can double it, and thirty of them would make
/// 5 GiB of five bytes. As much as a request may have.
pub const MAX_COPIED_BYTES: usize = 3 << 20;

/// A patch may hold at most this many operations.
pub const MAX_OPERATIONS: usize = 10_000;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The body is not a list of operations: 400 Bad Request.
    #[error("error decoding patch: json: cannot unmarshal {found} into Go {place}")]
    Malformed { found: &'static str, place: String },
    /// 413 Request Entity Too Large.
    #[error(
        "Request entity too large: The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {0}"
    )]
    TooManyOperations(usize),
    /// The patch does not fit the object: 422 Unprocessable Entity. The real server keeps the reason to itself: its
    /// clients read "the server rejected our request due to an error in our request".
    #[error("{0}")]
    DoesNotApply(String),
}

/// Applies the operations in order; `target` is untouched if one of them fails.
pub fn apply(target: &mut Value, patch: &Value) -> Result<(), Error> {
    let operations = match patch {
        Value::Array(operations) => operations.as_slice(),
        Value::Null => &[],
        other => return Err(malformed(other, "value of type []handlers.jsonPatchOp")),
    };
    for operation in operations {
        check(operation)?;
    }
    if operations.len() > MAX_OPERATIONS {
        return Err(Error::TooManyOperations(operations.len()));
    }
    let mut next = target.clone();
    let mut copied = Copied::default();
    for fields in operations.iter().filter_map(Value::as_object) {
        run(&mut next, &Operation(fields), &mut copied).map_err(Error::DoesNotApply)?;
    }
    *target = next;
    Ok(())
}

fn check(operation: &Value) -> Result<(), Error> {
    let Value::Object(fields) = operation else {
        return Err(malformed(operation, "value of type handlers.jsonPatchOp"));
    };
    for name in ["op", "path", "from"] {
        match fields.get(name) {
            None | Some(Value::String(_) | Value::Null) => {}
            Some(other) => {
                return Err(malformed(other, &format!("struct field jsonPatchOp.{name} of type string")));
            }
        }
    }
    Ok(())
}

fn malformed(found: &Value, place: &str) -> Error {
    Error::Malformed { found: crate::go::json_kind(found), place: place.to_owned() }
}

struct Operation<'a>(&'a serde_json::Map<String, Value>);

impl Operation<'_> {
    fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name)?.as_str()
    }

    fn path(&self) -> Result<&str, String> {
        let kind = self.text("op").unwrap_or("unknown");
        self.text("path").ok_or_else(|| format!("{kind} operation failed to decode path: missing value"))
    }

    fn from(&self) -> Result<&str, String> {
        let kind = self.text("op").unwrap_or("unknown");
        self.text("from").ok_or_else(|| {
            format!("{kind} operation failed to decode from: operation, missing from field: missing value")
        })
    }

    /// An absent value is written as null, as the server's library does.
    fn value(&self) -> Value {
        self.0.get("value").cloned().unwrap_or(Value::Null)
    }
}

/// The bytes of JSON that copies made so far.
#[derive(Default)]
struct Copied(usize);

impl Copied {
    /// Counted before anything is copied.
    fn count(&mut self, value: &Value) -> Result<(), String> {
        // nothing else than the limit makes it fail
        serde_json::to_writer(&mut *self, value).map_err(|_| {
            format!("Unable to complete the copy, the accumulated size increase of copy is more than the limit {MAX_COPIED_BYTES}")
        })
    }
}

impl io::Write for Copied {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len();
        if self.0 > MAX_COPIED_BYTES { Err(io::ErrorKind::QuotaExceeded.into()) } else { Ok(bytes.len()) }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn run(document: &mut Value, operation: &Operation<'_>, copied: &mut Copied) -> Result<(), String> {
    match operation.text("op").unwrap_or("unknown") {
        "add" => {
            let path = operation.path()?;
            let (container, key) = locate(document, path).ok_or_else(|| {
                format!("add operation does not apply: doc is missing path: \"{path}\": missing value")
            })?;
            add(container, &key, operation.value())
                .map_err(|e| format!("error in add for path: '{path}': {e}"))
        }
        "remove" => {
            let path = operation.path()?;
            let (container, key) = locate(document, path).ok_or_else(|| {
                format!("remove operation does not apply: doc is missing path: \"{path}\": missing value")
            })?;
            remove(container, &key).map(drop).map_err(|e| format!("error in remove for path: '{path}': {e}"))
        }
        "replace" => {
            let path = operation.path()?;
            if path.is_empty() {
                return match operation.value() {
                    value @ (Value::Object(_) | Value::Array(_)) => {
                        *document = value;
                        Ok(())
                    }
                    _ => Err("replace operation value must be object or array: %!w(<nil>)".into()),
                };
            }
            let (container, key) = locate(document, path).ok_or_else(|| {
                format!("replace operation does not apply: doc is missing path: {path}: missing value")
            })?;
            match container {
                Value::Object(map) => {
                    map.insert(key, operation.value());
                }
                Value::Array(items) => {
                    let index = existing(&key, items.len()).map_err(|_| {
                        format!("replace operation does not apply: doc is missing key: {path}: missing value")
                    })?;
                    items[index] = operation.value();
                }
                _ => {
                    return Err(format!(
                        "replace operation does not apply: doc is missing path: {path}: missing value"
                    ));
                }
            }
            Ok(())
        }
        "move" => {
            let from = operation.from()?;
            let (container, key) = locate(document, from).ok_or_else(|| {
                format!("move operation does not apply: doc is missing from path: {from}: missing value")
            })?;
            let value =
                remove(container, &key).map_err(|e| format!("error in move for path: '{key}': {e}"))?;
            let path = operation.path()?;
            let (container, key) = locate(document, path).ok_or_else(|| {
                format!(
                    "move operation does not apply: doc is missing destination path: {path}: missing value"
                )
            })?;
            add(container, &key, value).map_err(|e| format!("error in move for path: '{path}': {e}"))
        }
        "copy" => {
            let from = operation.from()?;
            let (container, key) = locate(document, from).ok_or_else(|| {
                format!("copy operation does not apply: doc is missing from path: {from}: missing value")
            })?;
            let found = get(container, &key).map_err(|e| format!("error in copy for from: '{from}': {e}"))?;
            found.map_or(Ok(()), |value| copied.count(value))?;
            let value = found.cloned().unwrap_or(Value::Null);
            let path = operation.path()?;
            let (container, key) = locate(document, path).ok_or_else(|| {
                format!(
                    "copy operation does not apply: doc is missing destination path: {path}: missing value"
                )
            })?;
            add(container, &key, value).map_err(|e| format!("error while adding value during copy: {e}"))
        }
        "test" => {
            let path = operation.path()?;
            let expected = operation.value();
            let same = if path.is_empty() {
                equal(document, &expected)
            } else {
                let (container, key) = locate(document, path).ok_or_else(|| {
                    format!("test operation does not apply: is missing path: {path}: missing value")
                })?;
                let found =
                    get(container, &key).map_err(|e| format!("error in test for path: '{path}': {e}"))?;
                equal(found.unwrap_or(&Value::Null), &expected)
            };
            if same { Ok(()) } else { Err(format!("testing value {path} failed: test failed")) }
        }
        other => Err(format!("Unexpected kind: {other}")),
    }
}

/// The container that holds what `path` names, and the last token of the path.
fn locate<'a>(document: &'a mut Value, path: &str) -> Option<(&'a mut Value, String)> {
    let mut tokens: Vec<String> = path.split('/').map(|t| t.replace("~1", "/").replace("~0", "~")).collect();
    if tokens.len() < 2 {
        return None;
    }
    let key = tokens.pop()?;
    let mut container = document;
    for token in &tokens[1..] {
        container = match container {
            Value::Object(map) => map.get_mut(token)?,
            Value::Array(items) => {
                let index = existing(token, items.len()).ok()?;
                &mut items[index]
            }
            _ => return None,
        };
    }
    (container.is_object() || container.is_array()).then_some((container, key))
}

fn get<'a>(container: &'a Value, key: &str) -> Result<Option<&'a Value>, String> {
    match container {
        Value::Array(items) => existing(key, items.len()).map(|index| items.get(index)),
        _ => Ok(container.get(key)),
    }
}

fn add(container: &mut Value, key: &str, value: Value) -> Result<(), String> {
    match container {
        Value::Array(items) if key == "-" => items.push(value),
        Value::Array(items) => {
            let number =
                parse_index(key).map_err(|e| format!("value was not a proper array index: '{key}': {e}"))?;
            let index = within(number, items.len() + 1)?;
            items.insert(index, value);
        }
        Value::Object(map) => {
            map.insert(key.to_owned(), value);
        }
        _ => return Err("unknown object type".into()),
    }
    Ok(())
}

fn remove(container: &mut Value, key: &str) -> Result<Value, String> {
    match container {
        Value::Array(items) => {
            let index = existing(key, items.len())?;
            Ok(items.remove(index))
        }
        Value::Object(map) => {
            map.remove(key).ok_or_else(|| format!("Unable to remove nonexistent key: {key}: missing value"))
        }
        _ => Err("unknown object type".into()),
    }
}

fn existing(key: &str, len: usize) -> Result<usize, String> {
    within(parse_index(key)?, len)
}

fn parse_index(key: &str) -> Result<i64, String> {
    key.parse().map_err(|_| format!("strconv.Atoi: parsing {}: invalid syntax", crate::go::quoted(key)))
}

/// `-1` is the last place.
fn within(index: i64, len: usize) -> Result<usize, String> {
    let place = if index < 0 { index.checked_add_unsigned(len as u64) } else { Some(index) };
    place
        .and_then(|p| usize::try_from(p).ok())
        .filter(|p| *p < len)
        .ok_or_else(|| format!("Unable to access invalid index: {index}: invalid index referenced"))
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::apply::testing::any_json;

    fn patched(target: Value, patch: Value) -> Result<Value, String> {
        let mut result = target;
        apply(&mut result, &patch).map_err(|e| e.to_string())?;
        Ok(result)
    }

    #[test]
    fn operations() {
        let target = || json!({"a": {"b": 1}, "l": [1, 2, 3], "x/y": {"~": 0}});
        for (operation, expected) in [
            (json!({"op": "add", "path": "/a/c", "value": {"d": 1}}), json!({"b": 1, "c": {"d": 1}})),
            (json!({"op": "replace", "path": "/a/b", "value": 2}), json!({"b": 2})),
            (json!({"op": "replace", "path": "/a/new", "value": 2}), json!({"b": 1, "new": 2})),
            (json!({"op": "remove", "path": "/a/b"}), json!({})),
            (json!({"op": "move", "from": "/l/0", "path": "/a/c"}), json!({"b": 1, "c": 1})),
            (json!({"op": "copy", "from": "/x~1y/~0", "path": "/a/b"}), json!({"b": 0})),
            (json!({"op": "test", "path": "/a/b", "value": 1.0}), json!({"b": 1})),
            (json!({"op": "add", "path": "/a/c"}), json!({"b": 1, "c": null})),
        ] {
            let result = patched(target(), json!([operation])).unwrap();
            assert_eq!(result["a"], expected, "{operation}");
        }
        for (operation, expected) in [
            (json!({"op": "add", "path": "/l/-", "value": 9}), json!([1, 2, 3, 9])),
            (json!({"op": "add", "path": "/l/1", "value": 9}), json!([1, 9, 2, 3])),
            (json!({"op": "add", "path": "/l/-1", "value": 9}), json!([1, 2, 3, 9])),
            (json!({"op": "replace", "path": "/l/-1", "value": 9}), json!([1, 2, 9])),
            (json!({"op": "remove", "path": "/l/0"}), json!([2, 3])),
        ] {
            let result = patched(target(), json!([operation])).unwrap();
            assert_eq!(result["l"], expected, "{operation}");
        }
    }

    /// Each copy of the whole into itself doubles it.
    #[test]
    fn copies_cannot_fill_the_memory() {
        let doubling = |times: usize| {
            let copies = (0..times).map(|n| json!({"op": "copy", "from": "/a", "path": format!("/a/k{n}")}));
            Value::Array(copies.collect())
        };
        let target = json!({"a": {"x": "0123456789"}});
        assert!(patched(target.clone(), doubling(12)).unwrap().to_string().len() > 50_000);
        let refused = patched(target, doubling(32)).unwrap_err();
        assert!(refused.contains("more than the limit 3145728"), "{refused}");
    }

    #[test]
    fn errors_say_what_does_not_fit() {
        let mut report = String::new();
        for patch in [
            json!({}),
            json!([1]),
            json!([{"op": "add", "path": 5}]),
            json!([{"op": "frob", "path": "/a"}]),
            json!([{"op": "add"}]),
            json!([{"op": "add", "path": "/no/way", "value": 1}]),
            json!([{"op": "add", "path": "/l/x", "value": 1}]),
            json!([{"op": "add", "path": "/l/5", "value": 1}]),
            json!([{"op": "remove", "path": "/no"}]),
            json!([{"op": "remove", "path": "/l/-4"}]),
            json!([{"op": "replace", "path": "/l/7", "value": 1}]),
            json!([{"op": "test", "path": "/a", "value": 2}]),
            json!([{"op": "move", "path": "/a"}]),
            json!(vec![json!({"op": "test", "path": "/a", "value": 1}); 10_001]),
        ] {
            let error = patched(json!({"a": 1, "l": [1, 2, 3]}), patch).unwrap_err();
            report.push_str(&error);
            report.push('\n');
        }
        expect![[r#"
            error decoding patch: json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp
            error decoding patch: json: cannot unmarshal number into Go value of type handlers.jsonPatchOp
            error decoding patch: json: cannot unmarshal number into Go struct field jsonPatchOp.path of type string
            Unexpected kind: frob
            add operation failed to decode path: missing value
            add operation does not apply: doc is missing path: "/no/way": missing value
            error in add for path: '/l/x': value was not a proper array index: 'x': strconv.Atoi: parsing "x": invalid syntax
            error in add for path: '/l/5': Unable to access invalid index: 5: invalid index referenced
            error in remove for path: '/no': Unable to remove nonexistent key: no: missing value
            error in remove for path: '/l/-4': Unable to access invalid index: -4: invalid index referenced
            replace operation does not apply: doc is missing key: /l/7: missing value
            testing value /a failed: test failed
            move operation failed to decode from: operation, missing from field: missing value
            Request entity too large: The allowed maximum operations in a JSON patch is 10000, got 10001
        "#]].assert_eq(&report);
    }

    proptest! {
        #![proptest_config(repeatable::cases(256))]

        #[test]
        fn a_failed_patch_changes_nothing(target in any_json(), patch in any_json()) {
            let mut result = target.clone();
            if apply(&mut result, &patch).is_err() {
                prop_assert_eq!(result, target);
            }
        }

        #[test]
        fn added_values_are_found_where_they_were_put(
            key in "[a-z~/]{1,4}",
            value in any_json(),
        ) {
            let pointer = format!("/{}", key.replace('~', "~0").replace('/', "~1"));
            let patch = json!([
                {"op": "add", "path": pointer, "value": value},
                {"op": "test", "path": pointer, "value": value},
            ]);
            let result = patched(json!({}), patch).unwrap();
            prop_assert_eq!(&result[key], &value);
        }
    }
}
