//! NATS servers with JetStream: one, or a cluster of three.

use std::{
    collections::HashMap,
    fs,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use anyhow::{Result, bail};
use futures::{StreamExt, TryStreamExt};
use tempfile::TempDir;
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    net::TcpStream,
};

use crate::{
    process::{Running, free_ports, spawn},
    tools,
};

/// Dropping it stops the servers and removes their files.
pub struct Nats {
    servers: Vec<Server>,
    directory: TempDir,
    /// More configuration, in the server's own format.
    config: Option<String>,
}

struct Server {
    name: String,
    port: u16,
    route_port: u16,
    running: Option<Running>,
}

impl Nats {
    pub async fn one() -> Result<Self> {
        let [port] = free_ports()?;
        Self::start(&[(port, 0)], None).await
    }

    /// One that also does what a configuration file says, such as demanding TLS or accounts.
    pub async fn configured(config: String) -> Result<Self> {
        let [port] = free_ports()?;
        Self::start(&[(port, 0)], Some(config)).await
    }

    pub async fn three() -> Result<Self> {
        let [a, b, c, d, e, f] = free_ports()?;
        Self::start(&[(a, b), (c, d), (e, f)], None).await
    }

    async fn start(ports: &[(u16, u16)], config: Option<String>) -> Result<Self> {
        let servers = ports.iter().enumerate().map(|(index, (port, route_port))| Server {
            name: format!("nats-{index}"),
            port: *port,
            route_port: *route_port,
            running: None,
        });
        let directory = TempDir::with_prefix("ballast-nats-")?;
        let mut nats = Self { servers: servers.collect(), directory, config };
        for index in 0..nats.servers.len() {
            nats.spawn(index)?;
        }
        for index in 0..nats.servers.len() {
            nats.wait_until_listening(index).await?;
        }
        Ok(nats)
    }

    /// `nats://127.0.0.1:4222`, several with commas.
    pub fn url(&self) -> String {
        let urls: Vec<String> =
            self.servers.iter().map(|server| format!("nats://127.0.0.1:{}", server.port)).collect();
        urls.join(",")
    }

    pub fn len(&self) -> usize {
        self.servers.len()
    }

    pub fn is_empty(&self) -> bool {
        self.servers.is_empty()
    }

    /// Ends a server as `kill -9` does.
    pub fn kill(&mut self, index: usize) {
        self.servers[index].running = None;
    }

    /// Which server leads the stream whose name ends with `suffix`: the one that acknowledges what is written to it.
    pub async fn stream_leader(&self, suffix: &str) -> Result<usize> {
        let urls: Vec<String> = self.url().split(',').map(str::to_owned).collect();
        let client = async_nats::connect(urls).await?;
        let mut streams = async_nats::jetstream::new(client).streams();
        while let Some(stream) = streams.try_next().await? {
            let leader = stream.cluster.and_then(|cluster| cluster.leader);
            let is_leader = |server: &Server| Some(&server.name) == leader.as_ref();
            if let Some(index) = self.servers.iter().position(is_leader)
                && stream.config.name.ends_with(suffix)
            {
                return Ok(index);
            }
        }
        bail!("no stream that ends with {suffix} has a leader")
    }

    /// Starts a killed server again, with its files and its port.
    pub async fn restart(&mut self, index: usize) -> Result<()> {
        self.spawn(index)?;
        self.wait_until_listening(index).await
    }

    fn spawn(&mut self, index: usize) -> Result<()> {
        let routes: Vec<String> =
            self.servers.iter().map(|server| format!("nats://127.0.0.1:{}", server.route_port)).collect();
        let directory = self.directory.path().join(format!("nats-{index}"));
        let log = self.log(index);
        let server = &mut self.servers[index];
        let mut args = vec![
            "--addr=127.0.0.1".to_owned(),
            format!("--port={}", server.port),
            "--jetstream".to_owned(),
            format!("--store_dir={}", directory.display()),
            format!("--server_name={}", server.name),
        ];
        if routes.len() > 1 {
            args.push("--cluster_name=ballast".to_owned());
            args.push(format!("--cluster=nats://127.0.0.1:{}", server.route_port));
            args.push(format!("--routes={}", routes.join(",")));
            // clients know all addresses, and are to use no others: there may be a relay in between
            args.push("--no_advertise".to_owned());
        }
        if let Some(config) = &self.config {
            let path = self.directory.path().join(format!("nats-{index}.conf"));
            fs::write(&path, config)?;
            args.push(format!("--config={}", path.display()));
        }
        server.running = Some(spawn(&tools::nats()?, &args, &log)?);
        Ok(())
    }

    async fn wait_until_listening(&mut self, index: usize) -> Result<()> {
        let log = self.log(index);
        let listening = tokio::time::timeout(Duration::from_secs(120), self.listening(index)).await;
        let Ok(listening) = listening else {
            bail!("NATS does not answer:\n{}", fs::read_to_string(log).unwrap_or_default());
        };
        listening
    }

    async fn listening(&mut self, index: usize) -> Result<()> {
        loop {
            let log = self.log(index);
            let server = &mut self.servers[index];
            if server.running.as_mut().is_none_or(Running::has_exited) {
                bail!("{} did not start:\n{}", server.name, fs::read_to_string(log).unwrap_or_default());
            }
            // the first line tells that it serves
            if let Ok(connection) = TcpStream::connect(("127.0.0.1", server.port)).await {
                let mut greeting = String::new();
                // if it is somebody else's port, nothing may come
                let mut connection = BufReader::new(connection);
                let greeted = connection.read_line(&mut greeting);
                let _ = tokio::time::timeout(Duration::from_secs(2), greeted).await;
                if greeting.starts_with("INFO") {
                    return Ok(());
                }
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    fn log(&self, index: usize) -> PathBuf {
        self.directory.path().join(format!("nats-{index}.log"))
    }
}

/// How often somebody asked for the state of each consumer, by its stream.
#[derive(Clone, Default)]
pub struct StreamRequests(Arc<Mutex<HashMap<String, u64>>>);

impl StreamRequests {
    /// Counts from now on.
    pub async fn listen(url: &str) -> Result<Self> {
        let client = async_nats::connect(url).await?;
        let mut requests = client.subscribe("$JS.API.CONSUMER.INFO.>").await?;
        client.flush().await?;
        let counted = Self::default();
        let counting = counted.clone();
        tokio::spawn(async move {
            // the subscription ends with its client
            let _client = client;
            while let Some(request) = requests.next().await {
                if let Some(stream) = request.subject.split('.').nth(4) {
                    *counting.lock().entry(stream.to_owned()).or_default() += 1;
                }
            }
        });
        Ok(counted)
    }

    /// All since the last time.
    pub fn take(&self) -> HashMap<String, u64> {
        std::mem::take(&mut *self.lock())
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<String, u64>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
