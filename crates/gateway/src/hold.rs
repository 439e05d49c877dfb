//! Calls that wait for a pod.

use std::sync::Arc;

use bytes::Bytes;
use http::Response;
use http_body::Body as _;
use hyper::body::Incoming;
use ondemand::Function;

use crate::{
    body::{Body, Outgoing, Upload, UploadError},
    gateway::Gateway,
    reply::{Refusal, unknown_function},
    upstream::{State, Upstream},
};

/// What is read of the body of a call that waits: enough for most, so that the gateway notices when the client leaves.
const READ_AHEAD: usize = 1 << 20;

/// Waits until the function has a pod that can be asked. That it is wanted, `Activity` has been told before.
pub(crate) async fn hold(
    gateway: &Gateway,
    upstream: &Upstream,
    body: &mut Outgoing,
) -> Result<Arc<State>, Response<Body>> {
    let mut changes = upstream.subscribe();
    let _held = admit(gateway, upstream)?;
    loop {
        let state = changes.borrow_and_update().clone();
        if state.gone {
            return Err(unknown_function(&upstream.name));
        }
        if !state.pods.is_empty() {
            return Ok(state);
        }
        if let Some(why) = why_never(&state.function) {
            let name = &upstream.name;
            return Err(Refusal::CannotWake.reply(format_args!("{name} cannot be called: {why}")));
        }
        drop(state);
        tokio::select! {
            changed = changes.changed() => {
                if changed.is_err() {
                    return Err(unknown_function(&upstream.name));
                }
            }
            error = read_ahead(gateway, body) => return Err(bad_upload(&error)),
        }
    }
}

/// A place among those who wait, if there is one.
fn admit(gateway: &Gateway, upstream: &Upstream) -> Result<impl Send + use<>, Response<Body>> {
    let (options, name) = (gateway.options(), &upstream.name);
    let held = (upstream.metrics.hold(), gateway.metrics().hold());
    let too_many = if upstream.metrics.held() > options.held_per_function {
        format!("{} calls wait for {name} already", options.held_per_function)
    } else if gateway.metrics().held() > options.held {
        format!("{} calls wait for functions already", options.held)
    } else {
        return Ok(held);
    };
    upstream.metrics.refused();
    Err(Refusal::TooManyHeld.reply(format_args!("{too_many}: try again later")))
}

async fn read_ahead(gateway: &Gateway, body: &mut Outgoing) -> UploadError {
    match body {
        Outgoing::Upload(upload) => upload.read_ahead(READ_AHEAD, gateway.memory()).await,
        Outgoing::Whole(_) => std::future::pending().await,
    }
}

/// What no waiting helps against.
fn why_never(function: &Function) -> Option<Arc<str>> {
    if function.settings.scaling.max() == 0 {
        return Some("its ReplicaMax is 0".into());
    }
    if !function.is_scaled && function.pods.is_empty() {
        return Some("it has no pods, and is not scaled on demand because spec.scaleConfig scales it".into());
    }
    if function.pods.iter().any(|pod| pod.ready && pod.port.is_none()) {
        return Some("its pods declare no container port".into());
    }
    function.start_failure()
}

/// A body that is needed as a whole; it takes its room in memory as long as it is there.
pub(crate) async fn whole(gateway: &Gateway, body: Incoming, limit: usize) -> Result<Bytes, Response<Body>> {
    let mut upload = upload(gateway, body, limit as u64)?;
    match upload.fill(usize::MAX, gateway.memory()).await {
        Ok(true) => Ok(upload.into_whole()),
        Ok(false) => {
            upload.discard().await;
            Err(Refusal::Unavailable.reply("too much is being sent here at once: try again later"))
        }
        Err(error) => Err(bad_upload(&error)),
    }
}

/// Refused at once if it is known to be too long.
pub(crate) fn upload(gateway: &Gateway, body: Incoming, limit: u64) -> Result<Upload, Response<Body>> {
    if body.size_hint().lower() > limit {
        return Err(bad_upload(&UploadError::TooLarge));
    }
    Ok(Upload::new(body, limit, gateway.options().body_idle_timeout))
}

pub(crate) fn bad_upload(error: &UploadError) -> Response<Body> {
    match error {
        UploadError::TooLarge => Refusal::BodyTooLarge,
        UploadError::Idle(_) => Refusal::SlowClient,
        UploadError::Client(_) => Refusal::BadRequest,
    }
    .reply(error)
}
