//! Where the store under test lives.

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use store::{Limits, Options, Shared, Take};
use tempfile::TempDir;
use tokio::sync::OnceCell;

pub use crate::eventually::eventually;

pub struct Home {
    address: String,
    options: Options,
    /// What forgets everything when closed is opened once.
    memory: Option<Shared>,
    _directory: TempDir,
}

/// One server for all tests of this program; each has a name of its own on it.
async fn nats_url() -> String {
    static NATS: OnceCell<cluster::Nats> = OnceCell::const_new();
    NATS.get_or_init(|| async { cluster::Nats::one().await.unwrap() }).await.url()
}

impl Home {
    pub async fn memory() -> Self {
        Self::at(|_| "memory:".to_owned()).with_limits(Limits::default()).await
    }

    pub async fn redb() -> Self {
        Self::at(|directory| format!("redb:{}", directory.join("deep/store.redb").display()))
    }

    pub async fn nats() -> Self {
        let url = nats_url().await;
        Self::at(|_| url)
    }

    fn at(address: impl FnOnce(&std::path::Path) -> String) -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let directory = TempDir::with_prefix("ballast-store-").unwrap();
        let name = format!("test-{}", COUNT.fetch_add(1, Ordering::Relaxed));
        // a busy machine is no reason to fail
        let patience = Duration::from_secs(120);
        let options = Options { name, patience, ..Options::default() };
        Home { address: address(directory.path()), options, memory: None, _directory: directory }
    }

    pub async fn with_limits(mut self, limits: Limits) -> Self {
        self.options.limits = limits;
        if self.address == "memory:" {
            self.memory = Some(store::open(&self.address, self.options.clone()).await.unwrap());
        }
        self
    }

    pub fn forgets(&self) -> bool {
        self.memory.is_some()
    }

    pub async fn open(&self) -> Shared {
        if let Some(memory) = &self.memory {
            return memory.clone();
        }
        // a file that was just closed is free once its writer ended
        eventually("the store opens", async || {
            store::open(&self.address, self.options.clone()).await.map_err(|error| error.to_string())
        })
        .await
    }

    /// As many as may use the place at once: processes of their own on NATS, one handle elsewhere.
    pub async fn nodes(&self, count: usize) -> Vec<Shared> {
        let mut nodes = vec![self.open().await];
        while nodes.len() < count {
            let is_shared = self.address.starts_with("nats:");
            nodes.push(if is_shared { self.open().await } else { nodes[0].clone() });
        }
        nodes
    }
}

pub fn take(now: usize, in_flight: usize, lease: Duration) -> Take {
    take_at(&vec!["here"; now], usize::MAX, in_flight, lease)
}

pub fn take_at(spots: &[&str], per_spot: usize, in_flight: usize, lease: Duration) -> Take {
    let spots = spots.iter().map(|spot| (*spot).into()).collect();
    Take { holder: "tester".to_owned(), in_flight, spots, per_spot, bytes: u64::MAX, lease }
}

pub const LONG: Duration = Duration::from_secs(3600);
