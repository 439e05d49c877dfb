//! Reviews: who am I, what may I do, what may somebody else do.

use serde_json::{Value, json};

use crate::{
    admit,
    call::Call,
    error::Result,
    http::{Response, User},
    object, patch,
    rbac::{self, Attributes, PolicyRule},
};

pub fn review(call: &Call, body: &[u8]) -> Result<Response> {
    let mut review = call.decode(body, "CreateOptions", None)?;
    admit::decode(call, &mut review, "CreateOptions")?;
    patch::track(call, None, &mut review);
    let user = json!({"username": &*call.user.name, "groups": &*call.user.groups});
    let status = match call.kind.kind.as_ref() {
        "SelfSubjectReview" => json!({"userInfo": user}),
        "SelfSubjectRulesReview" => rules(call, object::text(&review, &["spec", "namespace"])),
        "TokenReview" => match call.server.user_of(object::text(&review, &["spec", "token"])) {
            Some(user) => json!({
                "authenticated": true,
                "user": {"username": &*user.name, "groups": &*user.groups},
            }),
            None => json!({"authenticated": false, "error": "invalid bearer token"}),
        },
        "SelfSubjectAccessReview" => access(call, &review["spec"], &call.user),
        _ => access(call, &review["spec"], &named(&review["spec"])),
    };
    if let Some(fields) = review.as_object_mut() {
        fields.insert("status".to_owned(), status);
        fields.entry("metadata").or_insert_with(|| Value::Object(serde_json::Map::new()));
    }
    call.respond_value(201, &review)
}

/// Whom a SubjectAccessReview is about.
fn named(spec: &Value) -> User {
    let groups = spec["groups"].as_array().into_iter().flatten();
    User {
        name: object::text(spec, &["user"]).into(),
        groups: groups.filter_map(|group| group.as_str().map(str::to_owned)).collect(),
    }
}

fn access(call: &Call, spec: &Value, user: &User) -> Value {
    let asked = &spec["resourceAttributes"];
    let text = |key| object::text(asked, &[key]);
    let attributes = if asked.is_object() {
        Attributes::Resource {
            verb: text("verb"),
            namespace: text("namespace"),
            group: text("group"),
            resource: text("resource"),
            subresource: text("subresource"),
            name: text("name"),
        }
    } else {
        Attributes::Path {
            verb: object::text(spec, &["nonResourceAttributes", "verb"]),
            path: object::text(spec, &["nonResourceAttributes", "path"]),
        }
    };
    let decision = rbac::decide(&call.server, user, &attributes);
    let mut status = json!({"allowed": decision.allowed});
    if !decision.reason.is_empty() {
        status["reason"] = decision.reason.into();
    }
    status
}

fn rules(call: &Call, namespace: &str) -> Value {
    let grants = rbac::of_user(&call.server, &call.user, namespace);
    let (paths, resources): (Vec<PolicyRule>, Vec<PolicyRule>) =
        grants.into_iter().map(|grant| grant.rule).partition(|rule| !rule.non_resource_urls.is_empty());
    json!({"resourceRules": resources, "nonResourceRules": paths, "incomplete": false})
}
