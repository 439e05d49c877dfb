//! The same requests to Prometheus's own handlers and to ours, over the same data: answers are compared field by field.
#![allow(clippy::unwrap_used, clippy::panic)] // a test, though its helpers are not marked as such

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;

use admin::{Operator, Options};
use bytes::Bytes;
use futures::future::{BoxFuture, FutureExt as _, pending};
use http::Request;
use http_body_util::{BodyExt as _, Full};
use metrics::scrape::Clock;
use metrics::{Database, Gauge, Millis};
use oracle::Series;
use promql::{Labels, MetricNames, STALE};
use serde_json::Value as Json;

const START: Millis = 1_700_000_000_000;
const SCRAPES: i64 = 41;
const INTERVAL: Millis = 15_000;
const NOW: Millis = START + (SCRAPES - 1) * INTERVAL;
const FORM: &str = "application/x-www-form-urlencoded";

#[test]
fn requests_are_answered_as_prometheus_answers_them() {
    let scraped = scraped();
    let theirs = oracle::Server::start(&as_series(&scraped));
    let ours = operator(&scraped);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut differences = Vec::new();
    let mut n_compared = 0;
    for line in include_str!("requests.txt").lines().filter(|line| !line.starts_with('#')) {
        let line =
            line.replace("{now}", &(NOW / 1000).to_string()).replace("{start}", &(START / 1000).to_string());
        let expected = ask(theirs.address, &line);
        let got = runtime.block_on(answer(&ours, &line));
        n_compared += 1;
        if let Err(difference) = compare(&line, &got, &expected) {
            differences.push(format!("{line}\n  {difference}\n  ours   {got:?}\n  theirs {expected:?}"));
        }
    }
    assert!(n_compared >= 100, "only {n_compared} requests");
    assert!(
        differences.is_empty(),
        "{} of {n_compared} differ:\n{}",
        differences.len(),
        differences.join("\n")
    );
    println!("{n_compared} requests answered alike");
}

struct StandingClock;

impl Clock for StandingClock {
    fn now(&self) -> Millis {
        NOW
    }

    fn sleep_until(&self, _: Millis) -> BoxFuture<'static, ()> {
        pending().boxed()
    }
}

/// One target, read every 15 s: a counter with a reset, a gauge, a histogram, a series that ends, names with dots.
fn scraped() -> Vec<(Millis, Vec<Gauge>)> {
    let gauge = |name: &str, labels: &[(&str, &str)], value: f64| Gauge {
        name: name.into(),
        labels: labels.iter().map(|(n, v)| (n.to_string(), v.to_string())).collect(),
        value,
    };
    let at = |scrape: i64| {
        let n = scrape as f64;
        let mut all = Vec::new();
        for (pod, factor) in [("a", 1.0), ("b", 2.5)] {
            all.push(gauge("up", &[("pod", pod)], 1.0));
            for (code, share) in [("200", 10.0), ("500", 0.3)] {
                let since_reset = if scrape >= 20 && pod == "b" { n - 20.0 } else { n };
                let labels = [("pod", pod), ("code", code)];
                all.push(gauge("http_requests_total", &labels, since_reset * share * factor));
            }
            all.push(gauge("memory_bytes", &[("pod", pod)], 100.0 * factor + (n % 7.0)));
            for (le, share) in [("0.1", 3.0), ("0.5", 7.0), ("1", 9.0), ("+Inf", 10.0)] {
                all.push(gauge("request_seconds_bucket", &[("pod", pod), ("le", le)], n * share * factor));
            }
        }
        if scrape < 30 {
            all.push(gauge("ends_soon", &[("pod", "a")], n));
        }
        all.push(gauge("dotted.name", &[("dotted.label", "x y")], 7.0));
        (START + scrape * INTERVAL, all)
    };
    (0..SCRAPES).map(at).collect()
}

fn labels(gauge: &Gauge) -> Labels {
    let pairs = gauge.labels.iter().map(|(n, v)| (n.as_str(), v.as_str()));
    Labels::from_pairs(pairs.chain([("__name__", gauge.name.as_str())]))
}

/// As Prometheus would have stored it: a stale marker where a series is missing for the first time.
fn as_series(scraped: &[(Millis, Vec<Gauge>)]) -> Vec<Series> {
    let mut all: Vec<Series> = scraped[0].1.iter().map(|g| (labels(g), Vec::new())).collect();
    for (time, gauges) in scraped {
        for (series, samples) in &mut all {
            let value = gauges.iter().find(|g| labels(g) == *series).map(|g| g.value);
            let has_ended = samples.last().is_some_and(|s: &(i64, f64)| promql::is_stale(s.1));
            match value {
                Some(value) => samples.push((*time, value)),
                None if !has_ended => samples.push((*time, STALE)),
                None => {}
            }
        }
    }
    all
}

fn operator(scraped: &[(Millis, Vec<Gauge>)]) -> Operator {
    let database = Database::default();
    database.ask(&MetricNames { any: true, ..MetricNames::default() }, START);
    for (time, gauges) in scraped {
        database.feed("target", &Labels::empty(), *time, gauges).unwrap();
    }
    Operator::with_clock(database, None, vec![], Options::default(), Arc::new(StandingClock))
}

/// Status and body.
type Answer = (u16, Json);

fn parts(line: &str) -> (&str, &str, &str) {
    let mut words = line.splitn(3, ' ');
    (words.next().unwrap(), words.next().unwrap(), words.next().unwrap_or(""))
}

async fn answer(operator: &Operator, line: &str) -> Answer {
    let (method, path, form) = parts(line);
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", FORM)
        .body(Full::new(Bytes::from(form.to_string())))
        .unwrap();
    let (head, body) = operator.handle(request).await.into_parts();
    assert_eq!(head.headers["content-type"], "application/json", "{line}");
    (head.status.as_u16(), serde_json::from_slice(&body.collect().await.unwrap().to_bytes()).unwrap())
}

fn ask(address: SocketAddr, line: &str) -> Answer {
    let (method, path, form) = parts(line);
    let mut stream = TcpStream::connect(address).unwrap();
    // HTTP/1.0, so that the end of the connection is the end of the body.
    let head =
        format!("{method} {path} HTTP/1.0\r\ncontent-type: {FORM}\r\ncontent-length: {}\r\n\r\n", form.len());
    stream.write_all((head + form).as_bytes()).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{line}: {text:?}"));
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, serde_json::from_str(body).unwrap_or_else(|e| panic!("{line}: {e}: {text}")))
}

fn compare(line: &str, ours: &Answer, theirs: &Answer) -> Result<(), String> {
    if ours.0 != theirs.0 {
        return Err(format!("status {} for {}", ours.0, theirs.0));
    }
    let (ours, theirs) = (&ours.1, &theirs.1);
    for field in ["status", "errorType"] {
        same(field, &ours[field], &theirs[field])?;
    }
    // Our parser has its own words and knows no positions.
    let up_to_words = |answer: &Json| match answer["error"]
        .as_str()
        .and_then(|e| e.split_once("parse error: "))
    {
        Some((before, _)) => {
            let known = before.trim_end_matches(|c: char| c.is_ascii_digit() || ": ".contains(c));
            format!("{} parse error", known.trim_end_matches("unknown position").trim_end_matches([':', ' ']))
        }
        None => answer["error"].to_string(),
    };
    if up_to_words(ours) != up_to_words(theirs) {
        same("error", &ours["error"], &theirs["error"])?;
    }
    for field in ["warnings", "infos"] {
        same(field, &without_positions(&ours[field]), &without_positions(&theirs[field]))?;
    }
    let is_sorted = line.contains("sort") || line.contains("limit");
    let (mut ours, mut theirs) = (comparable(line, &ours["data"]), comparable(line, &theirs["data"]));
    if !is_sorted {
        by_metric(&mut ours);
        by_metric(&mut theirs);
    }
    if line.contains("limit=") && ours.is_object() {
        // Which series come first in an instant vector is not settled; how many do, is.
        let n = |data: &Json| data["result"].as_array().map(Vec::len);
        return if n(&ours) == n(&theirs) { Ok(()) } else { Err("another number of series".into()) };
    }
    same("data", &ours, &theirs)
}

/// Without what no two processes have in common.
fn comparable(line: &str, data: &Json) -> Json {
    let mut data = data.clone();
    if line.contains("/status/buildinfo") || line.contains("/status/runtimeinfo") {
        return kinds(&data);
    }
    if let Some(timings) = data.pointer_mut("/stats/timings") {
        *timings = kinds(timings);
    }
    if let Some(stats) = data.get_mut("stats").and_then(Json::as_object_mut) {
        stats.remove("samples"); // we do not count them
    }
    if let Some(head) = data.get_mut("headStats").and_then(Json::as_object_mut) {
        head.remove("chunkCount"); // we have none
    }
    if line.contains("/status/tsdb?") {
        // Which of equal counts comes first is not settled.
        let lists =
            data.as_object_mut().into_iter().flatten().filter_map(|(_, counts)| counts.as_array_mut());
        lists.for_each(|counts| counts.sort_by_key(Json::to_string));
    }
    data
}

/// Of each field, what kind of value it has.
fn kinds(data: &Json) -> Json {
    let kind = |value: &Json| match value {
        Json::String(_) => "text",
        Json::Number(_) => "number",
        Json::Bool(_) => "flag",
        _ => "other",
    };
    let fields = data.as_object().into_iter().flatten();
    fields.map(|(name, value)| (name.clone(), Json::from(kind(value)))).collect()
}

fn by_metric(data: &mut Json) {
    let list = if data.is_array() { Some(data) } else { data.get_mut("result") };
    let Some(list) = list.and_then(Json::as_array_mut) else { return };
    if list.iter().all(Json::is_object) {
        list.sort_by_key(|one| one.get("metric").unwrap_or(one).to_string());
    }
}

fn without_positions(remarks: &Json) -> Json {
    let cut = |text: &str| match text.rsplit_once(" (") {
        Some((before, position)) if position.starts_with(|c: char| c.is_ascii_digit()) => before.to_string(),
        _ => text.to_string(),
    };
    let Some(remarks) = remarks.as_array() else { return Json::Null };
    // Prometheus keeps them in a map: their order differs from one answer to the next.
    let mut all: Vec<_> = remarks.iter().filter_map(Json::as_str).map(cut).collect();
    all.sort();
    all.into()
}

/// Equal, but for the last digits of numbers.
fn same(path: &str, ours: &Json, theirs: &Json) -> Result<(), String> {
    let number = |value: &Json| match value {
        Json::String(text) => text.parse::<f64>().ok().filter(|n| n.is_finite()),
        other => other.as_f64(),
    };
    let is_same = match (ours, theirs) {
        (Json::Array(a), Json::Array(b)) if a.len() == b.len() => {
            return a
                .iter()
                .zip(b)
                .enumerate()
                .try_for_each(|(i, (a, b))| same(&format!("{path}[{i}]"), a, b));
        }
        (Json::Object(a), Json::Object(b)) if a.len() == b.len() => {
            return a
                .iter()
                .try_for_each(|(k, v)| same(&format!("{path}.{k}"), v, b.get(k).unwrap_or(&Json::Null)));
        }
        _ => match (number(ours), number(theirs)) {
            (Some(a), Some(b)) => {
                ours.is_string() == theirs.is_string() && (a - b).abs() <= 1e-9 * (1.0 + a.abs() + b.abs())
            }
            _ => ours == theirs,
        },
    };
    if is_same { Ok(()) } else { Err(format!("{path}: {ours} for {theirs}")) }
}
