//! `ballast vertex`: moves the messages of one pod of a pipeline.

use std::{process::ExitCode, sync::Arc, time::Duration};

use anyhow::{Context, Result};
use tokio_util::sync::CancellationToken;
use vertex::buffer::{JetStream, Remote, Service};

use super::log_flags::LogFlags;
use crate::{
    data_plane::pod::{self, Reached},
    environment,
    signals::StopSignals,
};

/// A server that takes longer to answer counts as gone, and is asked again.
const PATIENCE: Duration = Duration::from_secs(10);

/// What it does is in the environment that the controller gives its pod.
#[derive(Debug, clap::Args)]
pub struct Vertex {
    #[command(flatten)]
    log: LogFlags,
}

impl Vertex {
    pub fn run(self) -> Result<ExitCode> {
        // The log sink writes there what it is given.
        self.log.start(1);
        let pod = pod::read(&environment::all())?;
        let runtime = tokio::runtime::Runtime::new().context("failed to start the runtime")?;
        runtime.block_on(async {
            let mut signals = StopSignals::new()?;
            let stop = CancellationToken::new();
            let stopping = stop.clone();
            tokio::spawn(async move {
                signals.received().await;
                stopping.cancel();
            });
            let buffers: Option<Arc<dyn Service>> = match &pod.buffers {
                None => None,
                Some(Reached::Embedded { url, token }) => {
                    Some(Arc::new(Remote::new(url, token.clone(), PATIENCE)?))
                }
                Some(Reached::JetStream { url, account }) => {
                    let connect = JetStream::connect(url, account, PATIENCE);
                    match stop.run_until_cancelled(connect).await {
                        None => return Ok(ExitCode::SUCCESS),
                        // The pod is started again after a while.
                        Some(connected) => Some(Arc::new(connected?)),
                    }
                }
            };
            vertex::run(pod.config, buffers, stop).await?;
            Ok(ExitCode::SUCCESS)
        })
    }
}
