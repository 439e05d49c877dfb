//! Writing down how an attempt ended.

use api::slimfaas::Attempts;
use http::HeaderMap;
use store::{Expect, Settle};

use super::{
    judge::{Answer, Outcome, Verdict, judge},
    record::{self, Finished, Headers},
    results,
};
use crate::gateway::Gateway;

/// One attempt of one call.
#[derive(Clone, Debug)]
pub(crate) struct Work {
    pub function: std::sync::Arc<str>,
    pub id: String,
    pub attempt: u32,
    pub ticket: u64,
}

/// A conflict means that somebody else did, or that the call is in other hands by now.
pub(crate) async fn conclude(
    gateway: &Gateway,
    work: &Work,
    rules: &Attempts,
    outcome: &Outcome,
) -> store::Result<Verdict> {
    let verdict = judge(rules, work.attempt, outcome);
    let Work { function, id, .. } = work;
    let settle = match &verdict {
        Verdict::Done => Settle::Done,
        Verdict::Again(delay) => Settle::Retry(*delay),
        Verdict::Dead(reason) => Settle::Dead(reason.clone()),
    };
    if !matches!(verdict, Verdict::Again(_)) {
        // First: whoever sees that the call has ended must find how.
        let dead = if let Verdict::Dead(reason) = &verdict { Some(reason.clone()) } else { None };
        keep_result(gateway, work, outcome, dead).await?;
    }
    gateway.store().settle(function, id, work.ticket, settle).await?;
    tracing::debug!(%function, id, attempt = work.attempt, ?verdict, "an asynchronous attempt ended");
    Ok(verdict)
}

async fn keep_result(
    gateway: &Gateway,
    work: &Work,
    outcome: &Outcome,
    dead: Option<String>,
) -> store::Result<()> {
    let none = || (HeaderMap::new(), Some(bytes::Bytes::new()));
    let (status, (headers, body)) = match outcome {
        Outcome::Answered(Answer { status, headers, body }) => (*status, (headers.clone(), body.clone())),
        Outcome::Broken(_) | Outcome::NotSent(_) => (500, none()),
        Outcome::NotAllowed(_) => (404, none()),
        Outcome::TimedOut => (504, none()),
    };
    let mut finished = Finished {
        status,
        headers: Headers::from(&headers),
        attempt: work.attempt,
        dead,
        truncated: body.is_none(),
    };
    let key = results::key(&work.function, &work.id);
    let ttl = Some(gateway.options().async_result_kept);
    let packed = record::pack(&finished, &body.unwrap_or_default());
    match gateway.store().put(&key, packed, Expect::Anything, ttl).await {
        Err(store::Error::TooLarge(_)) => {
            finished.truncated = true;
            let packed = record::pack(&finished, &[]);
            gateway.store().put(&key, packed, Expect::Anything, ttl).await.map(drop)
        }
        other => other.map(drop),
    }
}
