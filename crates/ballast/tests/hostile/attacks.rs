use std::time::Duration;

use futures::future::join_all;
use tokio::io::AsyncWriteExt;

use crate::{
    client::{self, connect, get, raw, send},
    program::{ASYNC_MEMORY, BODY_MEMORY, CONNECTIONS, HELD, OF_A_CONNECTION, Program},
};

/// What is for operators.
pub const OPERATORS: [&str; 8] = [
    "/async-function-dead/open",
    "/status-functions",
    "/status-function/open",
    "/status-functions-stream",
    "/wake-functions",
    "/wake-function/open",
    "/metrics",
    "/debug/store",
];

/// The allocator keeps some of what was freed, and the rest of the program works on.
const SLACK: u64 = 24 << 20;

/// What an attack by so many connections may take at most.
fn allowed(connections: usize) -> u64 {
    BODY_MEMORY + connections as u64 * OF_A_CONNECTION + SLACK
}

pub fn check(attack: &str, growth: u64, allowed: u64) {
    eprintln!("{attack}: {} MiB, {} are allowed", growth >> 20, allowed >> 20);
    assert!(growth <= allowed, "{attack} took {} MiB, {} are allowed", growth >> 20, allowed >> 20);
}

/// Two readers of one request must not find two: the pod sees nothing, or one that means what the gateway read.
pub async fn smuggling(program: &Program) {
    let hidden = "GET /smuggled HTTP/1.1\r\nhost: x\r\n\r\n";
    for lines in [
        "content-length: 4\r\ntransfer-encoding: chunked\r\n",
        "transfer-encoding: chunked\r\ncontent-length: 4\r\n",
        "content-length: 0\r\ncontent-length: 40\r\n",
        "content-length: 0, 40\r\n",
        "content-length: +4\r\n",
        "transfer-encoding: chunked, identity\r\n",
        "transfer-encoding: xchunked\r\n",
        "transfer-encoding : chunked\r\n",
        "transfer-encoding:\x0bchunked\r\n",
        "host: y\r\n",
    ] {
        let request = format!(
            "POST /function/open/x HTTP/1.1\r\nhost: x\r\n{lines}connection: close\r\n\r\n0\r\n\r\n{hidden}"
        );
        raw(program.gateway, request).await;
    }
    let seen = get(program.gateway, "/function/open/seen").await.text();
    assert!(!seen.contains("smuggled"), "{seen}");
}

pub async fn operators_paths(program: &Program) {
    for path in OPERATORS {
        for lines in [
            "host: evil.example\r\n",
            "host: localhost\r\norigin: https://evil.example\r\n",
            "host: localhost\r\nsec-fetch-site: cross-site\r\n",
        ] {
            let answer = send(program.gateway, "GET", path, lines, b"").await;
            assert_eq!(answer.status, 403, "{path} {lines}: {}", answer.text());
            assert_eq!(answer.header("access-control-allow-origin"), None, "{path}");
        }
    }
    // while the guide's commands work
    for path in ["/debug/store", "/status-functions", "/metrics"] {
        assert_eq!(get(program.gateway, path).await.status, 200, "{path}");
    }
}

/// 24 MiB on the wire, in chunks of one byte, for a function that never wakes: 4 million frames.
pub async fn chunk_bombs(program: &Program) {
    let senders = CONNECTIONS - 8;
    let chunks = b"1\r\nx\r\n".repeat(1 << 10);
    let attack = join_all((0..senders).map(|_| async {
        let head = "POST /function/asleep HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n";
        let mut stream = connect(program.gateway, head).await;
        for _ in 0..128 {
            // Once the gateway reads no more the rest stays here.
            let write = tokio::time::timeout(Duration::from_secs(2), stream.write_all(&chunks));
            if !matches!(write.await, Ok(Ok(()))) {
                break;
            }
        }
        stream
    }));
    let all_is_read = async {
        let streams = attack.await;
        while program.metric("ballast_gateway_body_memory_bytes ").await < (senders * 128 * 1024) as f64 {
            // a body that stands still is given up
            streams.iter().for_each(|stream| drop(stream.try_write(b"1\r\nx\r\n")));
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        streams
    };
    let (growth, streams) = program.growth(all_is_read).await;
    check("chunk bombs", growth, allowed(senders));
    drop(streams);
    program.is_alone().await;
}

/// Heads as long and as many as are taken, on connections that then say nothing.
pub async fn large_heads(program: &Program) {
    let filler = |n: usize| (0..90).map(|i| format!("x-{i}: {}\r\n", "y".repeat(n))).collect::<String>();
    let too_long = format!("GET /function/open HTTP/1.1\r\nhost: x\r\n{}\r\n", filler(1000));
    let too_many = format!("GET /function/open HTTP/1.1\r\nhost: x\r\n{}\r\n", "a: b\r\n".repeat(5000));
    for head in [&too_long, &too_many] {
        let answer = raw(program.gateway, head).await;
        assert!(matches!(answer.status, 400 | 431 | 0), "{}", answer.text());
    }
    let fitting = format!("GET /function/asleep HTTP/1.1\r\nhost: x\r\n{}\r\n", filler(600));
    let senders = (CONNECTIONS - 8).min(HELD);
    let attack = join_all((0..senders).map(|_| connect(program.gateway, &fitting)));
    let (growth, streams) = program
        .growth(async {
            let streams = attack.await;
            while program.metric("ballast_gateway_held_calls{function=\"asleep\"} ").await < senders as f64 {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            streams
        })
        .await;
    check("large heads", growth, allowed(senders) - BODY_MEMORY);
    drop(streams);
    program.is_alone().await;
}

/// All connections are taken by clients that say next to nothing: the health is told meanwhile, and they are gone after
/// the time that a head may take.
pub async fn slow_heads_and_half_handshakes(program: &Program) {
    for bytes in ["PRI", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "GET /function/open HTTP/1.1\r\nx: ", "G"] {
        let (growth, streams) =
            program.growth(join_all((0..3 * CONNECTIONS).map(|_| connect(program.gateway, bytes)))).await;
        check(bytes, growth, allowed(CONNECTIONS) - BODY_MEMORY);
        let health = get(program.gateway, "/health").await;
        assert_eq!(health.status, 200, "{bytes:?}: {}", health.text());
        // each is closed by the other side, whatever it waits for
        for stream in streams {
            client::read(stream).await;
        }
        program.is_alone().await;
        program.is_well().await;
    }
}

pub async fn websockets(program: &Program) {
    let ask = "GET /function/open HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n";
    let attack = join_all((0..CONNECTIONS + 20).map(|_| async {
        let stream = connect(program.gateway, ask).await;
        let mut first = [0; 12];
        while let Ok(n) = stream.peek(&mut first).await
            && n > 0
            && n < first.len()
        {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        (stream, first)
    }));
    let (growth, streams) = program.growth(attack).await;
    let changed = streams.iter().filter(|(_, first)| first == b"HTTP/1.1 101").count();
    let refused = streams.iter().filter(|(_, first)| first == b"HTTP/1.1 503").count();
    assert!(changed <= CONNECTIONS && changed > 0 && refused >= 20, "{changed} changed, {refused} refused");
    check("WebSockets", growth, allowed(CONNECTIONS) - BODY_MEMORY);
    assert_eq!(get(program.gateway, "/health").await.status, 200);
    // nothing moves in them: they are not kept for ever
    for (stream, _) in streams {
        client::read(stream).await;
    }
    program.is_alone().await;
}

/// Dead letters with large bodies: to look at them costs a page, and nobody who sends waits for it.
pub async fn dead_letter_storms(program: &Program) {
    let body = vec![b'x'; 1 << 20];
    for _ in 0..60 {
        let answer = send(program.gateway, "POST", "/async-function/open/fail", "host: x\r\n", &body).await;
        assert_eq!(answer.status, 202, "{}", answer.text());
    }
    // of more than 40 the oldest are dropped
    while program.metric("ballast_dead_letters_dropped_total ").await < 20.0 {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let reading = join_all((0..12).map(|_| get(program.gateway, "/async-function-dead/open")));
    let (growth, answers) = program.growth(reading).await;
    for answer in &answers {
        assert!(answer.status == 200 && answer.bytes.len() > 1000, "{}", answer.text());
    }
    check("12 looks at dead letters", growth, 12 << 20);
}

/// Results are bounded in all: 60 of 0.9 MB, and at most 8 MiB are kept.
pub async fn floods_of_results(program: &Program) {
    let mut ids = Vec::new();
    for _ in 0..60 {
        let answer =
            send(program.gateway, "POST", "/async-function/open/bytes/900000", "host: x\r\n", b"").await;
        ids.push(answer.header("slimfaas-element-id").unwrap());
    }
    let last = format!("/async-function-result/open/{}", ids[59]);
    while get(program.gateway, &last).await.header("ballast-result").as_deref() == Some("pending") {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    // those that were dropped are unknown; and without its id none is found
    let mut kept = 0;
    for id in &ids {
        let answer = get(program.gateway, &format!("/async-function-result/open/{id}")).await;
        kept += usize::from(answer.status == 200);
    }
    assert!((1..=9).contains(&kept), "{kept} results are kept");
    assert!(program.metric("ballast_results_dropped_total ").await >= 50.0);
    assert_eq!(get(program.gateway, "/async-function-result/open/guess").await.status, 404);
}

/// 60 calls of 1 MiB that the function takes its time for, 100 at once: no more are in memory than `--async-memory` allows.
pub async fn large_calls_under_way(program: &Program) {
    let body = vec![b'x'; 1 << 20];
    let mut ids = Vec::new();
    let attack = async {
        for _ in 0..60 {
            let answer =
                send(program.gateway, "POST", "/async-function/open/slow", "host: x\r\n", &body).await;
            ids.push(answer.header("slimfaas-element-id").unwrap());
            let taken = program.metric("ballast_gateway_async_memory_bytes ").await;
            assert!(taken <= ASYNC_MEMORY as f64, "{taken}");
        }
        let last = format!("/async-function-result/open/{}", ids[59]);
        while get(program.gateway, &last).await.header("ballast-result").as_deref() == Some("pending") {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let (growth, ()) = program.growth(attack).await;
    check("large calls under way", growth, ASYNC_MEMORY + SLACK);
}

/// HTTP/2 frames of one byte and of none, for a function that never wakes: 24 streams of 100,000 frames each.
pub async fn tiny_frames(program: &Program) {
    let frame = |kind: u8, flags: u8, stream: u32, payload: &[u8]| {
        let mut frame = vec![0, 0, payload.len() as u8, kind, flags];
        frame.extend(stream.to_be_bytes());
        frame.extend(payload);
        frame
    };
    // :method POST, :scheme http, :path /function/asleep, :authority x, all literals without an index
    let mut head = vec![0x83, 0x86];
    for (index, value) in [(4_u8, "/function/asleep"), (1, "x")] {
        head.extend([index, value.len() as u8]);
        head.extend(value.as_bytes());
    }
    let attack = join_all((0..4).map(|_| async {
        let mut stream = connect(program.gateway, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await;
        let mut bytes = frame(4, 0, 0, &[]);
        for id in (1..12).step_by(2) {
            bytes.extend(frame(1, 4, id, &head));
        }
        stream.write_all(&bytes).await.unwrap();
        while program.metric("ballast_gateway_held_calls{function=\"asleep\"} ").await < 6.0 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let frames: Vec<u8> = (1..12)
            .step_by(2)
            .flat_map(|id| [frame(0, 0, id, b"x"), frame(0, 0, id, b"")].concat())
            .collect();
        let frames = frames.repeat(100);
        for _ in 0..500 {
            // Once the gateway reads no more, or has enough of it, the rest stays here.
            let write = tokio::time::timeout(Duration::from_secs(2), stream.write_all(&frames));
            if !matches!(write.await, Ok(Ok(()))) {
                break;
            }
        }
        stream
    }));
    let (growth, streams) = program.growth(attack).await;
    check("tiny frames of HTTP/2", growth, allowed(4));
    drop(streams);
    program.is_alone().await;
}

/// 15 KB that want 156 GB.
pub fn query_bomb() -> String {
    let many = "$0".repeat(2500);
    let seed = r#"label_replace(vector(1),"x","aaaaaaaaaa","","")"#.to_owned();
    (0..3).fold(seed, |inner, _| format!(r#"label_replace({inner},"x","{many}","x",".*")"#))
}

/// Regular expressions whose programs are large.
pub fn many_matchers() -> String {
    let matchers: Vec<String> = (0..60).map(|i| format!(r#"l{i}=~"\\w{{200}}{i}""#)).collect();
    format!("sum(up{{{}}})", matchers.join(","))
}
