use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use gateway::{Hooks, Options};
use http::StatusCode;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    sync::Semaphore,
};

use crate::support::*;

/// A gateway that bears it so long when all pods refuse.
async fn with_patience(refused_patience: Duration) -> Rig {
    Rig::with(Options { refused_patience, ..Options::default() }, Hooks::default()).await
}

#[tokio::test]
async fn equals_take_turns() {
    let rig = Rig::new().await;
    let pods = [Pod::echo("a").await, Pod::echo("b").await, Pod::echo("c").await];
    rig.functions([function("fib", &pods.each_ref())]);
    for _ in 0..30 {
        rig.get("/function/fib").await;
        until("the call to end", || rig.activity.of("fib").active == 0).await;
    }
    assert_eq!(pods.map(|pod| pod.calls()), [10, 10, 10]);
}

/// One pod is stuck with its calls: the others get the new ones.
#[tokio::test]
async fn the_least_loaded_pod_is_asked() {
    let rig = Rig::new().await;
    let gate = Arc::new(Semaphore::new(0));
    let stuck = {
        let gate = gate.clone();
        Pod::start(move |_| {
            let gate = gate.clone();
            async move {
                gate.acquire().await.unwrap().forget();
                whole(StatusCode::OK, "stuck")
            }
        })
        .await
    };
    let free = Pod::echo("free").await;
    rig.functions([function("fib", &[&stuck])]);
    let calls = [rig.start("GET", "/function/fib", ""), rig.start("GET", "/function/fib", "")];
    until("both to arrive", || stuck.calls() == 2).await;
    rig.functions([function("fib", &[&stuck, &free])]);
    for _ in 0..20 {
        assert!(text(&rig.get("/function/fib").await).starts_with("free"));
        until("the call to end", || rig.activity.of("fib").active == 2).await;
    }
    gate.add_permits(2);
    for call in calls {
        assert_eq!(text(&patient("the answer", call).await.unwrap()), "stuck");
    }
    assert_eq!((stuck.calls(), free.calls()), (2, 20));
}

/// The pod is gone, and the catalog does not know it yet.
#[tokio::test]
async fn a_pod_that_refuses_is_passed_over() {
    let rig = Rig::new().await;
    let (pod, nobody) = (Pod::echo("pod").await, Nobody::new());
    let mut fib = function("fib", &[&pod]);
    fib.pods.push(ready_at(nobody.0));
    rig.functions([fib]);
    for n in 0..10 {
        let answer = rig.post("/function/fib", format!("body {n}")).await;
        assert_eq!(answer.status(), 200);
        assert!(text(&answer).ends_with(&format!("body {n}")), "the body is not lost with the first attempt");
    }
    assert!(rig.metric("ballast_gateway_retried_calls_total", "fib") >= 1.0);
}

#[tokio::test]
async fn when_all_refuse_the_call_waits_for_another() {
    let rig = with_patience(PATIENCE).await;
    let (pod, nobody) = (Pod::echo("pod").await, Nobody::new());
    let mut fib = function("fib", &[]);
    fib.pods = vec![ready_at(nobody.0)];
    rig.functions([fib]);
    let call = rig.start("POST", "/function/fib", "body");
    until("a refusal", || rig.metric("ballast_gateway_retried_calls_total", "fib") >= 1.0).await;
    // now the catalog knows: first nothing, then another pod
    rig.functions([function("fib", &[])]);
    until("the call to be held", || rig.held() == 1).await;
    rig.functions([function("fib", &[&pod])]);
    let answer = patient("the answer", call).await.unwrap();
    assert!(text(&answer).ends_with("\n\nbody") && header_of(&answer, "ballast-cold-start").is_some());
}

#[tokio::test]
async fn when_all_refuse_for_long_the_caller_may_try_again() {
    let rig = with_patience(Duration::from_millis(100)).await;
    let pod = Pod::echo("pod").await;
    rig.functions([function("fib", &[&pod])]);
    assert_eq!(rig.get("/function/fib").await.status(), 200);
    drop(pod);
    let answer = rig.get("/function/fib").await;
    assert_eq!((answer.status().as_u16(), header_of(&answer, "ballast-error")), (503, Some("no-connection")));
    assert_eq!(header_of(&answer, "retry-after"), Some("1"));
    assert!(text(&answer).starts_with("no pod of fib takes a connection: "), "{}", text(&answer));
}

/// Without a readiness probe a pod is called ready before it listens. That is a part of its waking, for which the call has
/// its whole time.
#[tokio::test]
async fn a_pod_that_does_not_listen_yet_is_waited_for() {
    let rig = with_patience(Duration::from_millis(50)).await;
    let Nobody(address, socket) = Nobody::new();
    let mut fib = function("fib", &[]);
    fib.pods = vec![ready_at(address)];
    rig.functions([fib]);
    let call = rig.start("GET", "/function/fib", "");
    // after 20 ms, 40 ms and so on, so that the patience is long over
    until("refusals", || rig.metric("ballast_gateway_retried_calls_total", "fib") >= 5.0).await;
    let listener = socket.listen(16).unwrap();
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let _ = stream.read(&mut [0; 1024]).await;
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nlate").await.unwrap();
        std::future::pending::<()>().await;
    });
    assert_eq!(text(&patient("the answer", call).await.unwrap()), "late");
}

/// The catalog changes under load. Pods that it no longer names finish what they have, as pods do that are told to stop.
#[tokio::test]
async fn no_call_is_lost_while_pods_come_and_go() {
    let rig = Arc::new(Rig::new().await);
    let first = Pod::echo("0").await;
    rig.functions([function("fib", &[&first])]);
    let failed = Arc::new(Mutex::new(BTreeMap::new()));
    let callers: Vec<_> = (0..8)
        .map(|_| {
            let (rig, failed) = (rig.clone(), failed.clone());
            tokio::spawn(async move {
                for n in 0..100 {
                    let answer = rig.get(&format!("/function/fib/{n}")).await;
                    if answer.status() != 200 {
                        *failed.lock().unwrap().entry(text(&answer)).or_insert(0) += 1;
                    }
                }
            })
        })
        .collect();
    let mut pods = vec![first];
    for _ in 1..10 {
        let is_over = || callers.iter().all(|caller| caller.is_finished());
        until("some calls", || pods.last().unwrap().calls() >= 20 || is_over()).await;
        let next = Pod::echo("next").await;
        rig.functions([function("fib", &[&next])]);
        pods.push(next);
    }
    for caller in callers {
        patient("a caller", caller).await.unwrap();
    }
    assert_eq!(*failed.lock().unwrap(), BTreeMap::new());
}

/// A pod dies with a call in its hands. What changes nothing is asked of another; the rest the caller must decide.
#[tokio::test]
async fn a_call_that_changes_nothing_survives_its_pod() {
    let rig = Rig::new().await;
    let (pod, dying) = (Pod::echo("pod").await, dying().await);
    let mut fib = function("fib", &[&pod]);
    fib.pods.push(ready_at(dying));
    rig.functions([fib]);
    for _ in 0..6 {
        assert_eq!(rig.get("/function/fib").await.status(), 200);
        until("the call to end", || rig.activity.of("fib").active == 0).await;
    }
    assert!(rig.metric("ballast_gateway_retried_calls_total", "fib") >= 1.0);
    let mut only = function("only", &[]);
    only.pods = vec![ready_at(dying)];
    rig.functions([only]);
    for method in ["GET", "POST"] {
        let answer = rig.send(rig.request(method, "/function/only").body(Default::default()).unwrap()).await;
        assert_eq!(
            (answer.status().as_u16(), header_of(&answer, "ballast-error")),
            (502, Some("broken-connection"))
        );
        assert_eq!(header_of(&answer, "retry-after"), None, "the call may have happened");
    }
}

/// However many connections are free: the call may be what the pod dies of.
#[tokio::test]
async fn a_call_that_kills_is_made_twice_at_most() {
    let rig = Arc::new(Rig::new().await);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut fib = function("fib", &[]);
    fib.pods = vec![ready_at(listener.local_addr().unwrap())];
    rig.functions([fib]);
    let (deaths, together) = (Arc::new(AtomicUsize::new(0)), Arc::new(tokio::sync::Barrier::new(8)));
    tokio::spawn({
        let deaths = deaths.clone();
        async move {
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                let (deaths, together) = (deaths.clone(), together.clone());
                tokio::spawn(async move {
                    let mut request = [0; 1024];
                    while let Ok(n @ 1..) = stream.read(&mut request).await {
                        if request[..n].starts_with(b"GET /die") {
                            deaths.fetch_add(1, Ordering::SeqCst);
                            return;
                        }
                        together.wait().await;
                        stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").await.unwrap();
                    }
                });
            }
        }
    });
    // as many connections, free from then on
    let calls: Vec<_> = (0..8).map(|_| rig.start("GET", "/function/fib", "")).collect();
    for call in calls {
        assert_eq!(patient("an answer", call).await.unwrap().status(), 204);
    }
    assert_eq!(rig.get("/function/fib/die").await.status(), 502);
    assert_eq!(deaths.load(Ordering::SeqCst), 2);
}

/// Takes connections and requests, and answers with nothing.
async fn dying() -> std::net::SocketAddr {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let _ = stream.read(&mut [0; 1024]).await;
        }
    });
    address
}
