use std::{
    collections::{BTreeMap, btree_map::Entry},
    fmt,
};

use super::{Path, PathElement};

/// A set of paths, as a tree. A path in it says nothing about its parents: `.a.b` may be in without `.a`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Set {
    /// Every node is a member or has one below it; `is_empty` and `==` count on that.
    nodes: BTreeMap<PathElement, Node>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Node {
    /// The path that ends here is in the set.
    pub member: bool,
    pub below: Set,
}

// === impl Node ===

impl Node {
    pub(crate) fn member() -> Self {
        Self { member: true, below: Set::new() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        !self.member && self.below.is_empty()
    }
}

// === impl Set ===

impl Set {
    pub const fn new() -> Self {
        Self { nodes: BTreeMap::new() }
    }

    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// The empty path names the whole object, which nobody owns: it is not added.
    pub fn insert(&mut self, path: &Path) {
        let Some((last, parents)) = path.0.split_last() else { return };
        let mut set = self;
        for parent in parents {
            set = &mut set.nodes.entry(parent.clone()).or_default().below;
        }
        set.nodes.entry(last.clone()).or_default().member = true;
    }

    pub fn contains(&self, path: &Path) -> bool {
        let Some((last, parents)) = path.0.split_last() else { return false };
        let mut set = self;
        for parent in parents {
            match set.nodes.get(parent) {
                Some(node) => set = &node.below,
                None => return false,
            }
        }
        set.has(last)
    }

    /// Is the path of this one element in the set?
    pub fn has(&self, element: &PathElement) -> bool {
        self.nodes.get(element).is_some_and(|node| node.member)
    }

    /// What the set holds below `element`.
    pub fn below(&self, element: &PathElement) -> &Set {
        static EMPTY: Set = Set::new();
        self.nodes.get(element).map_or(&EMPTY, |node| &node.below)
    }

    #[must_use]
    pub fn union(mut self, other: &Set) -> Set {
        for (element, theirs) in &other.nodes {
            match self.nodes.entry(element.clone()) {
                Entry::Vacant(place) => {
                    place.insert(theirs.clone());
                }
                Entry::Occupied(mut place) => {
                    let ours = place.get_mut();
                    ours.member |= theirs.member;
                    ours.below = std::mem::take(&mut ours.below).union(&theirs.below);
                }
            }
        }
        self
    }

    #[must_use]
    pub fn intersection(&self, other: &Set) -> Set {
        self.filter_map(|element, node| {
            let theirs = other.nodes.get(element)?;
            Some(Node { member: node.member && theirs.member, below: node.below.intersection(&theirs.below) })
        })
    }

    /// Without the paths of `other`; what lies below such a path stays.
    #[must_use]
    pub fn difference(&self, other: &Set) -> Set {
        self.filter_map(|element, node| match other.nodes.get(element) {
            None => Some(node.clone()),
            Some(theirs) => Some(Node {
                member: node.member && !theirs.member,
                below: node.below.difference(&theirs.below),
            }),
        })
    }

    /// Without the paths of `other` and everything below them.
    #[must_use]
    pub fn difference_with_children(&self, other: &Set) -> Set {
        self.filter_map(|element, node| match other.nodes.get(element) {
            None => Some(node.clone()),
            Some(theirs) if theirs.member => None,
            Some(theirs) => {
                Some(Node { member: node.member, below: node.below.difference_with_children(&theirs.below) })
            }
        })
    }

    /// Only the paths of `other`, what leads to them and everything below them.
    #[must_use]
    pub fn only_under(&self, other: &Set) -> Set {
        self.filter_map(|element, node| {
            let theirs = other.nodes.get(element)?;
            if theirs.member {
                return Some(node.clone());
            }
            Some(Node { member: node.member, below: node.below.only_under(&theirs.below) })
        })
    }

    /// The paths below which the set has no other.
    #[must_use]
    pub fn leaves(&self) -> Set {
        self.filter_map(|_, node| {
            Some(Node { member: node.member && node.below.is_empty(), below: node.below.leaves() })
        })
    }

    /// In the order in which messages list them: what is here first, then what is below, each sorted.
    pub fn paths(&self) -> Vec<Path> {
        fn collect(set: &Set, prefix: &mut Vec<PathElement>, out: &mut Vec<Path>) {
            for (element, _) in set.nodes.iter().filter(|(_, node)| node.member) {
                let mut path = prefix.clone();
                path.push(element.clone());
                out.push(Path(path));
            }
            for (element, node) in &set.nodes {
                prefix.push(element.clone());
                collect(&node.below, prefix, out);
                prefix.pop();
            }
        }
        let mut out = Vec::new();
        collect(self, &mut Vec::new(), &mut out);
        out
    }

    pub(crate) fn nodes(&self) -> impl Iterator<Item = (&PathElement, &Node)> {
        self.nodes.iter()
    }

    /// Adds what a walk found below `element`, if it found something.
    pub(crate) fn attach(&mut self, element: &PathElement, node: Node) {
        if node.is_empty() {
            return;
        }
        match self.nodes.entry(element.clone()) {
            Entry::Vacant(place) => {
                place.insert(node);
            }
            Entry::Occupied(mut place) => {
                let ours = place.get_mut();
                ours.member |= node.member;
                ours.below = std::mem::take(&mut ours.below).union(&node.below);
            }
        }
    }

    pub(crate) fn filter_map(&self, mut f: impl FnMut(&PathElement, &Node) -> Option<Node>) -> Set {
        let nodes = self
            .nodes
            .iter()
            .filter_map(|(element, node)| Some((element.clone(), f(element, node)?)))
            .filter(|(_, node)| !node.is_empty());
        Set { nodes: nodes.collect() }
    }
}

impl FromIterator<Path> for Set {
    fn from_iter<I: IntoIterator<Item = Path>>(paths: I) -> Self {
        let mut set = Set::new();
        for path in paths {
            set.insert(&path);
        }
        set
    }
}

impl fmt::Display for Set {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let paths: Vec<_> = self.paths().iter().map(Path::to_string).collect();
        f.write_str(&paths.join("\n"))
    }
}
