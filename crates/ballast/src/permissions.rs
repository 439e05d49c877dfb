//! What `ballast serve` has to be allowed, and what it says if it is not. `deploy/serve.yaml` grants exactly this.

use std::time::Duration;

use anyhow::anyhow;
use controllers::{Reach, Rule};
use futures::future::try_join_all;
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec,
};
use kube::{Api, Client, api::PostParams};

use crate::{components::Chosen, waiting::Missing};

/// What a node is going to do.
#[derive(Clone, Debug)]
pub struct Needs {
    /// Whose functions on demand are served.
    pub namespace: String,
    /// The one that controllers are bound to that may be bound to one.
    pub only_namespace: Option<String>,
    pub components: Chosen,
}

/// For all answers together.
const PATIENCE: Duration = Duration::from_secs(10);

/// Fails with all that is missing. A server that cannot say is no reason to fail: what is refused later is logged then.
pub async fn check(client: &Client, needs: &Needs) -> Result<(), Missing> {
    let mut missing = Vec::new();
    let mut to_blame = Vec::new();
    for (component, rules) in needs.components.rules() {
        let namespace = match component.reach {
            Reach::Served => Some(needs.namespace.as_str()),
            Reach::Chosen => needs.only_namespace.as_deref(),
            Reach::Cluster => None,
        };
        let denied = denied(client, namespace, rules).await?;
        if !denied.is_empty() && component.is_optional() {
            to_blame.push(format!("-{}", component.name));
        }
        missing.extend(denied);
    }
    if missing.is_empty() {
        return Ok(());
    }
    let or = match to_blame.is_empty() {
        true => String::new(),
        false => format!(", or do without what needs it: --controllers=*,{}", to_blame.join(",")),
    };
    Err(Missing::ForGood(anyhow!(
        "this account may not\n  {}\nallow it as deploy/serve.yaml does{or}",
        missing.join("\n  ")
    )))
}

/// In words, one for each resource. None of them if the server does not want to say.
async fn denied(client: &Client, namespace: Option<&str>, rules: &[Rule]) -> Result<Vec<String>, Missing> {
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
        Ok(Ok(denied)) => Ok(denied.into_iter().flatten().collect()),
        Ok(Err(error)) if is_temporary(&error) => Err(Missing::Yet(error.to_string())),
        Ok(Err(error)) => {
            tracing::debug!(%error, "the server does not say what is allowed");
            Ok(Vec::new())
        }
        Err(_) => Err(Missing::Yet(format!("no answer within {} s", PATIENCE.as_secs()))),
    }
}

/// A server that starts refuses connections, then answers with errors of its own.
fn is_temporary(error: &kube::Error) -> bool {
    match error {
        kube::Error::Api(status) => matches!(status.code, 429 | 500..),
        kube::Error::Service(_) | kube::Error::HyperError(_) => true,
        _ => false,
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
    use crate::components::on_cluster;

    const SPLIT: &str = include_str!("../../../deploy/serve.yaml");
    const SINGLE: &str = include_str!("../../../deploy/single.yaml");
    const GIT_SECRETS: &str = include_str!("../../../deploy/git-secrets.yaml");
    const BUFFER_SECRETS: &str = include_str!("../../../deploy/buffer-secrets.yaml");

    fn documents(manifest: &str) -> Vec<Value> {
        manifest.split("\n---\n").map(|text| serde_saphyr::from_str::<Value>(text).unwrap()).collect()
    }

    /// What a role of the manifest allows.
    fn granted(manifest: &str, kind: &str, name: &str) -> BTreeSet<String> {
        let is_it = |document: &Value| document["kind"] == kind && document["metadata"]["name"] == name;
        let role = documents(manifest).into_iter().find(is_it);
        let role = role.unwrap_or_else(|| panic!("there is no {kind} {name}"));
        let rules: Vec<PolicyRule> = serde_json::from_value(role["rules"].clone()).unwrap();
        let mut granted = BTreeSet::new();
        for rule in rules {
            assert!(rule.resource_names.is_none());
            for group in rule.api_groups.iter().flatten() {
                for resource in rule.resources.iter().flatten() {
                    granted.extend(rule.verbs.iter().map(|verb| format!("{verb} {resource} {group}")));
                }
            }
        }
        granted
    }

    fn needed<'a>(rules: impl IntoIterator<Item = &'a Rule>) -> BTreeSet<String> {
        let mut needed = BTreeSet::new();
        for Rule { group, resources, verbs } in rules {
            for resource in *resources {
                needed.extend(verbs.iter().map(|verb| format!("{verb} {resource} {group}")));
            }
        }
        needed
    }

    /// A new row of the table needs a ClusterRole `ballast-NAME` in both manifests if it reaches beyond the namespace that
    /// is served.
    #[test]
    fn the_manifests_grant_what_is_needed_and_nothing_else() {
        let served = |chosen: &Chosen| {
            let rules = chosen.rules().filter(|(component, _)| component.reach == Reach::Served);
            needed(rules.flat_map(|(_, rules)| rules))
        };
        let all = on_cluster("*").unwrap();
        assert_eq!(granted(SPLIT, "Role", "ballast-gateway"), served(&all.clone().gateway_only()));
        assert_eq!(granted(SPLIT, "Role", "ballast-controller"), served(&all));
        assert_eq!(granted(SINGLE, "Role", "ballast"), served(&all));
        let mut roles = BTreeSet::new();
        for (component, rules) in all.rules().filter(|(component, _)| component.reach != Reach::Served) {
            let role = format!("ballast-{}", component.name);
            for manifest in [SPLIT, SINGLE] {
                assert_eq!(granted(manifest, "ClusterRole", &role), needed(rules), "{role}");
            }
            roles.insert(role);
        }
        for manifest in [SPLIT, SINGLE] {
            let documents = documents(manifest);
            let granted = documents.iter().filter(|document| document["kind"] == "ClusterRole");
            let granted = granted.map(|role| role["metadata"]["name"].as_str().unwrap().to_owned());
            assert_eq!(granted.collect::<BTreeSet<_>>(), roles);
        }
        let read_secrets = needed(&[Rule::new("", &["secrets"], &["get"])]);
        assert_eq!(granted(GIT_SECRETS, "Role", "ballast-git-secrets"), read_secrets);
        assert_eq!(granted(BUFFER_SECRETS, "Role", "ballast-buffer-secrets"), read_secrets);
    }

    /// Each role of each account: a binding too many would be a right too many.
    #[test]
    fn each_account_is_bound_to_its_own_roles_only() {
        let mut bound = BTreeSet::new();
        for (file, manifest) in [
            ("serve", SPLIT),
            ("single", SINGLE),
            ("git-secrets", GIT_SECRETS),
            ("buffer-secrets", BUFFER_SECRETS),
        ] {
            for document in documents(manifest) {
                let kind = document["kind"].as_str().unwrap();
                for subject in document["subjects"].as_array().into_iter().flatten() {
                    bound.insert(format!(
                        "{file}: {} has {} {} by {kind}",
                        subject["name"].as_str().unwrap(),
                        document["roleRef"]["kind"].as_str().unwrap(),
                        document["roleRef"]["name"].as_str().unwrap()
                    ));
                }
            }
        }
        expect_test::expect![[r#"
            buffer-secrets: ballast-controller has Role ballast-buffer-secrets by RoleBinding
            git-secrets: ballast-controller has Role ballast-git-secrets by RoleBinding
            serve: ballast-controller has ClusterRole ballast-function by ClusterRoleBinding
            serve: ballast-controller has ClusterRole ballast-graph by ClusterRoleBinding
            serve: ballast-controller has ClusterRole ballast-hvpa by ClusterRoleBinding
            serve: ballast-controller has ClusterRole ballast-pipelines by ClusterRoleBinding
            serve: ballast-controller has Role ballast-controller by RoleBinding
            serve: ballast-gateway has Role ballast-gateway by RoleBinding
            single: ballast has ClusterRole ballast-function by ClusterRoleBinding
            single: ballast has ClusterRole ballast-graph by ClusterRoleBinding
            single: ballast has ClusterRole ballast-hvpa by ClusterRoleBinding
            single: ballast has ClusterRole ballast-pipelines by ClusterRoleBinding
            single: ballast has Role ballast by RoleBinding
        "#]]
        .assert_eq(&(bound.into_iter().collect::<Vec<_>>().join("\n") + "\n"));
    }

    /// What runs is bounded in memory, its network too, and no pod that takes calls has an account that may write; where there
    /// are several, a drain takes one at a time.
    #[test]
    fn pods_are_bounded() {
        for manifest in [SPLIT, SINGLE] {
            let documents = documents(manifest);
            let of_kind =
                |kind: &'static str| documents.iter().filter(move |document| document["kind"] == kind);
            for set in of_kind("StatefulSet") {
                let pod = &set["spec"]["template"];
                for container in pod["spec"]["containers"].as_array().unwrap() {
                    assert!(container["resources"]["limits"]["memory"].is_string(), "{container}");
                    let args = container["args"].to_string();
                    let account = pod["spec"]["serviceAccountName"].as_str().unwrap();
                    assert_eq!(args.contains("--roles=gateway"), account == "ballast-gateway", "{args}");
                }
                let labels = &pod["metadata"]["labels"];
                let is_covered = of_kind("NetworkPolicy")
                    .any(|policy| policy["spec"]["podSelector"]["matchLabels"] == *labels);
                assert!(is_covered, "no NetworkPolicy for {labels}");
                let is_kept = of_kind("PodDisruptionBudget")
                    .any(|budget| budget["spec"]["selector"]["matchLabels"] == *labels);
                // A budget of one pod would hold up every drain of its node.
                let is_one_of_several = set["spec"]["replicas"].as_u64() > Some(1);
                assert_eq!(is_kept, is_one_of_several, "PodDisruptionBudget of {labels}");
                assert_eq!(is_one_of_several, manifest == SPLIT, "{labels}");
            }
        }
    }
}
