use std::{sync::Arc, time::Duration};

use gateway::{Hooks, Options};
use http::StatusCode;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    sync::Semaphore,
};

use crate::support::*;

async fn gated(gate: &Arc<Semaphore>) -> Pod {
    let gate = gate.clone();
    Pod::start(move |_| {
        let gate = gate.clone();
        async move {
            gate.acquire().await.unwrap().forget();
            whole(StatusCode::OK, "done")
        }
    })
    .await
}

#[tokio::test]
async fn calls_under_way_are_finished_and_no_more_accepted() {
    let rig =
        Rig::with(Options { grace: Duration::from_secs(3600), ..Options::default() }, Hooks::default()).await;
    let gate = Arc::new(Semaphore::new(0));
    let pod = gated(&gate).await;
    rig.functions([function("fib", &[&pod]), function("asleep", &[])]);
    let (call, held) = (rig.start("GET", "/function/fib", ""), rig.start("GET", "/function/asleep", ""));
    until("both to be under way", || pod.calls() == 1 && rig.held() == 1).await;
    let mut idle = rig.connect().await;
    until("three connections", || rig.metric("ballast_gateway_connections", "") == 3.0).await;
    rig.shutdown.cancel();
    patient("the port to be closed", async {
        while TcpStream::connect(rig.address).await.is_ok() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    assert!(!rig.ended.is_finished());
    gate.add_permits(2);
    assert_eq!(text(&patient("the call", call).await.unwrap()), "done");
    rig.functions([function("asleep", &[&pod])]);
    assert_eq!(text(&patient("the held call", held).await.unwrap()), "done");
    // It has said nothing yet, so nothing is lost.
    idle.shutdown().await.unwrap();
    patient("the end", rig.ended).await.unwrap();
}

/// Who balances over the nodes asks first whether they are ready, and sends calls until it has heard that one is not.
#[tokio::test]
async fn calls_are_taken_until_others_have_heard_of_the_end() {
    let options = Options { linger: Duration::from_secs(3600), ..Options::default() };
    let rig = Rig::with(options, Hooks::default()).await;
    let pod = Pod::echo("pod").await;
    rig.functions([function("fib", &[&pod])]);
    assert_eq!(rig.get("/ready").await.status(), 200);
    rig.shutdown.cancel();
    patient("the end to be announced", async {
        while rig.get("/ready").await.status() == 200 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    assert!(text(&rig.get("/ready").await).contains("shutting down"));
    let answer = rig.raw("GET /function/fib HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").await;
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    assert!(!rig.ended.is_finished());
}

#[tokio::test]
async fn an_idle_connection_is_closed_at_the_end() {
    let rig =
        Rig::with(Options { grace: Duration::from_secs(3600), ..Options::default() }, Hooks::default()).await;
    let mut client = rig.connect().await;
    client.write_all(b"GET /health HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    let mut answer = Vec::new();
    patient("the answer", async {
        while !answer.ends_with(b"\r\n\r\nOK") {
            answer.push(client.read_u8().await.unwrap());
        }
    })
    .await;
    rig.shutdown.cancel();
    assert_eq!(patient("the end of the connection", client.read(&mut [0; 16])).await.unwrap(), 0);
    patient("the end", rig.ended).await.unwrap();
}

#[tokio::test]
async fn after_the_grace_period_calls_are_cut_off() {
    let rig =
        Rig::with(Options { grace: Duration::from_millis(100), ..Options::default() }, Hooks::default())
            .await;
    let pod = Pod::start(|_| std::future::pending()).await;
    rig.functions([function("fib", &[&pod])]);
    let mut client = rig.connect().await;
    client.write_all(b"GET /function/fib HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    until("the call to arrive", || pod.calls() == 1).await;
    rig.shutdown.cancel();
    patient("the end", rig.ended).await.unwrap();
    assert_eq!(patient("the end of the connection", client.read(&mut [0; 16])).await.unwrap_or(0), 0);
    assert_eq!(rig.activity.of("fib").active, 0);
}
