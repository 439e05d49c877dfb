//! Who may do what: Roles, ClusterRoles and their bindings, decided as the real server's RBAC does.
//!
//! Members of `system:masters` may do everything, whatever roles say; everybody else may do what a binding grants and
//! nothing else. Requests that come in through the program itself (`ApiServer::client`) are of such a member.

mod escalation;
mod grants;
mod rules;

use serde_json::Value;

pub use self::{escalation::check_grant, grants::of_user, rules::PolicyRule};
use crate::{
    ApiServer,
    call::Call,
    error::{ApiError, Result, Subject},
    http::User,
};

pub const GROUP: &str = "rbac.authorization.k8s.io";
const MASTERS: &str = "system:masters";

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attributes<'a> {
    Resource {
        verb: &'a str,
        namespace: &'a str,
        group: &'a str,
        resource: &'a str,
        subresource: &'a str,
        name: &'a str,
    },
    Path {
        verb: &'a str,
        path: &'a str,
    },
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Decision {
    pub allowed: bool,
    /// Which binding allows it.
    pub reason: String,
}

fn is_master(user: &User) -> bool {
    user.groups.iter().any(|group| group == MASTERS)
}

/// What is in every cluster from the start.
pub fn defaults() -> Result<Vec<Value>, String> {
    let documents = include_str!("defaults.yaml").split("\n---\n");
    documents.map(|text| serde_saphyr::from_str(text).map_err(|error| error.to_string())).collect()
}

pub fn decide(server: &ApiServer, user: &User, attributes: &Attributes<'_>) -> Decision {
    if is_master(user) {
        return Decision { allowed: true, reason: String::new() };
    }
    let namespace = match attributes {
        Attributes::Resource { namespace, .. } => namespace,
        Attributes::Path { .. } => "",
    };
    let grants = of_user(server, user, namespace);
    match grants.iter().find(|grant| grant.rule.allows(attributes)) {
        Some(grant) => Decision { allowed: true, reason: format!("RBAC: allowed by {}", grant.source) },
        None => Decision::default(),
    }
}

/// Fails as the real server does if it is not allowed.
pub fn check(server: &ApiServer, user: &User, attributes: &Attributes<'_>) -> Result<()> {
    if decide(server, user, attributes).allowed {
        return Ok(());
    }
    let who = &user.name;
    Err(match attributes {
        Attributes::Path { verb, path } => ApiError::generic(
            403,
            "Forbidden",
            format!("forbidden: User {who:?} cannot {verb} path {path:?}"),
        ),
        Attributes::Resource { verb, namespace, group, resource, subresource, name } => {
            let what = match subresource.is_empty() {
                true => (*resource).to_owned(),
                false => format!("{resource}/{subresource}"),
            };
            let place = match namespace.is_empty() {
                true => "at the cluster scope".to_owned(),
                false => format!("in the namespace {namespace:?}"),
            };
            let why = format!("User {who:?} cannot {verb} resource {what:?} in API group {group:?} {place}");
            ApiError::forbidden(&Subject::new(group, resource, ""), name, &why)
        }
    })
}

/// A PUT or an apply of what is not there needs the right to create it too.
pub fn check_creation(call: &Call) -> Result<()> {
    let target = &call.target;
    let attributes = Attributes::Resource {
        verb: "create",
        namespace: &target.namespace,
        group: &target.group,
        resource: &target.resource,
        subresource: "",
        name: &target.name,
    };
    check(&call.server, &call.user, &attributes)
}
