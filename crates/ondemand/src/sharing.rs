//! Nodes tell one another of the calls they serve.
//!
//! Each node writes what it knows of a function to `history/{function}/{node}`, and follows what the others write. The
//! first call of a function without pods is written at once, so that the master hears of it in the time of one write;
//! otherwise a function is written about every few seconds. The keys outlive the nodes: whoever starts anew reads when
//! functions were last called.

mod listen;
mod tell;

#[cfg(test)]
mod tests;

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use crate::{Activity, Catalog};

/// What this node shares, and through what.
#[derive(Clone)]
pub struct Sharing {
    pub activity: Activity,
    pub catalog: Catalog,
    pub store: store::Shared,
    /// Unique among the nodes, the same after a restart.
    pub node: Arc<str>,
}

/// What one node says of one function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Word {
    last: Timestamp,
    /// Calls under way.
    active: u32,
}

const PREFIX: &str = "history/";
/// A function that was not called for so long is forgotten.
const KEPT: Duration = Duration::from_secs(30 * 24 * 3600);
/// While calls are under way, this is said again so often, …
const REFRESH: Duration = Duration::from_secs(5);
/// … and a node that has not said it for so long is gone, and its calls with it.
const GONE: Duration = Duration::from_secs(15);
/// After the store refused.
const PAUSE: Duration = Duration::from_secs(1);

/// Hears once what was said before, so that nothing is taken for idle because this node has just started. Without an
/// answer from the store it goes on: [`run`] hears it later.
pub async fn recall(sharing: &Sharing) {
    if let Err(error) = listen::recall(sharing).await {
        tracing::warn!(%error, "it is not known yet when functions were last called");
    }
}

/// Tells and listens until `shutdown`.
pub async fn run(sharing: Sharing, shutdown: CancellationToken) {
    let both = async {
        tokio::join!(tell::run(&sharing), listen::run(&sharing));
    };
    tokio::select! {
        () = both => {}
        () = shutdown.cancelled() => {}
    }
}

fn key(function: &str, node: &str) -> String {
    format!("{PREFIX}{function}/{node}")
}

/// The function and the node of a key.
fn parse_key(key: &str) -> Option<(&str, &str)> {
    key.strip_prefix(PREFIX)?.split_once('/')
}
