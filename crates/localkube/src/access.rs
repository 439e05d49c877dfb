//! Reviews: who am I, what may I do. Everyone who is let in may do everything.

use serde_json::{Value, json};

use crate::{admit, call::Call, error::Result, http::Response, object, patch};

pub fn review(call: &Call, body: &[u8]) -> Result<Response> {
    let mut review = call.decode(body, "CreateOptions", None)?;
    admit::decode(call, &mut review, "CreateOptions")?;
    patch::track(call, None, &mut review);
    let user = json!({"username": &*call.user.name, "groups": &*call.user.groups});
    let status = match call.kind.kind.as_ref() {
        "SelfSubjectReview" => json!({"userInfo": user}),
        "SelfSubjectRulesReview" => json!({
            "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}],
            "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
            "incomplete": false,
        }),
        "TokenReview" => match call.server.user_of(object::text(&review, &["spec", "token"])) {
            Some(user) => json!({
                "authenticated": true,
                "user": {"username": &*user.name, "groups": &*user.groups},
            }),
            None => json!({"authenticated": false, "error": "invalid bearer token"}),
        },
        _ => json!({"allowed": true}),
    };
    if let Some(fields) = review.as_object_mut() {
        fields.insert("status".to_owned(), status);
        fields.entry("metadata").or_insert_with(|| Value::Object(serde_json::Map::new()));
    }
    call.respond_value(201, &review)
}
