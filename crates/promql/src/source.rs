//! Where the engine reads from: one trait, and the matchers it hands over.

use std::collections::BTreeSet;

use crate::error::{Error, Result};
use crate::labels::Labels;
use crate::limits::Budget;
use crate::pattern::{self, Allowance, Pattern};

/// Milliseconds since the epoch, both ends included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimeRange {
    pub min: i64,
    pub max: i64,
}

/// One series as the engine sees it: contiguous columns of equal length, times strictly ascending.
///
/// A sample whose value is a stale marker ([`STALE`]) ends the series there. Samples outside the asked time range
/// do no harm, they only cost time.
#[derive(Debug, Clone, Copy)]
pub struct SeriesView<'a> {
    pub labels: &'a Labels,
    pub timestamps: &'a [i64],
    pub values: &'a [f64],
}

/// Something that holds series.
pub trait SeriesSource {
    /// Hands every series that all `matchers` accept, and that may have samples in `range`, to `visit`, in an order
    /// that does not change between calls. An error of `visit` ends the selection and is returned. What the search
    /// itself costs is taken off the budget.
    fn select(
        &self,
        matchers: &[Matcher],
        range: TimeRange,
        budget: &Budget<'_>,
        visit: &mut dyn FnMut(SeriesView<'_>) -> Result<()>,
    ) -> Result<()>;
}

impl<S: SeriesSource + ?Sized> SeriesSource for &S {
    fn select(
        &self,
        matchers: &[Matcher],
        range: TimeRange,
        budget: &Budget<'_>,
        visit: &mut dyn FnMut(SeriesView<'_>) -> Result<()>,
    ) -> Result<()> {
        (**self).select(matchers, range, budget, visit)
    }
}

/// The NaN by which a scraper marks that a series ended. It is told from other NaNs by its bits.
pub const STALE: f64 = f64::from_bits(0x7ff0_0000_0000_0002);

pub fn is_stale(value: f64) -> bool {
    value.to_bits() == STALE.to_bits()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MatchOp {
    Equal,
    NotEqual,
    Regex,
    NotRegex,
}

/// A condition on one label. A label that a series lacks has the value "".
#[derive(Debug, Clone)]
pub struct Matcher {
    pub name: String,
    pub op: MatchOp,
    pub value: String,
    accepted: Accepted,
}

#[derive(Debug, Clone)]
enum Accepted {
    /// `a|b|c` and plain text, which is what most regular expressions in queries are; sorted.
    OneOf(Vec<String>),
    Pattern(Pattern),
}

impl Matcher {
    pub fn new(name: &str, op: MatchOp, value: &str) -> Result<Self> {
        Self::within(name, op, value, &mut Allowance::default())
            .map_err(|why| Error::Evaluation(format!("invalid regular expression {value:?}: {why}")))
    }

    /// One of several matchers that share what they may compile.
    pub(crate) fn within(
        name: &str,
        op: MatchOp,
        value: &str,
        allowance: &mut Allowance,
    ) -> std::result::Result<Self, pattern::Refusal> {
        let accepted = match op {
            MatchOp::Equal | MatchOp::NotEqual => Accepted::OneOf(vec![value.to_string()]),
            MatchOp::Regex | MatchOp::NotRegex => Accepted::compile(value, allowance)?,
        };
        Ok(Self { name: name.to_string(), op, value: value.to_string(), accepted })
    }

    pub(crate) fn equal(name: &str, value: &str) -> Self {
        let accepted = Accepted::OneOf(vec![value.to_string()]);
        Self { name: name.to_string(), op: MatchOp::Equal, value: value.to_string(), accepted }
    }

    /// Any of these values.
    pub(crate) fn one_of(name: &str, values: BTreeSet<String>) -> Self {
        let value = values.iter().map(|v| regex::escape(v)).collect::<Vec<_>>().join("|");
        let accepted = Accepted::OneOf(values.into_iter().collect());
        Self { name: name.to_string(), op: MatchOp::Regex, value, accepted }
    }

    pub fn matches(&self, value: &str) -> bool {
        let hit = match &self.accepted {
            Accepted::OneOf(values) => values.binary_search_by(|v| v.as_str().cmp(value)).is_ok(),
            Accepted::Pattern(pattern) => pattern.is_match(value),
        };
        hit == self.is_positive()
    }

    pub fn is_positive(&self) -> bool {
        matches!(self.op, MatchOp::Equal | MatchOp::Regex)
    }

    /// The values that can match, if the matcher names them all: lets an index look them up.
    pub fn exact_values(&self) -> Option<&[String]> {
        match &self.accepted {
            Accepted::OneOf(values) if self.is_positive() => Some(values),
            _ => None,
        }
    }
}

impl Accepted {
    fn compile(text: &str, allowance: &mut Allowance) -> std::result::Result<Self, pattern::Refusal> {
        if !text.contains(|c: char| r"\.+*?()[]{}^$".contains(c)) {
            let values: BTreeSet<&str> = text.split('|').collect();
            return Ok(Self::OneOf(values.into_iter().map(str::to_string).collect()));
        }
        pattern::compile(text, allowance).map(Self::Pattern)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matchers_cover_the_whole_value() {
        let cases = [
            (MatchOp::Equal, "api", "api", true),
            (MatchOp::NotEqual, "api", "api", false),
            (MatchOp::Regex, "a|b", "b", true),
            (MatchOp::Regex, "a|b", "ab", false),
            (MatchOp::Regex, "a.c", "abc", true),
            (MatchOp::Regex, "a.c", "a\nc", true),
            (MatchOp::Regex, "b", "abc", false),
            (MatchOp::Regex, "", "", true),
            (MatchOp::Regex, "a|", "", true),
            (MatchOp::NotRegex, "a.*", "abc", false),
            (MatchOp::NotRegex, "a.*", "xabc", true),
        ];
        for (op, pattern, value, expected) in cases {
            let matcher = Matcher::new("l", op, pattern).unwrap();
            assert_eq!(matcher.matches(value), expected, "{op:?} {pattern:?} on {value:?}");
        }
        assert!(Matcher::new("l", MatchOp::Regex, "(").is_err());
    }
}
