//! What a user writes with the SDK of Numaflow: it knows nothing of Ballast. Test programs become these containers.

#![allow(clippy::unwrap_used, reason = "a container that fails ends")]

use std::{fs::OpenOptions, io::Write, path::Path, time::Duration};

use numaflow::{
    map,
    shared::ServerExtras,
    sink::{self, Response, SinkRequest},
};
use tokio::sync::mpsc;

/// The number of the message in words; every tenth is dropped, and every hundredth tagged.
struct Words;

#[tonic::async_trait]
impl map::Mapper for Words {
    async fn map(&self, input: map::MapRequest) -> Vec<map::Message> {
        let number = u64::from_be_bytes(input.value[..8].try_into().unwrap());
        if number % 10 == 9 {
            return vec![map::Message::message_to_drop()];
        }
        let tag = if number.is_multiple_of(100) { "hundred" } else { "other" };
        let message = map::Message::new(number.to_string().into_bytes());
        vec![message.with_keys(input.keys).with_tags(vec![tag.to_owned()])]
    }
}

pub async fn map(sockets: &str) {
    serve_map(sockets, Words).await;
}

async fn serve_map(sockets: &str, mapper: impl map::Mapper + Send + Sync + 'static) {
    let server = map::Server::new(mapper)
        .with_socket_file(Path::new(sockets).join("map.sock"))
        .with_server_info_file(Path::new(sockets).join("mapper-server-info"));
    server.start().await.unwrap();
}

/// Takes its time for each message, and hands it on as it is.
struct Slow(Duration);

#[tonic::async_trait]
impl map::Mapper for Slow {
    async fn map(&self, input: map::MapRequest) -> Vec<map::Message> {
        tokio::time::sleep(self.0).await;
        vec![map::Message::new(input.value).with_keys(input.keys)]
    }
}

pub async fn slow_map(sockets: &str, pause: Duration) {
    serve_map(sockets, Slow(pause)).await;
}

/// A line for each message, in a file.
struct Lines(std::path::PathBuf);

#[tonic::async_trait]
impl sink::Sinker for Lines {
    async fn sink(&self, mut input: mpsc::Receiver<SinkRequest>) -> Vec<Response> {
        let mut file = OpenOptions::new().create(true).append(true).open(&self.0).unwrap();
        let mut responses = Vec::new();
        while let Some(message) = input.recv().await {
            let mut line = message.value;
            line.push(b'\n');
            file.write_all(&line).unwrap();
            responses.push(Response::ok(message.id));
        }
        responses
    }
}

pub async fn sink(sockets: &str, file: &str) {
    let server = sink::Server::new(Lines(file.into()))
        .with_socket_file(Path::new(sockets).join("sink.sock"))
        .with_server_info_file(Path::new(sockets).join("sinker-server-info"));
    server.start().await.unwrap();
}
