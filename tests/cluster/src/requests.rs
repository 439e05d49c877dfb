//! What the API server was asked for, as it counts it.

use std::{collections::BTreeMap, fmt, fs, path::Path};

use anyhow::Result;
use serde_json::Value;

/// Requests by verb and resource; without watches, and without what it passes on to other servers.
#[derive(Clone, Debug, Default)]
pub struct Requests(BTreeMap<(String, String), u64>);

impl Requests {
    /// Of everybody, without leases.
    pub async fn read(client: &kube::Client) -> Result<Self> {
        let page = client.request_text(http::Request::get("/metrics").body(Vec::new())?).await?;
        let mut all: BTreeMap<(String, String), u64> = BTreeMap::new();
        for line in page.lines().filter_map(|line| line.strip_prefix("apiserver_request_total{")) {
            let Some((labels, count)) = line.rsplit_once("} ") else { continue };
            let label = |name: &str| {
                let (_, rest) = labels.split_once(&format!("{name}=\""))?;
                Some(rest.split_once('"')?.0)
            };
            let text = |name| label(name).unwrap_or_default();
            let (verb, resource) = (text("verb"), text("resource"));
            // what is no resource is discovery, health and this very page; endpoints are the API server's own
            let is_own = matches!(resource, "" | "leases" | "endpoints" | "endpointslices");
            if matches!(verb, "WATCH" | "CONNECT") || is_own {
                continue;
            }
            let resource = match text("subresource") {
                "" => resource.to_owned(),
                subresource => format!("{resource}/{subresource}"),
            };
            *all.entry((verb.to_owned(), resource)).or_default() += count.parse::<f64>()? as u64;
        }
        Ok(Self(all))
    }

    /// Those of one user alone, from the API server's audit log (see [`crate::real::Options::audit`]). What is no resource is
    /// discovery and schemas, which are counted by their path.
    pub fn audited(log: &Path) -> Result<Self> {
        let mut all: BTreeMap<(String, String), u64> = BTreeMap::new();
        // the last line may be on its way
        for event in
            fs::read_to_string(log)?.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok())
        {
            let text = |pointer: &str| event.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
            let resource = match (text("/objectRef/resource"), text("/objectRef/subresource")) {
                ("", _) => text("/requestURI").split('?').next().unwrap_or_default().to_owned(),
                (resource, "") => resource.to_owned(),
                (resource, subresource) => format!("{resource}/{subresource}"),
            };
            if !matches!(text("/verb"), "watch" | "connect") {
                *all.entry((text("/verb").to_uppercase(), resource)).or_default() += 1;
            }
        }
        Ok(Self(all))
    }

    pub fn since(&self, before: &Self) -> Self {
        let new = self.0.iter().map(|(what, n)| (what.clone(), n - before.0.get(what).copied().unwrap_or(0)));
        Self(new.filter(|(_, n)| *n > 0).collect())
    }

    /// Those for one resource, and all others.
    pub fn split(self, resource: &str) -> (Self, Self) {
        let (of_it, others) = self.0.into_iter().partition(|((_, known), _)| known == resource);
        (Self(of_it), Self(others))
    }

    pub fn n_all(&self) -> u64 {
        self.0.values().sum()
    }

    pub fn n_writes(&self) -> u64 {
        let is_write =
            |verb: &str| matches!(verb, "POST" | "CREATE" | "PUT" | "UPDATE" | "PATCH" | "APPLY" | "DELETE");
        self.0.iter().filter(|((verb, _), _)| is_write(verb)).map(|(_, n)| n).sum()
    }
}

impl fmt::Display for Requests {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for ((verb, resource), n) in &self.0 {
            writeln!(f, "  {n} {verb} {resource}")?;
        }
        Ok(())
    }
}
