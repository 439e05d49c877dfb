//! Where the buffers under test live.

use std::{
    path::PathBuf,
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use cluster::eventually;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use vertex::buffer::{Account, Embedded, JetStream, Remote, Retention, Service, Settings, Shared, serve};

/// A busy machine is no reason to fail.
const PATIENCE: Duration = Duration::from_secs(120);
const OWNER: &str = "default/numbers";

pub struct Home {
    place: Place,
    /// One for each test: they share a server.
    prefix: String,
    _directory: TempDir,
}

enum Place {
    JetStream(Box<cluster::Nats>, Box<JetStream>),
    Embedded { path: PathBuf, buffers: Option<Embedded>, is_served: bool, stop: CancellationToken },
}

impl Home {
    pub async fn jetstream() -> Self {
        let nats = cluster::Nats::one().await.unwrap();
        let client = connect(&nats).await;
        Self::at(|_| Place::JetStream(Box::new(nats), Box::new(client)))
    }

    pub async fn embedded() -> Self {
        Self::in_file(false)
    }

    pub async fn served() -> Self {
        Self::in_file(true)
    }

    fn in_file(is_served: bool) -> Self {
        Self::at(|directory| {
            let path = directory.join("buffers.redb");
            let buffers = Some(Embedded::open(&path).unwrap());
            Place::Embedded { path, buffers, is_served, stop: CancellationToken::new() }
        })
    }

    fn at(place: impl FnOnce(&std::path::Path) -> Place) -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let directory = TempDir::with_prefix("ballast-buffers-").unwrap();
        let prefix = format!("test-{}", COUNT.fetch_add(1, Ordering::Relaxed));
        Home { place: place(directory.path()), prefix, _directory: directory }
    }

    pub fn name(&self) -> String {
        vertex::buffer::name("default", &self.prefix, "out", 0)
    }

    /// What makes buffers and deletes them.
    pub fn service(&self) -> &dyn Service {
        match &self.place {
            Place::JetStream(_, client) => &**client,
            Place::Embedded { buffers, .. } => buffers.as_ref().unwrap(),
        }
    }

    /// As a pod opens it.
    pub async fn open(&self) -> Shared {
        let name = self.name();
        match &self.place {
            Place::JetStream(_, client) => client.open(&name).await.unwrap(),
            Place::Embedded { buffers, is_served: false, .. } => {
                buffers.as_ref().unwrap().open(&name).await.unwrap()
            }
            Place::Embedded { buffers, stop, .. } => {
                let buffers = buffers.clone().unwrap();
                let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
                let url = format!("http://{}", listener.local_addr().unwrap());
                let token = buffers.token(OWNER);
                tokio::spawn(serve(listener, buffers, stop.clone()));
                let stranger = Remote::new(&url, format!("{token}0"), PATIENCE).unwrap();
                assert!(stranger.open(&name).await.is_err(), "a forged token opens nothing");
                Remote::new(&url, token, PATIENCE).unwrap().open(&name).await.unwrap()
            }
        }
    }

    pub async fn make(&self, settings: Settings) -> Shared {
        let settings = Settings { owner: OWNER.to_owned(), replicas: 1, ..settings };
        self.service().create(&self.name(), &settings).await.unwrap();
        self.open().await
    }

    /// NATS writes down what was acknowledged a moment later: a server that is killed may deliver it again.
    pub fn acknowledges_durably(&self) -> bool {
        matches!(self.place, Place::Embedded { .. })
    }

    /// The server, or the process that has the file, starts again.
    pub async fn restart(&mut self) {
        match &mut self.place {
            Place::JetStream(nats, client) => {
                nats.kill(0);
                nats.restart(0).await.unwrap();
                **client = connect(nats).await;
            }
            Place::Embedded { path, buffers, stop, .. } => {
                stop.cancel();
                *stop = CancellationToken::new();
                *buffers = None;
                // a file that was just closed is free once its writer ended
                let opened = eventually("the file opens again", || async {
                    Ok(Embedded::open(&*path).map_err(|error| error.to_string()))
                });
                *buffers = Some(opened.await.unwrap());
            }
        }
    }
}

/// What fills up by refusing, everywhere.
pub fn settings() -> Settings {
    Settings { retention: Retention::WorkQueue, ..Settings::default() }
}

async fn connect(nats: &cluster::Nats) -> JetStream {
    JetStream::connect(&nats.url(), &Account::default(), PATIENCE).await.unwrap()
}
