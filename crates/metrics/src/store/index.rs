//! Label names and values, to the series that have them.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use promql::{Budget, Interner, Labels, Matcher, Result};

/// For each label name and value the ascending slots of the series that carry it.
#[derive(Debug, Default, Clone)]
pub(super) struct Index {
    by_name: HashMap<Arc<str>, HashMap<Arc<str>, Vec<u32>>>,
}

/// Slots, ascending, and the matchers that remain to be asked of each; without slots it may be any.
pub(super) type Candidates<'i, 'm> = (Option<Cow<'i, [u32]>>, Vec<&'m Matcher>);

impl Index {
    pub(super) fn insert(&mut self, labels: &Labels, slot: u32, interner: &mut Interner) {
        for (name, value) in labels.iter() {
            let known = self.by_name.get_mut(name).and_then(|values| values.get_mut(value));
            let postings = match known {
                Some(postings) => postings,
                None => {
                    let values = self.by_name.entry(interner.intern(name)).or_default();
                    values.entry(interner.intern(value)).or_default()
                }
            };
            // Slots grow until the first one is reused, so this is mostly a push.
            match postings.last() {
                Some(&last) if last > slot => postings.insert(postings.partition_point(|&s| s < slot), slot),
                _ => postings.push(slot),
            }
        }
    }

    /// Removes many series at once: each list is walked once, however many of them it loses.
    pub(super) fn remove(&mut self, labels: &[Labels], slots: &HashSet<u32>) {
        let pairs: HashSet<(&str, &str)> = labels.iter().flat_map(Labels::iter).collect();
        for (name, value) in pairs {
            let Some(values) = self.by_name.get_mut(name) else { continue };
            let Some(postings) = values.get_mut(value) else { continue };
            postings.retain(|slot| !slots.contains(slot));
            if postings.is_empty() {
                values.remove(value);
            }
            if values.is_empty() {
                self.by_name.remove(name);
            }
        }
    }

    /// Slots of the series that these matchers may accept, ascending, and the matchers that remain to be asked of each.
    /// None if the index cannot narrow anything down.
    pub(super) fn candidates<'m>(
        &self,
        matchers: &'m [Matcher],
        budget: &Budget<'_>,
    ) -> Result<Candidates<'_, 'm>> {
        // A matcher that accepts "" also accepts series without the label, which the index does not list.
        let (narrowing, rest): (Vec<&Matcher>, Vec<&Matcher>) = matchers.iter().partition(|m| !m.matches(""));
        let mut lists: Vec<Cow<'_, [u32]>> =
            narrowing.iter().map(|m| self.postings(m, budget)).collect::<Result<_>>()?;
        lists.sort_by_key(|list| list.len());
        let candidates = lists.into_iter().reduce(|few, many| Cow::Owned(intersection(&few, &many)));
        Ok((candidates, rest))
    }

    fn postings(&self, matcher: &Matcher, budget: &Budget<'_>) -> Result<Cow<'_, [u32]>> {
        let Some(values) = self.by_name.get(&*matcher.name) else { return Ok(Cow::Borrowed(&[])) };
        let mut lists: Vec<&Vec<u32>> = Vec::new();
        match matcher.exact_values() {
            Some(exact) => lists.extend(exact.iter().filter_map(|v| values.get(&**v))),
            None => {
                for (value, list) in values {
                    budget.work(8 + value.len() / 8)?;
                    if matcher.matches(value) {
                        lists.push(list);
                    }
                }
            }
        }
        budget.take_all::<&Vec<u32>>(lists.len())?;
        if let [one] = lists[..] {
            return Ok(Cow::Borrowed(one));
        }
        let n_slots = lists.iter().map(|list| list.len()).sum();
        budget.take_all::<u32>(n_slots)?;
        budget.work(n_slots)?;
        let mut all: Vec<u32> = lists.into_iter().flatten().copied().collect();
        all.sort_unstable();
        all.dedup();
        Ok(Cow::Owned(all))
    }
}

/// Of two ascending lists, the first the shorter one.
fn intersection(few: &[u32], many: &[u32]) -> Vec<u32> {
    let mut rest = many;
    let mut both = Vec::with_capacity(few.len());
    for &slot in few {
        // Doubling steps: cheap when the lists are alike, logarithmic when one is much longer.
        let mut step = 1;
        while step < rest.len() && rest[step - 1] < slot {
            step *= 2;
        }
        let window = &rest[..step.min(rest.len())];
        rest = &rest[window.partition_point(|&s| s < slot)..];
        if rest.first() == Some(&slot) {
            both.push(slot);
        }
    }
    both
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(repeatable::cases(256))]

        #[test]
        fn intersection_is_that_of_sets(a in prop::collection::btree_set(0..200_u32, 0..60),
                                        b in prop::collection::btree_set(0..200_u32, 0..120)) {
            let list = |set: &std::collections::BTreeSet<u32>| set.iter().copied().collect::<Vec<_>>();
            let both: Vec<u32> = a.intersection(&b).copied().collect();
            prop_assert_eq!(intersection(&list(&a), &list(&b)), both);
        }
    }
}
