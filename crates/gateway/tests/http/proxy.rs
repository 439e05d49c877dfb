use std::time::Duration;

use bytes::Bytes;
use gateway::{Hooks, Options};
use http::{HeaderMap, Request, Response, StatusCode};
use http_body::Frame;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::Incoming;
use hyper_util::{client::legacy::Client, rt::TokioExecutor};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    sync::mpsc,
};

use crate::support::*;

/// A body whose frames a test sends one by one.
fn body_of(frames: mpsc::UnboundedReceiver<Frame<Bytes>>) -> PodBody {
    let frames = futures::stream::unfold(frames, |mut frames| async move {
        frames.recv().await.map(|frame| (Ok::<_, std::io::Error>(frame), frames))
    });
    BodyExt::boxed(StreamBody::new(Box::pin(frames)))
}

#[tokio::test]
async fn heads_are_rewritten_on_their_way() {
    let rig = Rig::new().await;
    let pod = Pod::echo("pod").await;
    rig.functions([function("fib", &[&pod])]);
    let request = rig
        .request("POST", "/function/fib/a//b%20c/;d?q=1&q=%2F..%2F&&x")
        .header("connection", "x-private, keep-alive")
        .header("x-private", "1")
        .header("keep-alive", "timeout=5")
        .header("proxy-authorization", "secret")
        .header("proxy-connection", "close")
        .header("te", "trailers, deflate")
        .header("expect", "100-continue")
        .header("x-forwarded-for", "6.6.6.6")
        .header("x-forwarded-host", "evil.example")
        .header("x-forwarded-proto", "https")
        .header("forwarded", "for=6.6.6.6")
        .header("x-request-id", "given-1")
        .header("x-kept", "a")
        .header("x-kept", "b")
        .header("host", "shop.example");
    let answer = rig.send(request.body(Full::from("body")).unwrap()).await;
    assert_eq!(answer.status(), 200);
    assert!(text(&answer).starts_with("pod\nPOST /a//b%20c/;d?q=1&q=%2F..%2F&&x\n"), "{}", text(&answer));
    assert!(text(&answer).ends_with("\n\nbody"));
    for (name, value) in [
        ("host", Some(pod.address.to_string())),
        ("x-forwarded-for", Some("127.0.0.1".to_owned())),
        ("x-forwarded-host", Some("shop.example".to_owned())),
        ("x-forwarded-proto", Some("http".to_owned())),
        ("x-request-id", Some("given-1".to_owned())),
        ("x-kept", Some("a|b".to_owned())),
        ("te", Some("trailers".to_owned())),
        ("content-length", Some("4".to_owned())),
        ("forwarded", None),
        ("x-private", None),
        ("connection", None),
        ("keep-alive", None),
        ("proxy-authorization", None),
        ("proxy-connection", None),
        ("expect", None),
        ("transfer-encoding", None),
    ] {
        assert_eq!(echoed(&answer, name), value, "{name}");
    }
    assert_eq!(header_of(&answer, "x-request-id"), Some("given-1"));
    let unnamed = rig.get("/function/fib").await;
    assert_eq!(echoed(&unnamed, "x-request-id").as_deref(), header_of(&unnamed, "x-request-id"));
    assert_eq!(echoed(&unnamed, "x-request-id").unwrap().len(), 32);
}

#[tokio::test]
async fn trusted_proxies_speak_for_others() {
    let options = Options { trusted_proxies: vec!["127.0.0.0/8".parse().unwrap()], ..Options::default() };
    let rig = Rig::with(options, Hooks::default()).await;
    let pod = Pod::echo("pod").await;
    rig.functions([function("fib", &[&pod])]);
    let request = rig
        .request("GET", "/function/fib")
        .header("x-forwarded-for", "6.6.6.6")
        .header("x-forwarded-host", "shop.example")
        .header("x-forwarded-proto", "https");
    let answer = rig.send(request.body(Full::default()).unwrap()).await;
    assert_eq!(echoed(&answer, "x-forwarded-for").as_deref(), Some("6.6.6.6|127.0.0.1"));
    assert_eq!(echoed(&answer, "x-forwarded-host").as_deref(), Some("shop.example"));
    assert_eq!(echoed(&answer, "x-forwarded-proto").as_deref(), Some("https"));
}

/// What a server may believe more than the path that was judged, or than the address the call came from.
#[tokio::test]
async fn what_a_stranger_says_of_itself_is_dropped() {
    let names = [
        "x-original-url",
        "x-original-host",
        "x-rewrite-url",
        "x-real-ip",
        "x-forwarded-port",
        "x-forwarded-prefix",
        "x-forwarded-anything",
        "forwarded",
        "slimfaas-element-id",
        "slimfaas-last-try",
        "x_real_ip",
        "x_forwarded_for",
        "slimfaas_try_number",
    ];
    let of_proxies =
        ["x-real-ip", "x-forwarded-port", "x-forwarded-prefix", "x-forwarded-anything", "forwarded"];
    for is_proxy in [false, true] {
        let proxies = if is_proxy { vec!["127.0.0.0/8".parse().unwrap()] } else { Vec::new() };
        let rig =
            Rig::with(Options { trusted_proxies: proxies, ..Options::default() }, Hooks::default()).await;
        let pod = Pod::echo("pod").await;
        rig.functions([function("fib", &[&pod])]);
        let request = rig.request("GET", "/function/fib").header("x-mine", "kept").header("slim", "kept");
        let request = names.iter().fold(request, |request, name| request.header(*name, "6.6.6.6"));
        let answer = rig.send(request.body(Full::default()).unwrap()).await;
        for name in ["x-mine", "slim"] {
            assert_eq!(echoed(&answer, name).as_deref(), Some("kept"), "{name}");
        }
        for name in names {
            let passes =
                is_proxy && (of_proxies.contains(&name) || ["x_real_ip", "x_forwarded_for"].contains(&name));
            assert_eq!(echoed(&answer, name).is_some(), passes, "{name}, proxy: {is_proxy}");
        }
    }
}

/// A frame of one byte costs more than a byte: what is kept of a call that waits is one buffer, and counted as such.
#[tokio::test]
async fn tiny_chunks_are_kept_together() {
    let rig = Rig::with(Options { body_memory: 1 << 20, ..visible() }, Hooks::default()).await;
    let pod = Pod::echo("pod").await;
    rig.functions([function("fib", &[])]);
    let mut stream = rig.connect().await;
    stream
        .write_all(b"POST /function/fib HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n")
        .await
        .unwrap();
    for _ in 0..10 {
        stream.write_all(&b"1\r\nx\r\n".repeat(1000)).await.unwrap();
    }
    let taken = || (1 << 20) - rig.gateway.body_memory_left();
    until("all is read", || taken() >= 10_000).await;
    assert!(taken() <= 20_000, "{} bytes are taken by 10,000", taken());
    stream.write_all(b"0\r\nx-end: yes\r\n\r\n").await.unwrap();
    rig.functions([function("fib", &[&pod])]);
    let mut answer = String::new();
    patient("the answer", async {
        while !answer.contains(&"x".repeat(10_000)) {
            let mut buffer = [0; 4096];
            let n = stream.read(&mut buffer).await.unwrap();
            assert!(n > 0, "{answer}");
            answer.push_str(&String::from_utf8_lossy(&buffer[..n]).replace("\r\n", ""));
        }
    })
    .await;
    until("the room is free again", || taken() == 0).await;
}

#[tokio::test]
async fn answers_are_passed_on_as_they_are() {
    let rig = Rig::new().await;
    let pod = Pod::start(|request: Request<Incoming>| async move {
        let status = request.uri().path()[1..].parse().unwrap();
        let mut answer =
            whole(StatusCode::from_u16(status).unwrap(), if status == 204 { "" } else { "text" });
        let headers = answer.headers_mut();
        headers.insert("connection", "x-hop".parse().unwrap());
        headers.insert("x-hop", "1".parse().unwrap());
        headers.insert("proxy-authenticate", "Basic".parse().unwrap());
        headers.append("set-cookie", "a=1".parse().unwrap());
        headers.append("set-cookie", "b=2".parse().unwrap());
        answer
    })
    .await;
    rig.functions([function("fib", &[&pod])]);
    for status in [200, 201, 204, 206, 301, 304, 400, 401, 404, 418, 429, 500, 503, 599] {
        let answer = rig.get(&format!("/function/fib/{status}")).await;
        assert_eq!(answer.status(), status);
        assert_eq!(header_of(&answer, "ballast-error"), None, "it is the function's own");
        for gone in ["connection", "x-hop", "proxy-authenticate"] {
            assert_eq!(header_of(&answer, gone), None, "{status} {gone}");
        }
        assert_eq!(answer.headers().get_all("set-cookie").iter().count(), 2);
        assert_eq!(text(&answer), if status == 204 || status == 304 { "" } else { "text" });
    }
    let head = rig.send(rig.request("HEAD", "/function/fib/200").body(Full::default()).unwrap()).await;
    assert_eq!(
        (head.status().as_u16(), header_of(&head, "content-length"), text(&head).len()),
        (200, Some("4"), 0)
    );
}

/// Each side sees a part before the other has sent the next.
#[tokio::test]
async fn bodies_stream_both_ways_at_once() {
    let rig = Rig::new().await;
    let pod = Pod::start(|request: Request<Incoming>| async move {
        let body = request.into_body().map_err(std::io::Error::other).boxed();
        Response::new(body)
    })
    .await;
    rig.functions([function("echo", &[&pod])]);
    let mut client = BufReader::new(rig.connect().await);
    let head = "POST /function/echo HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n";
    client.write_all(head.as_bytes()).await.unwrap();
    patient("all parts", async {
        for part in ["one", "two", "three"] {
            let chunk = format!("{:x}\r\n{part}\r\n", part.len());
            client.write_all(chunk.as_bytes()).await.unwrap();
            let mut line = String::new();
            while line.trim() != part {
                line.clear();
                assert_ne!(client.read_line(&mut line).await.unwrap(), 0, "closed before {part}");
            }
        }
        client.write_all(b"0\r\n\r\n").await.unwrap();
        let mut rest = String::new();
        while !rest.ends_with("0\r\n\r\n") {
            assert_ne!(client.read_line(&mut rest).await.unwrap(), 0);
        }
    })
    .await;
}

#[tokio::test]
async fn events_of_a_function_come_one_by_one() {
    let rig = Rig::new().await;
    let (send, frames) = mpsc::unbounded_channel();
    let frames = std::sync::Mutex::new(Some(frames));
    let pod = Pod::start(move |_| {
        let frames = frames.lock().unwrap().take().unwrap();
        async move {
            Response::builder().header("content-type", "text/event-stream").body(body_of(frames)).unwrap()
        }
    })
    .await;
    rig.functions([function("sse", &[&pod])]);
    let mut client = BufReader::new(rig.connect().await);
    client.write_all(b"GET /function/sse HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    patient("all events", async {
        for n in 0..3 {
            let event = format!("data: {n}\n\n");
            send.send(Frame::data(event.clone().into())).unwrap();
            let mut line = String::new();
            while line != format!("data: {n}\n") {
                line.clear();
                assert_ne!(client.read_line(&mut line).await.unwrap(), 0, "closed before {n}");
            }
        }
    })
    .await;
    assert_eq!(rig.activity.of("sse").active, 1, "the call lasts as long as its answer");
    drop(client);
    until("the call to end", || rig.activity.of("sse").active == 0).await;
    until("the pod to be told", || send.is_closed()).await;
}

#[tokio::test]
async fn a_client_that_leaves_cancels_its_call() {
    let rig = Rig::new().await;
    let (alive, mut gone) = mpsc::unbounded_channel::<()>();
    let pod = Pod::start(move |_| {
        let alive = alive.clone();
        async move {
            let _dropped_when_cancelled = Ended(alive);
            std::future::pending().await
        }
    })
    .await;
    rig.functions([function("slow", &[&pod])]);
    let mut client = rig.connect().await;
    client.write_all(b"GET /function/slow HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    until("the call to arrive", || pod.calls() == 1).await;
    drop(client);
    patient("the pod to be told", gone.recv()).await.unwrap();
    until("the call to end", || rig.activity.of("slow").active == 0).await;
}

struct Ended(mpsc::UnboundedSender<()>);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.send(());
    }
}

#[tokio::test]
async fn trailers_are_passed_on_both_ways() {
    let rig = Rig::new().await;
    let pod = Pod::start(|request: Request<Incoming>| async move {
        let body = request.into_body().collect().await.unwrap();
        let asked = body.trailers().and_then(|trailers| trailers.get("x-asked")).cloned();
        let mut trailers = HeaderMap::new();
        trailers.insert("x-answered", asked.unwrap_or("nothing".parse().unwrap()));
        let (send, frames) = mpsc::unbounded_channel();
        send.send(Frame::data("text".into())).unwrap();
        send.send(Frame::trailers(trailers)).unwrap();
        Response::builder().header("trailer", "x-answered").body(body_of(frames)).unwrap()
    })
    .await;
    rig.functions([function("fib", &[&pod])]);
    let answer = rig
        .raw(
            "POST /function/fib HTTP/1.1\r\nhost: x\r\nconnection: close, te\r\nte: trailers\r\ntrailer: x-asked\r\n\
             transfer-encoding: chunked\r\n\r\n4\r\nbody\r\n0\r\nx-asked: yes\r\n\r\n",
        )
        .await;
    assert!(answer.ends_with("4\r\ntext\r\n0\r\nx-answered: yes\r\n\r\n"), "{answer}");
}

#[tokio::test]
async fn http2_without_tls_is_served_on_the_same_port() {
    let rig = Rig::new().await;
    let pod = Pod::echo("pod").await;
    rig.functions([function("fib", &[&pod])]);
    let client = Client::builder(TokioExecutor::new()).http2_only(true).build_http::<Full<Bytes>>();
    let request = rig.request("POST", "/function/fib/x?y").header("cookie", "a=1").header("cookie", "b=2");
    let answer =
        patient("the answer", client.request(request.body(Full::from("body")).unwrap())).await.unwrap();
    assert_eq!((answer.version(), answer.status().as_u16()), (http::Version::HTTP_2, 200));
    let (head, body) = answer.into_parts();
    let answer = Response::from_parts(head, body.collect().await.unwrap().to_bytes());
    assert!(text(&answer).starts_with("pod\nPOST /x?y\n") && text(&answer).ends_with("\n\nbody"));
    assert_eq!(echoed(&answer, "cookie").as_deref(), Some("a=1; b=2"), "HTTP/1.1 knows one header");
    assert_eq!(echoed(&answer, "host"), Some(pod.address.to_string()));
    assert_eq!(echoed(&answer, "x-forwarded-host"), Some(rig.address.to_string()));
    let calls = (0..50).map(|n| {
        client.get(rig.request("GET", &format!("/function/fib/{n}")).body(()).unwrap().uri().clone())
    });
    for answer in patient("all answers", futures::future::join_all(calls)).await {
        assert_eq!(answer.unwrap().status(), 200);
    }
    assert_eq!(rig.metric("ballast_gateway_connections", ""), 1.0, "all on one connection");
}

#[tokio::test]
async fn bodies_beyond_the_limit_are_refused() {
    let options = Options { body_limit: 10, ..Options::default() };
    let rig = Rig::with(options, Hooks::default()).await;
    let pod = Pod::echo("pod").await;
    rig.functions([function("fib", &[&pod]), function("asleep", &[])]);
    assert_eq!(rig.post("/function/fib", "0123456789").await.status(), 200);
    let answer = rig.post("/function/fib", "0123456789x").await;
    assert_eq!(
        (answer.status().as_u16(), header_of(&answer, "ballast-error")),
        (413, Some("body-too-large"))
    );
    assert_eq!(rig.post("/function/asleep", "0123456789x").await.status(), 413, "it wakes nobody");
    assert_eq!(pod.calls(), 1);
    let chunked = |name: &str| {
        format!(
            "POST /function/{name} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\n\
             8\r\n01234567\r\n8\r\n01234567\r\n0\r\n\r\n"
        )
    };
    for name in ["fib", "asleep"] {
        let answer = rig.raw(chunked(name)).await;
        assert!(answer.starts_with("HTTP/1.1 413 "), "{name}: {answer}");
    }
    assert_eq!(rig.held(), 0);
}

#[tokio::test]
async fn a_body_that_stands_still_is_given_up() {
    let options = Options { body_idle_timeout: Duration::from_millis(200), ..Options::default() };
    let rig = Rig::with(options, Hooks::default()).await;
    let reads = Pod::echo("pod").await;
    let (send, frames) = mpsc::unbounded_channel();
    let frames = std::sync::Mutex::new(Some(frames));
    let stalls = Pod::start(move |_| {
        let frames = frames.lock().unwrap().take().unwrap();
        async move { Response::new(body_of(frames)) }
    })
    .await;
    rig.functions([function("reads", &[&reads]), function("stalls", &[&stalls]), function("asleep", &[])]);
    for name in ["reads", "asleep"] {
        let half = format!("POST /function/{name} HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\nhalf");
        let answer = rig.raw(half).await;
        assert!(answer.starts_with("HTTP/1.1 408 "), "{name}: {answer}");
    }
    send.send(Frame::data("half".into())).unwrap();
    let answer = rig.raw("GET /function/stalls HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").await;
    assert!(answer.starts_with("HTTP/1.1 200 ") && answer.contains("half") && !answer.ends_with("0\r\n\r\n"));
    until("the pod to be told", || send.is_closed()).await;
}

/// A client that takes nothing of its answer would keep the function awake for ever.
#[tokio::test]
async fn a_client_that_does_not_read_is_given_up() {
    let options = Options { body_idle_timeout: Duration::from_millis(200), ..Options::default() };
    let rig = Rig::with(options, Hooks::default()).await;
    let pod = Pod::start(|_| async { whole(StatusCode::OK, vec![b'x'; 64 << 20]) }).await;
    rig.functions([function("fib", &[&pod])]);
    let mut client = rig.connect().await;
    client.write_all(b"GET /function/fib HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    until("the call", || pod.calls() == 1).await;
    until("it to be given up", || rig.activity.of("fib").active == 0).await;
    drop(client);
}

/// Bodies that are needed as a whole take memory before anything has come of them.
#[tokio::test]
async fn bodies_in_memory_are_bounded_in_all() {
    let options = Options { body_memory: 100_000, ..Options::default() };
    let rig = Rig::with(options, Hooks::default()).await;
    rig.functions([function("fib", &[])]);
    let mut unfinished = rig.connect().await;
    let head = "POST /async-function/fib HTTP/1.1\r\nhost: x\r\ncontent-length: 90001\r\n\r\n";
    unfinished.write_all(head.as_bytes()).await.unwrap();
    unfinished.write_all(&[b'x'; 90_000]).await.unwrap();
    until("it to be in memory", || rig.gateway.body_memory_left() <= 10_000).await;
    let answer = rig.post("/async-function/fib", vec![b'x'; 50_000]).await;
    assert_eq!((answer.status().as_u16(), header_of(&answer, "ballast-error")), (503, Some("unavailable")));
    assert_eq!(rig.post("/async-function/fib", vec![b'x'; 5_000]).await.status(), 202);
    drop(unfinished);
    until("room", || rig.gateway.body_memory_left() == 100_000).await;
    assert_eq!(rig.post("/async-function/fib", vec![b'x'; 50_000]).await.status(), 202);
}

/// The client must notice that the answer is not whole.
#[tokio::test]
async fn an_answer_that_breaks_off_is_not_passed_off_as_whole() {
    let rig = Rig::new().await;
    let pod = Pod::start(|request: Request<Incoming>| async move {
        let is_sized = request.uri().path() == "/sized";
        let frames = futures::stream::iter([
            Ok(Frame::data(Bytes::from("half"))),
            Err(std::io::Error::other("the pod crashes")),
        ]);
        let answer = Response::builder();
        let answer = if is_sized { answer.header("content-length", 8) } else { answer };
        answer.body(BodyExt::boxed(StreamBody::new(frames))).unwrap()
    })
    .await;
    rig.functions([function("fib", &[&pod])]);
    for path in ["sized", "chunked"] {
        let answer = rig
            .raw(format!("GET /function/fib/{path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"))
            .await;
        // Depending on when the break is seen there is half an answer or none.
        let is_half = answer.starts_with("HTTP/1.1 200 ")
            && !answer.ends_with("0\r\n\r\n")
            && !answer.contains("halfhalf");
        assert!(is_half || answer.starts_with("HTTP/1.1 502 "), "{path}: {answer}");
    }
}

#[tokio::test]
async fn connections_to_pods_are_used_again() {
    let rig = Rig::new().await;
    let pod = Pod::echo("pod").await;
    rig.functions([function("fib", &[&pod])]);
    for n in 0..20 {
        let answer = rig.post("/function/fib", format!("body {n}")).await;
        assert!(text(&answer).ends_with(&format!("\n\nbody {n}")));
        until("the call to end", || rig.activity.of("fib").active == 0).await;
    }
    assert_eq!((pod.calls(), pod.connections()), (20, 1));
}

/// A pod may close a free connection at any time; a call that finds it closed takes another.
#[tokio::test]
async fn a_closed_connection_is_no_failure() {
    let rig = Rig::new().await;
    let pod = Pod::start(|_| async {
        let mut answer = whole(StatusCode::OK, "once");
        answer.headers_mut().insert("connection", "close".parse().unwrap());
        answer
    })
    .await;
    rig.functions([function("fib", &[&pod])]);
    for _ in 0..10 {
        assert_eq!(text(&rig.post("/function/fib", "body").await), "once");
    }
    assert_eq!((pod.calls(), pod.connections()), (10, 10));
}

#[tokio::test]
async fn a_client_may_say_nothing_only_so_long() {
    let options = Options { head_timeout: Duration::from_millis(200), ..Options::default() };
    let rig = Rig::with(options, Hooks::default()).await;
    assert_eq!(rig.raw("").await, "");
    let slow = rig.raw("GET /health HTTP/1.1\r\nhost:").await;
    assert!(slow.is_empty() || slow.starts_with("HTTP/1.1 408 "), "{slow}");
    let idle = rig.raw("GET /health HTTP/1.1\r\nhost: x\r\n\r\n").await;
    assert!(idle.ends_with("\r\n\r\nOK"), "{idle}");
    until("all to be closed", || rig.metric("ballast_gateway_connections", "") == 0.0).await;
}

#[tokio::test]
async fn the_body_is_asked_for_when_the_client_waits_for_that() {
    let rig = Rig::new().await;
    let pod = Pod::echo("pod").await;
    rig.functions([function("fib", &[&pod])]);
    let mut client = BufReader::new(rig.connect().await);
    let head = "POST /function/fib HTTP/1.1\r\nhost: x\r\nconnection: close\r\nexpect: 100-continue\r\ncontent-length: 4\r\n\r\n";
    client.write_all(head.as_bytes()).await.unwrap();
    let mut line = String::new();
    patient("100", client.read_line(&mut line)).await.unwrap();
    assert_eq!(line, "HTTP/1.1 100 Continue\r\n");
    client.write_all(b"body").await.unwrap();
    let mut rest = String::new();
    patient("the answer", client.read_to_string(&mut rest)).await.unwrap();
    assert!(rest.contains("HTTP/1.1 200 OK") && rest.ends_with("body"), "{rest}");
}
