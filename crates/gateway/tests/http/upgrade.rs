use http::{Request, Response, StatusCode};
use hyper::{body::Incoming, upgrade::Upgraded};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::support::*;

/// Changes to whatever protocol it is asked for, and echoes.
async fn echo() -> Pod {
    Pod::start(|mut request: Request<Incoming>| async move {
        let asked = request.headers().get("upgrade").cloned();
        let Some(protocol) = asked else { return whole(StatusCode::UPGRADE_REQUIRED, "") };
        let on_upgrade = hyper::upgrade::on(&mut request);
        tokio::spawn(async move {
            let Ok(upgraded) = on_upgrade.await else { return };
            let _ = carry(upgraded).await;
        });
        let mut answer = whole(StatusCode::SWITCHING_PROTOCOLS, "");
        answer.headers_mut().remove("content-type");
        answer.headers_mut().insert("connection", "upgrade".parse().unwrap());
        answer.headers_mut().insert("upgrade", protocol);
        let accept = request.headers().get("sec-websocket-key").cloned().unwrap();
        answer.headers_mut().insert("sec-websocket-accept", accept);
        answer
    })
    .await
}

async fn carry(upgraded: Upgraded) -> std::io::Result<()> {
    let mut stream = TokioIo::new(upgraded);
    let mut buffer = [0; 1024];
    loop {
        let n = stream.read(&mut buffer).await?;
        if n == 0 {
            return stream.shutdown().await;
        }
        stream.write_all(&buffer[..n]).await?;
    }
}

const ASK: &str = "GET /function/ws/chat HTTP/1.1\r\nhost: x\r\nconnection: keep-alive, Upgrade\r\n\
                   upgrade: websocket\r\nsec-websocket-key: key\r\nsec-websocket-version: 13\r\n\r\n";

#[tokio::test]
async fn websockets_are_carried_both_ways() {
    let rig = Rig::new().await;
    let pod = echo().await;
    rig.functions([function("ws", &[&pod])]);
    let mut client = rig.connect().await;
    client.write_all(ASK.as_bytes()).await.unwrap();
    let mut head = Vec::new();
    patient("the head", async {
        while !head.ends_with(b"\r\n\r\n") {
            head.push(client.read_u8().await.unwrap());
        }
    })
    .await;
    let head = String::from_utf8(head).unwrap();
    assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
    for line in ["connection: upgrade\r\n", "upgrade: websocket\r\n", "sec-websocket-accept: key\r\n"] {
        assert!(head.contains(line), "{head}");
    }
    for frame in [&b"\x81\x05hello"[..], b"\x82\x01\xff", b"\x88\x00"] {
        client.write_all(frame).await.unwrap();
        let mut echoed = vec![0; frame.len()];
        patient("the echo", client.read_exact(&mut echoed)).await.unwrap();
        assert_eq!(echoed, frame);
    }
    assert_eq!(rig.activity.of("ws").active, 1, "the function is in use as long as the connection lasts");
    client.shutdown().await.unwrap();
    let mut rest = Vec::new();
    patient("the end", client.read_to_end(&mut rest)).await.unwrap();
    until("the call to end", || rig.activity.of("ws").active == 0).await;
}

/// An upgrade to HTTP/2 behind the gateway would carry requests past all its rules.
#[tokio::test]
async fn h2c_is_not_passed_on() {
    let rig = Rig::new().await;
    let pod = Pod::echo("pod").await;
    rig.functions([function("fib", &[&pod])]);
    for protocol in ["h2c", "H2C", "websocket, h2c", "h2"] {
        let answer = rig
            .raw(format!(
                "GET /function/fib HTTP/1.1\r\nhost: x\r\nconnection: close, upgrade, http2-settings\r\n\
                 upgrade: {protocol}\r\nhttp2-settings: AAMAAABkAAQAAP__\r\n\r\n"
            ))
            .await;
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
        assert!(!answer.contains("upgrade: ") && !answer.contains("http2-settings: "), "{answer}");
    }
}

#[tokio::test]
async fn a_change_of_protocol_nobody_asked_for_is_a_fault() {
    let rig = Rig::new().await;
    let pod = Pod::start(|_| async {
        let mut answer: Response<PodBody> = whole(StatusCode::OK, "");
        *answer.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
        answer
    })
    .await;
    rig.functions([function("fib", &[&pod])]);
    assert_eq!(rig.get("/function/fib").await.status(), 502);
}

#[tokio::test]
async fn a_pod_may_decline_to_change_the_protocol() {
    let rig = Rig::new().await;
    let pod = Pod::echo("pod").await;
    rig.functions([function("ws", &[&pod])]);
    let answer = rig.raw(ASK.replace("keep-alive", "close")).await;
    assert!(answer.starts_with("HTTP/1.1 200 ") && answer.contains("upgrade: websocket"), "{answer}");
}

async fn upgraded(rig: &Rig) -> tokio::net::TcpStream {
    let mut client = rig.connect().await;
    client.write_all(ASK.as_bytes()).await.unwrap();
    let mut head = [0; 12];
    patient("the head", client.read_exact(&mut head)).await.unwrap();
    assert_eq!(&head, b"HTTP/1.1 101");
    client
}

/// A connection counts as long as it is there, whatever it speaks.
#[tokio::test]
async fn websockets_are_bounded_like_other_connections() {
    let options = gateway::Options {
        connections: 3,
        connections_per_address: Some(3),
        body_idle_timeout: std::time::Duration::from_millis(300),
        ..visible()
    };
    let rig = Rig::with(options, gateway::Hooks::default()).await;
    let pod = echo().await;
    rig.functions([function("ws", &[&pod])]);
    let clients = [upgraded(&rig).await, upgraded(&rig).await, upgraded(&rig).await];
    assert_eq!(rig.metric("ballast_gateway_connections", ""), 3.0);
    let refused = rig.raw(ASK).await;
    assert!(refused.starts_with("HTTP/1.1 503 "), "{refused}");
    // and one in which nothing moves is not kept
    for mut client in clients {
        let mut rest = Vec::new();
        patient("the end", client.read_to_end(&mut rest)).await.unwrap();
    }
    until("room", || rig.metric("ballast_gateway_connections", "") == 0.0).await;
    upgraded(&rig).await;
}
