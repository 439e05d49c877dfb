//! Timelines in text: a row a tick, and what was decided is appended to the row.
//!
//! A row starts with `t=30s` (after [`start`]) or with a timestamp; then come `key=value` words that each policy reads
//! in its own way. A row without `replicas=` starts from what the row before decided.

use std::fmt::Debug;

use jiff::Timestamp;
use serde::{Serialize, de::DeserializeOwned};

use crate::{Decision, Rule, decision::replay, window::after};

pub fn start() -> Timestamp {
    "2026-03-01T12:00:00Z".parse().unwrap()
}

pub struct Row<'a> {
    pub now: Timestamp,
    pub replicas: i32,
    pub words: Vec<(&'a str, &'a str)>,
}

impl<'a> Row<'a> {
    fn parse(line: &'a str, replicas: i32) -> Self {
        let mut words = line.split_whitespace();
        let moment = words.next().unwrap();
        let now = match moment.strip_prefix("t=") {
            Some(seconds) => after(start(), seconds.trim_end_matches('s').parse().unwrap()),
            None => moment.parse().unwrap(),
        };
        let mut row = Row { now, replicas, words: words.map(|word| word.split_once('=').unwrap()).collect() };
        if let Some(replicas) = row.get("replicas") {
            row.replicas = replicas.parse().unwrap();
        }
        row.words.retain(|(key, _)| *key != "replicas");
        row
    }

    pub fn get(&self, key: &str) -> Option<&'a str> {
        self.words.iter().find(|(word, _)| *word == key).map(|(_, value)| *value)
    }
}

/// Every tick also sends memory and steps through JSON and replays the steps: both must survive it anywhere.
pub fn timeline<M, R>(
    rows: &str,
    mut decide: impl FnMut(&Row<'_>, M) -> Decision<M, R>,
) -> (String, Vec<Decision<M, R>>)
where
    M: Serialize + DeserializeOwned + Default + PartialEq + Debug,
    R: Rule<Value = i32> + Serialize + DeserializeOwned + PartialEq,
{
    let (mut replicas, mut memory) = (0, M::default());
    let (mut text, mut decisions) = (String::new(), Vec::new());
    for line in rows.trim().lines().map(str::trim) {
        let decision = decide(&Row::parse(line, replicas), memory);
        assert_survives(&decision);
        text.push_str(&format!(
            "{line} => {} {}: {}\n",
            decision.desired,
            decision.reason.code,
            decision.why()
        ));
        replicas = decision.desired;
        memory = serde_json::from_value(serde_json::to_value(&decision.memory).unwrap()).unwrap();
        decisions.push(decision);
    }
    (text, decisions)
}

pub fn assert_survives<M, R>(decision: &Decision<M, R>)
where
    M: Serialize + DeserializeOwned + PartialEq + Debug,
    R: Rule<Value = i32> + Serialize + DeserializeOwned + PartialEq,
{
    let recorded = serde_json::to_string(&decision.steps).unwrap();
    let steps: Vec<crate::Step<R>> = serde_json::from_str(&recorded).unwrap();
    assert_eq!(steps, decision.steps);
    assert_eq!(replay(decision.current, &steps), Ok(decision.desired));
    let memory = serde_json::to_string(&decision.memory).unwrap();
    assert_eq!(serde_json::from_str::<M>(&memory).unwrap(), decision.memory);
}
