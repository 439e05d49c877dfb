//! The figure of each object, and who has seen it when.

use std::{
    collections::HashSet,
    fmt::Write,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Instant,
};

/// What a replica is there for.
pub const PER_REPLICA: i32 = 10;

pub struct Figures(Mutex<State>);

struct State {
    values: Vec<i32>,
    /// When each scrape was answered.
    scrapes: Vec<Instant>,
    /// Objects whose figure was asked for by its own.
    asked: HashSet<usize>,
    /// How often that was, of whichever object.
    n_answers: u64,
}

impl Figures {
    /// Enough for one replica of each.
    pub fn new(n_objects: usize) -> Self {
        let values = vec![PER_REPLICA; n_objects];
        Self(Mutex::new(State { values, scrapes: Vec::new(), asked: HashSet::new(), n_answers: 0 }))
    }

    /// Enough for so many replicas.
    pub fn set(&self, wanted: &[(usize, i32)]) {
        let mut state = self.state();
        for (object, replicas) in wanted {
            state.values[*object] = replicas * PER_REPLICA;
        }
    }

    /// All of them, in Prometheus's text format.
    pub fn page(&self) -> String {
        let mut state = self.state();
        let mut page = String::from("# TYPE load gauge\n");
        for (object, value) in state.values.iter().enumerate() {
            let _ = writeln!(page, "load{{object=\"{}\"}} {value}", name(object));
        }
        state.scrapes.push(Instant::now());
        page
    }

    /// That of one object, which counts as looked at.
    pub fn of(&self, object: usize) -> Option<i32> {
        let mut state = self.state();
        state.asked.insert(object);
        state.n_answers += 1;
        state.values.get(object).copied()
    }

    pub fn n_scrapes(&self) -> usize {
        self.state().scrapes.len()
    }

    pub fn shown_after(&self, time: Instant) -> Option<Instant> {
        self.state().scrapes.iter().find(|at| **at >= time).copied()
    }

    pub fn n_asked(&self) -> usize {
        self.state().asked.len()
    }

    pub fn n_answers(&self) -> u64 {
        self.state().n_answers
    }

    pub fn forget_asked(&self) {
        self.state().asked.clear();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub fn name(object: usize) -> String {
    format!("f{object:05}")
}

/// The object of such a name.
pub fn number(name: &str) -> Option<usize> {
    name.strip_prefix('f')?.parse().ok()
}
