//! What a Vertex and a MonoVertex have in common.

use std::{collections::BTreeMap, sync::Arc};

use api::numaflow::{
    ContainerTemplate, MONO_VERTEX_NAME, MonoVertex, PIPELINE_NAME, PodTemplate, Scale, Sink, Source, Udf,
    UpdateStrategy, VERTEX_NAME, Vertex, VertexStatus, mono_vertex_policy, vertex_policy,
};
use decide::{input::InputError, vertex::Spec};
use engine::{Key, kind::Kind, object::name};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Value, json};

use crate::pipelines::{Caches, MONO_VERTEX, PART_OF, VERTEX};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Which {
    Vertex,
    MonoVertex,
}

/// One object.
#[derive(Clone, Debug)]
pub enum Worker {
    Vertex(Arc<Vertex>),
    MonoVertex(Arc<MonoVertex>),
}

// === impl Which ===

impl Which {
    pub fn name(self) -> &'static str {
        match self {
            Self::Vertex => "Vertex",
            Self::MonoVertex => "MonoVertex",
        }
    }

    pub fn controller(self) -> &'static str {
        match self {
            Self::Vertex => "vertex-controller",
            Self::MonoVertex => "mono-vertex-controller",
        }
    }

    pub fn kind(self) -> Kind {
        match self {
            Self::Vertex => VERTEX,
            Self::MonoVertex => MONO_VERTEX,
        }
    }

    pub fn find(self, caches: &Caches, key: &Key) -> Option<Worker> {
        match self {
            Self::Vertex => caches.vertices.get(key).map(Worker::Vertex),
            Self::MonoVertex => caches.mono_vertices.get(key).map(Worker::MonoVertex),
        }
    }

    pub fn all(self, caches: &Caches) -> Vec<Worker> {
        match self {
            Self::Vertex => caches.vertices.all().into_iter().map(Worker::Vertex).collect(),
            Self::MonoVertex => caches.mono_vertices.all().into_iter().map(Worker::MonoVertex).collect(),
        }
    }
}

// === impl Worker ===

impl Worker {
    pub fn which(&self) -> Which {
        match self {
            Self::Vertex(_) => Which::Vertex,
            Self::MonoVertex(_) => Which::MonoVertex,
        }
    }

    pub fn meta(&self) -> &ObjectMeta {
        match self {
            Self::Vertex(vertex) => &vertex.metadata,
            Self::MonoVertex(mono) => &mono.metadata,
        }
    }

    pub fn status(&self) -> Option<&VertexStatus> {
        match self {
            Self::Vertex(vertex) => vertex.status.as_ref(),
            Self::MonoVertex(mono) => mono.status.as_ref(),
        }
    }

    /// What it reads comes from buffers, and not from outside.
    pub fn has_buffers(&self) -> bool {
        matches!(self, Self::Vertex(vertex) if !vertex.spec.vertex.is_source())
    }

    pub fn replicas(&self) -> i32 {
        match self {
            Self::Vertex(vertex) => vertex.spec.replicas(),
            Self::MonoVertex(mono) => mono.spec.replicas(),
        }
    }

    pub fn is_paused(&self) -> bool {
        match self {
            Self::Vertex(vertex) => vertex.spec.is_paused(),
            Self::MonoVertex(mono) => mono.spec.is_paused(),
        }
    }

    pub fn scale(&self) -> &Scale {
        match self {
            Self::Vertex(vertex) => &vertex.spec.vertex.scale,
            Self::MonoVertex(mono) => &mono.spec.scale,
        }
    }

    pub fn strategy(&self) -> &UpdateStrategy {
        match self {
            Self::Vertex(vertex) => &vertex.spec.vertex.update_strategy,
            Self::MonoVertex(mono) => &mono.spec.update_strategy,
        }
    }

    /// How it is scaled.
    pub fn policy(&self, annotations: &BTreeMap<String, String>) -> Result<Spec, InputError> {
        match self {
            Self::Vertex(vertex) => vertex_policy(&vertex.spec, annotations),
            Self::MonoVertex(mono) => mono_vertex_policy(name(&mono.metadata), &mono.spec, annotations),
        }
    }

    /// What names of its pods and Services begin with.
    pub fn prefix(&self) -> String {
        match self {
            Self::Vertex(vertex) => name(&vertex.metadata).to_owned(),
            Self::MonoVertex(mono) => format!("{}-mv", name(&mono.metadata)),
        }
    }

    /// Labels by which its pods are found.
    pub fn selector(&self) -> BTreeMap<String, String> {
        let pairs = match self {
            Self::Vertex(vertex) => vec![
                (PIPELINE_NAME, vertex.spec.pipeline_name.clone()),
                (VERTEX_NAME, vertex.spec.vertex.name.clone()),
            ],
            Self::MonoVertex(mono) => vec![(MONO_VERTEX_NAME, name(&mono.metadata).to_owned())],
        };
        pairs.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
    }

    pub fn selector_text(&self) -> String {
        let pairs: Vec<String> =
            self.selector().iter().map(|(key, value)| format!("{key}={value}")).collect();
        pairs.join(",")
    }

    /// Labels of all that is made for it.
    pub fn labels(&self) -> BTreeMap<String, String> {
        let component = match self {
            Self::Vertex(_) => "vertex",
            Self::MonoVertex(_) => "mono-vertex",
        };
        let mut labels = self.selector();
        let own = [
            (PART_OF.0, PART_OF.1.to_owned()),
            ("app.kubernetes.io/managed-by", self.which().controller().to_owned()),
            ("app.kubernetes.io/component", component.to_owned()),
            ("app.kubernetes.io/name", name(self.meta()).to_owned()),
        ];
        labels.extend(own.map(|(key, value)| (key.to_owned(), value)));
        labels
    }

    /// The object as its pods see it. Bounds, counts and phases are none of their business: editing them replaces no pods.
    pub fn for_pods(&self) -> Value {
        let mut spec = match self {
            Self::Vertex(vertex) => json!(vertex.spec),
            Self::MonoVertex(mono) => json!(mono.spec),
        };
        if let Some(fields) = spec.as_object_mut() {
            for field in ["replicas", "lifecycle", "updateStrategy", "scale"] {
                fields.remove(field);
            }
        }
        let kind = self.which().kind();
        let meta = self.meta();
        json!({
            "apiVersion": kind.api_version(),
            "kind": kind.kind,
            "metadata": { "name": meta.name, "namespace": meta.namespace },
            "spec": spec,
        })
    }

    pub fn source(&self) -> Option<&Source> {
        match self {
            Self::Vertex(vertex) => vertex.spec.vertex.source.as_ref(),
            Self::MonoVertex(mono) => mono.spec.source.as_ref(),
        }
    }

    pub fn sink(&self) -> Option<&Sink> {
        match self {
            Self::Vertex(vertex) => vertex.spec.vertex.sink.as_ref(),
            Self::MonoVertex(mono) => mono.spec.sink.as_ref(),
        }
    }

    pub fn udf(&self) -> Option<&Udf> {
        match self {
            Self::Vertex(vertex) => vertex.spec.vertex.udf.as_ref(),
            Self::MonoVertex(mono) => mono.spec.udf.as_ref(),
        }
    }

    pub fn pod_template(&self) -> &PodTemplate {
        match self {
            Self::Vertex(vertex) => &vertex.spec.vertex.pod_template,
            Self::MonoVertex(mono) => &mono.spec.pod_template,
        }
    }

    pub fn container_template(&self) -> ContainerTemplate {
        let template = match self {
            Self::Vertex(vertex) => &vertex.spec.vertex.container_template,
            Self::MonoVertex(mono) => &mono.spec.container_template,
        };
        template.clone().unwrap_or_default()
    }

    /// Volumes, init containers and sidecars of the user's, as a pod has them.
    pub fn extras(&self) -> (Value, Value, Value) {
        match self {
            Self::Vertex(vertex) => {
                let vertex = &vertex.spec.vertex;
                (json!(vertex.volumes), json!(vertex.init_containers), json!(vertex.sidecars))
            }
            Self::MonoVertex(mono) => {
                let spec = &mono.spec;
                (json!(spec.volumes), json!(spec.init_containers), json!(spec.sidecars))
            }
        }
    }
}
