//! What this node's roles look like from outside, and whether they still get renewed.

use std::time::{Duration, Instant};

use metrics::Gauge;

use super::{
    Handle,
    held::{holds, lock},
};

impl Handle {
    pub fn gauges(&self, now: Instant) -> Vec<Gauge> {
        let held = *lock(&self.held);
        let gauge = |name: &str, labels, value| Gauge { name: format!("ballast_{name}"), labels, value };
        let role = |name: &str, until| {
            let labels = vec![("role".to_owned(), name.to_owned())];
            gauge("role", labels, f64::from(u8::from(holds(until, now))))
        };
        let mut gauges = vec![role("master", held.master), role("scraper", held.scraper)];
        gauges.push(gauge("nodes", Vec::new(), self.current().nodes as f64));
        if let Some(silence) = self.silence(now) {
            gauges.push(gauge("lease_last_renewed_seconds", Vec::new(), silence.as_secs_f64()));
        }
        gauges
    }

    /// # Errors
    /// That no lease of this node could be renewed for twice as long as one lasts, so that the others count it as gone.
    pub fn check(&self, now: Instant) -> Result<(), String> {
        match (self.silence(now), self.lease) {
            (Some(silence), Some(lease)) if silence > lease * 2 => {
                Err(format!("this node could not renew its lease for {} s", silence.as_secs()))
            }
            _ => Ok(()),
        }
    }

    /// Since a lease of this node was last written; none where none has to be.
    fn silence(&self, now: Instant) -> Option<Duration> {
        self.lease?;
        Some(now.saturating_duration_since(lock(&self.held).renewed.unwrap_or(self.began)))
    }
}
