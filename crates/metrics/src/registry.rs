//! Which metrics anybody asks for. Only those are stored.
//!
//! A name is asked for by every query that reads it. Nodes share what they were asked: each exports its registry and
//! merges the others', the later time wins. A name that nobody asked for during a retention window is forgotten.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use promql::{MatchOp, Matcher, MetricNames};
use serde::{Deserialize, Serialize};

use crate::Millis;

/// More names than this are not remembered: a registry comes from other nodes too and must stay small.
const MAX_ENTRIES: usize = 10_000;

#[derive(Debug, Clone, Default)]
pub struct Registry {
    asked: Asked,
    wanted: Arc<Wanted>,
}

/// When each name was last asked for: what nodes exchange.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Asked {
    pub names: BTreeMap<String, Millis>,
    /// Selectors that describe names by conditions, such as `{__name__=~"http_.*"}`.
    pub patterns: BTreeMap<String, Pattern>,
    /// When a selector that says nothing about the name was last asked: then every metric is wanted.
    pub any: Option<Millis>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pattern {
    /// Operator (`=`, `!=`, `=~`, `!~`) and value; all must hold.
    pub conditions: Vec<(String, String)>,
    pub asked: Millis,
}

/// The wanted names at one moment, ready to be asked once per line.
#[derive(Debug, Default)]
pub struct Wanted {
    /// Differs between any two sets that one registry hands out.
    pub version: u64,
    names: HashSet<String>,
    patterns: Vec<Vec<Matcher>>,
    any: bool,
}

// === impl Registry ===

impl Registry {
    pub fn new() -> Self {
        Self::default()
    }

    /// Notes that a query reads these names.
    pub fn ask(&mut self, names: &MetricNames, now: Millis) {
        self.merge(&Asked {
            names: names.exact.iter().map(|n| (n.clone(), now)).collect(),
            patterns: names.patterns.iter().map(|p| described(p, now)).collect(),
            any: names.any.then_some(now),
        });
    }

    /// Takes over what another node was asked.
    pub fn merge(&mut self, other: &Asked) {
        let mut is_new = other.any.is_some() && self.asked.any.is_none();
        self.asked.any = self.asked.any.max(other.any);
        for (name, &time) in &other.names {
            is_new |= note(&mut self.asked.names, name, time, || time, |known| known);
        }
        for (key, pattern) in &other.patterns {
            let (time, new) = (pattern.asked, || pattern.clone());
            is_new |= note(&mut self.asked.patterns, key, time, new, |known| &mut known.asked);
        }
        if is_new {
            self.rebuild();
        }
    }

    /// Forgets what was last asked before `oldest`.
    pub fn forget_before(&mut self, oldest: Millis) {
        let before = (self.asked.names.len(), self.asked.patterns.len(), self.asked.any.is_some());
        self.asked.names.retain(|_, asked| *asked >= oldest);
        self.asked.patterns.retain(|_, p| p.asked >= oldest);
        self.asked.any = self.asked.any.filter(|asked| *asked >= oldest);
        if before != (self.asked.names.len(), self.asked.patterns.len(), self.asked.any.is_some()) {
            self.rebuild();
        }
    }

    /// What other nodes should hear.
    pub fn asked(&self) -> &Asked {
        &self.asked
    }

    pub fn wanted(&self) -> Arc<Wanted> {
        self.wanted.clone()
    }

    /// Sorted; patterns as they would be written in a query.
    pub fn names(&self) -> Vec<String> {
        let any = self.asked.any.map(|_| "{}".to_string());
        self.asked.names.keys().chain(self.asked.patterns.keys()).cloned().chain(any).collect()
    }

    fn rebuild(&mut self) {
        self.wanted = Arc::new(Wanted {
            version: self.wanted.version + 1,
            names: self.asked.names.keys().cloned().collect(),
            patterns: self.asked.patterns.values().filter_map(Pattern::matchers).collect(),
            any: self.asked.any.is_some(),
        });
    }
}

/// Sets the later time of a known entry or adds a new one; says whether it was new.
fn note<V>(
    map: &mut BTreeMap<String, V>,
    key: &str,
    time: Millis,
    new: impl FnOnce() -> V,
    asked: impl Fn(&mut V) -> &mut Millis,
) -> bool {
    if let Some(known) = map.get_mut(key) {
        let asked = asked(known);
        *asked = time.max(*asked);
        return false;
    }
    let has_room = map.len() < MAX_ENTRIES;
    if has_room {
        map.insert(key.to_string(), new());
    }
    has_room
}

fn described(matchers: &[Matcher], asked: Millis) -> (String, Pattern) {
    let conditions: Vec<(String, String)> =
        matchers.iter().map(|m| (symbol(m.op).to_string(), m.value.clone())).collect();
    let texts: Vec<String> = conditions.iter().map(|(op, v)| format!("__name__{op}{v:?}")).collect();
    (format!("{{{}}}", texts.join(",")), Pattern { conditions, asked })
}

fn symbol(op: MatchOp) -> &'static str {
    match op {
        MatchOp::Equal => "=",
        MatchOp::NotEqual => "!=",
        MatchOp::Regex => "=~",
        MatchOp::NotRegex => "!~",
    }
}

impl Pattern {
    /// None if another node sent something that is no pattern: it wants nothing then.
    fn matchers(&self) -> Option<Vec<Matcher>> {
        let matcher = |(op, value): &(String, String)| {
            let ops = [MatchOp::Equal, MatchOp::NotEqual, MatchOp::Regex, MatchOp::NotRegex];
            let op = ops.into_iter().find(|o| symbol(*o) == op)?;
            Matcher::new(promql::METRIC_NAME, op, value).ok()
        };
        if self.conditions.is_empty() { None } else { self.conditions.iter().map(matcher).collect() }
    }
}

// === impl Wanted ===

impl Wanted {
    pub fn contains(&self, name: &str) -> bool {
        self.any
            || self.names.contains(name)
            || self.patterns.iter().any(|p| p.iter().all(|m| m.matches(name)))
    }

    pub fn is_empty(&self) -> bool {
        !self.any && self.names.is_empty() && self.patterns.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(query: &str) -> MetricNames {
        promql::parse(query).unwrap().metric_names()
    }

    #[test]
    fn names_are_wanted_until_nobody_asked_for_a_window() {
        let mut registry = Registry::new();
        registry.ask(&names("sum(rate(a[1m])) / b"), 1_000);
        registry.ask(&names(r#"{__name__=~"http_.+"}"#), 1_000);
        let first = registry.wanted();
        assert!(["a", "b", "http_x"].iter().all(|n| first.contains(n)) && !first.contains("c"));
        assert_eq!(registry.names(), ["a", "b", r#"{__name__=~"http_.+"}"#]);

        registry.ask(&names("a"), 5_000);
        assert_eq!(registry.wanted().version, first.version, "asking again changes no set");
        registry.forget_before(2_000);
        assert_eq!(registry.names(), ["a"]);
        assert!(!registry.wanted().contains("http_x") && registry.wanted().version != first.version);

        registry.ask(&names(r#"{job="x"}"#), 6_000);
        assert!(registry.wanted().contains("anything"));
        registry.forget_before(10_000);
        assert!(registry.wanted().is_empty());
    }

    #[test]
    fn nodes_share_what_they_were_asked() {
        let (mut here, mut there) = (Registry::new(), Registry::new());
        here.ask(&names(r#"a + {__name__!~"x.*",__name__=~".+_total"}"#), 1_000);
        there.ask(&names("b"), 2_000);
        let wire = serde_json::to_string(here.asked()).unwrap();
        there.merge(&serde_json::from_str(&wire).unwrap());
        let wanted = there.wanted();
        assert!(wanted.contains("a") && wanted.contains("b") && wanted.contains("y_total"));
        assert!(!wanted.contains("x_total"));

        let broken =
            r#"{"patterns":{"p":{"conditions":[["=~","("]],"asked":1},"q":{"conditions":[],"asked":1}}}"#;
        let before = there.names().len();
        there.merge(&serde_json::from_str(broken).unwrap());
        assert_eq!(there.names().len(), before + 2);
        assert!(!there.wanted().contains("z"), "what cannot be read wants nothing");
    }
}
