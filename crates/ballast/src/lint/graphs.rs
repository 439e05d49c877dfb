//! The resource graphs among the manifests, compiled. One may use the kind that another defines.

use api::kro::ResourceGraphDefinition;
use graph::{Error, Kinds, Options};
use serde_json::Value;

use super::manifest::Document;

#[derive(Default)]
pub struct Compiled<'a> {
    /// The kinds that they define.
    pub crds: Vec<Value>,
    /// What is wrong with those that cannot be compiled.
    pub errors: Vec<(&'a Document, Vec<Error>)>,
}

pub fn compile(documents: &[Document]) -> Compiled<'_> {
    let mut kinds = Kinds::default();
    for crd in api::crds().iter().filter_map(|crd| serde_json::to_value(crd).ok()) {
        kinds.add_crd(&crd);
    }
    for document in documents.iter().filter(|document| document.kind() == "CustomResourceDefinition") {
        kinds.add_crd(&document.value);
    }
    // One that cannot be read is the server's to tell.
    let definition = |document| Some((document, Document::read::<ResourceGraphDefinition>(document)?));
    let is_graph = |document: &&Document| document.kind() == "ResourceGraphDefinition";
    let mut pending: Vec<_> = documents.iter().filter(is_graph).filter_map(definition).collect();
    let mut compiled = Compiled::default();
    loop {
        compiled.errors.clear();
        let n_pending = pending.len();
        pending.retain(|(document, definition)| {
            match graph::compile(definition, &kinds, &Options::default()) {
                Err(errors) => {
                    compiled.errors.push((document, errors));
                    true
                }
                Ok(graph) => {
                    for crd in [graph.crd()].into_iter().chain(graph.set_crd()) {
                        kinds.add_crd(crd);
                        compiled.crds.push(crd.clone());
                    }
                    false
                }
            }
        });
        if pending.len() == n_pending {
            return compiled;
        }
    }
}
