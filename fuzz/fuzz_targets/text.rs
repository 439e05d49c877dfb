//! A scraped body: whatever a target serves, it is stored or refused, and what was stored can be stored again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use metrics::text::{Format, SeriesCache};
use metrics::{Database, Scraped, ingest};
use promql::{Labels, MetricNames};

fuzz_target!(|data: &[u8]| {
    let Some((first, body)) = data.split_first() else { return };
    let format = if first % 2 == 0 { Format::Prometheus } else { Format::OpenMetrics };
    let database = Database::default();
    database.ask(&MetricNames { any: true, ..MetricNames::default() }, 0);
    let labels = Labels::from_pairs([("pod", "p")]);
    let mut cache = SeriesCache::default();
    let mut store = |time| {
        let scraped = Scraped { target: "t", labels: &labels, time, body, format };
        database.ingest(scraped, &[], &mut cache, ingest::Limits::default())
    };
    // The second time every series is known: the shorter way must come to the same end.
    let (first, second) = (store(1_000), store(2_000));
    assert_eq!(first.is_ok(), second.is_ok());
    if let (Ok(first), Ok(second)) = (first, second) {
        assert_eq!(first, second);
    }
});
