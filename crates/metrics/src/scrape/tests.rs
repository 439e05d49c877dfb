use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};

use expect_test::expect;
use futures::future::{BoxFuture, FutureExt};
use promql::{Labels, Value};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;

use super::*;
use crate::store;

/// What a target does once it was asked.
#[derive(Debug, Clone, Copy)]
enum Behaviour {
    Answers(&'static str),
    /// A body of its own for every request.
    Serves(fn(usize) -> String),
    EndlessBody,
    EndlessHeaders,
    OneByteAtATime,
    Silence,
    HangsUp,
}

async fn serve(behaviour: Behaviour) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let n_requests = Arc::new(AtomicUsize::new(0));
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(answer(stream, behaviour, n_requests.clone()));
        }
    });
    address
}

/// Ends with the first write that fails: the other side has hung up.
async fn answer(
    mut stream: TcpStream,
    behaviour: Behaviour,
    n_requests: Arc<AtomicUsize>,
) -> std::io::Result<()> {
    let mut asked = [0; 4096];
    while stream.read(&mut asked).await? > 0 {
        let n = n_requests.fetch_add(1, Ordering::SeqCst);
        match behaviour {
            Behaviour::Answers(text) => stream.write_all(text.as_bytes()).await?,
            Behaviour::Serves(body) => {
                let body = body(n);
                let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", body.len());
                stream.write_all((head + &body).as_bytes()).await?;
            }
            Behaviour::EndlessBody => {
                stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await?;
                loop {
                    stream.write_all(&b"a 1\n".repeat(10_000)).await?;
                }
            }
            Behaviour::EndlessHeaders => {
                stream.write_all(b"HTTP/1.1 200 OK\r\n").await?;
                loop {
                    stream.write_all(&b"x-more: yes\r\n".repeat(1_000)).await?;
                }
            }
            Behaviour::OneByteAtATime => {
                stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 1000000\r\n\r\n").await?;
                loop {
                    stream.write_all(b"a").await?;
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
            }
            Behaviour::Silence => std::future::pending().await,
            Behaviour::HangsUp => return Ok(()),
        }
    }
    Ok(())
}

fn target(address: SocketAddr, path: &str) -> Target {
    Target::new(address, path, &Labels::from_pairs([("pod", "p")]), "f")
}

#[tokio::test]
async fn hostile_targets_are_cut_off() {
    use Behaviour::*;
    let patient = Duration::from_secs(600);
    let hasty = Duration::from_millis(100);
    let cases = [
        (Answers("HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\na 1\n"), patient),
        (
            Answers("HTTP/1.1 302 Found\r\nlocation: http://169.254.169.254/x\r\ncontent-length: 0\r\n\r\n"),
            patient,
        ),
        (Answers("HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\n\r\n"), patient),
        (Answers("HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 0\r\n\r\n"), patient),
        (Answers("HTTP/1.1 200 OK\r\ncontent-length: 9000000000\r\n\r\n"), patient),
        (EndlessBody, patient),
        (EndlessHeaders, patient),
        (OneByteAtATime, hasty),
        (Silence, hasty),
        (HangsUp, patient),
    ];
    let client = Client::new();
    let mut out = String::new();
    for (behaviour, timeout) in cases {
        let address = serve(behaviour).await;
        let limits = FetchLimits { body: 1 << 20, timeout };
        let result = match client.fetch(&target(address, "/metrics"), limits).await {
            Ok(fetched) => format!("{:?}", String::from_utf8_lossy(&fetched.body)),
            // The words behind a broken connection are those of the operating system.
            Err(Failure { reason: Reason::Connection, .. }) => "connection".into(),
            Err(failure) => failure.to_string(),
        };
        let name = format!("{behaviour:?}");
        out += &format!("{:.50} => {result}\n", name);
    }
    expect![[r#"
        Answers("HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\ => "a 1\n"
        Answers("HTTP/1.1 302 Found\r\nlocation: http://16 => redirect: 302 Found to "http://169.254.169.254/x": set prometheus.io/path to where the metrics are
        Answers("HTTP/1.1 503 Service Unavailable\r\nconte => http_status: 503 Service Unavailable
        Answers("HTTP/1.1 200 OK\r\ncontent-encoding: gzip => encoding: content-encoding "gzip" was not asked for
        Answers("HTTP/1.1 200 OK\r\ncontent-length: 900000 => response_too_large: the body is longer than 1048576 bytes
        EndlessBody => response_too_large: the body is longer than 1048576 bytes
        EndlessHeaders => connection
        OneByteAtATime => timeout: no complete answer within 100ms
        Silence => timeout: no complete answer within 100ms
        HangsUp => connection
    "#]].assert_eq(&out);
    let bad_path = target("127.0.0.1:1".parse().unwrap(), "/a b");
    let failure = client.fetch(&bad_path, FetchLimits { body: 1, timeout: patient }).await.unwrap_err();
    assert_eq!(failure.reason, Reason::InvalidUrl);
}

/// As pods do it: a certificate signed by itself, for a name that is not the pod's address.
async fn serve_tls(body: &'static str) -> SocketAddr {
    let key = rcgen::generate_simple_self_signed(["pod".to_string()]).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![key.cert.der().clone()], key.signing_key.serialize_der().try_into().unwrap())
        .unwrap();
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                let mut stream = acceptor.accept(stream).await?;
                let mut asked = [0; 4096];
                while stream.read(&mut asked).await? > 0 {
                    let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", body.len());
                    stream.write_all((head + body).as_bytes()).await?;
                }
                std::io::Result::Ok(())
            });
        }
    });
    address
}

#[tokio::test]
async fn pods_may_serve_https_with_a_certificate_of_their_own() {
    let address = serve_tls("a 1\n").await;
    let limits = FetchLimits { body: 1 << 20, timeout: Duration::from_secs(600) };
    let client = Client::new();
    let secure = target(address, "/metrics").over(Scheme::Https);
    assert_eq!(secure.url(), format!("https://{address}/metrics"));
    for _ in 0..2 {
        assert_eq!(client.fetch(&secure, limits).await.unwrap().body, b"a 1\n");
    }
    let plain = client.fetch(&target(address, "/metrics"), limits).await.unwrap_err();
    assert_eq!(plain.reason, Reason::Connection, "{plain}");
    let to_plain =
        target(serve(Behaviour::Answers("HTTP/1.1 200 OK\r\n\r\n")).await, "/").over(Scheme::Https);
    let failure = client.fetch(&to_plain, limits).await.unwrap_err();
    assert_eq!(failure.reason, Reason::Connection, "{failure}");
}

/// A clock that stands until it is moved.
struct ManualClock(watch::Sender<Millis>);

impl Clock for ManualClock {
    fn now(&self) -> Millis {
        *self.0.borrow()
    }

    fn sleep_until(&self, time: Millis) -> BoxFuture<'static, ()> {
        let mut now = self.0.subscribe();
        async move {
            if now.wait_for(|now| *now >= time).await.is_err() {
                std::future::pending().await
            }
        }
        .boxed()
    }
}

struct Scene {
    database: Database,
    clock: Arc<ManualClock>,
    handle: Handle,
    done: watch::Receiver<u64>,
    _stop: oneshot::Sender<()>,
}

impl Scene {
    fn start(query: &str) -> Self {
        let database = Database::new(store::Options::default());
        database.ask(&promql::parse(query).unwrap().metric_names(), 0);
        let clock = Arc::new(ManualClock(watch::Sender::new(0)));
        let options = Options { loopback: true, timeout: Duration::from_secs(600), ..Options::default() };
        let (scraper, handle) = Scraper::new(database.clone(), options, clock.clone());
        let (stop, stopped) = oneshot::channel();
        tokio::spawn(scraper.run(stopped.map(drop)));
        let done = handle.done();
        Self { database, clock, handle, done, _stop: stop }
    }

    /// Gives every target its turn.
    async fn pass(&mut self, n_targets: u64) {
        let before = *self.done.borrow();
        self.clock.0.send_modify(|now| *now += 5_000);
        self.done.wait_for(|now| *now >= before + n_targets).await.unwrap();
    }

    fn ask(&self, query: &str) -> Vec<f64> {
        let result =
            promql::query_instant(query, &*self.database.view(), self.clock.now(), Default::default());
        match result.unwrap().value {
            Value::Vector(samples) => samples.into_iter().map(|s| s.point.value).collect(),
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn targets_are_scraped_fail_alone_and_end() {
    let good = target(serve(Behaviour::Serves(|n| format!("a {n}\nb 1\n"))).await, "/");
    let flaky = |n: usize| if n == 1 { "a oops\n".to_string() } else { "a 100\n".to_string() };
    let flaky = target(serve(Behaviour::Serves(flaky)).await, "/");
    let metadata = target("169.254.169.254:80".parse().unwrap(), "/");
    let mut scene = Scene::start("sum(a) + up");

    let all = [good.clone(), flaky.clone(), metadata.clone()];
    let mut done = scene.handle.done();
    scene.handle.set_targets(all.clone());
    done.wait_for(|n| *n >= 1).await.unwrap();
    scene.pass(3).await;
    assert_eq!(scene.ask("sum(a)"), [100.0]);
    assert_eq!(scene.ask("sum(up)"), [2.0]);
    scene.pass(3).await;
    assert_eq!(scene.ask("sum(a)"), [1.0], "the broken body ended its series");
    assert_eq!(scene.ask("sum(up)"), [1.0]);
    scene.pass(3).await;
    assert_eq!(scene.ask("sum(a)"), [102.0]);
    assert!(scene.ask("b").is_empty(), "nobody asked for it");

    let errors: Vec<String> = scene.handle.status().into_iter().filter_map(|s| s.error).collect();
    expect![[r#"
        [
            "address_refused: 169.254.169.254 is link-local (metadata services live there), which is never scraped",
        ]"#]].assert_eq(&format!("{errors:#?}"));
    let counted = |name: &str, label: &str| -> f64 {
        let gauges = scene.handle.gauges();
        let matching =
            gauges.iter().filter(|g| g.name.ends_with(name) && g.labels.iter().any(|(_, v)| v == label));
        matching.map(|g| g.value).sum()
    };
    assert_eq!(counted("_failures_total", "parse"), 1.0);
    assert_eq!(counted("_failures_total", "address_refused"), 3.0);
    assert_eq!(counted("_duration_seconds_count", "f"), 9.0);
    assert_eq!(counted("_last_success_unixtime", "f"), 15.0);

    scene.clock.0.send_modify(|now| *now += 1);
    let before = *done.borrow_and_update();
    scene.handle.set_targets([flaky]);
    done.wait_for(|n| *n > before).await.unwrap();
    assert_eq!(scene.ask("sum(a)"), [100.0], "a target that is gone counts no more");
    assert_eq!(scene.handle.status().len(), 1);
}

#[tokio::test]
async fn own_gauges_need_no_scrape() {
    let scene = Scene::start("slimfaas_function_queue_ready_items");
    let own = Labels::from_pairs([("instance", "ballast")]);
    let gauge = |name: &str, value| Gauge {
        name: name.into(),
        labels: vec![("function".into(), "fibonacci".into())],
        value,
    };
    let gauges = [gauge("slimfaas_function_queue_ready_items", 7.0), gauge("unwanted", 1.0)];
    assert_eq!(scene.database.feed("ballast", &own, 1_000, &gauges), Ok(1));
    scene.clock.0.send_modify(|now| *now += 2_000);
    assert_eq!(
        scene.ask(r#"max_over_time(slimfaas_function_queue_ready_items{function="fibonacci"}[30s])"#),
        [7.0]
    );
    expect![[r#"
        {
          "requestedMetricNames": [
            "slimfaas_function_queue_ready_items"
          ],
          "timestampBuckets": 1,
          "seriesCount": 1,
          "totalPoints": 1
        }"#]]
    .assert_eq(&serde_json::to_string_pretty(&scene.database.summary()).unwrap());
}

#[tokio::test]
async fn names_are_forgotten_also_when_nothing_is_scraped() {
    let scene = Scene::start("a");
    assert!(scene.database.wanted().contains("a"));
    // The scraper starts at any of these minutes; it is the later ones that it must notice.
    for _ in 0..40 {
        scene.clock.0.send_modify(|now| *now += 60_000);
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
    }
    assert!(scene.database.wanted().is_empty());
}
