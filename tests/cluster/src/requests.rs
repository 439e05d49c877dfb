//! What the API server was asked for, as it counts it.

use std::{collections::BTreeMap, fmt};

use anyhow::Result;

/// Requests by verb and resource; without watches and leases, and without what it passes on to other servers.
#[derive(Clone, Debug, Default)]
pub struct Requests(BTreeMap<(String, String), u64>);

impl Requests {
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

    pub fn since(&self, before: &Self) -> Self {
        let new = self.0.iter().map(|(what, n)| (what.clone(), n - before.0.get(what).copied().unwrap_or(0)));
        Self(new.filter(|(_, n)| *n > 0).collect())
    }

    pub fn n_all(&self) -> u64 {
        self.0.values().sum()
    }

    pub fn n_writes(&self) -> u64 {
        let is_write = |verb: &str| matches!(verb, "POST" | "PUT" | "PATCH" | "APPLY" | "DELETE");
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
