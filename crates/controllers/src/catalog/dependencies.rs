//! What functions wait for before they start, and what of that cannot be.

use std::{
    collections::{BTreeMap, HashSet},
    sync::Arc,
};

use api::slimfaas::Problem;
use decide::demand::{Graph, Node};
use ondemand::Function;

/// A workload that is no function, but that functions depend on. It is waited for, and nobody here scales it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnmanagedWorkload {
    pub wanted: i32,
    pub ready: i32,
}

pub type Unmanaged = BTreeMap<Arc<str>, UnmanagedWorkload>;

impl UnmanagedWorkload {
    pub fn node(self, name: &Arc<str>) -> Node {
        Node::plain(name.clone(), self.ready, self.wanted)
    }
}

/// Every name that some function depends on.
pub fn names(functions: &BTreeMap<Arc<str>, Arc<Function>>) -> HashSet<Arc<str>> {
    functions.values().flat_map(|function| function.settings.depends_on.iter().cloned()).collect()
}

/// Tells functions that wait for each other (they are started all the same), for nothing, or for what does not come.
/// It costs as much as there are dependencies, however many functions there are.
pub fn report(
    functions: &mut BTreeMap<Arc<str>, Arc<Function>>,
    named: &HashSet<Arc<str>>,
    unmanaged: &Unmanaged,
) {
    let is_concerned = |name: &Arc<str>, function: &Function| {
        !function.settings.depends_on.is_empty() || named.contains(name)
    };
    let concerned = functions.iter().filter(|(name, function)| is_concerned(name, function));
    let of_functions = concerned.map(|(name, function)| Node {
        depends_on: function.settings.depends_on.clone(),
        ..Node::plain(name.clone(), 0, 0)
    });
    let graph =
        Graph::new(of_functions.chain(unmanaged.iter().map(|(name, plain)| plain.node(name))).collect());
    for (name, function) in functions {
        if function.settings.depends_on.is_empty() {
            continue;
        }
        let found = graph.dependencies(name);
        let asleep = |name: &&Arc<str>| unmanaged.get(*name).is_some_and(|plain| plain.wanted == 0);
        let asleep: Vec<&str> = found.waiting_for.iter().filter(asleep).map(AsRef::as_ref).collect();
        let mut tell = |message: String| {
            Arc::make_mut(function).problems.push(Problem::new("SlimFaas/DependsOn", message))
        };
        found.cycle_words(name).into_iter().for_each(&mut tell);
        if !found.unknown.is_empty() {
            tell(format!(
                "there is no workload {} in the namespace, so it is not waited for: look for a typing error",
                found.unknown.join(", ")
            ));
        }
        if !asleep.is_empty() {
            tell(format!(
                "{} has no replicas and is no function, so nobody wakes it: scale it up, or annotate it",
                asleep.join(", ")
            ));
        }
    }
}
