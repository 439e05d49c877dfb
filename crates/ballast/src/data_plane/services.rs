//! Buffers as controllers see them: those of this process, and those of NATS servers.

use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant},
};

use api::numaflow::{BufferConfig, JetStreamConfig};
use controllers::data_plane::{Buffers, NewBuffer, Services, Waiting};
use futures::{FutureExt, future::BoxFuture};
use k8s_openapi::api::core::v1::{Secret, SecretKeySelector};
use kube::{Api, Client};
use tokio::sync::Mutex;
use vertex::buffer::{Account, Embedded, JetStream, Service, Settings};

/// For connecting, and for each answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// A password that was changed is noticed after this.
const SECRETS_KEPT: Duration = Duration::from_secs(60);
/// More connections than this are not kept; nobody has so many servers.
const MOST_KEPT: usize = 256;

pub struct Places {
    client: Client,
    embedded: Option<Embedded>,
    /// By namespace and configuration.
    connected: Mutex<HashMap<String, Connected>>,
}

#[derive(Clone)]
struct Connected {
    server: JetStream,
    /// As whom.
    user: Option<(String, String)>,
    read_at: Instant,
}

impl Places {
    pub fn new(client: Client, embedded: Option<Embedded>) -> Self {
        Self { client, embedded, connected: Mutex::default() }
    }

    async fn jetstream(&self, namespace: &str, config: &JetStreamConfig) -> Result<JetStream, String> {
        let place = format!("{namespace} {} {:?} {:?}", config.url, config.user, config.password);
        // One at a time: those who come together find what the first has opened.
        let mut connected = self.connected.lock().await;
        if let Some(known) = connected.get(&place).filter(|known| known.read_at.elapsed() < SECRETS_KEPT) {
            return Ok(known.server.clone());
        }
        let user = match (&config.user, &config.password) {
            (Some(user), Some(password)) => {
                Some((self.secret(namespace, user).await?, self.secret(namespace, password).await?))
            }
            _ => None,
        };
        let known = connected.remove(&place).filter(|known| known.user == user);
        let server = match known {
            Some(known) => known.server,
            None => {
                let account = Account { user: user.clone(), tls: false };
                JetStream::connect(&config.url, &account, PATIENCE)
                    .await
                    .map_err(|error| error.to_string())?
            }
        };
        if connected.len() >= MOST_KEPT {
            connected.clear();
        }
        connected.insert(place, Connected { server: server.clone(), user, read_at: Instant::now() });
        Ok(server)
    }

    async fn secret(&self, namespace: &str, from: &SecretKeySelector) -> Result<String, String> {
        let secrets: Api<Secret> = Api::namespaced(self.client.clone(), namespace);
        let found = secrets.get(&from.name).await.map_err(|error| {
            format!("Secret {} cannot be read (see deploy/buffer-secrets.yaml): {error}", from.name)
        })?;
        let value = found.data.unwrap_or_default().remove(&from.key);
        let value = value.ok_or_else(|| format!("Secret {} has no {}", from.name, from.key))?;
        String::from_utf8(value.0).map_err(|_| format!("{} of Secret {} is no text", from.key, from.name))
    }
}

impl Services for Places {
    fn find<'a>(
        &'a self,
        namespace: &'a str,
        config: &'a BufferConfig,
    ) -> BoxFuture<'a, Result<Arc<dyn Buffers>, String>> {
        async move {
            let found = match (&config.jetstream, &self.embedded) {
                (Some(jetstream), _) => Found {
                    service: Arc::new(self.jetstream(namespace, jetstream).await?),
                    copies: jetstream.stream_replicas.and_then(|n| usize::try_from(n).ok()).unwrap_or(1),
                    signs: None,
                },
                (None, Some(embedded)) => {
                    Found { service: Arc::new(embedded.clone()), copies: 1, signs: Some(embedded.clone()) }
                }
                (None, None) => return Err("embedded buffers are kept by `ballast up` alone".to_owned()),
            };
            Ok(Arc::new(found) as Arc<dyn Buffers>)
        }
        .boxed()
    }
}

/// The buffers of one place.
struct Found {
    service: Arc<dyn Service>,
    /// Servers that keep each stream, NATS only.
    copies: usize,
    /// Signs what pods have to show; on NATS their account is enough.
    signs: Option<Embedded>,
}

impl Buffers for Found {
    fn create<'a>(&'a self, buffer: &'a NewBuffer) -> BoxFuture<'a, Result<(), String>> {
        let usual = Settings::default();
        let settings = Settings {
            owner: buffer.owner.clone(),
            // the place itself refuses later than writers stop
            max_messages: usual.max_messages.max(buffer.length),
            replicas: self.copies,
            ..usual
        };
        async move { told(self.service.create(&buffer.name, &settings).await) }.boxed()
    }

    fn delete<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<(), String>> {
        async move { told(self.service.delete(name).await) }.boxed()
    }

    fn waiting<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<Waiting, String>> {
        let count = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
        async move {
            let info = told(self.service.info(name).await)?;
            Ok(Waiting { pending: count(info.pending), ack_pending: count(info.ack_pending) })
        }
        .boxed()
    }

    fn token(&self, owner: &str) -> Option<String> {
        self.signs.as_ref().map(|embedded| embedded.token(owner))
    }
}

fn told<T>(result: vertex::buffer::Result<T>) -> Result<T, String> {
    result.map_err(|error| error.to_string())
}
