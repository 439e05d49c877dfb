use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use promql::Labels;

use super::Scheme;

/// Something to scrape, as its finder describes it.
#[derive(Debug, Clone, PartialEq)]
pub struct Target {
    key: Arc<str>,
    pub(super) scheme: Scheme,
    pub(super) address: SocketAddr,
    pub(super) path: String,
    pub(super) labels: Labels,
    pub(super) group: String,
    pub(super) interval: Option<Duration>,
}

impl Target {
    /// `labels` come with every series; `instance` is added to them, so that targets differ. Targets should have the
    /// same label names. `group` is what figures about scraping are added up by: the function or workload.
    pub fn new(address: SocketAddr, path: &str, labels: &Labels, group: &str) -> Self {
        let labels = labels.with("instance", &address.to_string());
        Self {
            key: labels.to_string().into(),
            scheme: Scheme::Http,
            address,
            path: path.to_string(),
            labels,
            group: group.to_string(),
            interval: None,
        }
    }

    /// Instead of plain HTTP.
    pub fn over(mut self, scheme: Scheme) -> Self {
        self.scheme = scheme;
        self
    }

    /// Instead of the scraper's own interval.
    pub fn every(mut self, interval: Option<Duration>) -> Self {
        self.interval = interval;
        self
    }

    /// Where it is asked.
    pub fn url(&self) -> String {
        format!("{}://{}{}", self.scheme.as_str(), self.address, self.path)
    }

    /// What the store calls it. A new pod at an old address is another target.
    pub fn key(&self) -> &Arc<str> {
        &self.key
    }
}
