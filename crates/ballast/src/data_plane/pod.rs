//! What one pod of a pipeline is to do: the object and the addresses that its environment holds become a
//! [`vertex::config::Config`].

use std::{
    collections::BTreeMap,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    path::PathBuf,
    time::Duration,
};

use anyhow::{Context, Result, bail};
use api::numaflow::{
    self, AbstractVertex, BufferConfig, CombinedEdge, HTTP_SOURCE_PORT, HTTPS_SOURCE_PORT, METRICS_PORT,
    MonoVertex, OnFull, SOCKET_DIRECTORY, Vertex, VertexLimits, VertexType,
};
use base64::{Engine, prelude::BASE64_STANDARD};
use jiff::SignedDuration;
use serde::de::DeserializeOwned;
use vertex::{
    buffer::{Account, Limits},
    config::{Config, Deliver, Edge, Http, Identity, Input, JetStream, Output, Sink},
    route::{Condition, Operator},
    source::Generator,
};

/// A pod is killed 30 seconds after it was told to stop, and has to say what it gives back before.
const GRACE: Duration = Duration::from_secs(20);
const USUAL_BATCH: usize = 500;
const USUAL_TIMEOUT: Duration = Duration::from_secs(1);

/// One pod.
#[derive(Debug)]
pub struct Pod {
    pub config: Config,
    /// None if everything is done in one pod.
    pub buffers: Option<Reached>,
}

/// How its buffers are reached.
#[derive(Debug)]
pub enum Reached {
    JetStream { url: String, account: Account },
    Embedded { url: String, token: String },
}

/// # Errors
/// Which variable is missing, or says what it cannot say.
pub fn read(environment: &BTreeMap<String, String>) -> Result<Pod> {
    let env = Environment(environment);
    match (env.find("VERTEX_OBJECT"), env.find("MONO_VERTEX_OBJECT")) {
        (Some(_), _) => of_vertex(&env),
        (None, Some(_)) => of_mono_vertex(&env),
        (None, None) => bail!(
            "NUMAFLOW_VERTEX_OBJECT is not set: this command is started in the pods of pipelines, by their controller"
        ),
    }
}

/// Names without the prefix that they all have.
struct Environment<'a>(&'a BTreeMap<String, String>);

impl Environment<'_> {
    fn find(&self, name: &str) -> Option<&str> {
        self.0.get(&format!("NUMAFLOW_{name}")).map(String::as_str).filter(|value| !value.is_empty())
    }

    fn get(&self, name: &str) -> Result<&str> {
        self.find(name).with_context(|| format!("NUMAFLOW_{name} is not set"))
    }

    fn decoded<T: DeserializeOwned>(&self, name: &str) -> Result<T> {
        let bytes = BASE64_STANDARD
            .decode(self.get(name)?)
            .with_context(|| format!("NUMAFLOW_{name} is not base64"))?;
        serde_json::from_slice(&bytes).with_context(|| format!("NUMAFLOW_{name} cannot be read"))
    }

    fn replica(&self) -> Result<u32> {
        self.get("REPLICA")?.parse().context("NUMAFLOW_REPLICA is no number")
    }

    /// Where the pod listens. Pods of the process node share one machine, and each has an address of it; elsewhere a pod
    /// has a network of its own, and callers within it as well.
    fn address(&self) -> Result<IpAddr> {
        let ip: IpAddr = self.get("POD_IP")?.parse().context("NUMAFLOW_POD_IP is no address")?;
        Ok(match ip {
            ip if ip.is_loopback() => ip,
            IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        })
    }

    /// A user and a password, if both are given.
    fn account(&self, prefix: &str) -> Account {
        let part = |name: &str| self.find(&format!("{prefix}_{name}")).map(str::to_owned);
        Account { user: part("USER").zip(part("PASSWORD")), tls: false }
    }

    fn buffers(&self) -> Result<Reached> {
        let config: BufferConfig = self.decoded("ISBSVC_CONFIG")?;
        match (config.jetstream, config.embedded) {
            (Some(jetstream), _) => {
                Ok(Reached::JetStream { url: jetstream.url, account: self.account("ISBSVC_JETSTREAM") })
            }
            (None, Some(embedded)) => Ok(Reached::Embedded {
                url: format!("http://{}", embedded.address),
                token: self.get("ISBSVC_TOKEN")?.to_owned(),
            }),
            (None, None) => bail!("NUMAFLOW_ISBSVC_CONFIG names no buffers"),
        }
    }
}

fn of_vertex(env: &Environment<'_>) -> Result<Pod> {
    let object: Vertex = env.decoded("VERTEX_OBJECT")?;
    let namespace = object.metadata.namespace.clone().unwrap_or_default();
    let spec = &object.spec;
    let own = &spec.vertex;
    let input = match &own.source {
        Some(source) => source_input(source, &spec.pipeline_name, &own.name, env)?,
        None => Input::Buffers(numaflow::buffer_names(&namespace, &spec.pipeline_name, own)),
    };
    let output = match &own.sink {
        Some(sink) => Output::Sink(sink_of(sink)),
        None => {
            Output::Edges(spec.to_edges.iter().map(|to| edge(&namespace, &spec.pipeline_name, to)).collect())
        }
    };
    let identity = Identity::Vertex {
        pipeline: spec.pipeline_name.clone(),
        vertex: own.name.clone(),
        kind: match own.vertex_type() {
            VertexType::Source => "Source",
            VertexType::Sink => "Sink",
            VertexType::MapUdf | VertexType::ReduceUdf => "MapUDF",
        }
        .to_owned(),
        replica: env.replica()?,
    };
    let parts = Parts {
        identity,
        input,
        output,
        has_transformer: has_transformer(own.source.as_ref()),
        has_map: own.udf.is_some(),
        limits: own.limits.clone().unwrap_or_default(),
    };
    Ok(Pod { config: parts.config(env)?, buffers: Some(env.buffers()?) })
}

fn of_mono_vertex(env: &Environment<'_>) -> Result<Pod> {
    let object: MonoVertex = env.decoded("MONO_VERTEX_OBJECT")?;
    let name = object.metadata.name.clone().unwrap_or_default();
    let spec = &object.spec;
    let source = spec.source.as_ref().context("the MonoVertex has no source")?;
    let sink = spec.sink.as_ref().context("the MonoVertex has no sink")?;
    let parts = Parts {
        input: source_input(source, &name, &name, env)?,
        output: Output::Sink(sink_of(sink)),
        identity: Identity::MonoVertex { name, replica: env.replica()? },
        has_transformer: has_transformer(Some(source)),
        has_map: spec.udf.is_some(),
        limits: spec.limits(),
    };
    Ok(Pod { config: parts.config(env)?, buffers: None })
}

/// What differs between the kinds.
struct Parts {
    identity: Identity,
    input: Input,
    output: Output,
    has_transformer: bool,
    has_map: bool,
    limits: VertexLimits,
}

impl Parts {
    fn config(self, env: &Environment<'_>) -> Result<Config> {
        let Parts { identity, input, output, has_transformer, has_map, limits } = self;
        let count = |given: Option<i64>| given.and_then(|given| usize::try_from(given).ok());
        let batch = count(limits.read_batch_size).unwrap_or(USUAL_BATCH);
        let is_source = !matches!(input, Input::Buffers(_));
        Ok(Config {
            identity,
            has_transformer,
            has_map,
            output,
            batch,
            read_timeout: duration(limits.read_timeout.as_deref())?.unwrap_or(USUAL_TIMEOUT),
            concurrency: count(limits.concurrency).unwrap_or(batch),
            read_ahead: match env.find("READ_AHEAD") {
                Some(text) => text.parse().context("NUMAFLOW_READ_AHEAD is neither true nor false")?,
                None => !is_source,
            },
            input,
            sockets: PathBuf::from(SOCKET_DIRECTORY),
            metrics: SocketAddr::new(env.address()?, METRICS_PORT),
            grace: GRACE,
        })
    }
}

fn has_transformer(source: Option<&numaflow::Source>) -> bool {
    source.is_some_and(|source| source.transformer.is_some())
}

fn sink_of(sink: &numaflow::Sink) -> Sink {
    match (&sink.udsink, &sink.log) {
        (Some(_), _) => Sink::User,
        (None, Some(_)) => Sink::Log,
        (None, None) => Sink::Blackhole,
    }
}

fn source_input(
    source: &numaflow::Source,
    pipeline: &str,
    vertex: &str,
    env: &Environment<'_>,
) -> Result<Input> {
    if let Some(generator) = &source.generator {
        return Ok(Input::Generator(generated(generator)?));
    }
    if source.http.is_some() {
        let ip = env.address()?;
        return Ok(Input::Http(Http {
            https: SocketAddr::new(ip, HTTPS_SOURCE_PORT),
            plain: SocketAddr::new(ip, HTTP_SOURCE_PORT),
            token: env.find("SOURCE_TOKEN").map(str::to_owned),
        }));
    }
    if let Some(jetstream) = &source.jetstream {
        return Ok(Input::JetStream(JetStream {
            url: jetstream.url.clone(),
            account: env.account("SOURCE"),
            stream: jetstream.stream.clone(),
            consumer: jetstream.consumer.clone(),
            durable: format!("numaflow-{pipeline}-{vertex}-{}", jetstream.stream),
            deliver: match jetstream.deliver_policy.as_deref().unwrap_or("all") {
                "all" => Deliver::All,
                "new" => Deliver::New,
                "last" => Deliver::Last,
                "last_per_subject" => Deliver::LastPerSubject,
                other => bail!("jetstream.deliver_policy {other:?} is not known"),
            },
            filters: jetstream.filter_subjects.clone(),
        }));
    }
    Ok(Input::User)
}

fn generated(given: &numaflow::Generator) -> Result<Generator> {
    let usual = Generator::default();
    let value = match (&given.value_blob, given.value) {
        (Some(blob), _) => {
            Some(BASE64_STANDARD.decode(blob).context("generator.valueBlob is not base64")?.into())
        }
        (None, Some(number)) => Some(number.to_be_bytes().to_vec().into()),
        (None, None) => None,
    };
    Ok(Generator {
        rpu: given.rpu.map_or(usual.rpu, |rpu| u64::try_from(rpu).unwrap_or(0)),
        duration: duration(given.duration.as_deref())?.unwrap_or(usual.duration),
        size: given.msg_size.map_or(usual.size, |size| usize::try_from(size).unwrap_or(0)),
        n_keys: given.key_count.map_or(usual.n_keys, |count| u64::try_from(count).unwrap_or(0)),
        value,
        jitter: duration(given.jitter.as_deref())?.unwrap_or(usual.jitter),
    })
}

fn edge(namespace: &str, pipeline: &str, to: &CombinedEdge) -> Edge {
    let next = AbstractVertex {
        name: to.to.clone(),
        partitions: to.to_vertex_partition_count,
        ..AbstractVertex::default()
    };
    let limits = to.to_vertex_limits.clone().unwrap_or_default();
    let (length, usable) = limits.buffer();
    let tags = to.conditions.as_ref().and_then(|conditions| conditions.tags.as_ref());
    let condition = tags.map(|tags| {
        let operator = match tags.operator.unwrap_or_default() {
            numaflow::Operator::And => Operator::And,
            numaflow::Operator::Or => Operator::Or,
            numaflow::Operator::Not => Operator::Not,
        };
        (operator, tags.values.clone())
    });
    Edge {
        buffers: numaflow::buffer_names(namespace, pipeline, &next),
        limits: Limits {
            max_length: u64::try_from(length).unwrap_or(u64::MAX),
            usage_limit: usable as f64 / length as f64,
        },
        condition: Condition(condition),
        discards_when_full: to.on_full == Some(OnFull::DiscardLatest),
        // only reduce needs it
        by_keys: false,
    }
}

/// As Go writes them: `1s`, `1m30s`.
fn duration(text: Option<&str>) -> Result<Option<Duration>> {
    let Some(text) = text else { return Ok(None) };
    let parsed: SignedDuration = text.parse().with_context(|| format!("{text:?} is no duration"))?;
    Ok(Some(Duration::try_from(parsed).with_context(|| format!("{text:?} is below 0"))?))
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use serde_json::{Value, json};

    use super::*;

    fn environment(extra: &[(&str, String)]) -> BTreeMap<String, String> {
        let usual = [("POD_IP", "127.3.0.1".to_owned()), ("REPLICA", "2".to_owned())];
        let all = usual.into_iter().chain(extra.iter().cloned());
        all.map(|(name, value)| (format!("NUMAFLOW_{name}"), value)).collect()
    }

    fn encoded(value: &Value) -> String {
        BASE64_STANDARD.encode(value.to_string())
    }

    fn vertex(spec: Value) -> BTreeMap<String, String> {
        let object = json!({
            "apiVersion": "numaflow.numaproj.io/v1alpha1", "kind": "Vertex",
            "metadata": { "name": "numbers-cat", "namespace": "shop" },
            "spec": spec,
        });
        environment(&[
            ("VERTEX_OBJECT", encoded(&object)),
            ("ISBSVC_CONFIG", encoded(&json!({ "embedded": { "address": "127.0.0.1:7000" } }))),
            ("ISBSVC_TOKEN", "secret".to_owned()),
        ])
    }

    fn check(environment: &BTreeMap<String, String>, expected: Expect) {
        let told = match read(environment) {
            Ok(pod) => format!("{pod:#?}\n"),
            Err(error) => format!("{error:#}\n"),
        };
        expected.assert_eq(&told);
    }

    #[test]
    fn a_map_reads_its_buffers_and_writes_to_those_of_the_next() {
        check(
            &vertex(json!({
                "name": "cat", "pipelineName": "numbers", "partitions": 2,
                "udf": { "container": { "image": "cat" } },
                "limits": { "readBatchSize": 100, "readTimeout": "1m30s", "concurrency": 7 },
                "toEdges": [{
                    "from": "cat", "to": "out", "fromVertexType": "MapUDF", "toVertexType": "Sink",
                    "toVertexPartitionCount": 2, "onFull": "discardLatest",
                    "toVertexLimits": { "bufferMaxLength": 1000, "bufferUsageLimit": 50 },
                    "conditions": { "tags": { "operator": "and", "values": ["a", "b"] } },
                }],
            })),
            expect![[r#"
                Pod {
                    config: Config {
                        identity: Vertex {
                            pipeline: "numbers",
                            vertex: "cat",
                            kind: "MapUDF",
                            replica: 2,
                        },
                        input: Buffers(
                            [
                                "shop-numbers-cat-0",
                                "shop-numbers-cat-1",
                            ],
                        ),
                        has_transformer: false,
                        has_map: true,
                        output: Edges(
                            [
                                Edge {
                                    buffers: [
                                        "shop-numbers-out-0",
                                        "shop-numbers-out-1",
                                    ],
                                    limits: Limits {
                                        max_length: 1000,
                                        usage_limit: 0.5,
                                    },
                                    condition: Condition(
                                        Some(
                                            (
                                                And,
                                                [
                                                    "a",
                                                    "b",
                                                ],
                                            ),
                                        ),
                                    ),
                                    discards_when_full: true,
                                    by_keys: false,
                                },
                            ],
                        ),
                        batch: 100,
                        read_timeout: 90s,
                        concurrency: 7,
                        read_ahead: true,
                        sockets: "/var/run/numaflow",
                        metrics: 127.3.0.1:2469,
                        grace: 20s,
                    },
                    buffers: Some(
                        Embedded {
                            url: "http://127.0.0.1:7000",
                            token: "secret",
                        },
                    ),
                }
            "#]],
        );
    }

    #[test]
    fn a_generator_and_its_numbers() {
        check(
            &vertex(json!({
                "name": "in", "pipelineName": "numbers",
                "source": { "generator": { "rpu": 50, "duration": "500ms", "msgSize": 20, "value": 258 } },
            })),
            expect![[r#"
                Pod {
                    config: Config {
                        identity: Vertex {
                            pipeline: "numbers",
                            vertex: "in",
                            kind: "Source",
                            replica: 2,
                        },
                        input: Generator(
                            Generator {
                                rpu: 50,
                                duration: 500ms,
                                size: 20,
                                n_keys: 0,
                                value: Some(
                                    b"\0\0\0\0\0\0\x01\x02",
                                ),
                                jitter: 0ns,
                            },
                        ),
                        has_transformer: false,
                        has_map: false,
                        output: Edges(
                            [],
                        ),
                        batch: 500,
                        read_timeout: 1s,
                        concurrency: 500,
                        read_ahead: false,
                        sockets: "/var/run/numaflow",
                        metrics: 127.3.0.1:2469,
                        grace: 20s,
                    },
                    buffers: Some(
                        Embedded {
                            url: "http://127.0.0.1:7000",
                            token: "secret",
                        },
                    ),
                }
            "#]],
        );
    }

    #[test]
    fn a_mono_vertex_needs_no_buffers() {
        let object = json!({
            "apiVersion": "numaflow.numaproj.io/v1alpha1", "kind": "MonoVertex",
            "metadata": { "name": "one", "namespace": "shop" },
            "spec": { "source": { "http": {} }, "sink": { "log": {} } },
        });
        let mut given =
            environment(&[("MONO_VERTEX_OBJECT", encoded(&object)), ("SOURCE_TOKEN", "t".to_owned())]);
        // a network of its own
        given.insert("NUMAFLOW_POD_IP".to_owned(), "10.1.2.3".to_owned());
        check(
            &given,
            expect![[r#"
            Pod {
                config: Config {
                    identity: MonoVertex {
                        name: "one",
                        replica: 2,
                    },
                    input: Http(
                        Http {
                            https: 0.0.0.0:8443,
                            plain: 0.0.0.0:8090,
                            token: Some(
                                "t",
                            ),
                        },
                    ),
                    has_transformer: false,
                    has_map: false,
                    output: Sink(
                        Log,
                    ),
                    batch: 500,
                    read_timeout: 1s,
                    concurrency: 500,
                    read_ahead: false,
                    sockets: "/var/run/numaflow",
                    metrics: 0.0.0.0:2469,
                    grace: 20s,
                },
                buffers: None,
            }
        "#]],
        );
    }

    #[test]
    fn what_is_missing_or_wrong_is_named() {
        check(
            &BTreeMap::new(),
            expect![[r#"
            NUMAFLOW_VERTEX_OBJECT is not set: this command is started in the pods of pipelines, by their controller
        "#]],
        );
        check(
            &environment(&[("VERTEX_OBJECT", "%".to_owned())]),
            expect![[r#"
            NUMAFLOW_VERTEX_OBJECT is not base64: Invalid symbol 37, offset 0.
        "#]],
        );
        let mut given = vertex(json!({ "name": "out", "pipelineName": "p", "sink": { "log": {} } }));
        given.remove("NUMAFLOW_ISBSVC_TOKEN");
        check(
            &given,
            expect![[r#"
            NUMAFLOW_ISBSVC_TOKEN is not set
        "#]],
        );
        let slow = json!({ "name": "out", "pipelineName": "p", "sink": { "log": {} }, "limits": { "readTimeout": "soon" } });
        check(
            &vertex(slow),
            expect![[r#"
            "soon" is no duration: failed to parse input in the "friendly" duration format: expected duration to start with a unit value (a decimal integer) after an optional sign, but no integer was found
        "#]],
        );
    }
}
