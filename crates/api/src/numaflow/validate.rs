//! What an API server cannot check by itself, and what is Numaflow's but not supported here. The first problem is named.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use decide::{
    input::{InputError, shown},
    vertex::Kind,
};

use super::{
    AbstractVertex, Container, InterStepBuffer, IsbServiceSpec, JetStreamSource, MonoVertexSpec,
    PipelineSpec, Scale, Sink, Source, Udf, UpdateStrategy, UserDefined, VertexLimits, VertexType, Watermark,
    resolve::resolve,
};

type Result<T = ()> = std::result::Result<T, InputError>;

const RESERVED_CONTAINERS: [&str; 11] = [
    "init",
    "numa",
    "udf",
    "udsink",
    "fb-udsink",
    "ons-udsink",
    "udsource",
    "transformer",
    "udsi",
    "init-side-inputs",
    "side-inputs-synchronizer",
];

/// # Errors
/// The first thing that cannot work or is not supported, with the path of its field below `spec`.
pub fn validate_pipeline(name: &str, spec: &PipelineSpec) -> Result {
    check_pipeline_settings(spec)?;
    if spec.vertices.is_empty() {
        return Err(InputError::new("vertices", "expected at least one source and one sink"));
    }
    let mut names = HashSet::new();
    for (idx, vertex) in spec.vertices.iter().enumerate() {
        let at = |error: InputError| error.under(format!("vertices[{idx}]"));
        if !names.insert(vertex.name.as_str()) {
            return Err(at(InputError::new("name", format!("{} comes twice", shown(&vertex.name)))));
        }
        check_names(name, vertex).map_err(at)?;
        check_vertex(vertex, &spec.limits.for_vertices()).map_err(at)?;
    }
    check_edges(spec)
}

/// # Errors
/// As [`validate_pipeline`].
pub fn validate_mono_vertex(name: &str, spec: &MonoVertexSpec) -> Result {
    check_label("metadata.name", name, "-mv-headless")?;
    refuse("daemonTemplate", spec.daemon_template.is_some(), "there is no daemon")?;
    refuse("bypass", spec.bypass.is_some(), "")?;
    refuse("streaming", spec.streaming == Some(true), "")?;
    let source = spec.source.as_ref().ok_or_else(|| InputError::new("source", "expected a source"))?;
    let sink = spec.sink.as_ref().ok_or_else(|| InputError::new("sink", "expected a sink"))?;
    check_source(source).map_err(|error| error.under("source"))?;
    check_sink(sink).map_err(|error| error.under("sink"))?;
    if let Some(udf) = &spec.udf {
        check_udf(udf).map_err(|error| error.under("udf"))?;
    }
    check_containers("initContainers", spec.init_containers.iter().map(|raw| &raw.0))?;
    check_containers("sidecars", spec.sidecars.iter().map(|raw| &raw.0))?;
    check_scale(Kind::MonoVertex, &spec.scale, &spec.limits())?;
    check_strategy(&spec.update_strategy)
}

/// # Errors
/// As [`validate_pipeline`].
pub fn validate_isb_service(spec: &IsbServiceSpec) -> Result {
    refuse("redis", spec.redis.is_some(), "use jetstream or embedded")?;
    let jetstream = match (&spec.jetstream, &spec.embedded) {
        (Some(_), Some(_)) => {
            return Err(InputError::new("embedded", "expected jetstream or embedded, found both"));
        }
        (None, None) => {
            return Err(InputError::new("jetstream", "expected jetstream or embedded, found neither"));
        }
        (None, Some(_)) => return Ok(()),
        (Some(jetstream), None) => jetstream,
    };
    let deploys = "no NATS server is deployed here: set url to one that is there";
    for (field, is_set) in [
        ("version", jetstream.version.is_some()),
        ("replicas", jetstream.replicas.is_some()),
        ("persistence", jetstream.persistence.is_some()),
        ("settings", jetstream.settings.is_some()),
        ("bufferConfig", jetstream.buffer_config.is_some()),
        ("tls", jetstream.tls.is_some()),
        ("encryption", jetstream.encryption.is_some()),
    ] {
        refuse(&format!("jetstream.{field}"), is_set, deploys)?;
    }
    let auth = jetstream.auth.clone().unwrap_or_default();
    refuse("jetstream.auth.token", auth.token.is_some(), "use basic")?;
    refuse("jetstream.auth.nkey", auth.nkey.is_some(), "use basic")?;
    let url = jetstream.url.as_deref().unwrap_or_default();
    let is_address = |url: &str| {
        let rest = url.trim().strip_prefix("nats://").or_else(|| url.trim().strip_prefix("tls://"));
        rest.is_some_and(|rest| !rest.is_empty())
    };
    if url.split(',').all(is_address) {
        return Ok(());
    }
    let message =
        format!("expected addresses such as nats://nats.nats:4222, found {}; {deploys}", shown(url));
    Err(InputError::new("jetstream.url", message))
}

fn check_pipeline_settings(spec: &PipelineSpec) -> Result {
    refuse("sideInputs", !spec.side_inputs.is_empty(), "")?;
    refuse("ordered", spec.ordered.is_some_and(|ordered| ordered.enabled), "")?;
    refuse("limits.rateLimit", spec.limits.rate_limit.is_some(), "")?;
    check_watermark(&spec.watermark)?;
    check_compression(spec.inter_step_buffer.as_ref())?;
    let templates = spec.templates.clone().unwrap_or_default();
    refuse("templates.daemon", templates.daemon.is_some(), "there is no daemon")?;
    refuse("templates.job", templates.job.is_some(), "there are no jobs")?;
    refuse("templates.sideInputsManager", templates.side_inputs_manager.is_some(), "")?;
    let init = templates.vertex.is_some_and(|vertex| vertex.init_container_template.is_some());
    refuse("templates.vertex.initContainerTemplate", init, "there is no init container")
}

fn check_watermark(watermark: &Watermark) -> Result {
    refuse("watermark.maxDelay", watermark.max_delay.is_some(), "watermarks are not kept")?;
    refuse("watermark.idleSource", watermark.idle_source.is_some(), "watermarks are not kept")
}

fn check_compression(buffer: Option<&InterStepBuffer>) -> Result {
    let compression = buffer.and_then(|buffer| buffer.compression.as_ref());
    let kind = compression.and_then(|compression| compression.type_.as_deref()).unwrap_or("none");
    refuse("interStepBuffer.compression.type", !kind.eq_ignore_ascii_case("none"), "use none")
}

fn check_names(pipeline: &str, vertex: &AbstractVertex) -> Result {
    let name = &vertex.name;
    let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let is_label =
        name.starts_with(|c: char| c.is_ascii_lowercase()) && name.chars().all(inner) && !name.ends_with('-');
    if !is_label {
        let message = format!(
            "expected lower case letters, digits and -, beginning with a letter, found {}",
            shown(name)
        );
        return Err(InputError::new("name", message));
    }
    check_label("name", &super::vertex_name(pipeline, name), "-headless")
}

fn check_label(path: &str, name: &str, suffix: &str) -> Result {
    match name.len() + suffix.len() <= 63 {
        true => Ok(()),
        false => {
            let message = format!("{name}{suffix} has more than 63 characters: shorten one of the names");
            Err(InputError::new(path, message))
        }
    }
}

fn check_vertex(vertex: &AbstractVertex, of_pipeline: &VertexLimits) -> Result {
    let n_kinds = [vertex.source.is_some(), vertex.sink.is_some(), vertex.udf.is_some()];
    if n_kinds.iter().filter(|is_set| **is_set).count() != 1 {
        let found = if n_kinds.contains(&true) { "several" } else { "none" };
        return Err(InputError::new("", format!("expected one of source, udf and sink, found {found}")));
    }
    if let Some(source) = &vertex.source {
        check_source(source).map_err(|error| error.under("source"))?;
        refuse("sidecars", !vertex.sidecars.is_empty(), "a source has none")?;
        if vertex.partitions.unwrap_or(1) > 1 {
            return Err(InputError::new("partitions", "a source reads no buffer: expected 1"));
        }
    }
    if let Some(sink) = &vertex.sink {
        check_sink(sink).map_err(|error| error.under("sink"))?;
    }
    if let Some(udf) = &vertex.udf {
        check_udf(udf).map_err(|error| error.under("udf"))?;
    }
    refuse("sideInputs", !vertex.side_inputs.is_empty(), "")?;
    refuse("sideInputsContainerTemplate", vertex.side_inputs_container_template.is_some(), "")?;
    refuse("initContainerTemplate", vertex.init_container_template.is_some(), "there is no init container")?;
    refuse("ordered", vertex.ordered.is_some_and(|ordered| ordered.enabled), "")?;
    let limits = vertex.limits.clone().unwrap_or_default().or(of_pipeline);
    refuse("limits.rateLimit", limits.rate_limit.is_some(), "")?;
    check_containers("initContainers", vertex.init_containers.iter().map(|raw| &raw.0))?;
    check_containers("sidecars", vertex.sidecars.iter().map(|raw| &raw.0))?;
    let kind = match vertex.vertex_type() {
        VertexType::Source => Kind::Source,
        VertexType::Sink => Kind::Sink,
        VertexType::MapUdf => Kind::Udf,
        VertexType::ReduceUdf => Kind::Reduce,
    };
    check_scale(kind, &vertex.scale, &limits)?;
    check_strategy(&vertex.update_strategy)
}

fn check_scale(kind: Kind, scale: &Scale, limits: &VertexLimits) -> Result {
    resolve("", kind, scale, limits, &BTreeMap::new()).map(drop)
}

fn check_strategy(strategy: &UpdateStrategy) -> Result {
    match strategy.at_once(1) {
        Some(_) => Ok(()),
        None => {
            let path = "updateStrategy.rollingUpdate.maxUnavailable";
            Err(InputError::new(path, "expected a number of 0 or more, or a percentage such as 25%"))
        }
    }
}

fn check_source(source: &Source) -> Result {
    for (field, is_set) in [
        ("kafka", source.kafka.is_some()),
        ("nats", source.nats.is_some()),
        ("pulsar", source.pulsar.is_some()),
        ("sqs", source.sqs.is_some()),
        ("serving", source.serving.is_some()),
    ] {
        refuse(field, is_set, "use generator, http, jetstream or udsource")?;
    }
    let given = [
        source.generator.is_some(),
        source.http.is_some(),
        source.jetstream.is_some(),
        source.udsource.is_some(),
    ];
    exactly_one(&given, "generator, http, jetstream and udsource")?;
    if let Some(jetstream) = &source.jetstream {
        check_jetstream_source(jetstream).map_err(|error| error.under("jetstream"))?;
    }
    if let Some(udsource) = &source.udsource {
        check_user_defined(udsource).map_err(|error| error.under("udsource"))?;
    }
    if let Some(transformer) = &source.transformer {
        check_user_defined(transformer).map_err(|error| error.under("transformer"))?;
    }
    Ok(())
}

fn check_jetstream_source(source: &JetStreamSource) -> Result {
    refuse("tls", source.tls.is_some(), "write tls:// in front of the address")?;
    let auth = source.auth.clone().unwrap_or_default();
    refuse("auth.token", auth.token.is_some(), "use auth.basic")?;
    refuse("auth.nkey", auth.nkey.is_some(), "use auth.basic")?;
    match source.deliver_policy.as_deref().unwrap_or("all") {
        "all" | "new" | "last" | "last_per_subject" => Ok(()),
        other => {
            let message = format!("expected all, new, last or last_per_subject, found {}", shown(other));
            Err(InputError::new("deliver_policy", message))
        }
    }
}

fn check_sink(sink: &Sink) -> Result {
    for (field, is_set) in [
        ("kafka", sink.kafka.is_some()),
        ("pulsar", sink.pulsar.is_some()),
        ("sqs", sink.sqs.is_some()),
        ("serve", sink.serve.is_some()),
    ] {
        refuse(field, is_set, "use log, blackhole or udsink")?;
    }
    refuse("fallback", sink.fallback.is_some(), "")?;
    refuse("onSuccess", sink.on_success.is_some(), "")?;
    refuse("retryStrategy", sink.retry_strategy.is_some(), "")?;
    let given = [sink.log.is_some(), sink.blackhole.is_some(), sink.udsink.is_some()];
    exactly_one(&given, "log, blackhole and udsink")?;
    match &sink.udsink {
        Some(udsink) => check_user_defined(udsink).map_err(|error| error.under("udsink")),
        None => Ok(()),
    }
}

fn check_udf(udf: &Udf) -> Result {
    refuse("groupBy", udf.group_by.is_some(), "reduce is left to Numaflow")?;
    refuse("builtin", udf.builtin.is_some(), "give a container")?;
    check_container(udf.container.as_ref())
}

fn check_user_defined(user: &UserDefined) -> Result {
    refuse("builtin", user.builtin.is_some(), "give a container")?;
    check_container(user.container.as_ref())
}

fn check_container(container: Option<&Container>) -> Result {
    match container.and_then(|container| container.image.as_deref()) {
        Some(image) if !image.is_empty() => Ok(()),
        _ => Err(InputError::new("container.image", "expected an image")),
    }
}

fn check_containers<'a>(
    field: &str,
    containers: impl Iterator<Item = &'a serde_json::Map<String, serde_json::Value>>,
) -> Result {
    for (idx, container) in containers.enumerate() {
        let name = container.get("name").and_then(serde_json::Value::as_str).unwrap_or_default();
        if name.is_empty() || RESERVED_CONTAINERS.contains(&name) {
            let message = format!(
                "expected a name that is none of {}, found {}",
                RESERVED_CONTAINERS.join(", "),
                shown(name)
            );
            return Err(InputError::new(format!("{field}[{idx}].name"), message));
        }
    }
    Ok(())
}

fn check_edges(spec: &PipelineSpec) -> Result {
    let kinds: BTreeMap<&str, VertexType> =
        spec.vertices.iter().map(|vertex| (vertex.name.as_str(), vertex.vertex_type())).collect();
    let mut seen = BTreeSet::new();
    for (idx, edge) in spec.edges.iter().enumerate() {
        let at = |field: &str| format!("edges[{idx}].{field}");
        for (field, name) in [("from", &edge.from), ("to", &edge.to)] {
            if !kinds.contains_key(name.as_str()) {
                return Err(InputError::new(at(field), format!("there is no vertex {}", shown(name))));
            }
        }
        if kinds[edge.from.as_str()] == VertexType::Sink {
            return Err(InputError::new(
                at("from"),
                format!("{} is a sink: nothing comes out of it", shown(&edge.from)),
            ));
        }
        if kinds[edge.to.as_str()] == VertexType::Source {
            return Err(InputError::new(
                at("to"),
                format!("{} is a source: nothing goes into it", shown(&edge.to)),
            ));
        }
        if !seen.insert((edge.from.as_str(), edge.to.as_str())) {
            return Err(InputError::new(format!("edges[{idx}]"), "comes twice"));
        }
        let tags = edge.conditions.as_ref().and_then(|conditions| conditions.tags.as_ref());
        if tags.is_some_and(|tags| tags.values.is_empty()) {
            return Err(InputError::new(at("conditions.tags.values"), "expected at least one tag"));
        }
    }
    for kind in [VertexType::Source, VertexType::Sink] {
        if !kinds.values().any(|found| *found == kind) {
            let message =
                format!("expected at least one {}", if kind == VertexType::Sink { "sink" } else { "source" });
            return Err(InputError::new("vertices", message));
        }
    }
    for (idx, vertex) in spec.vertices.iter().enumerate() {
        let (goes_in, comes_out) = (
            spec.edges.iter().any(|edge| edge.to == vertex.name),
            spec.edges.iter().any(|edge| edge.from == vertex.name),
        );
        let kind = vertex.vertex_type();
        let missing = match (goes_in, comes_out) {
            (false, _) if kind != VertexType::Source => "no edge leads to it",
            (_, false) if kind != VertexType::Sink => "no edge leads from it",
            _ => continue,
        };
        return Err(InputError::new(
            format!("vertices[{idx}]"),
            format!("{}: {missing}", shown(&vertex.name)),
        ));
    }
    check_connected(spec)
}

/// Two pipelines in one object would share what they need not: each has an object of its own.
fn check_connected(spec: &PipelineSpec) -> Result {
    let Some(first) = spec.vertices.first() else { return Ok(()) };
    let mut reached = HashSet::from([first.name.as_str()]);
    loop {
        let n_before = reached.len();
        for edge in &spec.edges {
            if reached.contains(edge.from.as_str()) || reached.contains(edge.to.as_str()) {
                reached.extend([edge.from.as_str(), edge.to.as_str()]);
            }
        }
        if reached.len() == n_before {
            break;
        }
    }
    match spec.vertices.iter().position(|vertex| !reached.contains(vertex.name.as_str())) {
        None => Ok(()),
        Some(idx) => {
            let (one, other) = (shown(&first.name), shown(&spec.vertices[idx].name));
            let message = format!("no edges connect {other} with {one}: make two pipelines of them");
            Err(InputError::new(format!("vertices[{idx}]"), message))
        }
    }
}

fn exactly_one(given: &[bool], names: &str) -> Result {
    match given.iter().filter(|is_set| **is_set).count() {
        1 => Ok(()),
        0 => Err(InputError::new("", format!("expected one of {names}, found none"))),
        _ => Err(InputError::new("", format!("expected one of {names}, found several"))),
    }
}

fn refuse(field: &str, is_set: bool, instead: &str) -> Result {
    match (is_set, instead) {
        (false, _) => Ok(()),
        (true, "") => Err(InputError::new(field, "is not supported: remove it")),
        (true, instead) => Err(InputError::new(field, format!("is not supported: {instead}"))),
    }
}
