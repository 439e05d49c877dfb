//! Where queues and shared state are kept.

use std::path::PathBuf;

use store::{Address, NatsAccount};

#[derive(Debug, clap::Args)]
pub struct StoreFlags {
    /// Where queues and shared state are kept: redb:FILE (one node), nats://HOST:PORT[,HOST:PORT…] or tls://… (several),
    /// memory:
    #[arg(
        long,
        value_name = "URL",
        default_value = "redb:ballast.redb",
        env = "BALLAST_STORE",
        hide_env_values = true
    )]
    store: Address,
    /// Copies that NATS keeps of everything
    #[arg(long, value_name = "N", default_value_t = 1, env = "BALLAST_STORE_REPLICAS")]
    store_replicas: usize,
    /// The name of all this group of nodes keeps on NATS, which other groups may use too [default: ballast-NAMESPACE]
    #[arg(long, value_name = "NAME", env = "BALLAST_STORE_NAME")]
    store_name: Option<String>,
    /// Credentials of a NATS user (a .creds file: JWT and seed)
    #[arg(
        long,
        value_name = "FILE",
        env = "BALLAST_NATS_CREDENTIALS_FILE",
        conflicts_with = "nats_nkey_file"
    )]
    nats_credentials_file: Option<PathBuf>,
    /// The seed of a NATS user's nkey
    #[arg(long, value_name = "FILE", env = "BALLAST_NATS_NKEY_FILE")]
    nats_nkey_file: Option<PathBuf>,
    /// The CA of the NATS servers (PEM); TLS is demanded with it
    #[arg(long, value_name = "FILE", env = "BALLAST_NATS_CA_FILE")]
    nats_ca_file: Option<PathBuf>,
    /// A client certificate for the NATS servers (PEM)
    #[arg(long, value_name = "FILE", env = "BALLAST_NATS_CERT_FILE", requires = "nats_key_file")]
    nats_cert_file: Option<PathBuf>,
    /// The key of the client certificate (PEM)
    #[arg(long, value_name = "FILE", env = "BALLAST_NATS_KEY_FILE", requires = "nats_cert_file")]
    nats_key_file: Option<PathBuf>,
}

impl StoreFlags {
    /// Passwords left out.
    pub fn address(&self) -> &Address {
        &self.store
    }

    /// Whether no other process can use it.
    pub fn is_private(&self) -> bool {
        !["nats://", "tls://"].iter().any(|scheme| self.store.revealed().starts_with(scheme))
    }

    pub async fn open(&self, namespace: &str, limits: store::Limits) -> store::Result<store::Shared> {
        // Queues and history go by the names of functions, which are unique in a namespace only.
        let name = self.store_name.clone().unwrap_or_else(|| format!("ballast-{namespace}"));
        let account = NatsAccount {
            credentials: self.nats_credentials_file.clone(),
            nkey: self.nats_nkey_file.clone(),
            ca: self.nats_ca_file.clone(),
            certificate: self.nats_cert_file.clone().zip(self.nats_key_file.clone()),
        };
        let options = store::Options {
            replicas: self.store_replicas,
            name,
            account,
            limits,
            ..store::Options::default()
        };
        store::open(self.store.revealed(), options).await
    }
}
