//! The server as a tower service: behind a listener, or right inside a `kube::Client`.

use std::{
    convert::Infallible,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use bytes::Bytes;
use http::request::Parts;
use http_body_util::{BodyExt, LengthLimitError, Limited};

use super::{BODY_LIMIT, Body, Response, route, status};
use crate::{
    ApiServer,
    error::{ApiError, Result},
};

pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Who asks. A listener puts it into the extensions of a request it let in.
#[derive(Clone, Debug)]
pub struct User {
    pub name: Arc<str>,
    pub groups: Arc<[String]>,
}

// === impl User ===

impl User {
    pub fn admin() -> Self {
        Self {
            name: "admin".into(),
            groups: ["system:masters", "system:authenticated"].map(str::to_owned).into(),
        }
    }
}

impl<B> tower::Service<http::Request<B>> for ApiServer
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<B>) -> Self::Future {
        let server = self.clone();
        Box::pin(async move {
            let (parts, body) = request.into_parts();
            Ok(match answer(server, parts, body).await {
                Ok(response) => response,
                Err(error) => status(&error),
            })
        })
    }
}

async fn answer<B>(server: ApiServer, parts: Parts, body: B) -> Result<Response>
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    let body = match Limited::new(body, BODY_LIMIT).collect().await {
        Ok(collected) => collected.to_bytes(),
        Err(error) if error.is::<LengthLimitError>() => return Err(ApiError::body_too_large()),
        Err(error) => return Err(ApiError::bad_request(format!("cannot read the body: {error}"))),
    };
    route::route(&server, parts, body).await
}
