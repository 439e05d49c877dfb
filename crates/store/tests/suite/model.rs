//! Random sequences of calls against the plainest queue there could be.

use std::time::Duration;

use bytes::Bytes;
use proptest::{
    prelude::*,
    test_runner::{RngSeed, TestRunner},
};
use store::{Counts, Error, NewItem, Settle, Shared};

use crate::home::{Home, LONG, take_at};

#[derive(Clone, Debug)]
enum Call {
    Enqueue(u8),
    Take {
        spots: Vec<&'static str>,
        per_spot: usize,
        in_flight: usize,
    },
    /// Of the n-th that was ever given out, settled or not.
    Settle(prop::sample::Index, Settle),
    Replay(u8),
    Bury(u8),
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Stands {
    Ready,
    Held { ticket: u64, spot: &'static str },
    Waits,
    Dead,
}

#[derive(Debug, Default)]
struct Model {
    /// In the order they came.
    items: Vec<(u8, u32, Stands)>,
}

fn call() -> impl Strategy<Value = Call> {
    // no time passes in the model: leases are long, and a retry comes at once or not at all
    let settle = prop_oneof![
        3 => Just(Settle::Done),
        2 => Just(Settle::Retry(Duration::ZERO)),
        1 => Just(Settle::Retry(LONG)),
        2 => Just(Settle::Dead("dead".to_owned())),
        1 => Just(Settle::Extend(LONG)),
    ];
    let spot = prop::sample::select(vec!["a", "b", "c"]);
    prop_oneof![
        5 => (0..12_u8).prop_map(Call::Enqueue),
        4 => (prop::collection::vec(spot, 0..4), 0..4_usize, 0..6_usize)
            .prop_map(|(spots, per_spot, in_flight)| Call::Take { spots, per_spot, in_flight }),
        5 => (any::<prop::sample::Index>(), settle).prop_map(|(index, settle)| Call::Settle(index, settle)),
        1 => (0..12_u8).prop_map(Call::Replay),
        1 => (0..12_u8).prop_map(Call::Bury),
    ]
}

impl Model {
    fn count(&self, which: impl Fn(Stands) -> bool) -> usize {
        self.items.iter().filter(|item| which(item.2)).count()
    }

    fn held(&self) -> usize {
        self.count(|stands| matches!(stands, Stands::Held { .. }))
    }

    fn held_at(&self, at: &str) -> usize {
        self.count(|stands| matches!(stands, Stands::Held { spot, .. } if spot == at))
    }

    /// Number, attempt and spot of each.
    fn take(&mut self, spots: &[&'static str], per_spot: usize, in_flight: usize) -> Vec<(u8, u32, usize)> {
        let mut taken = Vec::new();
        for (index, spot) in spots.iter().enumerate() {
            if self.held() >= in_flight || self.held_at(spot) >= per_spot {
                continue;
            }
            let Some(item) = self.items.iter_mut().find(|item| item.2 == Stands::Ready) else { break };
            item.1 += 1;
            item.2 = Stands::Held { ticket: 0, spot };
            taken.push((item.0, item.1, index));
        }
        taken
    }

    /// False if the ticket is not the one that counts.
    fn settle(&mut self, id: u8, ticket: u64, settle: &Settle) -> bool {
        let is_held = |stands| matches!(stands, Stands::Held { ticket: current, .. } if current == ticket);
        let Some(at) = self.items.iter().position(|item| item.0 == id && is_held(item.2)) else {
            return false;
        };
        match settle {
            Settle::Done => drop(self.items.remove(at)),
            Settle::Retry(Duration::ZERO) => self.items[at].2 = Stands::Ready,
            Settle::Retry(_) => self.items[at].2 = Stands::Waits,
            Settle::Dead(_) => self.items[at].2 = Stands::Dead,
            Settle::Extend(_) => {}
        }
        true
    }

    fn raise(&mut self, id: u8, keep: bool) -> bool {
        let Some(at) = self.items.iter().position(|item| item.0 == id && item.2 == Stands::Dead) else {
            return false;
        };
        if keep {
            self.items[at] = (id, 0, Stands::Ready);
        } else {
            self.items.remove(at);
        }
        true
    }
}

async fn check(store: &Shared, queue: &str, calls: Vec<Call>) {
    let mut model = Model::default();
    let mut given: Vec<(u8, u64)> = Vec::new();
    for call in calls {
        match call {
            Call::Enqueue(id) => {
                let item = NewItem { id: id.to_string(), head: Bytes::new(), body: Bytes::from(vec![id]) };
                store.enqueue(queue, item).await.unwrap();
                if model.items.iter().all(|item| item.0 != id) {
                    model.items.push((id, 0, Stands::Ready));
                }
            }
            Call::Take { spots, per_spot, in_flight } => {
                let taken = store.take(queue, take_at(&spots, per_spot, in_flight, LONG)).await.unwrap();
                let seen: Vec<(u8, u32, usize)> =
                    taken.iter().map(|taken| (taken.body[0], taken.attempt, taken.spot)).collect();
                assert_eq!(seen, model.take(&spots, per_spot, in_flight));
                for taken in taken {
                    let id: u8 = taken.id.parse().unwrap();
                    assert!(!given.contains(&(id, taken.ticket)), "a ticket was given out twice");
                    given.push((id, taken.ticket));
                    let item = model.items.iter_mut().find(|item| item.0 == id).unwrap();
                    item.2 = Stands::Held { ticket: taken.ticket, spot: spots[taken.spot] };
                }
            }
            Call::Settle(_, _) if given.is_empty() => {}
            Call::Settle(index, settle) => {
                let (id, ticket) = given[index.index(given.len())];
                let expected = model.settle(id, ticket, &settle);
                match store.settle(queue, &id.to_string(), ticket, settle).await {
                    Ok(()) => assert!(expected, "an old ticket was accepted"),
                    Err(Error::Conflict { .. }) => assert!(!expected, "the ticket was refused"),
                    Err(error) => panic!("{error}"),
                }
            }
            Call::Replay(id) => {
                assert_eq!(store.replay(queue, &id.to_string()).await.unwrap(), model.raise(id, true));
            }
            Call::Bury(id) => {
                assert_eq!(store.bury(queue, &id.to_string()).await.unwrap(), model.raise(id, false));
            }
        }
        let counts = store.counts(queue).await.unwrap();
        let expected = Counts {
            ready: model.count(|stands| stands == Stands::Ready),
            in_flight: model.held(),
            retry_pending: model.count(|stands| stands == Stands::Waits),
            dead: model.count(|stands| stands == Stands::Dead),
            oldest_unix_ms: counts.oldest_unix_ms,
        };
        assert_eq!(counts, expected);
        assert_eq!(counts.oldest_unix_ms.is_some(), counts.ready > 0);
        let spots = store.spots(queue).await.unwrap();
        for spot in ["a", "b", "c"] {
            assert_eq!(spots.get(spot).copied().unwrap_or(0), model.held_at(spot), "{spot}: {spots:?}");
        }
    }
}

fn run(home: impl AsyncFnOnce() -> Home, cases: u32, seed: u64) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let store = runtime.block_on(async { home().await.open().await });
    let config = ProptestConfig {
        cases,
        rng_seed: RngSeed::Fixed(seed),
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    let number = std::cell::Cell::new(0);
    let outcome = TestRunner::new(config).run(&prop::collection::vec(call(), 1..60), |calls| {
        number.set(number.get() + 1);
        runtime.block_on(check(&store, &format!("q{}", number.get()), calls));
        Ok(())
    });
    outcome.unwrap();
}

#[test]
fn in_memory() {
    run(Home::memory, 200, 1);
}

#[test]
fn in_a_file() {
    run(Home::redb, 20, 2);
}

#[test]
fn on_nats() {
    run(Home::nats, 20, 3);
}
