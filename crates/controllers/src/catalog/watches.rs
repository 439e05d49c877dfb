//! Whether the functions are still as the API has them.

use std::time::{Duration, Instant};

use engine::Contact;
use metrics::Gauge;

use super::RELIST;

/// Longer than a server takes to start again.
const FAILING: Duration = Duration::from_secs(30);
/// Everything is listed anew after `RELIST`, whether or not anything happens; the rest is for a slow list.
const SILENT: Duration = RELIST.saturating_add(Duration::from_secs(60));

/// All that the catalog watches, each with the name of its resource.
#[derive(Clone, Debug)]
pub struct Watches(pub(super) Vec<(&'static str, Contact)>);

impl Watches {
    pub fn gauges(&self, now: Instant) -> Vec<Gauge> {
        let mut gauges = Vec::new();
        for (resource, contact) in &self.0 {
            // A kind that the cluster does not have is not watched.
            let Some(heard_ago) = contact.heard_ago(now) else { continue };
            let is_up = if contact.failing_for(now).is_none() { 1.0 } else { 0.0 };
            for (name, value) in
                [("ballast_watch_up", is_up), ("ballast_watch_last_heard_seconds", heard_ago.as_secs_f64())]
            {
                let labels = vec![("resource".to_owned(), (*resource).to_owned())];
                gauges.push(Gauge { name: name.to_owned(), labels, value });
            }
        }
        gauges
    }

    /// # Errors
    /// Which watch stands still, for how long.
    pub fn check(&self, now: Instant) -> Result<(), String> {
        let stalled = self.0.iter().find_map(|(resource, contact)| {
            let failing = contact.failing_for(now).filter(|time| *time > FAILING);
            let silent = contact.heard_ago(now).filter(|time| *time > SILENT);
            Some((resource, failing.or(silent)?))
        });
        match stalled {
            None => Ok(()),
            Some((resource, time)) => {
                Err(format!("the API has told nothing about {resource} for {} s", time.as_secs()))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    #[test]
    fn silence_is_no_stall_before_the_next_list_is_due() {
        let began = Instant::now();
        let at = |seconds| began + Duration::from_secs(seconds);
        let (pods, functions) = (Contact::default(), Contact::default());
        let watches = Watches(vec![("pods", pods.clone()), ("functions", functions)]);
        let mut all = String::new();
        let mut look = |what: &str, seconds| {
            let values: Vec<f64> = watches.gauges(at(seconds)).iter().map(|gauge| gauge.value).collect();
            all += &format!("{seconds} s, {what}: {:?} {values:?}\n", watches.check(at(seconds)));
        };
        look("never heard of anything", 0);
        pods.heard(at(1));
        look("nothing happens", 300);
        look("nor was it listed again", 362);
        pods.heard(at(363));
        pods.failed(at(364));
        pods.failed(at(390));
        look("fails", 394);
        look("still fails", 395);
        pods.heard(at(396));
        look("heard again", 396);
        expect![[r#"
            0 s, never heard of anything: Ok(()) []
            300 s, nothing happens: Ok(()) [1.0, 299.0]
            362 s, nor was it listed again: Err("the API has told nothing about pods for 361 s") [1.0, 361.0]
            394 s, fails: Ok(()) [0.0, 31.0]
            395 s, still fails: Err("the API has told nothing about pods for 31 s") [0.0, 32.0]
            396 s, heard again: Ok(()) [1.0, 0.0]
        "#]]
        .assert_eq(&all);
    }
}
