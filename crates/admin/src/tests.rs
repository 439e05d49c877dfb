//! The paths that Prometheus does not have, and what every path has in common.

use std::io::Read as _;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use expect_test::expect;
use http::{Request, StatusCode};
use http_body_util::{BodyExt as _, Full};
use metrics::{Database, Gauge};
use promql::Labels;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::{Answer, Family, Kind, Limits, Operator, Options, listen};

fn database() -> Database {
    let database = Database::default();
    database.ask(&promql::parse("queue + calls_total").unwrap().metric_names(), 0);
    for n in 0..4 {
        let gauge = |name: &str, value| Gauge {
            name: name.into(),
            labels: vec![("function".into(), "fibonacci".into())],
            value,
        };
        let gauges = [gauge("queue", 40.0 + f64::from(n)), gauge("calls_total", 60.0 * f64::from(n))];
        database.feed("ballast", &Labels::empty(), i64::from(n) * 15_000, &gauges).unwrap();
    }
    database
}

fn operator(options: Options) -> Operator {
    let families = || {
        let help = "How long calls waited.";
        let waits = Family::new("wait_seconds", help, Kind::Histogram);
        vec![waits.observed(&[("function", "a\"b")], [(0.1, 2), (1.0, 3)], 4.5, 5)]
    };
    Operator::new(database(), None, vec![Arc::new(families)], options)
}

async fn text(reply: Answer) -> String {
    let status = reply.status().as_u16();
    let kind = reply.headers()["content-type"].to_str().unwrap().to_owned();
    let body = reply.into_body().collect().await.unwrap().to_bytes();
    format!("{status} {kind} {}", String::from_utf8_lossy(&body))
}

async fn ask(operator: &Operator, method: &str, path: &str, body: impl Into<Bytes>) -> String {
    let request = Request::builder().method(method).uri(path).body(Full::new(body.into())).unwrap();
    text(operator.handle(request).await).await
}

#[tokio::test]
async fn queries_are_evaluated_in_the_words_of_the_guide() {
    let operator = operator(Options::default());
    let mut out = String::new();
    for body in [
        r#"{"query": "max_over_time(queue{function=\"fibonacci\"}[30s])"}"#,
        r#"{"query": "queue", "nowUnixSeconds": 20}"#,
        r#"{"query": "sum(increase(calls_total[1m]))", "nowUnixSeconds": null}"#,
        r#"{"query": ""}"#,
        r#"{"query": "  "}"#,
        "{}",
        "[1",
        r#"{"query": "queue", "nowUnixSeconds": "soon"}"#,
        r#"{"query": "queue", "nowUnixSeconds": 1e300}"#,
        r#"{"query": "queue", "nowUnixSeconds": -1}"#,
        r#"{"query": "sum(queue) )"}"#,
        r#"{"query": "queue queue"}"#,
        r#"{"query": "sum("}"#,
        r#"{"query": "some_new_metric"}"#,
        r#"{"query": "queue / 0"}"#,
        r#"{"query": "0 / 0"}"#,
        r#"{"query": "queue[1m]"}"#,
        r#"{"query": "queue + on () group_left () {__name__=~\"queue|calls_total\"}"}"#,
    ] {
        out += &format!("{body}\n  {}\n", ask(&operator, "POST", "/debug/promql/eval", body).await);
    }
    out += &format!("{}\n", ask(&operator, "GET", "/debug/promql/eval", "").await);
    out += &format!("{}\n", ask(&operator, "GET", "/debug/store", "").await);
    out += &format!("{}\n", ask(&operator, "GET", "/debug/nothing", "").await);
    expect![[r#"
        {"query": "max_over_time(queue{function=\"fibonacci\"}[30s])"}
          200 application/json {"value":43.0}
        {"query": "queue", "nowUnixSeconds": 20}
          200 application/json {"value":41.0}
        {"query": "sum(increase(calls_total[1m]))", "nowUnixSeconds": null}
          200 application/json {"value":180.0}
        {"query": ""}
          400 application/json {"error":"query is required"}
        {"query": "  "}
          400 application/json {"error":"query is required"}
        {}
          400 application/json {"error":"query is required"}
        [1
          400 application/json {"error":"the body is not {\"query\": \"…\", \"nowUnixSeconds\": 1732100000}: invalid type: integer `1`, expected a string at line 1 column 2"}
        {"query": "queue", "nowUnixSeconds": "soon"}
          400 application/json {"error":"the body is not {\"query\": \"…\", \"nowUnixSeconds\": 1732100000}: invalid type: string \"soon\", expected f64 at line 1 column 43"}
        {"query": "queue", "nowUnixSeconds": 1e300}
          400 application/json {"error":"nowUnixSeconds is 1e300: use seconds since 1970, before the year 10000"}
        {"query": "queue", "nowUnixSeconds": -1}
          400 application/json {"error":"nowUnixSeconds is -1e0: use seconds since 1970, before the year 10000"}
        {"query": "sum(queue) )"}
          400 application/json {"error":"Unexpected trailing characters in query"}
        {"query": "queue queue"}
          400 application/json {"error":"Unexpected trailing characters in query"}
        {"query": "sum("}
          400 application/json {"error":"cannot parse the query: 1:5: unexpected end of input, expected an expression"}
        {"query": "some_new_metric"}
          400 application/json {"error":"PromQL result is NaN or Infinity (probably no data or division by zero)."}
        {"query": "queue / 0"}
          400 application/json {"error":"PromQL result is NaN or Infinity (probably no data or division by zero)."}
        {"query": "0 / 0"}
          400 application/json {"error":"PromQL result is NaN or Infinity (probably no data or division by zero)."}
        {"query": "queue[1m]"}
          400 application/json {"error":"queue[1m] gives no number: end it as a scalar or an instant vector"}
        {"query": "queue + on () group_left () {__name__=~\"queue|calls_total\"}"}
          500 application/problem+json {"detail":"found duplicate series for the match group {} on the right hand-side of the operation: [{__name__=\"calls_total\", function=\"fibonacci\"}, {__name__=\"queue\", function=\"fibonacci\"}];many-to-many matching not allowed: matching labels must be unique on one side","status":500,"title":"Evaluation error","type":"about:blank"}
        405 application/json {"error":"use POST"}
        200 application/json {"requestedMetricNames":["calls_total","queue","some_new_metric"],"timestampBuckets":4,"seriesCount":2,"totalPoints":8}
        404 application/json {"error":"there is nothing at /debug/nothing"}
    "#]].assert_eq(&out);
}

#[tokio::test]
async fn figures_are_shown_as_text() {
    let operator = operator(Options::default());
    drop(ask(&operator, "GET", "/api/v1/query?query=queue&time=45", "").await);
    expect![[r#"
        200 text/plain; version=0.0.4; charset=utf-8 # HELP ballast_queries_total Queries over HTTP by how they ended.
        # TYPE ballast_queries_total counter
        ballast_queries_total{outcome="answered"} 1
        ballast_queries_total{outcome="failed"} 0
        ballast_queries_total{outcome="cut_off"} 0
        ballast_queries_total{outcome="turned_away"} 0
        # HELP ballast_store_duplicate_samples_total Samples of a series that its scrape had brought already.
        # TYPE ballast_store_duplicate_samples_total counter
        ballast_store_duplicate_samples_total 0
        # HELP ballast_store_evicted_series_total Ended series that made room before they expired.
        # TYPE ballast_store_evicted_series_total counter
        ballast_store_evicted_series_total 0
        # HELP ballast_store_points Samples in the metric store.
        # TYPE ballast_store_points gauge
        ballast_store_points 8
        # HELP ballast_store_refused_series_total New series that found the store full.
        # TYPE ballast_store_refused_series_total counter
        ballast_store_refused_series_total 0
        # HELP ballast_store_series Series with samples in the metric store.
        # TYPE ballast_store_series gauge
        ballast_store_series 2
        # HELP wait_seconds How long calls waited.
        # TYPE wait_seconds histogram
        wait_seconds_bucket{function="a\"b",le="0.1"} 2
        wait_seconds_bucket{function="a\"b",le="1"} 3
        wait_seconds_bucket{function="a\"b",le="+Inf"} 5
        wait_seconds_sum{function="a\"b"} 4.5
        wait_seconds_count{function="a\"b"} 5
    "#]].assert_eq(&ask(&operator, "GET", "/metrics", "").await);
}

#[tokio::test]
async fn a_token_is_asked_for_where_there_is_one() {
    let guarded = operator(Options { token: Some("secret".into()), ..Options::default() });
    let ask = async |operator: &Operator, authorization: &str| {
        let request = Request::get("/debug/store").header("authorization", authorization);
        operator.handle(request.body(Full::<Bytes>::default()).unwrap()).await.status()
    };
    assert_eq!(ask(&guarded, "Bearer secret").await, StatusCode::OK);
    for wrong in ["", "Bearer ", "Bearer secre", "Bearer secrets", "Basic secret", "secret"] {
        assert_eq!(ask(&guarded, wrong).await, StatusCode::UNAUTHORIZED, "{wrong:?}");
    }
    assert_eq!(ask(&guarded.without_token(), "").await, StatusCode::OK);
}

#[tokio::test]
async fn costly_requests_are_cut_off() {
    let limits = Limits { samples: 100, body: 200, ..Limits::default() };
    let stingy = operator(Options { limits, ..Options::default() });
    let range = "/api/v1/query_range?query=queue&start=0&end=1000&step=1";
    let hasty = operator(Options {
        limits: Limits { time: Duration::ZERO, ..Limits::default() },
        ..Options::default()
    });
    let mut out = String::new();
    for answer in [
        ask(&stingy, "GET", range, "").await,
        ask(&stingy, "POST", "/debug/promql/eval", r#"{"query": "count_over_time(queue[1h:1s])"}"#).await,
        ask(&stingy, "POST", "/debug/promql/eval", "x".repeat(300)).await,
        ask(&hasty, "GET", range, "").await,
        ask(&operator(Options::default()), "GET", &format!("{range}&timeout=0"), "").await,
    ] {
        out += &format!("{answer}\n");
    }
    expect![[r#"
        422 application/json {"error":"the query needs more than 100 samples: narrow its selectors, its range or its steps","errorType":"execution","status":"error"}
        500 application/problem+json {"detail":"the query needs more than 100 samples: narrow its selectors, its range or its steps","status":500,"title":"Evaluation error","type":"about:blank"}
        413 application/json {"error":"the body is longer than 200 bytes"}
        503 application/json {"error":"query timed out in expression evaluation","errorType":"timeout","status":"error"}
        503 application/json {"error":"query timed out in expression evaluation","errorType":"timeout","status":"error"}
    "#]].assert_eq(&out);
}

/// Of several that ask at once, each gets its answer, also when there is but one place.
#[tokio::test]
async fn queries_wait_for_their_turn() {
    let limits = Limits { concurrency: 1, ..Limits::default() };
    let operator = operator(Options { limits, ..Options::default() });
    let asked = (0..20).map(|_| ask(&operator, "GET", "/api/v1/query?query=1", ""));
    for answer in futures::future::join_all(asked).await {
        assert!(answer.starts_with("200 "), "{answer}");
    }
}

#[tokio::test]
async fn it_listens_until_it_is_told_to_stop() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let shutdown = async move { drop(stopped.await) };
    let server = tokio::spawn(listen(listener, operator(Options::default()), shutdown));
    let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
    stream.write_all(b"GET /debug/store HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 OK") && answer.contains("\"seriesCount\":2"), "{answer}");
    drop(stop);
    server.await.unwrap();
    assert!(tokio::net::TcpStream::connect(address).await.is_err());
}

#[tokio::test]
async fn long_answers_are_compressed_for_those_who_ask() {
    let operator = operator(Options::default());
    let ask = async |path: &str, accepted: &str| {
        let request = Request::builder().uri(path).header("accept-encoding", accepted);
        let reply = operator.handle(request.body(Full::new(Bytes::new())).unwrap()).await;
        let is_compressed = reply.headers().get("content-encoding").is_some_and(|coding| coding == "gzip");
        assert_eq!(is_compressed, reply.headers().contains_key("vary"));
        (is_compressed, reply.into_body().collect().await.unwrap().to_bytes())
    };
    let long = "/api/v1/query_range?query=queue&start=0&end=100&step=1";
    let (is_compressed, plain) = ask(long, "identity").await;
    assert!(!is_compressed && plain.len() > 1_024);
    for accepted in ["gzip", "deflate, GZIP;q=0.5", "br, *"] {
        let (is_compressed, short) = ask(long, accepted).await;
        assert!(is_compressed && short.len() < plain.len(), "{accepted}");
        let mut read = Vec::new();
        flate2::read::GzDecoder::new(&*short).read_to_end(&mut read).unwrap();
        assert_eq!(read, plain, "{accepted}");
    }
    for accepted in ["", "br", "gzip;q=0", "*;q=1, gzip; q=0.0"] {
        assert_eq!(ask(long, accepted).await, (false, plain.clone()), "{accepted}");
    }
    assert!(!ask("/api/v1/query?query=1", "gzip").await.0, "a short answer stays as it is");
}

/// Who may not ask is told so before anything else, also by what other parts of the program answer.
#[tokio::test]
async fn guards_and_other_parts() {
    let guarded = operator(Options { token: Some("secret".to_owned()), ..Options::default() })
        .with_pages(Arc::new(|head| {
            (head.uri.path() == "/ui/").then(|| crate::reply::text(StatusCode::OK, "a page"))
        }))
        .with_guard(Arc::new(|head| match head.headers.contains_key("origin") {
            true => Err("no pages"),
            false => Ok(()),
        }))
        .with_more(Arc::new(|head| {
            let is_ours = head.uri.path() == "/status-functions";
            is_ours.then(|| -> std::pin::Pin<Box<dyn Future<Output = Answer> + Send>> {
                Box::pin(async { crate::reply::boxed(crate::reply::text(http::StatusCode::OK, "all")) })
            })
        }));
    let ask = async |path: &str, name: &str, value: &str| {
        let request = Request::builder().uri(path).header(name, value);
        guarded.handle(request.body(Full::<Bytes>::default()).unwrap()).await.status().as_u16()
    };
    for path in ["/status-functions", "/metrics"] {
        assert_eq!(ask(path, "authorization", "Bearer secret").await, 200, "{path}");
        assert_eq!(ask(path, "authorization", "Bearer guess").await, 401, "{path}");
        assert_eq!(ask(path, "origin", "http://evil.example").await, 403, "{path}");
    }
    assert_eq!(ask("/nothing", "authorization", "Bearer secret").await, 404);
    assert_eq!(ask("/ui/", "accept", "text/html").await, 200, "a browser has no token for a page");
    assert_eq!(ask("/ui/", "origin", "http://evil.example").await, 403);
}

/// As many as there are places for; a client that has gone leaves its place to the next.
#[tokio::test]
async fn decisions_are_followed_by_so_many_clients_and_no_more() {
    let event = || ("decision", serde_json::json!({"desired": 3}));
    let decisions = crate::Feed {
        tell: Arc::new(|_| serde_json::json!([{"desired": 3}])),
        follow: Arc::new(move |filters| {
            assert_eq!(filters, [("name".to_owned(), "fib".to_owned())]);
            Box::pin(futures::stream::iter([event(), event()]))
        }),
    };
    let limits = Limits { followers: 1, ..Limits::default() };
    let operator = operator(Options { limits, decisions: Some(decisions), ..Options::default() });
    let follow = || {
        let request = Request::get("/api/v1/decisions?name=fib").header("accept", "text/event-stream");
        operator.handle(request.body(Full::new(Bytes::new())).unwrap())
    };
    let first = follow().await;
    let refused = text(follow().await).await;
    assert!(refused.starts_with("503 application/json"), "{refused}");
    assert_eq!(
        text(first).await,
        "200 text/event-stream event: decision\ndata: {\"desired\":3}\n\nevent: decision\ndata: {\"desired\":3}\n\n"
    );
    assert_eq!(follow().await.status(), StatusCode::OK);
    assert_eq!(
        ask(&operator, "GET", "/api/v1/decisions", "").await,
        "200 application/json [{\"desired\":3}]"
    );
}
