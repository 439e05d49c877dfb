//! Taking a call in.

use api::slimfaas::Visibility;
use http::{HeaderValue, Response, StatusCode};
use store::NewItem;

use super::{
    ELEMENT_ID,
    record::{self, Head},
    refused_by_store,
};
use crate::{body::Body, call::Call, forward, gateway::Gateway, hold::whole, reply};

/// Answers 202 once the call is durable: from then on it is made, whatever happens to this process.
pub(crate) async fn enqueue(gateway: &Gateway, call: Call<'_>) -> Response<Body> {
    let Call { upstream, uri, peer, request_id, request } = call;
    let (mut head, body) = request.into_parts();
    let may_use_private = gateway.may_use(Visibility::Private, peer, &head.headers);
    let body = match whole(gateway, body, gateway.options().async_body_limit).await {
        Ok(whole) => whole,
        Err(refused) => return refused,
    };
    forward::prepare_whole(&mut head, peer, request_id, uri);
    let id = uuid::Uuid::new_v4().simple().to_string();
    let item = NewItem { id: id.clone(), head: record::json(&Head::of(&head, may_use_private)), body };
    if let Err(error) = gateway.store().enqueue(&upstream.name, item).await {
        return refused_by_store(&error);
    }
    gateway.activity().touch(&upstream.name);
    let mut response = reply::empty(StatusCode::ACCEPTED);
    if let Ok(id) = HeaderValue::try_from(id) {
        response.headers_mut().insert(ELEMENT_ID, id);
    }
    response
}
