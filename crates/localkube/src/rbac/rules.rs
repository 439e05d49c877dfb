//! What a rule of a role allows. Pure: nothing here knows of storage or of users.

use serde::{Deserialize, Serialize};

use super::Attributes;

#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PolicyRule {
    pub verbs: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub api_groups: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub resources: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub resource_names: Vec<String>,
    #[serde(rename = "nonResourceURLs", skip_serializing_if = "Vec::is_empty")]
    pub non_resource_urls: Vec<String>,
}

const ALL: &str = "*";

fn has(list: &[String], wanted: &str) -> bool {
    list.iter().any(|one| one == ALL || one == wanted)
}

// === impl PolicyRule ===

impl PolicyRule {
    pub fn allows(&self, attributes: &Attributes<'_>) -> bool {
        match attributes {
            Attributes::Path { verb, path } => {
                let fits = |pattern: &String| match pattern.strip_suffix(ALL) {
                    Some(start) => path.starts_with(start),
                    None => pattern == path,
                };
                has(&self.verbs, verb) && self.non_resource_urls.iter().any(fits)
            }
            Attributes::Resource { verb, group, resource, subresource, name, .. } => {
                let fits = |pattern: &String| {
                    pattern == ALL
                        || match (pattern.split_once('/'), subresource.is_empty()) {
                            (None, true) => pattern == resource,
                            (Some((ALL, sub)), false) => sub == *subresource,
                            (Some((one, sub)), false) => one == *resource && sub == *subresource,
                            _ => false,
                        }
                };
                has(&self.verbs, verb)
                    && has(&self.api_groups, group)
                    && self.resources.iter().any(fits)
                    && (self.resource_names.is_empty() || self.resource_names.iter().any(|one| one == name))
            }
        }
    }

    /// How many [`singles`](Self::singles) there are.
    pub fn size(&self) -> usize {
        let named = self.resource_names.len().max(1);
        let resources = self.api_groups.len().saturating_mul(self.resources.len()).saturating_mul(named);
        self.verbs.len().saturating_mul(resources.saturating_add(self.non_resource_urls.len()))
    }

    /// The rule taken apart: each allows one verb on one thing.
    pub fn singles(&self) -> Vec<PolicyRule> {
        let mut singles = Vec::new();
        for verb in &self.verbs {
            let verbs = vec![verb.clone()];
            for url in &self.non_resource_urls {
                let urls = vec![url.clone()];
                singles.push(Self { verbs: verbs.clone(), non_resource_urls: urls, ..Self::default() });
            }
            for (group, resource) in
                self.api_groups.iter().flat_map(|group| self.resources.iter().map(move |one| (group, one)))
            {
                let one = Self {
                    verbs: verbs.clone(),
                    api_groups: vec![group.clone()],
                    resources: vec![resource.clone()],
                    ..Self::default()
                };
                if self.resource_names.is_empty() {
                    singles.push(one);
                } else {
                    let named = self.resource_names.iter().map(|name| vec![name.clone()]);
                    singles.extend(named.map(|resource_names| Self { resource_names, ..one.clone() }));
                }
            }
        }
        singles
    }

    /// Of a rule that allows one thing only: what it allows, asked as a request. A `*` in it is only covered by a `*`.
    pub fn as_attributes<'a>(&'a self, namespace: &'a str) -> Option<Attributes<'a>> {
        let verb = self.verbs.first()?;
        if let Some(path) = self.non_resource_urls.first() {
            return Some(Attributes::Path { verb, path });
        }
        let (resource, subresource) = match self.resources.first()?.split_once('/') {
            Some((resource, subresource)) => (resource, subresource),
            None => (self.resources.first()?.as_str(), ""),
        };
        Some(Attributes::Resource {
            verb,
            namespace,
            group: self.api_groups.first()?,
            resource,
            subresource,
            name: self.resource_names.first().map_or("", String::as_str),
        })
    }

    /// As the real server prints it.
    pub fn text(&self) -> String {
        let fields = [
            ("APIGroups", &self.api_groups),
            ("Resources", &self.resources),
            ("ResourceNames", &self.resource_names),
            ("NonResourceURLs", &self.non_resource_urls),
            ("Verbs", &self.verbs),
        ];
        let shown: Vec<String> = fields
            .iter()
            .filter(|(_, values)| !values.is_empty())
            .map(|(name, values)| {
                let quoted: Vec<String> = values.iter().map(|value| format!("{value:?}")).collect();
                format!("{name}:[{}]", quoted.join(" "))
            })
            .collect();
        format!("{{{}}}", shown.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn check(rule: &Value, verb: &str, group: &str, resource: &str, name: &str, expected: bool) {
        let rule: PolicyRule = serde_json::from_value(rule.clone()).unwrap();
        let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
        let attributes = Attributes::Resource { verb, namespace: "n", group, resource, subresource, name };
        assert_eq!(rule.allows(&attributes), expected, "{rule:?} {attributes:?}");
    }

    #[test]
    fn resources() {
        let pods = json!({"verbs": ["get", "list"], "apiGroups": [""], "resources": ["pods", "pods/log"]});
        check(&pods, "get", "", "pods", "p", true);
        check(&pods, "get", "", "pods/log", "p", true);
        check(&pods, "get", "", "pods/exec", "p", false);
        check(&pods, "delete", "", "pods", "p", false);
        check(&pods, "get", "apps", "pods", "p", false);
        let named =
            json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["secrets"], "resourceNames": ["a"]});
        check(&named, "get", "", "secrets", "a", true);
        check(&named, "get", "", "secrets", "b", false);
        check(&named, "list", "", "secrets", "", false);
        let scale = json!({"verbs": ["patch"], "apiGroups": ["apps"], "resources": ["*/scale"]});
        check(&scale, "patch", "apps", "deployments/scale", "d", true);
        check(&scale, "patch", "apps", "deployments", "d", false);
        let all = json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]});
        check(&all, "escalate", "any", "thing/part", "x", true);
        check(&json!({"verbs": ["get"], "apiGroups": ["*"], "resources": ["*"]}), "*", "*", "*", "", false);
    }

    #[test]
    fn paths() {
        for (pattern, path, expected) in [
            ("/healthz", "/healthz", true),
            ("/healthz", "/healthz/etcd", false),
            ("/apis/*", "/apis/apps/v1", true),
            ("/apis/*", "/apis", false),
            ("*", "/anything", true),
        ] {
            let rule: PolicyRule =
                serde_json::from_value(json!({"verbs": ["get"], "nonResourceURLs": [pattern]})).unwrap();
            assert_eq!(rule.allows(&Attributes::Path { verb: "get", path }), expected, "{pattern} {path}");
            assert!(!rule.allows(&Attributes::Path { verb: "post", path }));
        }
    }
}
