//! Nobody hands out what he does not have: roles and bindings are checked against the rights of who writes them.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{Attributes, GROUP, PolicyRule, decide, grants, is_master};
use crate::{
    call::Call,
    error::{ApiError, Result},
    object,
};

/// A rule is taken apart to be checked, and a body of 3 MiB can name a thousand million combinations.
const MAX_SINGLES: usize = 10_000;

/// Before a role or a binding is written. `live` is what it is now.
pub fn check_grant(call: &Call, proposed: &Value, live: Option<&Value>) -> Result<()> {
    if call.kind.group != GROUP || !call.target.subresource.is_empty() {
        return Ok(());
    }
    let is_unchanged = |field: &str| live.is_some_and(|live| live.get(field) == proposed.get(field));
    match call.kind.kind.as_ref() {
        "Role" | "ClusterRole" => {
            if is_unchanged("rules") && is_unchanged("aggregationRule")
                || may(call, "escalate", &call.kind.plural, object::name(proposed))
            {
                return Ok(());
            }
            if proposed.get("aggregationRule").is_some_and(|rule| !rule.is_null()) && !may_everything(call) {
                let why = "must have cluster-admin privileges to use the aggregationRule";
                return Err(ApiError::forbidden(&call.subject(), object::name(proposed), why));
            }
            covered(call, proposed, &grants::own_rules(proposed))
        }
        "RoleBinding" | "ClusterRoleBinding" => {
            let reference = &proposed["roleRef"];
            let (kind, role) = (object::text(reference, &["kind"]), object::text(reference, &["name"]));
            let resource = if kind == "ClusterRole" { "clusterroles" } else { "roles" };
            if is_unchanged("subjects") && is_unchanged("roleRef")
                || may_everything(call)
                || may(call, "bind", resource, role)
            {
                return Ok(());
            }
            let rules = grants::of_role(&call.server, reference, &call.target.namespace)
                // the real server names the binding's resource with the role's name, too
                .ok_or_else(|| ApiError::not_found(&call.subject(), role))?;
            covered(call, proposed, &rules)
        }
        _ => Ok(()),
    }
}

fn may(call: &Call, verb: &str, resource: &str, name: &str) -> bool {
    let namespace = call.target.namespace.as_str();
    let attributes = Attributes::Resource { verb, namespace, group: GROUP, resource, subresource: "", name };
    decide(&call.server, &call.user, &attributes).allowed
}

fn may_everything(call: &Call) -> bool {
    let all = ["*".to_owned()];
    let everything = [
        PolicyRule {
            verbs: all.to_vec(),
            api_groups: all.to_vec(),
            resources: all.to_vec(),
            ..PolicyRule::default()
        },
        PolicyRule { verbs: all.to_vec(), non_resource_urls: all.to_vec(), ..PolicyRule::default() },
    ];
    missing(call, &everything).is_empty()
}

fn covered(call: &Call, proposed: &Value, rules: &[PolicyRule]) -> Result<()> {
    let missing = missing(call, rules);
    if missing.is_empty() {
        return Ok(());
    }
    let groups: Vec<String> = call.user.groups.iter().map(|group| format!("{group:?}")).collect();
    let why = format!(
        "user {:?} (groups=[{}]) is attempting to grant RBAC permissions not currently held:\n{}",
        &*call.user.name,
        groups.join(" "),
        missing.into_iter().collect::<Vec<_>>().join("\n")
    );
    Err(ApiError::forbidden(&call.subject(), object::name(proposed), &why))
}

fn missing(call: &Call, rules: &[PolicyRule]) -> BTreeSet<String> {
    if is_master(&call.user) {
        return BTreeSet::new();
    }
    let namespace = call.target.namespace.as_str();
    let grants = grants::of_user(&call.server, &call.user, namespace);
    let is_missing = |single: &PolicyRule| {
        let attributes = single.as_attributes(namespace);
        attributes.is_some_and(|attributes| !grants.iter().any(|grant| grant.rule.allows(&attributes)))
    };
    let (small, large): (Vec<_>, Vec<_>) = rules.iter().partition(|rule| rule.size() <= MAX_SINGLES);
    let mut missing: BTreeSet<String> =
        large.into_iter().map(|rule| format!("{} things at once", rule.size())).collect();
    for rule in small {
        missing.extend(rule.singles().iter().filter(|single| is_missing(single)).map(PolicyRule::text));
        if missing.len() > MAX_SINGLES {
            break;
        }
    }
    missing
}
