//! What one query may cost. The crate has no clock: whoever runs a query says through `interrupted` when it is too late.

use std::cell::Cell;

use crate::error::{Error, Result};
use crate::labels::Labels;
use crate::pattern::{self, Allowance, Pattern};

/// Bounds of one query. Each is checked before the memory is taken or the work is done.
#[derive(Clone, Copy)]
pub struct Limits<'a> {
    /// Samples read plus values produced, over all parts of the query: bounds the work.
    pub samples: u64,
    /// Bytes of everything that is made on the way to the result, the result and its encoding included. What is freed
    /// before the end counts too, so that a query never holds more than this.
    pub memory: u64,
    /// Series that one selector may match.
    pub series: u64,
    /// Steps of a range query or of a subquery.
    pub steps: u64,
    /// Nesting of the expression.
    pub depth: usize,
    /// Bytes of one label value that the query makes. Patterns are run over label values, and a pattern cannot be
    /// interrupted.
    pub label_value: usize,
    /// Asked every few thousand steps of work; `true` cuts the query off.
    pub interrupted: Option<&'a dyn Fn() -> bool>,
}

impl Default for Limits<'_> {
    fn default() -> Self {
        // 50 million samples is what Prometheus allows; 11,000 steps is its limit for a range query.
        Self {
            samples: 50_000_000,
            memory: 256 << 20,
            series: 500_000,
            steps: 11_000,
            depth: 100,
            label_value: 64 << 10,
            interrupted: None,
        }
    }
}

impl std::fmt::Debug for Limits<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { samples, memory, series, steps, depth, label_value, interrupted } = self;
        f.debug_struct("Limits")
            .field("samples", samples)
            .field("memory", memory)
            .field("series", series)
            .field("steps", steps)
            .field("depth", depth)
            .field("label_value", label_value)
            .field("interrupted", &if interrupted.is_some() { "asked" } else { "never" })
            .finish()
    }
}

/// What is left of the limits while a query runs and its result is written.
#[derive(Debug)]
pub struct Budget<'a> {
    pub(crate) limits: Limits<'a>,
    samples: Cell<u64>,
    bytes: Cell<u64>,
    /// Work done since somebody asked for the time.
    unasked: Cell<usize>,
    patterns: Cell<Allowance>,
}

/// Work between two looks at the clock: some microseconds.
const LOOK_EVERY: usize = 2_000;

impl<'a> Budget<'a> {
    pub fn new(limits: Limits<'a>) -> Self {
        Self {
            limits,
            samples: Cell::new(0),
            bytes: Cell::new(0),
            unasked: Cell::new(0),
            patterns: Cell::new(Allowance::default()),
        }
    }

    /// Notes `n` small steps of work; an error once the time is over. Every loop over what the query reads or makes
    /// calls it.
    #[inline]
    pub fn work(&self, n: usize) -> Result<()> {
        let unasked = self.unasked.get().saturating_add(n);
        self.unasked.set(unasked);
        if unasked < LOOK_EVERY {
            return Ok(());
        }
        self.unasked.set(0);
        self.check_time()
    }

    /// Takes bytes off the budget, before they are allocated.
    #[inline]
    pub fn take(&self, bytes: usize) -> Result<()> {
        let taken = self.bytes.get().saturating_add(bytes as u64);
        self.bytes.set(taken);
        if taken > self.limits.memory {
            return Err(Error::Limit { what: "bytes of memory", limit: self.limits.memory });
        }
        Ok(())
    }

    /// As `take`, for `n` things of one type.
    #[inline]
    pub fn take_all<T>(&self, n: usize) -> Result<()> {
        self.take(n.saturating_mul(size_of::<T>()))
    }

    /// Bytes taken so far.
    pub fn taken(&self) -> u64 {
        self.bytes.get()
    }

    /// Takes `n` samples off the budget.
    pub(crate) fn spend(&self, n: usize) -> Result<()> {
        let spent = self.samples.get().saturating_add(n as u64);
        self.samples.set(spent);
        if spent > self.limits.samples {
            return Err(Error::Limit { what: "samples", limit: self.limits.samples });
        }
        self.work(n)
    }

    /// Takes off a new row of `width` values, and the work of filling it.
    pub(crate) fn row(&self, width: usize) -> Result<()> {
        self.take(width.saturating_mul(8).saturating_add(size_of::<crate::eval::block::Row>()))?;
        self.work(width + 1)
    }

    /// Takes off a label set that was made; its strings are shared with the one it was made from.
    pub(crate) fn labels(&self, made: Labels) -> Result<Labels> {
        self.take(made.footprint())?;
        Ok(made)
    }

    /// Takes off a label value of so many bytes.
    pub(crate) fn label_value(&self, bytes: usize) -> Result<()> {
        if bytes > self.limits.label_value {
            return Err(Error::Limit {
                what: "bytes in one label value",
                limit: self.limits.label_value as u64,
            });
        }
        self.take(bytes)?;
        self.work(bytes / 64)
    }

    pub(crate) fn compile(&self, pattern: &str) -> std::result::Result<Pattern, pattern::Refusal> {
        let mut allowance = self.patterns.get();
        let compiled = pattern::compile(pattern, &mut allowance);
        self.patterns.set(allowance);
        compiled
    }

    pub fn check_time(&self) -> Result<()> {
        match self.limits.interrupted {
            Some(interrupted) if interrupted() => Err(Error::Interrupted),
            _ => Ok(()),
        }
    }

    pub(crate) fn check_series(&self, n: usize) -> Result<()> {
        if n as u64 > self.limits.series {
            return Err(Error::Limit { what: "series in one selector", limit: self.limits.series });
        }
        Ok(())
    }

    pub(crate) fn check_steps(&self, n: u64) -> Result<()> {
        if n > self.limits.steps {
            return Err(Error::Limit { what: "steps", limit: self.limits.steps });
        }
        Ok(())
    }
}
