//! What moves the messages of pipelines, as the program hands it to controllers: its container, and where buffers are made,
//! deleted, and asked how much is waiting.

use std::{fmt, sync::Arc};

use api::numaflow::BufferConfig;
use futures::future::BoxFuture;

/// What moves the messages of pipelines, as the program that runs it knows it.
#[derive(Clone)]
pub struct DataPlane {
    pub services: Arc<dyn Services>,
    /// The main container of a vertex's pods.
    pub image: String,
    pub command: Vec<String>,
    /// Where embedded buffers are served, if they are.
    pub embedded_buffers: Option<String>,
    /// Whether pods may have addresses of this machine, as those of the process node do.
    pub loopback_pods: bool,
}

impl fmt::Debug for DataPlane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DataPlane").field("image", &self.image).field("command", &self.command).finish()
    }
}

/// What one buffer holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waiting {
    /// Delivered to nobody yet.
    pub pending: i64,
    /// Delivered, and neither acknowledged nor given back.
    pub ack_pending: i64,
}

/// How a buffer is made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewBuffer {
    pub name: String,
    /// `namespace/pipeline`: whose pods may use it.
    pub owner: String,
    /// Messages that it has room for, as far as its writers go.
    pub length: u64,
}

/// The buffers of one InterStepBufferService.
pub trait Buffers: Send + Sync {
    /// Made if it is not there; one that is there stays as it is.
    fn create<'a>(&'a self, buffer: &'a NewBuffer) -> BoxFuture<'a, Result<(), String>>;
    /// With all that is in it; no error if it is not there.
    fn delete<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<(), String>>;
    fn waiting<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<Waiting, String>>;
    /// What pods of an owner show to use its buffers, if they have to show anything.
    fn token(&self, owner: &str) -> Option<String>;
}

/// Finds buffers by what the status of an InterStepBufferService says. Cheap: connections are kept.
pub trait Services: Send + Sync + 'static {
    fn find<'a>(
        &'a self,
        namespace: &'a str,
        config: &'a BufferConfig,
    ) -> BoxFuture<'a, Result<Arc<dyn Buffers>, String>>;
}

impl Waiting {
    pub fn total(self) -> i64 {
        self.pending.saturating_add(self.ack_pending)
    }
}
