//! What a stranger may send as a query: it is refused or cut off, and nobody else waits for it.
#![allow(clippy::unwrap_used)] // a test, though its helpers are not marked as such

use std::cell::Cell;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use admin::{Answer, Limits, Operator, Options};
use bytes::Bytes;
use expect_test::expect;
use futures::future::BoxFuture;
use http::Request;
use http_body_util::{BodyExt as _, Full};
use metrics::scrape::Clock;
use metrics::{Database, Gauge, Millis};
use promql::Labels;

const SERIES: usize = 2_000;

/// Some series, scraped four times.
fn database() -> Database {
    let database = Database::default();
    database.ask(&promql::parse("m").unwrap().metric_names(), 0);
    (0..4).for_each(|n| scrape(&database, n * 15_000));
    database
}

fn scrape(database: &Database, time: Millis) {
    let gauge =
        |i: usize| Gauge { name: "m".into(), labels: vec![("i".into(), i.to_string())], value: i as f64 };
    let gauges: Vec<Gauge> = (0..SERIES).map(gauge).collect();
    database.feed("t", &Labels::from_pairs([("pod", "a")]), time, &gauges).unwrap();
}

fn get(path: &str, parameters: &[(&str, &str)]) -> Request<Full<Bytes>> {
    let query = form_urlencoded::Serializer::new(String::new()).extend_pairs(parameters).finish();
    Request::builder().uri(format!("{path}?{query}")).body(Full::default()).unwrap()
}

async fn shown(reply: Answer) -> String {
    let status = reply.status().as_u16();
    let body = reply.into_body().collect().await.unwrap().to_bytes();
    format!("{status} {}", String::from_utf8_lossy(&body).chars().take(260).collect::<String>())
}

async fn ask(operator: &Operator, path: &str, parameters: &[(&str, &str)]) -> String {
    shown(operator.handle(get(path, parameters)).await).await
}

/// Threads of queries that look at it in the midst of their work stay there until the gate is opened.
#[derive(Default)]
struct Gate {
    state: Mutex<(usize, bool)>,
    changed: Condvar,
}

impl Gate {
    /// Waits until so many threads stand before the gate.
    fn reached_by(&self, n: usize) {
        let mut state = self.state.lock().unwrap();
        while state.0 < n {
            state = self.changed.wait(state).unwrap();
        }
    }

    fn open(&self) {
        self.state.lock().unwrap().1 = true;
        self.changed.notify_all();
    }
}

impl Clock for Gate {
    fn now(&self) -> Millis {
        thread_local!(static LOOKS: Cell<usize> = const { Cell::new(0) });
        let is_query = std::thread::current().name() == Some("query");
        // The first look is before the work.
        if is_query && LOOKS.replace(LOOKS.get() + 1) == 2 {
            let mut state = self.state.lock().unwrap();
            state.0 += 1;
            self.changed.notify_all();
            while !state.1 {
                state = self.changed.wait(state).unwrap();
            }
        }
        60_000
    }

    fn sleep_until(&self, _: Millis) -> BoxFuture<'static, ()> {
        Box::pin(std::future::pending())
    }
}

/// Time goes by with every look at it.
#[derive(Default)]
struct Hasty(AtomicI64);

impl Clock for Hasty {
    fn now(&self) -> Millis {
        self.0.fetch_add(10_000, Ordering::Relaxed)
    }

    fn sleep_until(&self, _: Millis) -> BoxFuture<'static, ()> {
        Box::pin(std::future::pending())
    }
}

fn operator(database: Database, limits: Limits, clock: Arc<dyn Clock>) -> Operator {
    Operator::with_clock(database, None, vec![], Options { limits, ..Options::default() }, clock)
}

/// All threads for queries are in the midst of one. Scrapes are stored and other paths answered all the same; further
/// queries are turned away. One runtime thread: if any of this waited for a query, the test would not end.
#[tokio::test]
async fn nobody_waits_for_a_query() {
    let (database, gate) = (database(), Arc::new(Gate::default()));
    let limits = Limits { concurrency: 3, wait: Duration::from_millis(1), waiting: 2, ..Limits::default() };
    let operator = operator(database.clone(), limits, gate.clone());
    let topk = [("query", "topk(1500, m)"), ("start", "0"), ("end", "60"), ("step", "1")];
    let mut queries = tokio::task::JoinSet::new();
    for path in ["/api/v1/query_range", "/api/v1/query_range", "/api/v1/series"] {
        let operator = operator.clone();
        let parameters =
            if path.ends_with("series") { vec![("match[]", "{i=~\".+\"}")] } else { topk.to_vec() };
        queries.spawn(async move { ask(&operator, path, &parameters).await });
    }
    let before_gate = gate.clone();
    tokio::task::spawn_blocking(move || before_gate.reached_by(3)).await.unwrap();

    scrape(&database, 60_000);
    let mut out = String::new();
    for path in ["/metrics", "/debug/store", "/api/v1/status/buildinfo"] {
        out += &format!("{path}: {:.3}\n", ask(&operator, path, &[]).await);
    }
    for path in ["/api/v1/query", "/api/v1/labels", "/api/v1/status/tsdb"] {
        out += &format!("{path}: {}\n", ask(&operator, path, &[("query", "m")]).await);
    }
    assert!(queries.try_join_next().is_none(), "the queries are still running");
    gate.open();
    while let Some(answer) = queries.join_next().await {
        out += &format!("{:.40}\n", answer.unwrap());
    }
    expect![[r#"
        /metrics: 200
        /debug/store: 200
        /api/v1/status/buildinfo: 200
        /api/v1/query: 503 {"error":"all 3 threads for queries are busy: ask again later, with narrower selectors, a shorter range or longer steps","errorType":"unavailable","status":"error"}
        /api/v1/labels: 503 {"error":"all 3 threads for queries are busy: ask again later, with narrower selectors, a shorter range or longer steps","errorType":"unavailable","status":"error"}
        /api/v1/status/tsdb: 503 {"error":"all 3 threads for queries are busy: ask again later, with narrower selectors, a shorter range or longer steps","errorType":"unavailable","status":"error"}
        200 {"status":"success","data":[{"__name
        200 {"status":"success","data":{"resultT
        200 {"status":"success","data":{"resultT
    "#]].assert_eq(&out);
}

#[tokio::test]
async fn everything_ends_at_its_time() {
    let operator = operator(database(), Limits::default(), Arc::new(Hasty::default()));
    for (path, parameters) in [
        ("/api/v1/query", vec![("query", "topk(1500, m)"), ("time", "60")]),
        ("/api/v1/query", vec![("query", "m"), ("time", "60")]),
        ("/api/v1/series", vec![("match[]", "m")]),
        ("/api/v1/series", vec![("match[]", "{i=~\".+\"}")]),
        ("/api/v1/labels", vec![]),
        ("/api/v1/label/i/values", vec![]),
        ("/api/v1/status/tsdb", vec![]),
    ] {
        let answer = ask(&operator, path, &parameters).await;
        assert!(answer.starts_with("503") && answer.contains("timed out"), "{path}: {answer}");
    }
}

/// The text of an answer is paid for like the values in it: none is longer than its query's budget.
#[tokio::test]
async fn answers_are_part_of_the_budget() {
    for (path, parameters) in [
        ("/api/v1/query", vec![("query", "m"), ("time", "60")]),
        ("/api/v1/query", vec![("query", "m[1m]"), ("time", "60")]),
        ("/api/v1/series", vec![("match[]", "m")]),
        ("/api/v1/label/i/values", vec![]),
        ("/api/v1/status/tsdb", vec![("limit", "10000")]),
    ] {
        let mut outcomes = Vec::new();
        for memory in (15..24).map(|n| 1_u64 << n) {
            let limits = Limits { memory, ..Limits::default() };
            let operator = operator(database(), limits, Arc::new(metrics::scrape::SystemClock));
            let reply = operator.handle(get(path, &parameters)).await;
            let is_answered = reply.status() == 200;
            let body = reply.into_body().collect().await.unwrap().to_bytes();
            match is_answered {
                true => assert!(body.len() as u64 <= memory, "{path}: {} bytes of {memory}", body.len()),
                false => {
                    let text = String::from_utf8_lossy(&body);
                    assert!(text.contains("bytes of memory"), "{path}: {text}");
                }
            }
            outcomes.push(is_answered);
        }
        assert!(outcomes.is_sorted() && !outcomes[0] && outcomes[8], "{path} {parameters:?}: {outcomes:?}");
    }
}

#[tokio::test]
async fn extreme_numbers_are_refused() {
    let operator = operator(database(), Limits::default(), Arc::new(metrics::scrape::SystemClock));
    let (least, most) = ("-292273086-05-16T16:47:06Z", "292277025-08-18T07:12:54.999999999Z");
    let range = |start, end, step| vec![("query", "m"), ("start", start), ("end", end), ("step", step)];
    let at = |query, time| vec![("query", query), ("time", time)];
    let mut out = String::new();
    for parameters in [
        at("m", least),
        at("m", most),
        at("m", "9007199254740"),
        at("m", "9007199254741"),
        at("m", "1e300"),
        at("m offset 300y", "0"),
        at("m offset 290y offset 1s", "0"),
        at("m @ 9e15", "0"),
        at("m[99999999999999999999y]", "0"),
        at("sum_over_time(m[290y:1ms] offset -290y)", most),
        vec![("query", "m"), ("time", "0"), ("lookback_delta", "292471208y")],
        vec![("query", "m"), ("time", "0"), ("lookback_delta", "9e9")],
        range(least, most, "1"),
        range(least, most, "9e9"),
        range(least, "0", "290y"),
        range("0", most, "290y"),
        range("9007199254740", "9007199254741", "1"),
        range("0", "1", "1e300"),
        range("0", "1", "99999999999y"),
    ] {
        let path = if parameters.len() == 4 { "/api/v1/query_range" } else { "/api/v1/query" };
        let answer = ask(&operator, path, &parameters).await;
        out += &format!("{parameters:?}\n  {answer:.170}\n");
    }
    expect![[r#"
        [("query", "m"), ("time", "-292273086-05-16T16:47:06Z")]
          400 {"error":"invalid parameter \"query\": the time -9223372036854775808 ms is out of range","errorType":"bad_data","status":"error"}
        [("query", "m"), ("time", "292277025-08-18T07:12:54.999999999Z")]
          400 {"error":"invalid parameter \"query\": the time 9223372036854775807 ms is out of range","errorType":"bad_data","status":"error"}
        [("query", "m"), ("time", "9007199254740")]
          400 {"error":"invalid parameter \"time\": invalid time value for 'time': cannot parse \"9007199254740\" to a valid timestamp","errorType":"bad_data","status":"error"}
        [("query", "m"), ("time", "9007199254741")]
          400 {"error":"invalid parameter \"time\": invalid time value for 'time': cannot parse \"9007199254741\" to a valid timestamp","errorType":"bad_data","status":"error"}
        [("query", "m"), ("time", "1e300")]
          400 {"error":"invalid parameter \"time\": invalid time value for 'time': cannot parse \"1e300\" to a valid timestamp","errorType":"bad_data","status":"error"}
        [("query", "m offset 300y"), ("time", "0")]
          400 {"error":"invalid parameter \"query\": 1:10: parse error: duration out of range: \"300y\"","errorType":"bad_data","status":"error"}
        [("query", "m offset 290y offset 1s"), ("time", "0")]
          400 {"error":"invalid parameter \"query\": 1:1: parse error: offset may not be set multiple times","errorType":"bad_data","status":"error"}
        [("query", "m @ 9e15"), ("time", "0")]
          400 {"error":"invalid parameter \"query\": 1:5: parse error: timestamp out of bounds for @ modifier: 9e15","errorType":"bad_data","status":"error"}
        [("query", "m[99999999999999999999y]"), ("time", "0")]
          400 {"error":"invalid parameter \"query\": 1:3: parse error: duration out of range: \"99999999999999999999y\"","errorType":"bad_data","status":"error"}
        [("query", "sum_over_time(m[290y:1ms] offset -290y)"), ("time", "292277025-08-18T07:12:54.999999999Z")]
          400 {"error":"invalid parameter \"query\": the time 9223372036854775807 ms is out of range","errorType":"bad_data","status":"error"}
        [("query", "m"), ("time", "0"), ("lookback_delta", "292471208y")]
          400 {"error":"error parsing lookback delta duration: cannot parse \"292471208y\" to a valid duration","errorType":"bad_data","status":"error"}
        [("query", "m"), ("time", "0"), ("lookback_delta", "9e9")]
          200 {"status":"success","data":{"resultType":"vector","result":[{"metric":{"__name__":"m","i":"0","pod":"a"},"value":[0,"0"]},{"metric":{"__name__":"m","i":"1","pod":"a"}
        [("query", "m"), ("start", "-292273086-05-16T16:47:06Z"), ("end", "292277025-08-18T07:12:54.999999999Z"), ("step", "1")]
          400 {"error":"exceeded maximum resolution of 11,000 points per timeseries. Try decreasing the query resolution (?step=XX)","errorType":"bad_data","status":"error"}
        [("query", "m"), ("start", "-292273086-05-16T16:47:06Z"), ("end", "292277025-08-18T07:12:54.999999999Z"), ("step", "9e9")]
          400 {"error":"exceeded maximum resolution of 11,000 points per timeseries. Try decreasing the query resolution (?step=XX)","errorType":"bad_data","status":"error"}
        [("query", "m"), ("start", "-292273086-05-16T16:47:06Z"), ("end", "0"), ("step", "290y")]
          400 {"error":"exceeded maximum resolution of 11,000 points per timeseries. Try decreasing the query resolution (?step=XX)","errorType":"bad_data","status":"error"}
        [("query", "m"), ("start", "0"), ("end", "292277025-08-18T07:12:54.999999999Z"), ("step", "290y")]
          400 {"error":"exceeded maximum resolution of 11,000 points per timeseries. Try decreasing the query resolution (?step=XX)","errorType":"bad_data","status":"error"}
        [("query", "m"), ("start", "9007199254740"), ("end", "9007199254741"), ("step", "1")]
          400 {"error":"invalid parameter \"start\": cannot parse \"9007199254740\" to a valid timestamp","errorType":"bad_data","status":"error"}
        [("query", "m"), ("start", "0"), ("end", "1"), ("step", "1e300")]
          400 {"error":"invalid parameter \"step\": cannot parse \"1e300\" to a valid duration. It overflows int64","errorType":"bad_data","status":"error"}
        [("query", "m"), ("start", "0"), ("end", "1"), ("step", "99999999999y")]
          400 {"error":"invalid parameter \"step\": cannot parse \"99999999999y\" to a valid duration","errorType":"bad_data","status":"error"}
    "#]].assert_eq(&out);
}

/// Whoever does not read long answers cannot fill the memory with them.
#[tokio::test]
async fn unread_answers_are_bounded() {
    let limits = Limits { answers: 192 << 10, ..Limits::default() };
    let operator = operator(database(), limits, Arc::new(metrics::scrape::SystemClock));
    let long = || get("/api/v1/query", &[("query", "m[1m]"), ("time", "60")]);
    let first = operator.handle(long()).await;
    assert_eq!(first.status(), 200);
    let second = shown(operator.handle(long()).await).await;
    assert!(second.starts_with("503") && second.contains("not been read yet"), "{second}");
    let short = ask(&operator, "/api/v1/query", &[("query", "sum(m)"), ("time", "60")]).await;
    assert!(short.starts_with("200"), "{short}");
    drop(first);
    assert_eq!(operator.handle(long()).await.status(), 200);
}

/// The query that ended the process.
#[tokio::test]
async fn a_bomb_is_refused_in_clear_words() {
    let operator = operator(database(), Limits::default(), Arc::new(metrics::scrape::SystemClock));
    let many = "$0".repeat(2500);
    let seed = r#"label_replace(vector(1),"x","aaaaaaaaaa","","")"#.to_string();
    let bomb = (0..3).fold(seed, |inner, _| format!(r#"label_replace({inner},"x","{many}","x",".*")"#));
    let answer = ask(&operator, "/api/v1/query", &[("query", &bomb)]).await;
    expect![[r#"422 {"error":"the query needs more than 65536 bytes in one label value: narrow its selectors, its range or its steps","errorType":"execution","status":"error"}"#]].assert_eq(&answer);
    let body = serde_json::json!({ "query": bomb }).to_string();
    let request = Request::post("/debug/promql/eval").body(Full::new(Bytes::from(body))).unwrap();
    expect![[r#"500 {"detail":"the query needs more than 65536 bytes in one label value: narrow its selectors, its range or its steps","status":500,"title":"Evaluation error","type":"about:blank"}"#]].assert_eq(&shown(operator.handle(request).await).await);
}
