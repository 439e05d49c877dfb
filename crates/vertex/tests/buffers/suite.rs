use std::{collections::BTreeSet, time::Duration};

use bytes::Bytes;
use cluster::eventually;
use vertex::buffer::{Delivery, Error, Info, MAX_MESSAGE_BYTES, NewMessage, Settings, Shared, Ticket};

use crate::home::{Home, settings};

/// Longer than any test takes.
const LONG: Duration = Duration::from_secs(3600);
const SOON: Duration = Duration::from_millis(300);

fn message(text: &str) -> NewMessage {
    NewMessage { id: Some(format!("id-{text}")), payload: Bytes::copy_from_slice(text.as_bytes()) }
}

/// Whether each was new.
async fn publish(buffer: &Shared, texts: &[&str]) -> Vec<bool> {
    let answers = buffer.publish(texts.iter().map(|text| message(text)).collect()).await;
    answers.into_iter().map(|answer| !answer.unwrap().is_duplicate).collect()
}

async fn fetch(buffer: &Shared, max: usize) -> Vec<Delivery> {
    buffer.fetch(max, Duration::ZERO).await.unwrap()
}

/// At least one.
async fn wait(buffer: &Shared) -> Vec<Delivery> {
    let what = "something is delivered";
    let waited = eventually(what, || async {
        let deliveries = buffer.fetch(100, Duration::from_secs(1)).await?;
        Ok(if deliveries.is_empty() { Err("nothing") } else { Ok(deliveries) })
    });
    waited.await.unwrap()
}

fn texts(deliveries: &[Delivery]) -> Vec<&str> {
    deliveries.iter().map(|delivery| std::str::from_utf8(&delivery.payload).unwrap()).collect()
}

fn tickets(deliveries: &[Delivery]) -> Vec<Ticket> {
    deliveries.iter().map(|delivery| delivery.ticket.clone()).collect()
}

async fn counts(buffer: &Shared) -> (u64, u64) {
    let Info { pending, ack_pending } = buffer.info().await.unwrap();
    (pending, ack_pending)
}

pub async fn what_is_published_is_delivered_in_order(home: Home) {
    let buffer = home.make(settings()).await;
    assert_eq!(publish(&buffer, &["a", "b", "c"]).await, [true, true, true]);
    let first = fetch(&buffer, 2).await;
    assert_eq!(texts(&first), ["a", "b"]);
    let second = fetch(&buffer, 2).await;
    assert_eq!(texts(&second), ["c"]);
    let mut sequences: Vec<u64> = first.iter().chain(&second).map(|delivery| delivery.sequence).collect();
    assert!(sequences.is_sorted() && first.iter().all(|delivery| delivery.attempt == 1));
    sequences.dedup();
    assert_eq!(sequences.len(), 3);
    assert!(fetch(&buffer, 2).await.is_empty());
    buffer.ack(&tickets(&first)).await.unwrap();
    buffer.ack(&tickets(&first)).await.expect("what is acknowledged is acknowledged");
    buffer.ack(&tickets(&second)).await.unwrap();
    assert_eq!(counts(&buffer).await, (0, 0));
}

pub async fn the_same_id_is_kept_once(home: Home) {
    let buffer = home.make(settings()).await;
    assert_eq!(publish(&buffer, &["a", "b", "a"]).await, [true, true, false]);
    let all = fetch(&buffer, 10).await;
    assert_eq!(texts(&all), ["a", "b"]);
    buffer.ack(&tickets(&all)).await.unwrap();
    assert_eq!(publish(&buffer, &["b", "c"]).await, [false, true], "known although it is gone");
    let nameless = || NewMessage { id: None, payload: Bytes::from_static(b"same") };
    buffer.publish(vec![nameless(), nameless()]).await;
    assert_eq!(texts(&fetch(&buffer, 10).await), ["c", "same", "same"]);
}

pub async fn ids_are_forgotten_after_the_window(home: Home) {
    let buffer = home.make(Settings { duplicates: SOON, ..settings() }).await;
    assert_eq!(publish(&buffer, &["a"]).await, [true]);
    let forgotten = eventually("the id is forgotten", || async {
        tokio::time::sleep(SOON).await;
        Ok(if publish(&buffer, &["a"]).await == [true] { Ok(()) } else { Err("known") })
    });
    forgotten.await.unwrap();
}

pub async fn counters_tell_where_messages_are(home: Home) {
    let buffer = home.make(settings()).await;
    assert_eq!(counts(&buffer).await, (0, 0));
    publish(&buffer, &["a", "b", "c", "d", "e"]).await;
    assert_eq!(counts(&buffer).await, (5, 0));
    let taken = fetch(&buffer, 3).await;
    assert_eq!(counts(&buffer).await, (2, 3));
    buffer.ack(&tickets(&taken)[..2]).await.unwrap();
    assert_eq!(counts(&buffer).await, (2, 1));
    let from_outside = home.service().info(&home.name()).await.unwrap();
    assert_eq!(from_outside, Info { pending: 2, ack_pending: 1 });
}

pub async fn what_nobody_acknowledges_is_delivered_again(home: Home) {
    let buffer = home.make(Settings { ack_wait: SOON, ..settings() }).await;
    publish(&buffer, &["a"]).await;
    assert_eq!(fetch(&buffer, 1).await[0].attempt, 1);
    let again = wait(&buffer).await;
    assert_eq!(texts(&again), ["a"]);
    assert!(again[0].attempt >= 2);
    // the time may be over before the acknowledgement is there; it counts all the same
    buffer.ack(&tickets(&again)).await.unwrap();
    assert_eq!(counts(&buffer).await, (0, 0));
}

pub async fn progress_keeps_a_message(home: Home) {
    let ack_wait = Duration::from_secs(3);
    let buffer = home.make(Settings { ack_wait, ..settings() }).await;
    publish(&buffer, &["a"]).await;
    let began = tokio::time::Instant::now();
    let taken = fetch(&buffer, 1).await;
    let mut told = tokio::time::Instant::now();
    while began.elapsed() < ack_wait * 2 {
        buffer.in_progress(&tickets(&taken)).await.unwrap();
        let silence = told.elapsed();
        told = tokio::time::Instant::now();
        let seen = fetch(&buffer, 1).await;
        // a machine that stands still for so long proves nothing
        if silence.max(told.elapsed()) > ack_wait / 2 {
            return;
        }
        assert!(seen.is_empty(), "delivered although in progress");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

pub async fn what_is_given_back_comes_again_after_its_delay(home: Home) {
    let buffer = home.make(Settings { ack_wait: LONG, ..settings() }).await;
    publish(&buffer, &["a", "b"]).await;
    let taken = fetch(&buffer, 2).await;
    buffer.nack(&tickets(&taken)[..1], Duration::ZERO).await.unwrap();
    let again = wait(&buffer).await;
    assert_eq!((texts(&again), again[0].attempt), (vec!["a"], 2));
    buffer.nack(&tickets(&taken)[1..], LONG).await.unwrap();
    assert!(fetch(&buffer, 2).await.is_empty());
    buffer.nack(&tickets(&again), SOON).await.unwrap();
    assert_eq!(texts(&wait(&buffer).await), ["a"]);
    assert_eq!(counts(&buffer).await.0 + counts(&buffer).await.1, 2);
}

pub async fn no_more_wait_for_acknowledgement_than_allowed(home: Home) {
    let buffer = home.make(Settings { max_ack_pending: 2, ack_wait: LONG, ..settings() }).await;
    publish(&buffer, &["a", "b", "c"]).await;
    let taken = fetch(&buffer, 3).await;
    assert_eq!(texts(&taken), ["a", "b"]);
    assert!(fetch(&buffer, 3).await.is_empty());
    buffer.ack(&tickets(&taken)).await.unwrap();
    assert_eq!(texts(&wait(&buffer).await), ["c"]);
}

pub async fn whoever_waits_gets_the_next_message(home: Home) {
    let buffer = home.make(settings()).await;
    let reader = buffer.clone();
    let waiting = tokio::spawn(async move { wait(&reader).await });
    tokio::time::sleep(Duration::from_millis(50)).await;
    publish(&buffer, &["late"]).await;
    assert_eq!(texts(&waiting.await.unwrap()), ["late"]);
    assert!(buffer.fetch(1, SOON).await.unwrap().is_empty(), "nothing comes, and the wait ends");
}

pub async fn readers_share_what_is_there(home: Home) {
    let buffer = home.make(settings()).await;
    let all: Vec<String> = (0..300).map(|number| number.to_string()).collect();
    publish(&buffer, &all.iter().map(String::as_str).collect::<Vec<_>>()).await;
    let mut readers = Vec::new();
    for _ in 0..3 {
        let reader = home.open().await;
        readers.push(tokio::spawn(async move {
            let mut seen = Vec::new();
            loop {
                let deliveries = fetch(&reader, 17).await;
                if deliveries.is_empty() {
                    return seen;
                }
                reader.ack(&tickets(&deliveries)).await.unwrap();
                seen.extend(texts(&deliveries).into_iter().map(str::to_owned));
            }
        }));
    }
    let mut seen = Vec::new();
    for reader in readers {
        seen.extend(reader.await.unwrap());
    }
    assert_eq!(seen.len(), 300, "each once");
    assert_eq!(seen.into_iter().collect::<BTreeSet<_>>().len(), 300);
}

pub async fn large_messages_are_refused_and_many_are_cut(home: Home) {
    let buffer = home.make(settings()).await;
    let large = |bytes: usize| NewMessage { id: None, payload: Bytes::from(vec![7; bytes]) };
    let refused = buffer.publish(vec![large(MAX_MESSAGE_BYTES + 1)]).await.remove(0);
    assert!(matches!(&refused, Err(Error::Refused(words)) if words.contains("too large")), "{refused:?}");
    // more than fits into one request, and into one fetch
    for answer in buffer.publish(vec![large(MAX_MESSAGE_BYTES - 1000); 18]).await {
        answer.unwrap();
    }
    let mut n_seen = 0;
    while n_seen < 18 {
        let deliveries = wait(&buffer).await;
        assert!(deliveries.len() <= 8, "{} large messages in one fetch", deliveries.len());
        buffer.ack(&tickets(&deliveries)).await.unwrap();
        n_seen += deliveries.len();
    }
    assert_eq!((n_seen, counts(&buffer).await), (18, (0, 0)));
}

pub async fn buffers_are_made_and_deleted(home: Home) {
    let (service, name) = (home.service(), home.name());
    assert_eq!(service.info(&name).await, Err(Error::NotFound(name.clone())));
    assert!(matches!(service.open(&name).await.map(|_| ()), Err(Error::NotFound(_))));
    service.delete(&name).await.expect("nothing to delete is no error");
    let buffer = home.make(settings()).await;
    publish(&buffer, &["a"]).await;
    let buffer = home.make(settings()).await;
    assert_eq!(counts(&buffer).await, (1, 0), "made again, it stays as it is");
    service.delete(&name).await.unwrap();
    assert_eq!(service.info(&name).await, Err(Error::NotFound(name.clone())));
    let refused = buffer.publish(vec![message("b")]).await.remove(0);
    assert!(refused.is_err());
    let buffer = home.make(settings()).await;
    assert_eq!((counts(&buffer).await, publish(&buffer, &["a"]).await), ((0, 0), vec![true]));
}

pub async fn everything_outlives_a_restart(mut home: Home) {
    let buffer = home.make(Settings { ack_wait: Duration::from_secs(2), ..Settings::default() }).await;
    publish(&buffer, &["a", "b", "c"]).await;
    let taken = fetch(&buffer, 2).await;
    let last = taken[1].sequence;
    buffer.ack(&tickets(&taken)[..1]).await.unwrap();
    drop(buffer);
    home.restart().await;
    let buffer = home.open().await;
    assert_eq!(publish(&buffer, &["a", "c", "d"]).await, [false, false, true], "ids are known");
    let (mut seen, mut highest) = (BTreeSet::new(), 0);
    while !["b", "c", "d"].iter().all(|text| seen.contains(*text)) {
        let deliveries = wait(&buffer).await;
        seen.extend(texts(&deliveries).into_iter().map(str::to_owned));
        highest = highest.max(deliveries.iter().map(|delivery| delivery.sequence).max().unwrap());
        buffer.ack(&tickets(&deliveries)).await.unwrap();
    }
    if home.acknowledges_durably() {
        assert_eq!(seen.into_iter().collect::<Vec<_>>(), ["b", "c", "d"], "acknowledged stays acknowledged");
    }
    assert!(highest > last, "sequences go on");
}

pub async fn a_full_buffer_refuses(home: Home) {
    let buffer = home.make(Settings { max_messages: 2, ..settings() }).await;
    publish(&buffer, &["a", "b"]).await;
    let refused = buffer.publish(vec![message("c")]).await.remove(0);
    assert_eq!(refused, Err(Error::Full(home.name())));
    let taken = fetch(&buffer, 1).await;
    buffer.ack(&tickets(&taken)).await.unwrap();
    assert_eq!(publish(&buffer, &["d"]).await, [true]);
}
