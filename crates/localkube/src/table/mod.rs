//! Objects as rows: what `kubectl get` prints.

mod builtin;
mod cells;
mod docs;
mod jsonpath;
mod more_cells;
mod pod;

use std::{borrow::Cow, sync::Arc};

use jiff::Timestamp;
pub use jsonpath::JsonPath;
use serde_json::{Value, json};

use crate::{http::IncludeObject, object, registry::Kind, render};

#[derive(Clone, Debug)]
pub struct Column {
    pub name: Cow<'static, str>,
    pub kind: Cow<'static, str>,
    pub format: Cow<'static, str>,
    pub description: Cow<'static, str>,
    /// 0 is always shown, more only with `-o wide`.
    pub priority: i64,
    pub cell: Cell,
}

#[derive(Clone, Debug)]
pub enum Cell {
    Path(JsonPath),
    Computed(fn(&Value, Timestamp) -> Value),
}

/// `header` says whether the columns are described; in a watch only the first table does.
pub fn table(
    columns: &[Column],
    objects: &[&Value],
    include: IncludeObject,
    meta: Value,
    now: Timestamp,
    header: bool,
) -> Value {
    let rows: Vec<Value> = objects
        .iter()
        .map(|one| {
            let cells: Vec<Value> = columns.iter().map(|column| column.cell(one, now)).collect();
            match include {
                IncludeObject::None => json!({"cells": cells, "object": null}),
                IncludeObject::Metadata => json!({"cells": cells, "object": render::partial(one)}),
                IncludeObject::Object => json!({"cells": cells, "object": one}),
            }
        })
        .collect();
    let definitions: Vec<Value> =
        if header { columns.iter().map(Column::definition).collect() } else { Vec::new() };
    json!({
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": meta,
        "columnDefinitions": if header { json!(definitions) } else { Value::Null },
        "rows": rows,
    })
}

/// The columns of a kind in a version.
pub fn columns(kind: &Kind, version: usize) -> &[Column] {
    kind.versions[version].columns.get_or_init(|| {
        let (group, version) = match kind.kind.as_ref() {
            // Columns are about the form in which objects are kept.
            "Event" => ("", "v1"),
            _ => (kind.group.as_ref(), kind.versions[kind.storage_version].name.as_ref()),
        };
        builtin::columns(&kind.kind, &docs::Docs::of(group, version, &kind.kind))
    })
}

/// Of a CRD's version: always the name first, and the age if nothing else is asked for.
pub fn custom_columns(additional: &Value) -> Arc<[Column]> {
    let docs = docs::Docs::of_metadata();
    let mut columns = vec![builtin::name(docs)];
    let text = |value: &Value| Cow::Owned(value.as_str().unwrap_or_default().to_owned());
    for column in additional.as_array().into_iter().flatten() {
        columns.push(Column {
            name: text(&column["name"]),
            kind: text(&column["type"]),
            format: text(&column["format"]),
            description: match column["description"].as_str() {
                Some(description) => description.to_owned().into(),
                None => {
                    let path = column["jsonPath"].as_str().unwrap_or_default();
                    format!("Custom resource definition column (in JSONPath format): {path}").into()
                }
            },
            priority: column["priority"].as_i64().unwrap_or_default(),
            cell: Cell::Path(JsonPath::parse(column["jsonPath"].as_str().unwrap_or_default())),
        });
    }
    if additional.as_array().is_none_or(Vec::is_empty) {
        columns.push(Column { kind: "date".into(), ..builtin::age(docs) });
    }
    columns.into()
}

// === impl Column ===

impl Column {
    fn definition(&self) -> Value {
        json!({
            "name": self.name,
            "type": self.kind,
            "format": self.format,
            "description": self.description,
            "priority": self.priority,
        })
    }

    fn cell(&self, object: &Value, now: Timestamp) -> Value {
        match &self.cell {
            Cell::Computed(compute) => compute(object, now),
            Cell::Path(path) => {
                let found = path.find(object);
                match (self.kind.as_ref(), found.as_slice()) {
                    (_, []) => Value::Null,
                    ("integer", [value, ..]) => value.as_i64().map_or(Value::Null, Value::from),
                    ("number", [value, ..]) => value.as_f64().map_or(Value::Null, Value::from),
                    ("boolean", [value, ..]) => value.as_bool().map_or(Value::Null, Value::from),
                    ("date", [value, ..]) => match value.as_str().and_then(object::parse_timestamp) {
                        Some(at) => cells::since(at, now).into(),
                        None => "<invalid>".into(),
                    },
                    (_, values) => {
                        let texts: Vec<String> = values.iter().map(|value| plain(value)).collect();
                        texts.join(" ").into()
                    }
                }
            }
        }
    }
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests;
