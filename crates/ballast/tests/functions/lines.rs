//! All that connects a node to the rest of the world, but for pods and callers.

use std::{
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};

use crate::relay::Relay;

pub struct Lines {
    pub kubeconfig: PathBuf,
    pub store: String,
    relays: Vec<Relay>,
}

impl Lines {
    /// `store` is `nats://IP:PORT`, several with commas; `at` is where the new kubeconfig goes.
    pub async fn new(kubeconfig: &Path, store: &str, at: PathBuf) -> Result<Self> {
        let text = fs::read_to_string(kubeconfig)?;
        let server = text.split("https://").nth(1).context("the kubeconfig names no server")?;
        let server = server.split(|c: char| !(c.is_ascii_digit() || ".:".contains(c))).next();
        let api = Relay::to(address(server.unwrap_or_default())?).await?;
        fs::write(&at, text.replace(server.unwrap_or_default(), &api.address.to_string()))?;
        let mut lines = Lines { kubeconfig: at, store: String::new(), relays: vec![api] };
        let mut urls = Vec::new();
        for url in store.split(',') {
            let relay = Relay::to(address(url.trim_start_matches("nats://"))?).await?;
            urls.push(format!("nats://{}", relay.address));
            lines.relays.push(relay);
        }
        lines.store = urls.join(",");
        Ok(lines)
    }

    pub fn cut(&self) {
        self.relays.iter().for_each(Relay::cut);
    }

    /// Only what leads to the API of the cluster.
    pub fn cut_api(&self) {
        self.relays.iter().take(1).for_each(Relay::cut);
    }

    pub fn mend(&self) {
        self.relays.iter().for_each(Relay::mend);
    }
}

fn address(text: &str) -> Result<SocketAddr> {
    text.parse().with_context(|| format!("{text:?} is no address of a server"))
}
