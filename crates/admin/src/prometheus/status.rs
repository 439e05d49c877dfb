//! What a Prometheus says of itself.

use std::collections::BTreeSet;

use metrics::Millis;
use metrics::scrape::TargetStatus;
use serde_json::{Value as Json, json};

use super::answer::{Answer, ApiError, Result};
use crate::form::{self, Form};
use crate::operator::Shared;

/// The release whose query language and paths these are; Grafana decides by it what to ask for.
const SPEAKS_AS: &str = "3.15.0";

pub(super) fn build_info() -> Answer {
    Answer::new(&json!({
        "version": SPEAKS_AS,
        "revision": concat!("ballast ", env!("CARGO_PKG_VERSION")),
        "branch": "",
        "buildUser": "",
        "buildDate": "",
        "goVersion": "",
    }))
}

/// What a process of Go would say of itself is nothing here.
pub(super) fn runtime_info(shared: &Shared) -> Answer {
    let started = shown_time(shared.started);
    Answer::new(&json!({
        "startTime": started,
        "CWD": "",
        "hostname": "",
        "serverTime": shown_time(shared.clock.now()),
        "reloadConfigSuccess": true,
        "lastConfigTime": started,
        "corruptionCount": 0,
        "goroutineCount": 0,
        "GOMAXPROCS": 0,
        "GOMEMLIMIT": 0,
        "GOGC": "",
        "GODEBUG": "",
        "storageRetention": format!("{}s", shared.database.options().retention / 1000),
    }))
}

pub(super) fn scrape_pools(shared: &Shared) -> Answer {
    let scraped = shared.scraper().map(|scraper| scraper.status()).unwrap_or_default();
    let pools: BTreeSet<&str> = scraped.iter().map(|target| &*target.group).collect();
    Answer::new(&json!({ "scrapePools": pools }))
}

fn shown_time(millis: Millis) -> String {
    jiff::Timestamp::from_millisecond(millis).unwrap_or_default().to_string()
}

/// Help texts and types are read over when targets are scraped.
pub(super) fn metadata(form: &Form) -> Result<Answer> {
    for name in ["limit", "limit_per_metric"] {
        let text = form.get(name);
        if !text.is_empty() {
            form::integer(text).map_err(|_| ApiError::bad_data(format!("{name} must be a number")))?;
        }
    }
    Ok(Answer::new(&json!({})))
}

pub(super) fn rules(form: &Form) -> Result<Answer> {
    let kind = form.get("type").to_lowercase();
    if !["", "alert", "record"].contains(&kind.as_str()) {
        return Err(ApiError::parameter("type", format!("not supported value {kind:?}")));
    }
    Ok(Answer::new(&json!({ "groups": [] })))
}

pub(super) fn targets(shared: &Shared, form: &Form) -> Result<Answer> {
    let (pool, state) = (form.get("scrapePool"), form.get("state").to_lowercase());
    let shows_active = ["", "any", "active"].contains(&state.as_str());
    let shows_dropped = ["", "any", "dropped"].contains(&state.as_str());
    let scraped = shared.scraper().map(|scraper| scraper.status()).unwrap_or_default();
    let active = scraped.iter().filter(|t| shows_active && (pool.is_empty() || t.group == pool)).map(target);
    Ok(Answer::new(&json!({
        "activeTargets": active.collect::<Vec<_>>(),
        "droppedTargets": [],
        "droppedTargetCounts": if shows_dropped { json!({}) } else { Json::Null },
    })))
}

fn target(status: &TargetStatus) -> Json {
    let seconds = |millis: Millis| format!("{}s", millis as f64 / 1000.0);
    let labels: serde_json::Map<String, Json> =
        status.labels.iter().map(|(name, value)| (name.to_string(), json!(value))).collect();
    json!({
        "discoveredLabels": labels,
        "labels": labels,
        "scrapePool": status.group,
        "scrapeUrl": status.url,
        "globalUrl": status.url,
        "lastError": status.error.clone().unwrap_or_default(),
        "lastScrape": shown_time(status.last_scrape),
        "lastScrapeDuration": status.duration_millis as f64 / 1000.0,
        "health": if status.error.is_none() { "up" } else { "down" },
        "scrapeInterval": status.interval_millis.map(seconds).unwrap_or_default(),
        "scrapeTimeout": "",
    })
}
