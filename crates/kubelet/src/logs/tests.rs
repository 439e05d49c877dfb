use std::sync::Arc;

use expect_test::{Expect, expect};
use futures::{StreamExt, TryStreamExt};
use jiff::SignedDuration;

use super::*;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_700_000_000 + second).unwrap()
}

fn log_in(directory: &Path, rotate_at: u64) -> Arc<Log> {
    Arc::new(Log {
        directory: directory.to_owned(),
        progress: watch::Sender::new(Progress::default()),
        live: broadcast::Sender::new(LIVE_CHUNKS),
        rotate_at,
    })
}

#[test]
fn lines_are_selected_by_time_and_number() {
    let directory = tempfile::tempdir().unwrap();
    let log = log_in(directory.path(), ROTATE_AT);
    let mut writer = Writer::open(&log).unwrap();
    writer.push(b"one\ntw", at(1)).unwrap();
    writer.push(b"o\nthree\n", at(2)).unwrap();
    writer.push(b"no end", at(3)).unwrap();
    writer.finish(at(4)).unwrap();
    let content = log.content();

    let check = |query: &str, expected: Expect| {
        let text = match Query::parse(query, at(4)) {
            Ok(query) => String::from_utf8(query.select(&content)).unwrap(),
            Err(error) => error.to_string(),
        };
        expected.assert_eq(&text);
    };
    check("", expect!["one\ntwo\nthree\nno end"]);
    check("tailLines=2", expect!["three\nno end"]);
    check("tailLines=0", expect![""]);
    check(
        "tailLines=99&timestamps=true&sinceSeconds=2",
        expect![[r#"
        2023-11-14T22:13:22.000000000Z two
        2023-11-14T22:13:22.000000000Z three
        2023-11-14T22:13:24.000000000Z no end"#]],
    );
    check("sinceTime=2023-11-14T22%3A13%3A23Z", expect!["no end"]);
    check("tailLines=x", expect![[r#"invalid log query: tailLines="x" is not a number of lines"#]]);
    check("tailLines=-1", expect![[r#"invalid log query: tailLines="-1" is not a number of lines"#]]);
    check(
        "limitBytes=0",
        expect![[r#"invalid log query: limitBytes="0" is not a positive number of bytes"#]],
    );
    check(
        "sinceTime=yesterday",
        expect![[r#"invalid log query: sinceTime="yesterday" is not an RFC 3339 time"#]],
    );
    check("follow=maybe", expect![[r#"invalid log query: follow="maybe" is not true or false"#]]);
}

#[test]
fn an_endless_line_is_kept_in_pieces_and_read_as_one() {
    let directory = tempfile::tempdir().unwrap();
    let log = log_in(directory.path(), ROTATE_AT);
    let mut writer = Writer::open(&log).unwrap();
    let long = vec![b'x'; 3 * LONGEST_RECORD];
    writer.push(&long, at(1)).unwrap();
    writer.push(b"\nshort\n", at(1)).unwrap();
    let query = Query { tail_lines: Some(2), ..Query::default() };
    assert_eq!(query.select(&log.content()).len(), long.len() + "\nshort\n".len());
    assert!(log.content().split(|b| *b == b'\n').all(|record| record.len() < LONGEST_RECORD + 64));
}

#[tokio::test]
async fn a_follower_sees_every_line_across_rotations_and_ends_with_the_container() {
    let directory = tempfile::tempdir().unwrap();
    let log = log_in(directory.path(), 400);
    let mut writer = Writer::open(&log).unwrap();
    writer.push(b"line 0\n", at(0)).unwrap();
    let query = Query { follow: true, ..Query::default() };
    let mut lines = stream(Arc::clone(&log), query).boxed();
    let mut seen = Vec::new();
    // One at a time: a reader that is slower than two whole files misses what was thrown away.
    for number in 1..50 {
        seen.extend(lines.try_next().await.unwrap().unwrap());
        writer.push(format!("line {number}\n").as_bytes(), at(number)).unwrap();
    }
    writer.finish(at(50)).unwrap();
    log.progress.send_modify(|progress| progress.ended = true);
    while let Some(bytes) = lines.try_next().await.unwrap() {
        seen.extend(bytes);
    }
    let expected: String = (0..50).map(|n| format!("line {n}\n")).collect();
    assert_eq!(String::from_utf8(seen).unwrap(), expected);
    assert!(log.progress.borrow().rotations > 2);
    assert!(log.content().len() <= 800, "only two files are kept");
}

#[tokio::test]
async fn limits_and_ends() {
    let directory = tempfile::tempdir().unwrap();
    let log = log_in(directory.path(), ROTATE_AT);
    let mut writer = Writer::open(&log).unwrap();
    writer.push(b"hello\nworld\n", at(0)).unwrap();
    let read = async |query: Query| {
        let parts: Vec<bytes::Bytes> = stream(Arc::clone(&log), query).try_collect().await.unwrap();
        String::from_utf8(parts.concat()).unwrap()
    };
    assert_eq!(read(Query::default()).await, "hello\nworld\n");
    assert_eq!(read(Query { limit_bytes: Some(7), follow: true, ..Query::default() }).await, "hello\nw");
    let later = Some(at(0) + SignedDuration::from_secs(1));
    assert_eq!(read(Query { since: later, ..Query::default() }).await, "");
    let none = tempfile::tempdir().unwrap();
    let ended = Log::ended(none.path());
    let parts: Vec<bytes::Bytes> =
        stream(ended, Query { follow: true, ..Query::default() }).try_collect().await.unwrap();
    assert!(parts.is_empty(), "following a log that has ended ends");
}

#[tokio::test]
async fn the_pump_takes_what_is_left_when_the_container_ends() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("fifo");
    nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let fifo = pipe::OpenOptions::new().read_write(true).open_receiver(&path).unwrap();
    let mut container = OpenOptions::new().read(true).write(true).open(&path).unwrap();
    let log = log_in(directory.path(), ROTATE_AT);
    let stop = CancellationToken::new();
    let text: String = (0..2000).map(|n| format!("line {n}\n")).collect();
    container.write_all(text.as_bytes()).unwrap();
    stop.cancel();
    log.pump(fifo, stop).await;
    assert_eq!(String::from_utf8(Query::default().select(&log.content())).unwrap(), text);
    assert!(log.progress.borrow().ended);
}
