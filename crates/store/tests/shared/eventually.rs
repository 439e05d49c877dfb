use std::{
    fmt::Debug,
    time::{Duration, Instant},
};

/// Tries until it works, for five minutes.
pub async fn eventually<T, E: Debug>(what: &str, mut attempt: impl AsyncFnMut() -> Result<T, E>) -> T {
    let began = Instant::now();
    loop {
        match attempt().await {
            Ok(value) => return value,
            Err(seen) if began.elapsed() > Duration::from_secs(300) => {
                panic!("still not so after five minutes: {what}: {seen:?}")
            }
            Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    }
}
