//! Label sets: sorted, shared, hashed once.
//!
//! A label set is read for every series of every query but made once per series, so it carries its hash, and its
//! strings are shared (`Arc<str>`): a store that interns them (see [`Interner`]) holds each name and value once.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::{Arc, LazyLock};

use crate::error::Result;
use crate::eval::block::Row;
use crate::limits::Budget;

/// The label that holds the metric's name.
pub const METRIC_NAME: &str = "__name__";
/// The label that holds a classic histogram bucket's upper bound.
pub const BUCKET: &str = "le";
/// Labels that describe a metric rather than a series; they fall together whenever an operation changes its meaning.
const METADATA: [&str; 3] = [METRIC_NAME, "__type__", "__unit__"];

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Label {
    pub name: Arc<str>,
    pub value: Arc<str>,
}

/// The identity of a series. Cloning is a reference count; an empty value is the same as no label.
#[derive(Clone)]
pub struct Labels {
    hash: u64,
    pairs: Arc<[Label]>,
}

// === impl Labels ===

impl Labels {
    pub fn empty() -> Self {
        static EMPTY: LazyLock<Labels> = LazyLock::new(|| Labels::from_sorted(Vec::new()));
        EMPTY.clone()
    }

    /// Sorts by name; of two pairs with one name the later wins; empty values are left out.
    pub fn from_pairs<N: Into<Arc<str>>, V: Into<Arc<str>>>(pairs: impl IntoIterator<Item = (N, V)>) -> Self {
        let mut all: Vec<Label> =
            pairs.into_iter().map(|(n, v)| Label { name: n.into(), value: v.into() }).collect();
        all.sort_by(|a, b| a.name.cmp(&b.name));
        let mut kept: Vec<Label> = Vec::with_capacity(all.len());
        for label in all {
            match kept.last_mut() {
                Some(last) if last.name == label.name => *last = label,
                _ => kept.push(label),
            }
        }
        kept.retain(|l| !l.value.is_empty());
        Self::from_sorted(kept)
    }

    fn from_sorted(pairs: Vec<Label>) -> Self {
        let mut hash = FastHash::default();
        for Label { name, value } in &pairs {
            hash.add(name);
            hash.add(value);
        }
        Self { hash: hash.finish(), pairs: pairs.into() }
    }

    /// The value of a label, "" if the series does not have it.
    pub fn get(&self, name: &str) -> &str {
        self.find(name).map_or("", |v| v)
    }

    pub(crate) fn find(&self, name: &str) -> Option<&Arc<str>> {
        // Series have a handful of labels: a scan beats a binary search.
        self.pairs.iter().find(|l| *l.name == *name).map(|l| &l.value)
    }

    pub fn metric_name(&self) -> &str {
        self.get(METRIC_NAME)
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> + Clone {
        self.pairs.iter().map(|l| (&*l.name, &*l.value))
    }

    pub fn is_empty(&self) -> bool {
        self.pairs.is_empty()
    }

    /// Bytes that the set takes, without its strings, which are shared.
    pub fn footprint(&self) -> usize {
        size_of::<Self>() + 2 * size_of::<usize>() + size_of_val(&*self.pairs)
    }

    /// As text for an error, cut short: a label value may be long.
    pub(crate) fn shown(&self) -> String {
        const MOST: usize = 500;
        let text = self.to_string();
        match text.char_indices().nth(MOST) {
            Some((at, _)) => format!("{}…", &text[..at]),
            None => text,
        }
    }

    pub fn without(&self, names: &[impl AsRef<str>]) -> Self {
        self.filtered(|name| !names.iter().any(|n| n.as_ref() == name))
    }

    pub fn keep(&self, names: &[impl AsRef<str>]) -> Self {
        self.filtered(|name| names.iter().any(|n| n.as_ref() == name))
    }

    /// Without name, type and unit: what remains once an operation changed what the value means.
    pub fn without_metadata(&self) -> Self {
        self.filtered(|name| !METADATA.contains(&name))
    }

    fn filtered(&self, keep: impl Fn(&str) -> bool) -> Self {
        if self.pairs.iter().all(|l| keep(&l.name)) {
            return self.clone();
        }
        Self::from_sorted(self.pairs.iter().filter(|l| keep(&l.name)).cloned().collect())
    }

    /// Sets a label, or removes it if `value` is empty.
    pub fn with(&self, name: &str, value: &str) -> Self {
        self.with_value(&name, (!value.is_empty()).then(|| value.into()))
    }

    /// As `with`, for strings that something else holds already.
    pub(crate) fn with_shared(&self, name: &Arc<str>, value: Option<&Arc<str>>) -> Self {
        self.with_value(name, value.cloned())
    }

    fn with_value<N: AsRef<str> + Clone + Into<Arc<str>>>(&self, name: &N, value: Option<Arc<str>>) -> Self {
        let mut pairs = self.pairs.to_vec();
        match (pairs.binary_search_by(|l| (*l.name).cmp(name.as_ref())), value) {
            (Ok(at), None) => drop(pairs.remove(at)),
            (Ok(at), Some(value)) => pairs[at].value = value,
            (Err(_), None) => {}
            (Err(at), Some(value)) => pairs.insert(at, Label { name: name.clone().into(), value }),
        }
        Self::from_sorted(pairs)
    }

    /// The number in [0, 1) by which `limit_ratio` picks series: XXH64 over length-prefixed names and values, which is
    /// how Prometheus hashes label sets, so that both pick the same series.
    pub(crate) fn ratio_offset(&self) -> f64 {
        let mut bytes = Vec::with_capacity(64);
        for (name, value) in self.iter() {
            for part in [name, value] {
                push_length(&mut bytes, part.len());
                bytes.extend_from_slice(part.as_bytes());
            }
        }
        twox_hash::XxHash64::oneshot(0, &bytes) as f64 / u64::MAX as f64
    }
}

/// One byte below 255, else 255 and three bytes little endian.
fn push_length(bytes: &mut Vec<u8>, len: usize) {
    if len < 255 {
        bytes.push(len as u8);
    } else {
        bytes.extend_from_slice(&[255, len as u8, (len >> 8) as u8, (len >> 16) as u8]);
    }
}

impl PartialEq for Labels {
    fn eq(&self, other: &Self) -> bool {
        self.hash == other.hash && (Arc::ptr_eq(&self.pairs, &other.pairs) || self.pairs == other.pairs)
    }
}

impl Eq for Labels {}

impl PartialOrd for Labels {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Labels {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.pairs.cmp(&other.pairs)
    }
}

impl std::hash::Hash for Labels {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.hash);
    }
}

impl fmt::Display for Labels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("{")?;
        for (i, (name, value)) in self.iter().enumerate() {
            let comma = if i == 0 { "" } else { ", " };
            write!(f, "{comma}{name}={value:?}")?;
        }
        f.write_str("}")
    }
}

impl fmt::Debug for Labels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

// === hashing ===

/// Multiply-and-rotate over eight bytes at a time. Not resistant to crafted collisions: every map keyed by it compares
/// the labels themselves on a hit.
#[derive(Default)]
pub(crate) struct FastHash(u64);

impl FastHash {
    const SEED: u64 = 0x517c_c1b7_2722_0a95;

    pub(crate) fn add(&mut self, text: &str) {
        let mut chunks = text.as_bytes().chunks_exact(8);
        for chunk in &mut chunks {
            let mut word = [0; 8];
            word.copy_from_slice(chunk);
            self.mix(u64::from_le_bytes(word));
        }
        let mut word = [0; 8];
        let rest = chunks.remainder();
        word[..rest.len()].copy_from_slice(rest);
        self.mix(u64::from_le_bytes(word));
        self.mix(text.len() as u64);
    }

    fn mix(&mut self, word: u64) {
        self.0 = (self.0.rotate_left(5) ^ word).wrapping_mul(Self::SEED);
    }

    pub(crate) fn finish(&self) -> u64 {
        // The high bits are the well mixed ones, and tables look at the low ones.
        self.0 ^ (self.0 >> 32)
    }
}

/// For maps whose keys are hashes already.
#[derive(Default)]
pub(crate) struct Identity(u64);

impl Hasher for Identity {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        for &b in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(b);
        }
    }
    fn write_u64(&mut self, n: u64) {
        self.0 = n;
    }
}

pub(crate) type ByHash<K, V> = HashMap<K, V, BuildHasherDefault<Identity>>;

/// Which labels two series must share to fall into one group.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Projection {
    /// Only these (`by`, `on`).
    Only(Vec<Arc<str>>),
    /// All but these (`without`, `ignoring`); the metric's name is among them where the language says so.
    AllBut(Vec<Arc<str>>),
}

impl Projection {
    fn hash(&self, labels: &Labels) -> u64 {
        let mut hash = FastHash::default();
        match self {
            Self::Only(names) => names.iter().for_each(|n| hash.add(labels.get(n))),
            Self::AllBut(names) => {
                for (name, value) in labels.iter().filter(|(n, _)| !names.iter().any(|x| **x == **n)) {
                    hash.add(name);
                    hash.add(value);
                }
            }
        }
        hash.finish()
    }

    fn same(&self, a: &Labels, b: &Labels) -> bool {
        match self {
            Self::Only(names) => names.iter().all(|n| a.get(n) == b.get(n)),
            Self::AllBut(names) => {
                let kept = |(n, _): &(&str, &str)| !names.iter().any(|x| **x == **n);
                a.iter().filter(kept).eq(b.iter().filter(kept))
            }
        }
    }

    /// The label set that names the group of `labels`.
    pub(crate) fn apply(&self, labels: &Labels) -> Labels {
        match self {
            Self::Only(names) => labels.keep(names),
            Self::AllBut(names) => labels.without(names),
        }
    }
}

/// Numbers groups in the order in which their first member is seen.
pub(crate) struct Grouper<'p> {
    projection: &'p Projection,
    budget: &'p Budget<'p>,
    ordinals: ByHash<u64, Vec<u32>>,
    first: Vec<Labels>,
}

impl<'p> Grouper<'p> {
    pub(crate) fn new(projection: &'p Projection, budget: &'p Budget<'p>) -> Self {
        Self { projection, budget, ordinals: ByHash::default(), first: Vec::new() }
    }

    pub(crate) fn ordinal(&mut self, labels: &Labels) -> Result<usize> {
        /// A table entry, a list of one and the labels' handle.
        const GROUP: usize = 96;
        self.budget.work(labels.pairs.len() + 1)?;
        let candidates = self.ordinals.entry(self.projection.hash(labels)).or_default();
        for &at in candidates.iter() {
            self.budget.work(labels.pairs.len())?;
            if self.projection.same(&self.first[at as usize], labels) {
                return Ok(at as usize);
            }
        }
        self.budget.take(GROUP)?;
        candidates.push(self.first.len() as u32);
        self.first.push(labels.clone());
        Ok(self.first.len() - 1)
    }

    /// The group of each row.
    pub(crate) fn ordinals(&mut self, rows: &[Row]) -> Result<Vec<usize>> {
        self.budget.take_all::<usize>(rows.len())?;
        rows.iter().map(|row| self.ordinal(&row.labels)).collect()
    }

    /// For each group the labels of its first member.
    pub(crate) fn into_first(self) -> Vec<Labels> {
        self.first
    }

    pub(crate) fn len(&self) -> usize {
        self.first.len()
    }
}

/// Shares equal strings, for stores that hold many series.
#[derive(Default, Debug)]
pub struct Interner(HashSet<Arc<str>>);

impl Interner {
    pub fn intern(&mut self, text: &str) -> Arc<str> {
        if let Some(known) = self.0.get(text) {
            return known.clone();
        }
        let new: Arc<str> = text.into();
        self.0.insert(new.clone());
        new
    }

    /// The same labels, with shared strings.
    pub fn share(&mut self, labels: &Labels) -> Labels {
        let shared = |l: &Label| Label { name: self.intern(&l.name), value: self.intern(&l.value) };
        Labels { hash: labels.hash, pairs: labels.pairs.iter().map(shared).collect() }
    }

    /// Forgets strings that nobody but the interner holds.
    pub fn shrink(&mut self) {
        self.0.retain(|s| Arc::strong_count(s) > 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_sorted_unique_and_without_empty_values() {
        let labels = Labels::from_pairs([("b", "2"), ("a", "1"), ("c", ""), ("b", "3")]);
        assert_eq!(labels.to_string(), r#"{a="1", b="3"}"#);
        assert_eq!(labels, Labels::from_pairs([("a", "1"), ("b", "3")]));
        assert_eq!(labels.with("b", ""), Labels::from_pairs([("a", "1")]));
        assert_eq!(labels.with("aa", "x").to_string(), r#"{a="1", aa="x", b="3"}"#);
        assert_eq!(labels.get("missing"), "");
    }

    #[test]
    fn groups_are_told_apart_by_their_labels_not_by_their_hash() {
        let by_a = Projection::Only(vec!["a".into()]);
        let budget = Budget::new(crate::limits::Limits::default());
        let mut grouper = Grouper::new(&by_a, &budget);
        let sets = [[("a", "1"), ("b", "1")], [("a", "2"), ("b", "1")], [("a", "1"), ("b", "2")]];
        let ordinals: Vec<usize> = sets.map(|s| grouper.ordinal(&Labels::from_pairs(s)).unwrap()).into();
        assert_eq!(ordinals, [0, 1, 0]);

        // All sets share one bucket of the table: equality must still keep them apart.
        let mut crowded = Grouper::new(&by_a, &budget);
        let every = |v: &str| Labels::from_pairs([("a", v)]);
        let one = crowded.ordinal(&every("1")).unwrap();
        let hash_of_two = by_a.hash(&every("2"));
        crowded.ordinals.insert(hash_of_two, vec![one as u32]);
        assert_ne!(crowded.ordinal(&every("2")).unwrap(), one);
    }
}
