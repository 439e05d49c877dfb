//! What one query may cost. The crate has no clock: whoever runs a query says through `interrupted` when it is too late.

use std::cell::Cell;

use crate::error::{Error, Result};

/// Bounds of one query. Each is checked before the memory is taken or the work is done.
#[derive(Clone, Copy)]
pub struct Limits<'a> {
    /// Samples read plus values produced, over all parts of the query: bounds both time and memory.
    pub samples: u64,
    /// Series that one selector may match.
    pub series: u64,
    /// Steps of a range query or of a subquery.
    pub steps: u64,
    /// Nesting of the expression.
    pub depth: usize,
    /// Asked between series; `true` cuts the query off.
    pub interrupted: Option<&'a dyn Fn() -> bool>,
}

impl Default for Limits<'_> {
    fn default() -> Self {
        // 50 million samples is what Prometheus allows; 11,000 steps is its limit for a range query.
        Self { samples: 50_000_000, series: 500_000, steps: 11_000, depth: 100, interrupted: None }
    }
}

impl std::fmt::Debug for Limits<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { samples, series, steps, depth, interrupted } = self;
        write!(f, "Limits {{ samples: {samples}, series: {series}, steps: {steps}, depth: {depth}, ")?;
        write!(f, "interrupted: {} }}", if interrupted.is_some() { "asked" } else { "never" })
    }
}

/// What is left of the limits while a query runs.
pub(crate) struct Budget<'a> {
    pub(crate) limits: Limits<'a>,
    spent: Cell<u64>,
}

impl<'a> Budget<'a> {
    pub(crate) fn new(limits: Limits<'a>) -> Self {
        Self { limits, spent: Cell::new(0) }
    }

    /// Takes `n` samples off the budget.
    pub(crate) fn spend(&self, n: usize) -> Result<()> {
        let spent = self.spent.get().saturating_add(n as u64);
        self.spent.set(spent);
        if spent > self.limits.samples {
            return Err(Error::Limit { what: "samples", limit: self.limits.samples });
        }
        Ok(())
    }

    pub(crate) fn check_time(&self) -> Result<()> {
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
