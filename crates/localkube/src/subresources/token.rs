//! `serviceaccounts/token`: bearer tokens for pods.

use jiff::SignedDuration;
use serde_json::json;

use crate::{
    call::Call,
    error::Result,
    http::{Response, User, json as json_reply},
    object,
};

/// What kubelets ask for if the pod says nothing.
const DEFAULT_SECONDS: i64 = 3600;

pub fn request(call: &Call, body: &[u8]) -> Result<Response> {
    let mut request =
        call.decode(body, "CreateOptions", Some(("authentication.k8s.io/v1", "TokenRequest")))?;
    let account = call.find()?;
    let (namespace, name) = (account.namespace(), account.name());
    let seconds = request["spec"]["expirationSeconds"].as_i64().unwrap_or(DEFAULT_SECONDS);
    let user = User {
        name: format!("system:serviceaccount:{namespace}:{name}").into(),
        groups: [
            "system:serviceaccounts".to_owned(),
            format!("system:serviceaccounts:{namespace}"),
            "system:authenticated".to_owned(),
        ]
        .into(),
    };
    let expires = call.now.checked_add(SignedDuration::from_secs(seconds)).unwrap_or(call.now);
    let token = call.server.issue_token(user, Some(expires));
    object::map_at(&mut request, &["spec"]).insert("expirationSeconds".to_owned(), seconds.into());
    request["status"] = json!({"token": token, "expirationTimestamp": object::timestamp(expires)});
    let metadata = object::meta(&mut request);
    metadata.insert("name".to_owned(), name.into());
    metadata.insert("namespace".to_owned(), namespace.into());
    Ok(json_reply(201, &request))
}
