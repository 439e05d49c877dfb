//! `kubectl port-forward`: connections to a pod's ports.

use std::{collections::HashMap, net::Ipv4Addr};

use tokio::{
    io::{AsyncRead, AsyncWrite, AsyncWriteExt, DuplexStream},
    net::TcpStream,
    task::JoinSet,
};

use super::{
    link::Link,
    spdy,
    websocket::{self, Channel},
};

/// A pod, for messages and to connect to.
#[derive(Debug, Clone)]
pub struct Target {
    pub pod: String,
    pub address: Ipv4Addr,
}

/// A connection's two streams, of which one may not be open yet.
#[derive(Default)]
struct Pair {
    data: Option<DuplexStream>,
    error: Option<DuplexStream>,
}

/// Every connection is a pair of streams that the client opens when it needs them.
pub async fn over_spdy<R, W>(from: R, to: W, target: Target)
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    let Ok((_link, mut streams)) = spdy::serve(from, to) else { return };
    let mut pairs: HashMap<String, Pair> = HashMap::new();
    let mut connections = JoinSet::new();
    while let Some(stream) = streams.recv().await {
        while connections.try_join_next().is_some() {}
        let (request, port) = (stream.header("requestid").to_owned(), stream.header("port").parse::<u16>());
        let pair = pairs.entry(request.clone()).or_default();
        match stream.header("streamtype") {
            "data" => pair.data = Some(stream.io),
            "error" => pair.error = Some(stream.io),
            // Dropped, which closes it.
            _ => {}
        }
        let (complete, port) = match (&pair.data, &pair.error, port) {
            (Some(_), Some(_), Ok(port @ 1..)) => (pairs.remove(&request), port),
            (_, _, Ok(1..)) => continue,
            _ => {
                pairs.remove(&request);
                continue;
            }
        };
        if let Some(Pair { data: Some(data), error: Some(error) }) = complete {
            connections.spawn(connect(target.clone(), port, data, error));
        }
    }
}

async fn connect(target: Target, port: u16, mut data: DuplexStream, mut error: DuplexStream) {
    let connected = async {
        let mut pod = TcpStream::connect((target.address, port)).await?;
        let _ = pod.set_nodelay(true);
        tokio::io::copy_bidirectional(&mut data, &mut pod).await
    };
    if let Err(why) = connected.await {
        let _ = error.write_all(target.explain(port, &why).as_bytes()).await;
    }
}

/// One connection for each port, from the beginning: two channels each, which begin with the port.
pub fn over_websocket<S>(
    socket: tokio_tungstenite::WebSocketStream<S>,
    target: &Target,
    ports: &[u16],
) -> (Link, JoinSet<()>)
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let channels = (0..).zip(ports.iter().flat_map(|port| [port, port]));
    let channels = channels.map(|(number, port)| Channel { number, preface: port.to_le_bytes().to_vec() });
    let (link, ends) = websocket::serve(socket, channels.collect());
    let mut ends = ends.into_iter();
    let mut connections = JoinSet::new();
    for port in ports.iter().copied() {
        let (Some(data), Some(error)) = (ends.next(), ends.next()) else { break };
        connections.spawn(connect_once(target.clone(), port, data, error));
    }
    (link, connections)
}

/// As [`connect`], where the client has no way to say that it has said all: it is over when the pod hangs up.
async fn connect_once(target: Target, port: u16, data: DuplexStream, mut error: DuplexStream) {
    let (mut from_client, mut to_client) = tokio::io::split(data);
    let connected = async {
        let (mut from_pod, mut to_pod) = TcpStream::connect((target.address, port)).await?.into_split();
        let there = async {
            let result = tokio::io::copy(&mut from_client, &mut to_pod).await;
            let _ = to_pod.shutdown().await;
            match result {
                Ok(_) => std::future::pending().await,
                Err(error) => Err(error),
            }
        };
        tokio::select! {
            result = tokio::io::copy(&mut from_pod, &mut to_client) => result,
            result = there => result,
        }
    };
    if let Err(why) = connected.await {
        let _ = error.write_all(target.explain(port, &why).as_bytes()).await;
    }
}

// === impl Target ===

impl Target {
    fn explain(&self, port: u16, why: &std::io::Error) -> String {
        let Self { pod, address } = self;
        format!("error forwarding port {port} to pod {pod}, at {address}: {why}")
    }
}
