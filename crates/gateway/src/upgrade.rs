//! After a change of protocol (WebSocket) the gateway only carries bytes.

use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;

use crate::{
    gateway::Gateway,
    upstream::{Connection, Taken},
};

/// Carries bytes both ways until both sides have ended, or the gateway does. The call lasts as long.
pub(crate) fn bridge(
    gateway: &Gateway,
    client: OnUpgrade,
    pod: OnUpgrade,
    connection: Connection,
    taken: Taken,
) {
    let ended = gateway.ending().ended().clone();
    gateway.tasks().spawn(async move {
        let carried = async {
            let ((), pod, client) = tokio::join!(connection.finish(), pod, client);
            let (mut pod, mut client) = match (pod, client) {
                (Ok(pod), Ok(client)) => (TokioIo::new(pod), TokioIo::new(client)),
                (pod, client) => {
                    tracing::debug!(?pod, ?client, "a change of protocol failed");
                    return;
                }
            };
            // An error is how most such connections end: one side just goes.
            if let Err(error) = tokio::io::copy_bidirectional(&mut client, &mut pod).await {
                tracing::debug!(%error, "a connection with changed protocol ended");
            }
        };
        tokio::select! {
            () = carried => {}
            () = ended.cancelled() => {}
        }
        drop(taken);
    });
}
