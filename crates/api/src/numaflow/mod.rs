//! Pipelines (`numaflow.numaproj.io/v1alpha1`): vertices that hand messages on to one another through buffers.
//!
//! ```text
//! Pipeline ──▶ Vertex (source) ──buffer──▶ Vertex (map) ──buffer──▶ Vertex (sink) ──▶ pods
//!                                InterStepBufferService: where the buffers are
//! MonoVertex: source, map and sink in one pod, without buffers
//! ```
//! Group, kinds and field names are Numaflow's, so that manifests carry over. A field that Numaflow has and this does not
//! implement is part of the type all the same, and `validate` refuses it by name: nothing is ignored silently. What stands
//! here beside Numaflow's own fields is where buffers are found (`embedded`, `jetstream.url`).

mod graph;
mod isb_service;
mod mono_vertex;
mod pipeline;
mod pod;
mod resolve;
mod scale;
mod source;
mod validate;
mod vertex;

pub use graph::{buffer_names, edges_of, vertex_name, vertex_spec, vertices};
pub use isb_service::{
    BufferConfig, Embedded, EmbeddedConfig, InterStepBufferService, IsbServiceSpec, IsbServiceStatus,
    JetStream, JetStreamConfig,
};
pub use mono_vertex::{MonoVertex, MonoVertexLimits, MonoVertexSpec};
pub use pipeline::{
    Conditions, Edge, InterStepBuffer, Lifecycle, OnFull, Operator, Pipeline, PipelineLimits, PipelineSpec,
    PipelineStatus, Tags, Templates, VertexTemplate, Watermark,
};
pub use pod::{Container, ContainerTemplate, Metadata, PodTemplate, RollingUpdate, UpdateStrategy};
pub use resolve::{mono_vertex_policy, vertex_policy};
pub use scale::{CronScale, CronWindow, Scale};
pub use source::{
    Generator, Http, HttpAuth, JetStreamSource, Log, NatsAuth, NatsBasicAuth, Sink, Source, Udf, UserDefined,
};
pub use validate::{validate_isb_service, validate_mono_vertex, validate_pipeline};
pub use vertex::{
    AbstractVertex, CombinedEdge, Ordered, Vertex, VertexLifecycle, VertexLimits, VertexSpec, VertexStatus,
    VertexType,
};

pub const GROUP: &str = "numaflow.numaproj.io";

/// Marks what was made from a spec, so that a changed spec is seen.
pub const HASH: &str = "numaflow.numaproj.io/hash";
pub const PIPELINE_NAME: &str = "numaflow.numaproj.io/pipeline-name";
pub const VERTEX_NAME: &str = "numaflow.numaproj.io/vertex-name";
pub const MONO_VERTEX_NAME: &str = "numaflow.numaproj.io/mono-vertex-name";
/// Of a pod: its index.
pub const REPLICA: &str = "numaflow.numaproj.io/replica";
/// When a Pipeline was told to pause.
pub const PAUSE_TIMESTAMP: &str = "numaflow.numaproj.io/pause-timestamp";
/// `slow`: vertices begin anew from their smallest count after a pause.
pub const RESUME_STRATEGY: &str = "numaflow.numaproj.io/resume-strategy";
pub const PIPELINE_FINALIZER: &str = "numaflow.numaproj.io/pipeline-controller";

/// Where pods serve metrics and say whether they are ready, by HTTPS.
pub const METRICS_PORT: u16 = 2469;
pub const RUNTIME_PORT: u16 = 2470;
/// Where an HTTP source takes messages.
pub const HTTPS_SOURCE_PORT: u16 = 8443;
/// The same without TLS.
pub const HTTP_SOURCE_PORT: u16 = 8090;

/// The container that moves messages, beside those of the user.
pub const MAIN_CONTAINER: &str = "numa";
/// Where both meet.
pub const SOCKET_DIRECTORY: &str = "/var/run/numaflow";

/// What phases are called.
pub mod phases {
    pub const RUNNING: &str = "Running";
    pub const PAUSING: &str = "Pausing";
    pub const PAUSED: &str = "Paused";
    pub const FAILED: &str = "Failed";
    pub const DELETING: &str = "Deleting";
}

#[cfg(test)]
mod tests;
