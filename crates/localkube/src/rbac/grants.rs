//! The rules that hold for a user, gathered from bindings and roles as they are stored now.

use serde_json::Value;

use super::{GROUP, PolicyRule};
use crate::{ApiServer, http::User, object, selectors::LabelSelector, storage::ReadAt};

/// A rule, and the binding that makes it hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    pub rule: PolicyRule,
    pub source: String,
}

/// Those of cluster role bindings, then those of the role bindings of `namespace`.
pub fn of_user(server: &ApiServer, user: &User, namespace: &str) -> Vec<Grant> {
    let mut grants = Vec::new();
    for binding in list(server, "clusterrolebindings", "") {
        let name = format!("{:?}", object::name(&binding));
        add(&mut grants, server, user, &binding, "", &format!("ClusterRoleBinding {name}"));
    }
    if !namespace.is_empty() {
        for binding in list(server, "rolebindings", namespace) {
            let name = format!("{}/{namespace}", object::name(&binding));
            add(&mut grants, server, user, &binding, namespace, &format!("RoleBinding {name:?}"));
        }
    }
    grants
}

fn add(
    grants: &mut Vec<Grant>,
    server: &ApiServer,
    user: &User,
    binding: &Value,
    namespace: &str,
    what: &str,
) {
    let subjects = binding["subjects"].as_array().into_iter().flatten();
    let Some(subject) = subjects.into_iter().find_map(|subject| is_user(user, subject, namespace)) else {
        return;
    };
    let (kind, role) =
        (object::text(binding, &["roleRef", "kind"]), object::text(binding, &["roleRef", "name"]));
    let source = format!("{what} of {kind} {role:?} to {subject}");
    let rules = of_role(server, &binding["roleRef"], namespace).unwrap_or_default();
    grants.extend(rules.into_iter().map(|rule| Grant { rule, source: source.clone() }));
}

/// In words, if the subject is the user.
fn is_user(user: &User, subject: &Value, namespace: &str) -> Option<String> {
    let name = object::text(subject, &["name"]);
    match object::text(subject, &["kind"]) {
        "User" => (*user.name == *name).then(|| format!("User {name:?}")),
        "Group" => user.groups.iter().any(|group| group == name).then(|| format!("Group {name:?}")),
        "ServiceAccount" => {
            let given = object::text(subject, &["namespace"]);
            let namespace = if given.is_empty() { namespace } else { given };
            let full = format!("system:serviceaccount:{namespace}:{name}");
            let shown = format!("{name}/{namespace}");
            (!namespace.is_empty() && *user.name == *full).then(|| format!("ServiceAccount {shown:?}"))
        }
        _ => None,
    }
}

/// The rules of a role that a binding refers to; none if there is no such role.
pub fn of_role(server: &ApiServer, reference: &Value, namespace: &str) -> Option<Vec<PolicyRule>> {
    let (resource, namespace) = match object::text(reference, &["kind"]) {
        "ClusterRole" => ("clusterroles", ""),
        "Role" => ("roles", namespace),
        _ => return None,
    };
    let registry = server.registry();
    let kind = registry.resource(GROUP, resource)?;
    let key = kind.key(namespace, object::text(reference, &["name"]));
    let role = server.store().get(kind.table, &key)?.to_value();
    Some(rules(server, &role, MOST_LEVELS))
}

/// `admin` gathers `edit`, which gathers `view`, which gathers what is labelled: three levels. Circles end here too.
const MOST_LEVELS: usize = 4;

fn rules(server: &ApiServer, role: &Value, levels: usize) -> Vec<PolicyRule> {
    let mut all = own_rules(role);
    let selectors = role["aggregationRule"]["clusterRoleSelectors"].as_array();
    let selectors: Vec<LabelSelector> =
        selectors.into_iter().flatten().filter_map(LabelSelector::structured).collect();
    if selectors.is_empty() || levels == 0 {
        return all;
    }
    for other in list(server, "clusterroles", "") {
        if object::name(&other) != object::name(role)
            && selectors.iter().any(|selector| selector.matches_object(&other))
        {
            for rule in rules(server, &other, levels - 1) {
                if !all.contains(&rule) {
                    all.push(rule);
                }
            }
        }
    }
    all
}

/// A rule that cannot be read grants nothing.
pub fn own_rules(role: &Value) -> Vec<PolicyRule> {
    let rules = role["rules"].as_array().into_iter().flatten();
    rules.filter_map(|rule| serde_json::from_value(rule.clone()).ok()).collect()
}

fn list(server: &ApiServer, resource: &str, namespace: &str) -> Vec<Value> {
    let registry = server.registry();
    let Some(kind) = registry.resource(GROUP, resource) else { return Vec::new() };
    let prefix = kind.prefix(namespace);
    let listing = server.store().list(kind.table, &prefix, None, ReadAt::Latest, usize::MAX, |_| true);
    listing
        .map(|listing| listing.records.iter().map(|record| record.to_value()).collect())
        .unwrap_or_default()
}
