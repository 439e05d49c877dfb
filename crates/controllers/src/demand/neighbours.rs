//! Whom news about a function concerns: activity flows to what it depends on, readiness to what depends on it.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use ondemand::Snapshot;

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Neighbours {
    /// All that hang together, for each that hangs together with anything.
    groups: HashMap<Arc<str>, Arc<BTreeSet<Arc<str>>>>,
    /// Functions for which a call of any other counts.
    start_with_any: Vec<Arc<str>>,
}

impl Neighbours {
    /// Looks at every function once, but only those with dependencies cost anything.
    pub fn new(snapshot: &Snapshot) -> Self {
        let mut edges: HashMap<Arc<str>, Vec<Arc<str>>> = HashMap::new();
        let mut start_with_any = Vec::new();
        for (name, function) in snapshot.functions.iter() {
            for dependency in &function.settings.depends_on {
                edges.entry(name.clone()).or_default().push(dependency.clone());
                edges.entry(dependency.clone()).or_default().push(name.clone());
            }
            if function.settings.starts_with_any {
                start_with_any.push(name.clone());
            }
        }
        let mut groups: HashMap<Arc<str>, Arc<BTreeSet<Arc<str>>>> = HashMap::new();
        for start in edges.keys() {
            if groups.contains_key(start) {
                continue;
            }
            let (mut group, mut open) = (BTreeSet::from([start.clone()]), vec![start.clone()]);
            while let Some(name) = open.pop() {
                for next in edges.get(&name).into_iter().flatten() {
                    if group.insert(next.clone()) {
                        open.push(next.clone());
                    }
                }
            }
            let group = Arc::new(group);
            groups.extend(group.iter().map(|name| (name.clone(), group.clone())));
        }
        Self { groups, start_with_any }
    }

    /// The function itself and all that hang together with it.
    pub fn of(&self, name: &Arc<str>) -> Vec<Arc<str>> {
        match self.groups.get(name) {
            Some(group) => group.iter().cloned().collect(),
            None => vec![name.clone()],
        }
    }

    /// Those that a call of whichever function concerns.
    pub fn of_any_call(&self) -> Vec<Arc<str>> {
        self.start_with_any.iter().flat_map(|name| self.of(name)).collect()
    }
}
