//! YAML with the position of every field.

use std::{collections::BTreeMap, fmt};

use serde::{
    Deserialize, Deserializer,
    de::{DeserializeOwned, Error, MapAccess, SeqAccess, Visitor},
};
use serde_json::{Map, Value};
use serde_saphyr::Spanned;

use super::{Finding, Severity};

/// One object of a file.
#[derive(Debug)]
pub struct Document {
    pub file: String,
    pub value: Value,
    root: Node,
}

#[derive(Debug)]
struct Node {
    line: u64,
    column: u64,
    fields: BTreeMap<String, Node>,
    items: Vec<Node>,
}

/// A value and its positions, as they are read together.
struct Tree {
    value: Value,
    node: Node,
}

/// The same without its own position.
struct Inner {
    value: Value,
    fields: BTreeMap<String, Node>,
    items: Vec<Node>,
}

/// The objects of a file; the items of a list are objects of their own.
pub fn read(file: &str, text: &str) -> Result<Vec<Document>, Box<Finding>> {
    let trees: Vec<Tree> = serde_saphyr::from_multiple(text).map_err(|error| {
        let location = error.location();
        let message = error.to_string();
        Box::new(Finding {
            file: file.to_owned(),
            line: location.map_or(1, |location| location.line()),
            column: location.map_or(1, |location| location.column()),
            severity: Severity::Error,
            rule: "yaml",
            object: String::new(),
            path: String::new(),
            message: message.lines().next().unwrap_or_default().to_owned(),
        })
    })?;
    let document = |Tree { value, node }| Document { file: file.to_owned(), value, root: node };
    let mut documents = Vec::new();
    for mut tree in trees.into_iter().filter(|tree| !tree.value.is_null()) {
        let is_list = tree.value["kind"].as_str().is_some_and(|kind| kind.ends_with("List"));
        if !is_list {
            documents.push(document(tree));
            continue;
        }
        let items = tree.value.get_mut("items").and_then(Value::as_array_mut).map(std::mem::take);
        let nodes = tree.node.fields.remove("items").map(|node| node.items);
        let items = items.into_iter().flatten().zip(nodes.into_iter().flatten());
        documents.extend(items.map(|(value, node)| document(Tree { value, node })));
    }
    Ok(documents)
}

// === impl Document ===

impl Document {
    pub fn text(&self, pointer: &str) -> &str {
        self.value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
    }

    /// As what it says it is, if it can be.
    pub fn read<T: DeserializeOwned>(&self) -> Option<T> {
        serde_json::from_value(self.value.clone()).ok()
    }

    pub fn kind(&self) -> &str {
        self.text("/kind")
    }

    /// Without the version.
    pub fn group(&self) -> &str {
        self.text("/apiVersion").split_once('/').map_or("", |(group, _)| group)
    }

    pub fn namespace(&self) -> &str {
        Some(self.text("/metadata/namespace")).filter(|namespace| !namespace.is_empty()).unwrap_or("default")
    }

    /// `Deployment shop/fib`, for people.
    pub fn name(&self) -> String {
        let name = self.text("/metadata/name");
        match self.text("/metadata/namespace") {
            "" => format!("{} {name}", self.kind()),
            namespace => format!("{} {namespace}/{name}", self.kind()),
        }
    }

    /// Of a path such as `spec.metrics[0].type` or `metadata.annotations[SlimFaas/Scale]`, or of what is there of it.
    pub fn position(&self, path: &str) -> (u64, u64) {
        let mut node = &self.root;
        for step in steps(path) {
            let index = step.parse().ok().and_then(|index: usize| node.items.get(index));
            match index.or_else(|| node.fields.get(&step)) {
                Some(next) => node = next,
                None => break,
            }
        }
        (node.line, node.column)
    }
}

fn steps(path: &str) -> Vec<String> {
    let mut steps = vec![String::new()];
    let mut within = false;
    for character in path.chars() {
        match character {
            '.' if !within => steps.push(String::new()),
            '[' if !within => {
                within = true;
                steps.push(String::new());
            }
            ']' if within => within = false,
            character => steps.iter_mut().next_back().into_iter().for_each(|step| step.push(character)),
        }
    }
    steps.into_iter().map(|step| step.trim_matches('"').to_owned()).filter(|step| !step.is_empty()).collect()
}

impl<'de> Deserialize<'de> for Tree {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Spanned { value: Inner { value, fields, items }, referenced, .. } =
            Spanned::<Inner>::deserialize(deserializer)?;
        let node = Node { line: referenced.line(), column: referenced.column(), fields, items };
        Ok(Tree { value, node })
    }
}

impl<'de> Deserialize<'de> for Inner {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Reader)
    }
}

struct Reader;

fn leaf(value: Value) -> Inner {
    Inner { value, fields: BTreeMap::new(), items: Vec::new() }
}

impl<'de> Visitor<'de> for Reader {
    type Value = Inner;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value that JSON has too")
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Inner, E> {
        Ok(leaf(value.into()))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Inner, E> {
        Ok(leaf(value.into()))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Inner, E> {
        Ok(leaf(value.into()))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Inner, E> {
        Ok(leaf(value.into()))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Inner, E> {
        Ok(leaf(value.into()))
    }

    fn visit_unit<E: Error>(self) -> Result<Inner, E> {
        Ok(leaf(Value::Null))
    }

    fn visit_none<E: Error>(self) -> Result<Inner, E> {
        Ok(leaf(Value::Null))
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Inner, D::Error> {
        Inner::deserialize(deserializer)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<Inner, A::Error> {
        let (mut values, mut items) = (Vec::new(), Vec::new());
        while let Some(Tree { value, node }) = sequence.next_element()? {
            values.push(value);
            items.push(node);
        }
        Ok(Inner { value: values.into(), fields: BTreeMap::new(), items })
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Inner, A::Error> {
        let (mut values, mut fields) = (Map::new(), BTreeMap::new());
        while let Some((key, Tree { value, node })) = map.next_entry::<String, Tree>()? {
            values.insert(key.clone(), value);
            fields.insert(key, node);
        }
        Ok(Inner { value: values.into(), fields, items: Vec::new() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions() {
        let text = "\
kind: Deployment
metadata:
  name: fib
  annotations:
    SlimFaas/Scale: '{}'
spec:
  containers:
    - name: one
      image: two
---
kind: List
items:
  - kind: Service
    metadata: {name: web, namespace: shop}
---
# nothing
";
        let documents = read("x.yaml", text).unwrap();
        let names: Vec<String> = documents.iter().map(Document::name).collect();
        assert_eq!(names, ["Deployment fib", "Service shop/web"]);
        for (path, position) in [
            ("", (1, 1)),
            ("metadata.name", (3, 9)),
            ("metadata.annotations[SlimFaas/Scale]", (5, 21)),
            ("spec.containers[0].image", (9, 14)),
            ("spec.containers[0].command", (8, 7)),
            ("spec.containers[7]", (8, 5)),
        ] {
            assert_eq!(documents[0].position(path), position, "{path}");
        }
        assert_eq!(documents[1].position("metadata.name"), (14, 22));
    }

    #[test]
    fn what_is_no_yaml_is_named() {
        let finding = read("x.yaml", "a: [1\nb: 2\n").unwrap_err();
        assert_eq!((finding.rule, finding.line > 0), ("yaml", true));
    }
}
