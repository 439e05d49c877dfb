use std::{fmt::Debug, future::Future, time::Duration};

use anyhow::{Result, bail};

/// Not a limit of speed: after this long nothing is going to happen any more, and a message is better than silence.
pub const STUCK: Duration = Duration::from_secs(300);

/// Asks again until the answer is `Ok(Ok(_))`; `Ok(Err(_))` is what is seen meanwhile, for the message.
pub async fn eventually<T, S: Debug, F>(what: impl AsRef<str>, mut ask: impl FnMut() -> F) -> Result<T>
where
    F: Future<Output = Result<Result<T, S>>>,
{
    let mut last_seen = None;
    let attempts = async {
        loop {
            match ask().await? {
                Ok(answer) => return Ok(answer),
                Err(seen) => last_seen = Some(seen),
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    match tokio::time::timeout(STUCK, attempts).await {
        Ok(result) => result,
        Err(_) => bail!("stuck waiting for {}; last seen: {last_seen:#?}", what.as_ref()),
    }
}
