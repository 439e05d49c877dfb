//! Kinds that CustomResourceDefinitions add at run time.

use std::sync::OnceLock;

use serde_json::Value;

use super::{
    Generation, Kind, Origin, Rules, ScalePaths, SelectableField, Selector, StatusMetadata, Text, Version,
};
use crate::{convert::Conversion, storage::Store, table};

const RULES: Rules = Rules {
    orphans: false,
    generation: Generation::Content,
    create_on_update: false,
    unconditional_update: false,
    returns_deleted: false,
    graceful: false,
    delete_collection: true,
    status_metadata: StatusMetadata::Fixed,
    keeps_status: false,
    expires: false,
    subresources: &[],
    prepare: &[],
    complete: &[],
    on_delete: None,
    permanent: super::Permanent { names: &[], why: "" },
    spec_finalizers: false,
    review: false,
};

/// The kind that a definition describes, or none if it is too broken to be served.
pub fn kind(crd: &Value, store: &Store) -> Option<Kind> {
    let spec = &crd["spec"];
    let text = |value: &Value| value.as_str().map(|text| Text::Owned(text.to_owned()));
    let texts =
        |value: &Value| -> Vec<Text> { value.as_array().into_iter().flatten().filter_map(text).collect() };
    let names = &spec["names"];
    let (group, plural, kind) = (text(&spec["group"])?, text(&names["plural"])?, text(&names["kind"])?);
    let versions: Vec<&Value> = spec["versions"].as_array()?.iter().collect();
    let storage_version = versions.iter().position(|version| version["storage"] == true)?;
    let table_name = Text::Owned(format!("{plural}.{group}"));
    Some(Kind {
        list_kind: text(&names["listKind"]).unwrap_or_else(|| format!("{kind}List").into()),
        singular: text(&names["singular"]).unwrap_or_else(|| kind.to_lowercase().into()),
        short_names: texts(&names["shortNames"]),
        categories: texts(&names["categories"]),
        namespaced: spec["scope"] == "Namespaced",
        versions: versions.iter().map(|value| version(crd, &group, &kind, value)).collect(),
        storage_version,
        table: store.table(&table_name),
        table_name,
        selectable: versions[storage_version]["selectableFields"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|field| field["jsonPath"].as_str())
            .map(|path| {
                let path = path.trim_start_matches('.');
                SelectableField::new(path.to_owned(), path, "", "")
            })
            .collect(),
        rules: RULES,
        origin: Origin::Custom,
        terminating: crate::object::is_deleting(crd),
        group,
        plural,
        kind,
    })
}

fn version(crd: &Value, group: &str, kind: &str, value: &Value) -> Version {
    let name = value["name"].as_str().unwrap_or_default().to_owned();
    let subresources = &value["subresources"];
    let scale = subresources.get("scale").map(|scale| {
        let path = |key: &str| split(scale[key].as_str().unwrap_or_default());
        let selector = path("labelSelectorPath");
        ScalePaths {
            spec: path("specReplicasPath"),
            status: path("statusReplicasPath"),
            selector: if selector.is_empty() { Selector::None } else { Selector::Text(selector) },
        }
    });
    let deprecation = (value["deprecated"] == true).then(|| match value["deprecationWarning"].as_str() {
        Some(warning) => warning.to_owned(),
        None => format!("{group}/{name} {kind} is deprecated"),
    });
    let schema = crate::admit::custom(crd, &name);
    Version {
        served: value["served"] == true,
        status: subresources.get("status").is_some_and(|status| !status.is_null()),
        scale,
        columns: OnceLock::from(table::custom_columns(&value["additionalPrinterColumns"])),
        deprecation,
        conversion: Conversion::None,
        schema: OnceLock::from(schema),
        empty: OnceLock::new(),
        name: name.into(),
    }
}

fn split(path: &str) -> Vec<String> {
    path.split('.').filter(|key| !key.is_empty()).map(str::to_owned).collect()
}
