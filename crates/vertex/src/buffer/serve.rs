//! Serves embedded buffers to pods on loopback: `POST /buffers/{name}/{publish|fetch|ack|nack|progress|info}` over HTTP/2,
//! bodies of [`wire`], with the token of the pipeline. Buffers are made and deleted in the process that has them.

use std::{convert::Infallible, time::Duration};

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, header::AUTHORIZATION};
use http_body_util::{BodyExt, Full, Limited};
use hyper::{body::Incoming, service::service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use prost::Message;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::serve::Connections;

use super::{Buffer, Embedded, Error, MAX_BATCH, NewMessage, Result, Service, Ticket, wire};

/// Requests at once on one connection: a vertex reads its partitions and writes to its edges.
const MAX_STREAMS: u32 = 128;
/// A batch of the largest messages is cut by its sender.
pub(super) const MAX_BODY: usize = 16 << 20;
const MAX_WAIT: Duration = Duration::from_secs(30);
/// A connection that does not answer a ping in this time is gone.
const ALIVE: Duration = Duration::from_secs(20);

/// Runs until it is told to stop.
pub async fn serve(listener: TcpListener, buffers: Embedded, stop: CancellationToken) {
    let connections = Connections::new(listener, stop.clone());
    while let Some((connection, place)) = connections.next().await {
        let _ = connection.set_nodelay(true);
        let (buffers, stop) = (buffers.clone(), stop.clone());
        tokio::spawn(async move {
            let _place = place;
            let service = service_fn(move |request| answer(buffers.clone(), request));
            let serving = hyper::server::conn::http2::Builder::new(TokioExecutor::new())
                .timer(TokioTimer::new())
                .max_concurrent_streams(MAX_STREAMS)
                .initial_stream_window_size(MAX_BODY as u32)
                .initial_connection_window_size(MAX_BODY as u32)
                .keep_alive_interval(ALIVE)
                .keep_alive_timeout(ALIVE)
                .serve_connection(TokioIo::new(connection), service);
            if let Some(Err(error)) = stop.run_until_cancelled(serving).await {
                tracing::debug!(%error, "a connection to the buffers ended");
            }
        });
    }
}

async fn answer(buffers: Embedded, request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let mut path = request.uri().path().trim_start_matches('/').split('/');
    let (Some("buffers"), Some(name), Some(verb), None, &Method::POST) =
        (path.next(), path.next(), path.next(), path.next(), request.method())
    else {
        return Ok(reply(StatusCode::NOT_FOUND, Bytes::new()));
    };
    let (name, verb) = (name.to_owned(), verb.to_owned());
    let token =
        request.headers().get(AUTHORIZATION).and_then(|token| token.to_str().ok()?.strip_prefix("Bearer "));
    if !token.is_some_and(|token| buffers.allows(token, &name)) {
        // whether there is such a buffer is nobody's business without a token for it
        return Ok(reply(StatusCode::FORBIDDEN, Bytes::new()));
    }
    let Ok(body) = Limited::new(request.into_body(), MAX_BODY).collect().await else {
        return Ok(reply(StatusCode::PAYLOAD_TOO_LARGE, Bytes::new()));
    };
    Ok(match work(&buffers, &name, &verb, body.to_bytes()).await {
        Ok(body) => reply(StatusCode::OK, body),
        Err(error) => {
            reply(StatusCode::UNPROCESSABLE_ENTITY, wire::Failure::from(error).encode_to_vec().into())
        }
    })
}

async fn work(buffers: &Embedded, name: &str, verb: &str, body: Bytes) -> Result<Bytes> {
    let buffer = buffers.open(name).await?;
    let encoded = match verb {
        "publish" => {
            let request: wire::Publish = read(body)?;
            if request.messages.len() > MAX_BATCH {
                return Err(Error::Refused(format!("more than {MAX_BATCH} messages at once")));
            }
            let messages = request.messages.into_iter();
            let messages = messages.map(|one| NewMessage { id: one.id, payload: one.payload }).collect();
            let answers = buffer.publish(messages).await.into_iter().map(|outcome| match outcome {
                Ok(published) => wire::Answer { is_duplicate: published.is_duplicate, failure: None },
                Err(error) => wire::Answer { is_duplicate: false, failure: Some(error.into()) },
            });
            wire::Published { answers: answers.collect() }.encode_to_vec()
        }
        "fetch" => {
            let request: wire::Fetch = read(body)?;
            let wait = Duration::from_millis(request.wait_ms).min(MAX_WAIT);
            let deliveries = fetch(&*buffer, usize::try_from(request.max).unwrap_or(MAX_BATCH), wait).await?;
            wire::Fetched { deliveries }.encode_to_vec()
        }
        "ack" => {
            buffer.ack(&tickets(&read(body)?)).await?;
            Vec::new()
        }
        "progress" => {
            buffer.in_progress(&tickets(&read(body)?)).await?;
            Vec::new()
        }
        "nack" => {
            let request: wire::Settle = read(body)?;
            buffer.nack(&tickets(&request), Duration::from_millis(request.delay_ms)).await?;
            Vec::new()
        }
        "info" => {
            let info = buffer.info().await?;
            let ack_wait_ms = u64::try_from(buffer.ack_wait().as_millis()).unwrap_or(u64::MAX);
            wire::Info { pending: info.pending, ack_pending: info.ack_pending, ack_wait_ms }.encode_to_vec()
        }
        other => return Err(Error::Refused(format!("buffers do not know {other:?}"))),
    };
    Ok(encoded.into())
}

async fn fetch(buffer: &dyn Buffer, max: usize, wait: Duration) -> Result<Vec<wire::Delivery>> {
    let deliveries = buffer.fetch(max, wait).await?.into_iter();
    let deliveries = deliveries.map(|delivery| wire::Delivery {
        sequence: delivery.sequence,
        attempt: delivery.attempt,
        payload: delivery.payload,
    });
    Ok(deliveries.collect())
}

fn tickets(request: &wire::Settle) -> Vec<Ticket> {
    request.sequences.iter().map(|sequence| Ticket::of(*sequence)).collect()
}

fn read<M: Message + Default>(body: Bytes) -> Result<M> {
    M::decode(body).map_err(|error| Error::Refused(format!("cannot read the request: {error}")))
}

fn reply(status: StatusCode, body: Bytes) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body));
    *response.status_mut() = status;
    response
}
