//! The values of annotations. Each parser says what it found and what it expected.

use std::{collections::HashSet, ops::RangeInclusive, sync::Arc, time::Duration};

use decide::{
    demand::{Scale, Schedule},
    input::{self, shown},
};
use serde::Deserialize;
use serde_json::Value;

use super::{Attempts, Subscription, Visibility, read::Configuration};

/// As many pods as the largest cluster that Kubernetes is made for.
const MOST_REPLICAS: i64 = 150_000;
const WEEK: i64 = 7 * 24 * 3600;
const MOST_NAMES: usize = 1_000;
const MOST_ATTEMPTS: usize = 100;
/// Each is worked out at every decision.
const MOST_TRIGGERS: usize = 100;
const MOST_POLICIES: usize = 100;
/// Bytes: `${app}` may become forty times as long.
const LONGEST_QUERY: usize = 16 << 10;
/// One for each minute of a day.
const MOST_TIMES: usize = 24 * 60;

pub fn replicas(text: &str) -> Result<i32, String> {
    number(text, 0..=MOST_REPLICAS).map(|n| n as i32)
}

pub fn seconds(text: &str) -> Result<u32, String> {
    number(text, 0..=i64::from(u32::MAX)).map(|n| n as u32)
}

pub fn parallel(text: &str) -> Result<u32, String> {
    number(text, 1..=1_000_000).map(|n| n as u32)
}

fn number(text: &str, range: RangeInclusive<i64>) -> Result<i64, String> {
    let parsed = text.parse().ok().filter(|n| range.contains(n));
    let (low, high) = (range.start(), range.end());
    parsed.ok_or_else(|| format!("expected a whole number from {low} to {high}, found {}", shown(text)))
}

pub fn flag(text: &str) -> Result<bool, String> {
    one_of(text, &[("true", true), ("false", false)])
}

pub fn visibility(text: &str) -> Result<Visibility, String> {
    one_of(text, &[("Public", Visibility::Public), ("Private", Visibility::Private)])
}

pub fn trust(text: &str) -> Result<bool, String> {
    one_of(text, &[("Trusted", true), ("Untrusted", false)])
}

fn one_of<T: Copy>(text: &str, choices: &[(&str, T)]) -> Result<T, String> {
    let found = choices.iter().find(|(name, _)| name.eq_ignore_ascii_case(text));
    found.map(|(_, value)| *value).ok_or_else(|| {
        let names: Vec<&str> = choices.iter().map(|(name, _)| *name).collect();
        format!("expected {}, found {}", names.join(" or "), shown(text))
    })
}

/// The trimmed, non-empty parts of a list separated by commas.
pub fn items(text: &str) -> impl Iterator<Item = &str> {
    text.split(',').map(str::trim).filter(|item| !item.is_empty())
}

/// A JSON array or a list separated by commas.
pub fn names(text: &str) -> Result<Vec<Arc<str>>, String> {
    const LOCAL_PROCESS: &str = "processes:";
    let all: Vec<String> = match text.starts_with('[') {
        true => input::parse(text).map_err(|error| format!("expected a list of names: {error}"))?,
        false => items(text).map(str::to_owned).collect(),
    };
    let (mut names, mut seen) = (Vec::new(), HashSet::new());
    // Processes beside SlimFaas itself: there are none in a cluster.
    for name in all.iter().map(|name| name.trim()).filter(|name| !name.starts_with(LOCAL_PROCESS)) {
        if !is_name(name) {
            return Err(format!("expected names of functions, found {}", shown(name)));
        }
        if seen.insert(name) {
            names.push(Arc::from(name));
        }
    }
    at_most(MOST_NAMES, "names", names.len())?;
    Ok(names)
}

fn at_most(most: usize, what: &str, found: usize) -> Result<(), String> {
    match found <= most {
        true => Ok(()),
        false => Err(format!("expected at most {most} {what}, found {found}")),
    }
}

/// What the API accepts as the name of a workload.
fn is_name(name: &str) -> bool {
    let is_part =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'.');
    !name.is_empty() && name.len() <= 253 && name.bytes().all(is_part)
}

/// `event`, `Public:event` or `Private:event`.
pub fn subscription(item: &str, default: Visibility) -> Result<Subscription, String> {
    let (visibility, event) = qualified(item, default);
    match event.is_empty() {
        true => Err(format!("expected the name of an event, found {}", shown(item))),
        false => Ok(Subscription { event: event.into(), visibility }),
    }
}

/// `/path`, `Public:/path` or `Private:/path`.
pub fn path(item: &str) -> Result<(String, Visibility), String> {
    let (visibility, path) = qualified(item, Visibility::Public);
    match path.starts_with('/') {
        true => Ok((path.to_owned(), visibility)),
        false => Err(format!("expected a path such as Private:/admin, found {}", shown(item))),
    }
}

fn qualified(item: &str, default: Visibility) -> (Visibility, &str) {
    let parts =
        item.split_once(':').and_then(|(word, rest)| Some((visibility(word.trim()).ok()?, rest.trim())));
    parts.unwrap_or((default, item))
}

pub fn schedule(text: &str) -> Result<Schedule, String> {
    let schedule: Schedule = input::parse(text).map_err(|error| error.to_string())?;
    at_most(MOST_TIMES, "times to wake up", schedule.default.wake_up.len())?;
    at_most(MOST_TIMES, "timeouts", schedule.default.scale_down_timeout.len())?;
    Ok(schedule)
}

/// The scale, and how often pods are scraped for it.
pub fn scale(text: &str) -> Result<(Scale, Option<Duration>), String> {
    const INTERVAL: &str = "ScrapeIntervalMilliseconds";
    let words = |error: input::InputError| error.to_string();
    let mut json: Value = input::parse(text).map_err(words)?;
    let interval = json.as_object_mut().and_then(|fields| fields.remove(INTERVAL));
    let interval = match interval.filter(|value| !value.is_null()) {
        None => None,
        Some(value) => {
            let millis = value.as_u64().filter(|millis| (1_000..=600_000).contains(millis));
            let millis = millis
                .ok_or_else(|| format!("{INTERVAL}: expected a number from 1000 to 600000, found {value}"))?;
            Some(Duration::from_millis(millis))
        }
    };
    let scale: Scale = input::parse(&json.to_string()).map_err(words)?;
    scale.check().map_err(words)?;
    at_most(MOST_TRIGGERS, "triggers", scale.triggers.len())?;
    let longest = scale.triggers.iter().map(|trigger| trigger.query.len()).max().unwrap_or(0);
    at_most(LONGEST_QUERY, "bytes in a query", longest)?;
    at_most(MOST_POLICIES, "policies", scale.behavior.scale_up.policies().len())?;
    at_most(MOST_POLICIES, "policies", scale.behavior.scale_down.policies().len())?;
    Ok((scale, interval))
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "PascalCase", deny_unknown_fields, default)]
struct ConfigurationForm {
    default_sync: Option<SyncForm>,
    default_async: Option<AttemptsForm>,
    default_publish: Option<AttemptsForm>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "PascalCase", deny_unknown_fields, default)]
struct SyncForm {
    http_timeout: Option<i64>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "PascalCase", deny_unknown_fields, default)]
struct AttemptsForm {
    http_timeout: Option<i64>,
    timeout_retries: Option<Vec<i64>>,
    http_status_retries: Option<Vec<i64>>,
}

pub fn configuration(text: &str) -> Result<Configuration, String> {
    let form: ConfigurationForm = input::parse(text).map_err(|error| error.to_string())?;
    let sync = form.default_sync.unwrap_or_default();
    let default = Attempts::default();
    Ok(Configuration {
        sync_timeout: timeout("DefaultSync", sync.http_timeout)?.unwrap_or(default.timeout),
        asynchronous: form.default_async.unwrap_or_default().resolve("DefaultAsync")?,
        publish: form.default_publish.unwrap_or_default().resolve("DefaultPublish")?,
    })
}

impl AttemptsForm {
    fn resolve(self, section: &str) -> Result<Attempts, String> {
        let default = Attempts::default();
        let delays = match self.timeout_retries {
            None => default.delays,
            Some(all) => list(section, "TimeoutRetries", all, 0..=WEEK)?
                .into_iter()
                .map(|seconds| Duration::from_secs(seconds.unsigned_abs()))
                .collect(),
        };
        let statuses = match self.http_status_retries {
            None => default.statuses,
            Some(all) => list(section, "HttpStatusRetries", all, 100..=599)?
                .into_iter()
                .map(|status| status as u16)
                .collect(),
        };
        let timeout = timeout(section, self.http_timeout)?.unwrap_or(default.timeout);
        Ok(Attempts { timeout, delays, statuses })
    }
}

fn timeout(section: &str, seconds: Option<i64>) -> Result<Option<Duration>, String> {
    let Some(seconds) = seconds else { return Ok(None) };
    match (1..=WEEK).contains(&seconds) {
        true => Ok(Some(Duration::from_secs(seconds.unsigned_abs()))),
        false => Err(format!("{section}.HttpTimeout: expected seconds from 1 to {WEEK}, found {seconds}")),
    }
}

fn list(section: &str, name: &str, all: Vec<i64>, range: RangeInclusive<i64>) -> Result<Vec<i64>, String> {
    at_most(MOST_ATTEMPTS, "numbers", all.len()).map_err(|error| format!("{section}.{name}: {error}"))?;
    match all.iter().find(|n| !range.contains(n)) {
        None => Ok(all),
        Some(n) => {
            let (low, high) = (range.start(), range.end());
            Err(format!("{section}.{name}: expected numbers from {low} to {high}, found {n}"))
        }
    }
}
