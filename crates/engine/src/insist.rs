//! Reads that belong together: one refusal among dozens must not mean to begin anew with all of them.

use std::{future::Future, time::Duration};

const ATTEMPTS: u32 = 6;
const FIRST_PAUSE: Duration = Duration::from_millis(20);

/// Asks again after a short pause, unless the answer is that there is nothing.
pub async fn insist<T, F>(mut ask: impl FnMut() -> F) -> Result<T, kube::Error>
where
    F: Future<Output = Result<T, kube::Error>>,
{
    let mut pause = FIRST_PAUSE;
    for _ in 1..ATTEMPTS {
        match ask().await {
            Err(kube::Error::Api(status)) if matches!(status.code, 403..=405) => {
                return Err(kube::Error::Api(status));
            }
            Err(_) => tokio::time::sleep(pause).await,
            Ok(answer) => return Ok(answer),
        }
        pause *= 2;
    }
    ask().await
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use kube::core::Status;

    use super::*;

    async fn asked(code: u16, n_refusals: u32) -> (u32, bool) {
        let asked = Cell::new(0);
        let answer = insist(|| async {
            asked.set(asked.get() + 1);
            if asked.get() > n_refusals {
                return Ok(());
            }
            Err(kube::Error::Api(Box::new(Status { code, ..Status::default() })))
        })
        .await;
        (asked.get(), answer.is_ok())
    }

    #[tokio::test]
    async fn insists_on_an_answer_but_takes_no_for_one() {
        assert_eq!(asked(500, 0).await, (1, true));
        assert_eq!(asked(500, 2).await, (3, true));
        assert_eq!(asked(429, 99).await, (ATTEMPTS, false));
        assert_eq!(asked(404, 99).await, (1, false));
    }
}
