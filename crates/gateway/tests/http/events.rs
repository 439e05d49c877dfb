use std::time::Duration;

use api::slimfaas::{Attempts, Settings, Subscription, Visibility};
use gateway::{Hooks, Options};
use http::{Request, StatusCode};
use hyper::body::Incoming;

use crate::support::*;

fn subscribed(settings: &mut Settings) {
    settings.subscriptions = vec![Subscription { event: "paid".into(), visibility: Visibility::Public }];
    settings.publish = Attempts { timeout: PATIENCE, delays: Vec::new(), statuses: vec![500, 502, 503] };
}

#[tokio::test]
async fn an_event_goes_to_every_pod_of_every_subscriber() {
    let rig = Rig::new().await;
    let pods = [Pod::echo("a1").await, Pod::echo("a2").await, Pod::echo("b").await, Pod::echo("c").await];
    let [a1, a2, b, c] = pods.each_ref();
    rig.functions([
        function_with("a", &[a1, a2], subscribed),
        function_with("b", &[b], subscribed),
        function("c", &[c]),
    ]);
    let answer = rig.post("/publish-event/paid/by/card?x=1", "body").await;
    assert_eq!(answer.status(), 204);
    assert_eq!(header_of(&answer, "ballast-event-delivered"), Some("3"));
    assert_eq!(header_of(&answer, "ballast-event-failed"), Some("0"));
    assert_eq!(pods.map(|pod| pod.calls()), [1, 1, 1, 0]);
    assert!(rig.activity.of("a").last.is_some() && rig.activity.of("c").last.is_none());
    assert_eq!(rig.post("/publish-event/other", "").await.status(), 404);
}

#[tokio::test]
async fn the_event_arrives_as_it_was_sent() {
    let rig = Rig::new().await;
    let (send, mut seen) = tokio::sync::mpsc::unbounded_channel();
    let pod = Pod::start(move |request: Request<Incoming>| {
        let send = send.clone();
        async move {
            use http_body_util::BodyExt;
            let (head, body) = request.into_parts();
            let body = body.collect().await.unwrap().to_bytes();
            send.send((head.method, head.uri.to_string(), head.headers, body)).unwrap();
            whole(StatusCode::OK, "")
        }
    })
    .await;
    rig.functions([function_with("a", &[&pod], subscribed)]);
    rig.raw(
        "PUT /publish-event/paid/by/card?x=1 HTTP/1.1\r\nhost: x\r\nconnection: close\r\nx-mine: 1\r\n\
         transfer-encoding: chunked\r\n\r\n4\r\nbody\r\n0\r\n\r\n",
    )
    .await;
    let (method, uri, headers, body) = patient("the event", seen.recv()).await.unwrap();
    assert_eq!((method.as_str(), uri.as_str(), &body[..]), ("PUT", "/by/card?x=1", &b"body"[..]));
    assert_eq!((headers["x-mine"].as_bytes(), headers["content-length"].as_bytes()), (&b"1"[..], &b"4"[..]));
}

#[tokio::test]
async fn an_event_wakes_subscribers() {
    let rig = Rig::new().await;
    let (awake, woken) = (Pod::echo("awake").await, Pod::echo("woken").await);
    rig.functions([function_with("awake", &[&awake], subscribed), function_with("asleep", &[], subscribed)]);
    let publishing = rig.start("POST", "/publish-event/paid", "body");
    until("it to wait", || rig.held() == 1).await;
    assert_eq!(rig.activity.of("asleep").active, 1);
    until("the other to have it", || awake.calls() == 1).await;
    rig.functions([
        function_with("awake", &[&awake], subscribed),
        function_with("asleep", &[&woken], subscribed),
    ]);
    let answer = patient("the answer", publishing).await.unwrap();
    assert_eq!((answer.status().as_u16(), header_of(&answer, "ballast-event-delivered")), (204, Some("2")));
    assert_eq!((awake.calls(), woken.calls()), (1, 1));
}

#[tokio::test]
async fn an_event_is_tried_again_by_the_rules_of_its_subscriber() {
    let rig = Rig::new().await;
    let failing = Pod::start(|_| async { whole(StatusCode::SERVICE_UNAVAILABLE, "") }).await;
    let refusing = Pod::start(|_| async { whole(StatusCode::BAD_REQUEST, "") }).await;
    let nobody = Nobody::new();
    let tried = |delays: usize| {
        move |settings: &mut Settings| {
            subscribed(settings);
            settings.publish.delays = vec![Duration::from_millis(1); delays];
        }
    };
    let mut gone = function_with("gone", &[], tried(1));
    gone.pods = vec![ready_at(nobody.0)];
    rig.functions([
        function_with("failing", &[&failing], tried(2)),
        // an answer that is not to be tried again counts as taken
        function_with("refusing", &[&refusing], tried(2)),
        gone,
    ]);
    let answer = rig.post("/publish-event/paid", "body").await;
    assert_eq!(answer.status(), 204, "what a subscriber does with an event is not the publisher's");
    assert_eq!(header_of(&answer, "ballast-event-delivered"), Some("1"));
    assert_eq!(header_of(&answer, "ballast-event-failed"), Some("2"));
    assert_eq!((failing.calls(), refusing.calls()), (3, 1));
    assert_eq!(rig.metric("ballast_gateway_events_failed_total", "failing"), 1.0);
}

#[tokio::test]
async fn an_event_does_not_wait_beyond_its_time() {
    let rig = Rig::new().await;
    let never = Pod::start(|_| std::future::pending()).await;
    let short = |settings: &mut Settings| {
        subscribed(settings);
        settings.publish.timeout = Duration::from_millis(200);
    };
    rig.functions([function_with("slow", &[&never], short), function_with("asleep", &[], short)]);
    let answer = rig.post("/publish-event/paid", "body").await;
    assert_eq!((answer.status().as_u16(), header_of(&answer, "ballast-event-failed")), (204, Some("2")));
    assert_eq!(rig.held(), 0);
}

#[tokio::test]
async fn an_event_may_be_so_long() {
    let options = Options { event_body_limit: 10, ..Options::default() };
    let rig = Rig::with(options, Hooks::default()).await;
    let pod = Pod::echo("pod").await;
    rig.functions([function_with("a", &[&pod], subscribed)]);
    assert_eq!(rig.post("/publish-event/paid", "0123456789").await.status(), 204);
    assert_eq!(rig.post("/publish-event/paid", "0123456789x").await.status(), 413);
    assert_eq!(rig.get("/publish-event/paid/../x").await.status(), 400);
    assert_eq!(pod.calls(), 1);
}
