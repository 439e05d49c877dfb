use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use decide::demand::Scale;
use gateway::{Hooks, Options};
use tokio::io::AsyncWriteExt;

use crate::support::*;

#[tokio::test]
async fn a_call_at_zero_wakes_waits_and_is_answered() {
    let rig = Rig::new().await;
    let pod = Pod::echo("pod").await;
    rig.functions([function("fib", &[]), function("other", &[])]);
    let changes = rig.activity.changes();
    let call = rig.start("POST", "/function/fib/a?b", "body");
    until("the call to be held", || rig.held() == 1).await;
    assert!(changes.has_changed().unwrap(), "the master is told");
    assert_eq!((rig.activity.of("fib").active, rig.activity.of("other").active), (1, 0));
    // a change that does not concern it
    rig.functions([function("fib", &[]), function("other", &[&pod])]);
    rig.functions([function("fib", &[&pod]), function("other", &[&pod])]);
    let answer = patient("the answer", call).await.unwrap();
    assert_eq!(answer.status(), 200);
    assert!(text(&answer).starts_with("pod\nPOST /a?b\n") && text(&answer).ends_with("\n\nbody"));
    let waited: u64 = header_of(&answer, "ballast-cold-start").unwrap().parse().unwrap();
    assert!(waited < PATIENCE.as_millis() as u64);
    assert_eq!(rig.held(), 0);
    assert_eq!(rig.metric("ballast_gateway_cold_start_seconds_count", "fib"), 1.0);
    assert_eq!(header_of(&rig.get("/function/fib").await, "ballast-cold-start"), None);
}

#[tokio::test]
async fn pods_that_are_not_ready_are_not_asked() {
    let rig = Rig::new().await;
    let pod = Pod::echo("pod").await;
    let mut starting = function("fib", &[&pod]);
    starting.pods[0].ready = false;
    rig.functions([starting]);
    let call = rig.start("GET", "/function/fib", "");
    until("the call to be held", || rig.held() == 1).await;
    assert_eq!(pod.calls(), 0);
    rig.functions([function("fib", &[&pod])]);
    assert_eq!(patient("the answer", call).await.unwrap().status(), 200);
}

/// Nobody waits for what cannot come: the reason is the answer.
#[tokio::test]
async fn a_function_that_cannot_start_says_why() {
    let rig = Rig::new().await;
    let pod = Pod::echo("pod").await;
    let failing = |pods: usize, requested| {
        let mut fib = function("fib", &vec![&pod; pods]);
        fib.requested = requested;
        for pod in &mut fib.pods {
            pod.ready = false;
            pod.failure =
                Some("container app: StartError: exec: \"python3\": executable file not found".into());
        }
        fib
    };
    rig.functions([function("fib", &[])]);
    let waiting = rig.start("GET", "/function/fib", "");
    until("the call to be held", || rig.held() == 1).await;
    // a second pod is still to come
    rig.functions([failing(1, 2)]);
    tokio::task::yield_now().await;
    assert!(!waiting.is_finished());
    rig.functions([failing(2, 2)]);
    for answer in [patient("the answer", waiting).await.unwrap(), rig.get("/function/fib").await] {
        assert_eq!(
            (answer.status().as_u16(), header_of(&answer, "ballast-error")),
            (503, Some("cannot-wake"))
        );
        assert!(text(&answer).contains("exec: \"python3\": executable file not found"), "{}", text(&answer));
    }
    let status: serde_json::Value =
        serde_json::from_slice(rig.get("/status-function/fib").await.body()).unwrap();
    assert!(status["StartFailure"].as_str().is_some_and(|why| why.contains("python3")), "{status}");
    // one that may become ready is reason enough to wait
    let mut fib = failing(2, 2);
    fib.pods[1].failure = None;
    rig.functions([fib]);
    let waiting = rig.start("GET", "/function/fib", "");
    until("the call to be held", || rig.held() == 1).await;
    rig.functions([function("fib", &[&pod])]);
    assert_eq!(patient("the answer", waiting).await.unwrap().status(), 200);
}

#[tokio::test]
async fn one_deadline_covers_wake_and_call() {
    let rig = Rig::new().await;
    let short = |settings: &mut api::slimfaas::Settings| settings.sync_timeout = Duration::from_millis(300);
    let never = Pod::start(|_| std::future::pending()).await;
    let mut stuck = function_with("stuck", &[], short);
    stuck.unschedulable = Some("0/3 nodes are available".into());
    rig.functions([function_with("asleep", &[], short), function_with("slow", &[&never], short), stuck]);
    for (name, reason) in [
        ("asleep", "no pod of asleep became ready within 300ms"),
        ("slow", "slow did not answer within 300ms"),
        ("stuck", "no pod of stuck became ready within 300ms: 0/3 nodes are available"),
    ] {
        let answer = rig.get(&format!("/function/{name}")).await;
        assert_eq!(answer.status(), 504, "{name}");
        assert_eq!(header_of(&answer, "ballast-error"), Some("deadline"));
        assert_eq!(header_of(&answer, "retry-after"), None);
        assert_eq!(text(&answer).trim(), reason);
    }
    until("all to be over", || rig.activity.all().iter().all(|(_, calls)| calls.active == 0)).await;
    assert_eq!(never.calls(), 1);
    assert_eq!(rig.metric("ballast_gateway_calls_total", "5xx"), 3.0);
}

/// The pod would answer in time if its time began with it.
#[tokio::test]
async fn the_time_of_the_wake_is_not_given_twice() {
    let rig = Rig::new().await;
    let within = |pods: &[&Pod]| {
        function_with("fib", pods, |settings| settings.sync_timeout = Duration::from_millis(1500))
    };
    let slow = Pod::start(|_| async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        whole(http::StatusCode::OK, "too late")
    })
    .await;
    rig.functions([within(&[])]);
    let call = rig.start("GET", "/function/fib", "");
    until("the call to be held", || rig.held() == 1).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    rig.functions([within(&[&slow])]);
    assert_eq!(patient("the answer", call).await.unwrap().status(), 504);
}

#[tokio::test]
async fn calls_that_wait_are_bounded() {
    let options = Options { held_per_function: 2, held: 3, ..Options::default() };
    let rig = Rig::with(options, Hooks::default()).await;
    let pod = Pod::echo("pod").await;
    rig.functions(["a", "b", "c"].map(|name| function(name, &[])));
    let mut calls = vec![rig.start("GET", "/function/a", ""), rig.start("GET", "/function/a", "")];
    until("two to be held", || rig.held() == 2).await;
    let of_a = rig.get("/function/a").await;
    calls.push(rig.start("GET", "/function/b", ""));
    until("three to be held", || rig.held() == 3).await;
    let of_c = rig.get("/function/c").await;
    for (answer, reason) in [
        (&of_a, "2 calls wait for a already: try again later"),
        (&of_c, "3 calls wait for functions already: try again later"),
    ] {
        assert_eq!(answer.status(), 503);
        assert_eq!(header_of(answer, "retry-after"), Some("1"));
        assert_eq!(header_of(answer, "ballast-error"), Some("too-many-held"));
        assert_eq!(text(answer).trim(), reason);
    }
    assert_eq!(rig.metric("ballast_gateway_refused_calls_total", ""), 2.0);
    rig.functions(["a", "b", "c"].map(|name| function(name, &[&pod])));
    for call in calls {
        assert_eq!(patient("an answer", call).await.unwrap().status(), 200);
    }
    assert_eq!(rig.held(), 0);
    assert_eq!(rig.get("/function/c").await.status(), 200);
}

#[tokio::test]
async fn what_cannot_wake_is_refused_at_once() {
    let rig = Rig::new().await;
    let pod = Pod::echo("pod").await;
    let mut portless = function("portless", &[&pod]);
    portless.pods[0].port = None;
    let capped = function_with("capped", &[], |settings| {
        settings.scaling.scale = Some(Scale { replica_max: Some(0), ..Scale::default() });
    });
    let torn = ondemand::Function { is_scaled: false, ..function("torn", &[]) };
    rig.functions([portless, capped, torn]);
    for (name, why) in [
        ("portless", "its pods declare no container port"),
        ("capped", "its ReplicaMax is 0"),
        ("torn", "it has no pods, and is not scaled on demand because spec.scaleConfig scales it"),
    ] {
        let answer = rig.get(&format!("/function/{name}")).await;
        assert_eq!(answer.status(), 503);
        assert_eq!(header_of(&answer, "ballast-error"), Some("cannot-wake"));
        assert!(header_of(&answer, "retry-after").is_some());
        assert_eq!(text(&answer).trim(), format!("{name} cannot be called: {why}"));
    }
}

/// A node that has just started must not say that a function is missing.
#[tokio::test]
async fn before_the_functions_are_known_none_is_missing() {
    let rig = Rig::new().await;
    for path in [
        "/function/fib",
        "/async-function/fib",
        "/async-function-result/fib/1",
        "/async-function-dead/fib",
        "/status-function/fib",
        "/wake-function/fib",
    ] {
        let answer = rig.get(path).await;
        assert_eq!(answer.status(), 503, "{path}");
        assert_eq!(header_of(&answer, "ballast-error"), Some("unavailable"));
        assert!(header_of(&answer, "retry-after").is_some());
    }
    rig.functions([]);
    assert_eq!(rig.get("/function/fib").await.status(), 404);
}

#[tokio::test]
async fn a_function_that_is_deleted_answers_those_who_wait() {
    let rig = Rig::new().await;
    rig.functions([function("fib", &[])]);
    let call = rig.start("GET", "/function/fib", "");
    until("the call to be held", || rig.held() == 1).await;
    rig.functions([]);
    assert_eq!(patient("the answer", call).await.unwrap().status(), 404);
}

#[tokio::test]
async fn a_client_that_leaves_waits_no_longer() {
    let rig = Rig::new().await;
    rig.functions([function("fib", &[])]);
    for head in [
        "GET /function/fib HTTP/1.1\r\nhost: x\r\n\r\n",
        "POST /function/fib HTTP/1.1\r\nhost: x\r\ncontent-length: 4\r\n\r\nbody",
        // the rest of the body never comes
        "POST /function/fib HTTP/1.1\r\nhost: x\r\ncontent-length: 400\r\n\r\nbody",
        "POST /function/fib HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n4\r\nbody\r\n",
    ] {
        let mut client = rig.connect().await;
        client.write_all(head.as_bytes()).await.unwrap();
        until("the call to be held", || rig.held() == 1).await;
        drop(client);
        until(&format!("{head:?} to be given up"), || rig.held() == 0 && rig.activity.of("fib").active == 0)
            .await;
    }
    let mut client = rig.connect().await;
    client
        .write_all(b"POST /function/fib HTTP/1.1\r\nhost: x\r\ncontent-length: 500000\r\n\r\n")
        .await
        .unwrap();
    client.write_all(&[b'x'; 500_000]).await.unwrap();
    until("the call to be held", || rig.held() == 1).await;
    drop(client);
    until("a long body to be given up", || rig.held() == 0).await;
}

/// Calls that wait for one another's answers: more than connections are made at the same time.
#[tokio::test]
async fn slow_calls_do_not_keep_others_from_their_pod() {
    let rig = Rig::new().await;
    let together = Arc::new(tokio::sync::Barrier::new(100));
    let pod = Pod::start(move |_| {
        let together = together.clone();
        async move {
            together.wait().await;
            whole(http::StatusCode::OK, "together")
        }
    })
    .await;
    rig.functions([function("fib", &[&pod])]);
    let calls: Vec<_> = (0..100).map(|_| rig.start("GET", "/function/fib", "")).collect();
    for call in calls {
        assert_eq!(text(&patient("an answer", call).await.unwrap()), "together");
    }
}

/// What was read of a body while the call waited comes first, then the rest.
#[tokio::test]
async fn a_long_body_that_waited_arrives_whole() {
    let rig = Rig::new().await;
    let pod = Pod::start(|request| async move {
        use http_body_util::BodyExt;
        let body = request.into_body().collect().await.unwrap().to_bytes();
        let is_whole = body.iter().enumerate().all(|(at, byte)| *byte == at as u8);
        whole(http::StatusCode::OK, format!("{} {is_whole}", body.len()))
    })
    .await;
    rig.functions([function("fib", &[])]);
    let body: Bytes = (0..1_000_000).map(|at| at as u8).collect();
    let call = rig.start("POST", "/function/fib", body);
    until("the call to be held", || rig.held() == 1).await;
    rig.functions([function("fib", &[&pod])]);
    assert_eq!(text(&patient("the answer", call).await.unwrap()), "1000000 true");
}

#[tokio::test]
async fn many_calls_wait_for_one_pod() {
    let rig = Arc::new(Rig::new().await);
    let pod = Pod::echo("pod").await;
    rig.functions([function("fib", &[])]);
    let calls: Vec<_> = (0..200).map(|n| rig.start("GET", &format!("/function/fib/{n}"), "")).collect();
    until("all to be held", || rig.held() == 200).await;
    rig.functions([function("fib", &[&pod])]);
    for (n, call) in calls.into_iter().enumerate() {
        let answer = patient("an answer", call).await.unwrap();
        assert!(text(&answer).starts_with(&format!("pod\nGET /{n}\n")), "{}", text(&answer));
    }
    assert_eq!(pod.calls(), 200);
}
