//! One pod of a vertex, from its configuration to its end.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use bytes::Bytes;
use http::{Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::body::Incoming;
use tokio::{sync::Semaphore, task::JoinSet};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

use crate::{
    buffer::{self, Service},
    config::{Config, Input, Output, Sink},
    forward::{self, Stages, Stop, forward},
    metrics::Metrics,
    serve,
    source::{self, Http, JetStream, Partition, Source},
    user::{self, Map, ServerInfo, Socket, Transform},
    writer::Writer,
};

/// A NATS server that is a source has this long to answer.
const PATIENCE: Duration = Duration::from_secs(10);
const RETRY: Duration = Duration::from_millis(500);

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Listen(#[from] std::io::Error),
    #[error("{0}")]
    Container(String),
    #[error("the vertex hands messages on, and was told of no buffers")]
    NoBuffers,
}

/// Whether messages are moved.
#[derive(Default)]
struct Health {
    is_ready: AtomicBool,
}

/// Runs until `stop`, then finishes what is under way within [`Config::grace`] and gives back the rest. `buffers` may be
/// absent where everything is done in one pod.
///
/// # Errors
/// When it cannot begin, and waiting would not help.
pub async fn run(
    config: Config,
    buffers: Option<Arc<dyn Service>>,
    stop: CancellationToken,
) -> Result<(), Error> {
    let names = match &config.input {
        Input::Buffers(names) => names.clone(),
        _ => vec![config.identity.name().to_owned()],
    };
    let metrics = Arc::new(Metrics::new(config.identity.clone(), names));
    let health = Arc::new(Health::default());
    let serving = {
        let (metrics, health) = (metrics.clone(), health.clone());
        let listener = serve::bind(config.metrics).await?;
        let answer = move |request: Request<Incoming>| std::future::ready(told(&request, &metrics, &health));
        serve::serve(listener, Some(serve::acceptor()?), answer, CancellationToken::new())
    };
    let _serving = AbortOnDropHandle::new(tokio::spawn(serving));
    // nothing is under way before everything is open
    let Some(opened) = stop.run_until_cancelled(open(&config, buffers.as_deref())).await else {
        return Ok(());
    };
    let (stages, sources, mut callers) = opened?;
    health.is_ready.store(true, Ordering::Relaxed);
    tracing::info!(vertex = config.identity.name(), replica = config.identity.replica(), "moving messages");

    let tokens = Stop { reading: stop.clone(), working: CancellationToken::new() };
    let mut forwarding = JoinSet::new();
    for (source, figures) in sources.into_iter().zip(&metrics.partitions) {
        forwarding.spawn(forward(stages.clone(), source, figures.clone(), tokens.clone()));
    }
    stop.cancelled().await;
    health.is_ready.store(false, Ordering::Relaxed);
    if let Some(http) = callers.source.take() {
        http.close();
    }
    let finished = async { while forwarding.join_next().await.is_some() {} };
    if tokio::time::timeout(config.grace, finished).await.is_err() {
        tracing::info!("giving back what is still under way");
        tokens.working.cancel();
        while forwarding.join_next().await.is_some() {}
    }
    // callers of an HTTP source are answered first
    tokio::time::sleep(callers.farewell()).await;
    Ok(())
}

/// Those who post messages, if the source is HTTP.
#[derive(Default)]
struct Callers {
    source: Option<Arc<Http>>,
    serving: Vec<AbortOnDropHandle<()>>,
}

impl Callers {
    fn farewell(&self) -> Duration {
        if self.serving.is_empty() { Duration::ZERO } else { Duration::from_millis(200) }
    }
}

type Opened = (Arc<Stages>, Vec<Arc<dyn Source>>, Callers);

async fn open(config: &Config, buffers: Option<&dyn Service>) -> Result<Opened, Error> {
    let mut transform = None;
    if config.has_transformer {
        info(config, "sourcetransformer-server-info").await?;
        transform = Some(Transform::new(socket(config, "sourcetransform.sock")));
    }
    let mut map = None;
    if config.has_map {
        let mode = info(config, "mapper-server-info").await?.map_mode();
        map = Some(Map::new(socket(config, mode.socket()), mode));
    }
    let output = match &config.output {
        Output::Edges(edges) => {
            let buffers = buffers.ok_or(Error::NoBuffers)?;
            let writer = until_open("the buffers of the next vertices", async || {
                Writer::open(buffers, edges.clone()).await
            });
            forward::Output::Edges(writer.await)
        }
        Output::Sink(Sink::User) => {
            info(config, "sinker-server-info").await?;
            forward::Output::Sink(Sink::User, Some(Box::new(user::Sink::new(socket(config, "sink.sock")))))
        }
        Output::Sink(sink) => forward::Output::Sink(*sink, None),
    };
    let ready = async || {
        let is_ready = match &transform {
            Some(transform) => transform.is_ready().await,
            None => true,
        } && match &map {
            Some(map) => map.is_ready().await,
            None => true,
        } && match &output {
            forward::Output::Sink(_, Some(sink)) => sink.is_ready().await,
            _ => true,
        };
        if is_ready { Ok(()) } else { Err("it does not take calls yet") }
    };
    until_open("the containers", ready).await;
    let ahead = if config.read_ahead { config.batch } else { 0 };
    let room = config.concurrency.max(1).saturating_add(ahead).min(Semaphore::MAX_PERMITS);
    let stages = Arc::new(Stages {
        transform,
        map,
        output,
        batch: config.batch.max(1),
        read_timeout: config.read_timeout,
        room: Arc::new(Semaphore::new(room)),
    });
    let (sources, callers) = sources(config, buffers).await?;
    Ok((stages, sources, callers))
}

async fn sources(
    config: &Config,
    buffers: Option<&dyn Service>,
) -> Result<(Vec<Arc<dyn Source>>, Callers), Error> {
    let (vertex, replica) = (config.identity.name().to_owned(), config.identity.replica());
    // no two runs of one replica begin in the same nanosecond
    let run = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64);
    let mut callers = Callers::default();
    let source: Arc<dyn Source> = match &config.input {
        Input::Buffers(names) => {
            let buffers = buffers.ok_or(Error::NoBuffers)?;
            let mut partitions: Vec<Arc<dyn Source>> = Vec::with_capacity(names.len());
            for (index, name) in names.iter().enumerate() {
                let buffer = until_open(name, async || buffers.open(name).await).await;
                partitions.push(Arc::new(Partition::new(buffer, vertex.clone(), index)));
            }
            return Ok((partitions, callers));
        }
        Input::Generator(generator) => Arc::new(generator.clone().start(vertex, replica, run)),
        Input::JetStream(stream) => Arc::new(
            until_open(&stream.stream, async || JetStream::open(stream, vertex.clone(), PATIENCE).await)
                .await,
        ),
        Input::User => {
            info(config, "sourcer-server-info").await?;
            let source = user::Source::new(socket(config, "source.sock"), vertex);
            until_open(
                "the source",
                async || if source.is_ready().await { Ok(()) } else { Err("not ready") },
            )
            .await;
            Arc::new(source)
        }
        Input::Http(http) => {
            let source = Http::new(vertex, http.token.clone(), format!("{replica}-{run:x}"));
            for (address, tls) in [(http.https, Some(serve::acceptor()?)), (http.plain, None)] {
                let (listener, source) = (serve::bind(address).await?, source.clone());
                let answer = move |request| source.clone().answer(request);
                let serving = serve::serve(listener, tls, answer, CancellationToken::new());
                callers.serving.push(AbortOnDropHandle::new(tokio::spawn(serving)));
            }
            callers.source = Some(source.clone());
            source
        }
    };
    Ok((vec![source], callers))
}

/// Something that is made at the same time by somebody else.
async fn until_open<T, E: std::fmt::Display>(
    what: &str,
    mut attempt: impl AsyncFnMut() -> Result<T, E>,
) -> T {
    let mut told = String::new();
    loop {
        match attempt().await {
            Ok(opened) => return opened,
            Err(error) => {
                let words = error.to_string();
                if words != told {
                    tracing::warn!("waiting for {what}: {words}");
                    told = words;
                }
                tokio::time::sleep(RETRY).await;
            }
        }
    }
}

async fn info(config: &Config, file: &str) -> Result<ServerInfo, Error> {
    ServerInfo::wait(&config.sockets.join(file)).await.map_err(Error::Container)
}

fn socket(config: &Config, name: &str) -> Socket {
    Socket::new(config.sockets.join(name))
}

fn told(request: &Request<Incoming>, metrics: &Metrics, health: &Health) -> Response<Full<Bytes>> {
    match request.uri().path() {
        "/metrics" => {
            let mut response = serve::reply(StatusCode::OK, metrics.render());
            let kind = header::HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
            response.headers_mut().insert(header::CONTENT_TYPE, kind);
            response
        }
        "/readyz" | "/sidecar-livez" if !health.is_ready.load(Ordering::Relaxed) => {
            serve::reply(StatusCode::SERVICE_UNAVAILABLE, "not moving messages yet, or no more\n")
        }
        "/readyz" | "/livez" | "/sidecar-livez" => serve::reply(StatusCode::NO_CONTENT, ""),
        _ => serve::reply(StatusCode::NOT_FOUND, "there is /metrics, /readyz and /livez\n"),
    }
}

impl From<buffer::Error> for Error {
    fn from(error: buffer::Error) -> Self {
        Error::Container(error.to_string())
    }
}

impl From<source::Error> for Error {
    fn from(error: source::Error) -> Self {
        Error::Container(error.to_string())
    }
}
