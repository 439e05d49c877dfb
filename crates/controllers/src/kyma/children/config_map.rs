//! The ConfigMap: the source, what it depends on, and the server that runs it.

use std::collections::BTreeMap;

use api::kyma::Function;
use serde_json::{Value, json};

use super::{child_name, metadata};
use crate::kyma::runtimes::Runtime;

pub(in crate::kyma) fn wanted(function: &Function, runtime: &Runtime) -> Value {
    json!({ "metadata": metadata(function, &child_name(function)), "data": data(function, runtime) })
}

/// File names and their text.
pub(in crate::kyma) fn data(function: &Function, runtime: &Runtime) -> BTreeMap<String, String> {
    let language = runtime.language;
    let (server, text) = language.server;
    let mut data = BTreeMap::from([(server.to_owned(), text.to_owned())]);
    if let Some(inline) = &function.spec.source.inline {
        data.insert(language.handler.to_owned(), inline.source.clone());
        let dependencies = inline.dependencies.as_deref().unwrap_or_default();
        if !dependencies.trim().is_empty() {
            data.insert(language.dependencies.to_owned(), dependencies.to_owned());
        }
    }
    data
}
