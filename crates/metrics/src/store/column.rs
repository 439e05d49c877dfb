//! The values of one series: appended at one end, forgotten at the other, and read meanwhile.
//!
//! A clone shares the cells. It sees what was there when it was made: cells are written once, behind all that any clone
//! can see. So a snapshot of 50,000 series costs 50,000 reference counts, and scrapes go on while a query reads it.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The bits of floats, since only integers are atomic. A reader got the column through a lock, which orders everything
/// that was written before; what is written later it does not look at.
#[derive(Debug, Clone)]
pub(crate) struct Column {
    cells: Arc<[AtomicU64]>,
    from: usize,
    len: usize,
}

impl Default for Column {
    fn default() -> Self {
        Self { cells: Arc::new([]), from: 0, len: 0 }
    }
}

impl From<Vec<f64>> for Column {
    fn from(values: Vec<f64>) -> Self {
        let cells = values.iter().map(|v| AtomicU64::new(v.to_bits())).collect();
        Self { cells, from: 0, len: values.len() }
    }
}

impl Column {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    fn bits(&self, range: Range<usize>) -> &[AtomicU64] {
        let end = range.end.min(self.len);
        &self.cells[self.from + range.start.min(end)..self.from + end]
    }

    pub(crate) fn values(&self, range: Range<usize>) -> impl Iterator<Item = f64> + '_ {
        self.bits(range).iter().map(|bits| f64::from_bits(bits.load(Ordering::Relaxed)))
    }

    pub(crate) fn last(&self) -> Option<f64> {
        self.values(self.len.saturating_sub(1)..self.len).next()
    }

    /// Only the store's own column is pushed to, never two clones of one: they would write into the same cell.
    pub(super) fn push(&mut self, value: f64) {
        if self.from + self.len == self.cells.len() {
            self.reserve(1);
        }
        self.cells[self.from + self.len].store(value.to_bits(), Ordering::Relaxed);
        self.len += 1;
    }

    /// Makes room for `n` more. Doubling would leave up to half of the memory unused; an eighth keeps 10,000 series × 360
    /// below 40 MB.
    pub(super) fn reserve(&mut self, n: usize) {
        if self.from + self.len + n > self.cells.len() {
            self.rebuild(n + (self.len / 8).max(8));
        }
    }

    /// Forgets the first `n`.
    pub(super) fn cut(&mut self, n: usize) {
        let n = n.min(self.len);
        self.from += n;
        self.len -= n;
        // A column that ended, or was longer once, should not hold memory for rows that will not come.
        if self.cells.len() > self.len + self.len / 8 + 64 {
            self.rebuild(24);
        }
    }

    fn rebuild(&mut self, spare: usize) {
        let kept = self.values(0..self.len).map(f64::to_bits);
        let cells = kept.chain(std::iter::repeat_n(0, spare)).map(AtomicU64::new).collect::<Vec<_>>();
        *self = Self { cells: cells.into(), from: 0, len: self.len };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(column: &Column) -> Vec<f64> {
        column.values(0..column.len()).collect()
    }

    #[test]
    fn a_clone_keeps_what_it_saw() {
        let mut column = Column::default();
        let mut clones = Vec::new();
        for n in 0..300 {
            column.push(f64::from(n));
            if n % 7 == 0 {
                column.cut(3);
            }
            if n % 10 == 0 {
                clones.push((all(&column), column.clone()));
            }
        }
        assert!(clones.len() == 30 && clones.iter().all(|(seen, clone)| all(clone) == *seen));
        // The first cut finds one value only.
        assert_eq!((column.len(), column.last()), (300 - 1 - 3 * 42, Some(299.0)));
    }

    #[test]
    fn memory_that_is_not_used_is_given_back() {
        let mut column = Column::from(vec![1.0; 10_000]);
        column.cut(9_990);
        assert!(column.cells.len() <= 34, "{}", column.cells.len());
        column.cut(10);
        assert!(column.is_empty() && column.last().is_none());
    }
}
