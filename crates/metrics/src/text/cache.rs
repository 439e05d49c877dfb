//! Series as a target writes them, to what the store calls them.
//!
//! A target writes the same lines in the same order in every scrape, so the cache keeps its entries in that order and
//! first compares the line with the entry that followed last time: no hash, no search for the end of the series. Only
//! when that fails it looks the text up.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};

/// What one target exposed in its last scrape. `R` is the store's reference.
#[derive(Debug, Clone)]
pub struct SeriesCache<R> {
    entries: Vec<Entry<R>>,
    /// By keyed hash, so that a target cannot craft collisions; the text decides.
    by_hash: HashMap<u64, u32>,
    keys: RandomState,
    /// The entry that the next line is expected to be.
    cursor: usize,
    scrape: u64,
    n_seen: usize,
    /// Which set of wanted names the entries belong to.
    wanted_version: u64,
}

#[derive(Debug, Clone)]
struct Entry<R> {
    raw: Box<str>,
    series: R,
    /// Scrape and position in it.
    seen: (u64, u32),
}

impl<R> Default for SeriesCache<R> {
    fn default() -> Self {
        Self {
            entries: Vec::new(),
            by_hash: HashMap::new(),
            keys: RandomState::new(),
            cursor: 0,
            scrape: 0,
            n_seen: 0,
            wanted_version: 0,
        }
    }
}

impl<R: Copy> SeriesCache<R> {
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub fn clear(&mut self) {
        self.entries.clear();
        self.by_hash.clear();
        self.cursor = 0;
    }

    /// Starts a scrape. Entries made for another set of wanted names are of no use.
    pub fn begin(&mut self, wanted_version: u64) {
        if self.wanted_version != wanted_version {
            self.clear();
            self.wanted_version = wanted_version;
        }
        self.scrape += 1;
        self.cursor = 0;
        self.n_seen = 0;
    }

    /// The series at the start of `line` if it is the expected one, with the length of its text.
    #[inline]
    pub fn expected(&mut self, line: &str) -> Option<(R, usize)> {
        let entry = self.entries.get_mut(self.cursor)?;
        let n = entry.raw.len();
        let bytes = line.as_bytes();
        if bytes.len() <= n || bytes[..n] != *entry.raw.as_bytes() {
            return None;
        }
        // `ab 1` is not a sample of `a`; behind a closing brace a name cannot go on.
        if !entry.raw.ends_with('}') && !matches!(bytes[n], b' ' | b'\t') {
            return None;
        }
        let series = entry.series;
        self.mark(self.cursor);
        Some((series, n))
    }

    /// Looks the text of a series up.
    pub fn find(&mut self, raw: &str) -> Option<R> {
        let at = *self.by_hash.get(&self.keys.hash_one(raw))? as usize;
        let entry = self.entries.get(at)?;
        if *entry.raw != *raw {
            return None;
        }
        let series = entry.series;
        self.mark(at);
        Some(series)
    }

    fn mark(&mut self, at: usize) {
        let (scrape, position) = (self.scrape, self.position() + 1);
        let entry = &mut self.entries[at];
        if entry.seen.0 != scrape {
            entry.seen = (scrape, position);
            self.n_seen += 1;
        }
        self.cursor = at + 1;
    }

    /// Adds what the store made of the texts it had not seen, and forgets what the scrape did not bring.
    pub fn finish(&mut self, learned: impl IntoIterator<Item = (Box<str>, R, u32)>) {
        let n_known = self.entries.len();
        let vanished = self.n_seen < n_known;
        let scrape = self.scrape;
        self.entries.retain(|e| e.seen.0 == scrape);
        self.entries.extend(learned.into_iter().map(|(raw, series, position)| Entry {
            raw,
            series,
            seen: (scrape, position),
        }));
        if vanished || self.entries.len() > n_known {
            self.entries.sort_by_key(|e| e.seen.1);
            let keys = &self.keys;
            let hashes = self.entries.iter().zip(0..).map(|(e, at)| (keys.hash_one(&*e.raw), at));
            self.by_hash = hashes.collect();
        }
    }

    /// The position of a new series at this point of the scrape: behind what was seen, before the next known one.
    pub fn position(&self) -> u32 {
        2 * self.n_seen as u32
    }
}
