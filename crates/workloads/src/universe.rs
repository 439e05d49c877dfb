//! Every kind and every object of the API, and who owns whom.

use std::{ops::Deref, sync::Arc};

use engine::{
    Engine,
    kind::Kind,
    universe::{self, Objects},
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::garbage::graph::Graph;

#[derive(Clone)]
pub(crate) struct Universe {
    pub graph: Arc<Graph>,
    kinds: Arc<universe::Universe>,
}

impl Universe {
    pub fn new(engine: &Engine) -> Self {
        let graph: Arc<Graph> = Arc::default();
        Self { kinds: universe::Universe::of_objects(engine, graph.clone()), graph }
    }

    pub fn kinds(&self) -> &Arc<universe::Universe> {
        &self.kinds
    }
}

impl Deref for Universe {
    type Target = universe::Universe;

    fn deref(&self) -> &universe::Universe {
        &self.kinds
    }
}

impl Objects for Graph {
    fn observe(&self, kind: &Kind, old: Option<ObjectMeta>, new: Option<ObjectMeta>) {
        Graph::observe(self, kind, old, new);
    }

    fn forget_kind(&self, kind: &Kind) {
        Graph::forget_kind(self, kind);
    }
}
