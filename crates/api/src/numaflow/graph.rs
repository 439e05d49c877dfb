//! What a Pipeline means: which vertices, edges and buffers there are.

use decide::vertex as policy;

use super::{
    AbstractVertex, CombinedEdge, Edge, OnFull, Pipeline, PipelineSpec, PodTemplate, VertexLifecycle,
    VertexSpec, VertexTemplate,
};

/// The name of a vertex's object.
pub fn vertex_name(pipeline: &str, vertex: &str) -> String {
    format!("{pipeline}-{vertex}")
}

/// The buffers that a vertex reads, one for each partition.
pub fn buffer_names(namespace: &str, pipeline: &str, vertex: &AbstractVertex) -> Vec<String> {
    (0..vertex.n_buffers()).map(|idx| format!("{namespace}-{pipeline}-{}-{idx}", vertex.name)).collect()
}

/// The edges as back pressure sees them.
pub fn edges_of(spec: &PipelineSpec) -> Vec<policy::Edge> {
    let on_full = |edge: &Edge| match edge.on_full.unwrap_or_default() {
        OnFull::RetryUntilSuccess => policy::OnFull::RetryUntilSuccess,
        OnFull::DiscardLatest => policy::OnFull::DiscardLatest,
    };
    let edge =
        |edge: &Edge| policy::Edge { from: edge.from.clone(), to: edge.to.clone(), on_full: on_full(edge) };
    spec.edges.iter().map(edge).collect()
}

/// Every vertex with all that its object says, but for `replicas`.
pub fn vertices(pipeline: &Pipeline) -> Vec<VertexSpec> {
    pipeline.spec.vertices.iter().map(|vertex| vertex_spec(pipeline, vertex)).collect()
}

/// What the object of a vertex says, but for `replicas`.
pub fn vertex_spec(pipeline: &Pipeline, vertex: &AbstractVertex) -> VertexSpec {
    let spec = &pipeline.spec;
    let of_pipeline = spec.limits.for_vertices();
    let edges = |touches: &dyn Fn(&Edge) -> bool| -> Vec<CombinedEdge> {
        spec.edges.iter().filter(|edge| touches(edge)).map(|edge| combined(spec, edge)).collect()
    };
    let mut own = vertex.clone();
    own.limits = Some(vertex.limits.clone().unwrap_or_default().or(&of_pipeline));
    if let Some(template) = spec.templates.as_ref().and_then(|templates| templates.vertex.as_ref()) {
        fill_in(&mut own, template);
    }
    VertexSpec {
        vertex: own,
        pipeline_name: pipeline.metadata.name.clone().unwrap_or_default(),
        inter_step_buffer_service_name: Some(spec.isb_service_name().to_owned()),
        replicas: None,
        from_edges: edges(&|edge| edge.to == vertex.name),
        to_edges: edges(&|edge| edge.from == vertex.name),
        watermark: spec.watermark.clone(),
        lifecycle: VertexLifecycle { desired_phase: spec.lifecycle.desired_phase.clone() },
        inter_step_buffer: spec.inter_step_buffer.clone(),
    }
}

fn combined(spec: &PipelineSpec, edge: &Edge) -> CombinedEdge {
    let of_pipeline = spec.limits.for_vertices();
    let find = |name: &str| spec.vertices.iter().find(|vertex| vertex.name == name);
    let limits = |vertex: &AbstractVertex| vertex.limits.clone().unwrap_or_default().or(&of_pipeline);
    let count = |vertex: &AbstractVertex| i32::try_from(vertex.n_buffers().max(1)).unwrap_or(i32::MAX);
    let (from, to) = (find(&edge.from), find(&edge.to));
    CombinedEdge {
        from: edge.from.clone(),
        to: edge.to.clone(),
        conditions: edge.conditions.clone(),
        on_full: edge.on_full,
        from_vertex_type: from.map(AbstractVertex::vertex_type).unwrap_or_default(),
        from_vertex_partition_count: from.map(count),
        from_vertex_limits: from.map(limits),
        to_vertex_type: to.map(AbstractVertex::vertex_type).unwrap_or_default(),
        to_vertex_partition_count: to.map(count),
        to_vertex_limits: to.map(limits),
    }
}

/// What a vertex says itself goes before the template of all vertices.
fn fill_in(vertex: &mut AbstractVertex, template: &VertexTemplate) {
    if vertex.container_template.is_none() {
        vertex.container_template.clone_from(&template.container_template);
    }
    let (own, other) = (&mut vertex.pod_template, &template.pod_template);
    if let Some(given) = &other.metadata {
        let own = own.metadata.get_or_insert_default();
        for (theirs, ours) in [(&given.labels, &mut own.labels), (&given.annotations, &mut own.annotations)] {
            for (key, value) in theirs {
                ours.entry(key.clone()).or_insert_with(|| value.clone());
            }
        }
    }
    let PodTemplate {
        metadata: _,
        node_selector,
        tolerations,
        security_context,
        image_pull_secrets,
        priority_class_name,
        priority,
        affinity,
        service_account_name,
        runtime_class_name,
        automount_service_account_token,
        dns_policy,
        dns_config,
        resource_claims,
    } = own;
    fn list<T: Clone>(own: &mut Vec<T>, other: &[T]) {
        if own.is_empty() {
            own.extend_from_slice(other);
        }
    }
    fn one<T: Clone>(own: &mut Option<T>, other: &Option<T>) {
        if own.is_none() {
            own.clone_from(other);
        }
    }
    if node_selector.is_empty() {
        node_selector.clone_from(&other.node_selector);
    }
    list(tolerations, &other.tolerations);
    list(image_pull_secrets, &other.image_pull_secrets);
    list(resource_claims, &other.resource_claims);
    one(security_context, &other.security_context);
    one(priority_class_name, &other.priority_class_name);
    one(priority, &other.priority);
    one(affinity, &other.affinity);
    one(service_account_name, &other.service_account_name);
    one(runtime_class_name, &other.runtime_class_name);
    one(automount_service_account_token, &other.automount_service_account_token);
    one(dns_policy, &other.dns_policy);
    one(dns_config, &other.dns_config);
}
