//! What `ballast serve` has to be allowed, and what it says if it is not. `deploy/serve.yaml` grants exactly this.

use std::time::Duration;

use anyhow::{Result, bail};
use futures::future::try_join_all;
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec,
};
use kube::{Api, Client, api::PostParams};

/// A rule of a role.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    group: &'static str,
    resources: &'static [&'static str],
    verbs: &'static [&'static str],
}

/// Functions on demand, in the namespace that is served.
const SERVING: &[Rule] = &[
    rule("", &["pods"], &["list", "watch"]),
    rule("apps", &["deployments", "statefulsets"], &["list", "watch"]),
    rule(KYMA, &["functions"], &["list", "watch"]),
    rule("autoscaling", &["horizontalpodautoscalers"], &["list", "watch"]),
    rule("apps", &["deployments/scale", "statefulsets/scale"], &["patch"]),
    rule(KYMA, &["functions/scale"], &["patch"]),
    rule("", &["events"], &["create", "patch"]),
    rule("coordination.k8s.io", &["leases"], &["list", "watch", "create", "update", "delete"]),
];

/// Kyma's Functions, in all namespaces.
const FUNCTIONS: &[Rule] = &[
    rule(KYMA, &["functions"], &["get", "list", "watch"]),
    rule(KYMA, &["functions/status", "functions/scale"], &["patch"]),
    rule("", &["configmaps"], &["get", "list", "watch", "create", "patch"]),
    rule("", &["services"], &["list", "watch", "create", "patch"]),
    rule("apps", &["deployments"], &["list", "watch", "create", "patch", "delete"]),
    rule("autoscaling", &["horizontalpodautoscalers"], &["list", "watch", "create", "patch", "delete"]),
];

/// Who has no private repositories need not allow it.
const PRIVATE_REPOSITORIES: &[Rule] = &[rule("", &["secrets"], &["get"])];

const KYMA: &str = "serverless.kyma-project.io";
/// A server that cannot be reached is waited for elsewhere.
const PATIENCE: Duration = Duration::from_secs(10);

const fn rule(
    group: &'static str,
    resources: &'static [&'static str],
    verbs: &'static [&'static str],
) -> Rule {
    Rule { group, resources, verbs }
}

/// Fails with all that is missing. A server that cannot say is no reason to fail: what is refused later is logged then.
pub async fn check(client: &Client, namespace: &str, looks_after_functions: bool) -> Result<()> {
    let mut missing = denied(client, Some(namespace), SERVING).await;
    if looks_after_functions {
        missing.extend(denied(client, None, FUNCTIONS).await);
        for what in denied(client, None, PRIVATE_REPOSITORIES).await {
            tracing::warn!("this account may not {what}: Functions cannot come from private repositories");
        }
    }
    if missing.is_empty() {
        return Ok(());
    }
    let only_functions =
        if looks_after_functions { ", or do without Kyma's Functions (--controllers=none)" } else { "" };
    bail!(
        "this account may not\n  {}\nallow it as deploy/serve.yaml does{only_functions}",
        missing.join("\n  ")
    )
}

/// In words, one for each resource. None of them if the server does not answer.
async fn denied(client: &Client, namespace: Option<&str>, rules: &[Rule]) -> Vec<String> {
    let resources =
        rules.iter().flat_map(|rule| rule.resources.iter().map(move |resource| (rule, *resource)));
    let asked = resources.map(|(rule, resource)| async move {
        let verbs = rule.verbs.iter().map(|verb| is_allowed(client, namespace, rule.group, resource, verb));
        let allowed = try_join_all(verbs).await?;
        let denied: Vec<&str> =
            rule.verbs.iter().zip(allowed).filter(|(_, allowed)| !allowed).map(|(verb, _)| *verb).collect();
        Ok::<_, kube::Error>((!denied.is_empty()).then(|| {
            let group = if rule.group.is_empty() { String::new() } else { format!(".{}", rule.group) };
            let place =
                namespace.map_or("in all namespaces".to_owned(), |name| format!("in namespace {name}"));
            format!("{} {resource}{group} {place}", denied.join(", "))
        }))
    });
    match tokio::time::timeout(PATIENCE, try_join_all(asked)).await {
        Ok(Ok(denied)) => denied.into_iter().flatten().collect(),
        Ok(Err(error)) => {
            tracing::debug!(%error, "the server does not say what is allowed");
            Vec::new()
        }
        Err(_) => Vec::new(),
    }
}

async fn is_allowed(
    client: &Client,
    namespace: Option<&str>,
    group: &str,
    resource: &str,
    verb: &str,
) -> kube::Result<bool> {
    let (resource, subresource) = match resource.split_once('/') {
        Some((resource, subresource)) => (resource, Some(subresource.to_owned())),
        None => (resource, None),
    };
    let attributes = ResourceAttributes {
        namespace: namespace.map(str::to_owned),
        group: Some(group.to_owned()),
        resource: Some(resource.to_owned()),
        subresource,
        verb: Some(verb.to_owned()),
        ..ResourceAttributes::default()
    };
    let spec = SelfSubjectAccessReviewSpec { resource_attributes: Some(attributes), ..Default::default() };
    let review = SelfSubjectAccessReview { spec, ..SelfSubjectAccessReview::default() };
    let answer =
        Api::<SelfSubjectAccessReview>::all(client.clone()).create(&PostParams::default(), &review).await?;
    Ok(answer.status.is_some_and(|status| status.allowed))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use k8s_openapi::api::rbac::v1::PolicyRule;
    use serde_json::Value;

    use super::*;

    const MANIFEST: &str = include_str!("../../../deploy/serve.yaml");

    fn granted(kind: &str) -> BTreeSet<String> {
        let documents = MANIFEST.split("\n---\n").map(|text| serde_saphyr::from_str::<Value>(text).unwrap());
        let role = documents.into_iter().find(|document| document["kind"] == kind).unwrap();
        let rules: Vec<PolicyRule> = serde_json::from_value(role["rules"].clone()).unwrap();
        let mut granted = BTreeSet::new();
        for rule in rules {
            for group in rule.api_groups.iter().flatten() {
                for resource in rule.resources.iter().flatten() {
                    granted.extend(rule.verbs.iter().map(|verb| format!("{verb} {resource} {group}")));
                }
            }
        }
        granted
    }

    fn needed(rules: &[&[Rule]]) -> BTreeSet<String> {
        let mut needed = BTreeSet::new();
        for Rule { group, resources, verbs } in rules.concat() {
            for resource in resources {
                needed.extend(verbs.iter().map(|verb| format!("{verb} {resource} {group}")));
            }
        }
        needed
    }

    #[test]
    fn the_manifest_grants_what_is_needed_and_nothing_else() {
        assert_eq!(granted("Role"), needed(&[SERVING]));
        assert_eq!(granted("ClusterRole"), needed(&[FUNCTIONS, PRIVATE_REPOSITORIES]));
    }
}
