//! Where the engine reads from: one trait, and the matchers it hands over.

use regex::Regex;

use crate::error::{Error, Result};
use crate::labels::Labels;

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
    /// that does not change between calls. An error of `visit` ends the selection and is returned.
    fn select(
        &self,
        matchers: &[Matcher],
        range: TimeRange,
        visit: &mut dyn FnMut(SeriesView<'_>) -> Result<()>,
    ) -> Result<()>;
}

impl<S: SeriesSource + ?Sized> SeriesSource for &S {
    fn select(
        &self,
        matchers: &[Matcher],
        range: TimeRange,
        visit: &mut dyn FnMut(SeriesView<'_>) -> Result<()>,
    ) -> Result<()> {
        (**self).select(matchers, range, visit)
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
    pattern: Pattern,
}

#[derive(Debug, Clone)]
enum Pattern {
    /// `a|b|c` and plain text, which is what most regular expressions in queries are.
    OneOf(Vec<String>),
    Regex(Regex),
}

impl Matcher {
    pub fn new(name: &str, op: MatchOp, value: &str) -> Result<Self> {
        let pattern = match op {
            MatchOp::Equal | MatchOp::NotEqual => Pattern::OneOf(vec![value.to_string()]),
            MatchOp::Regex | MatchOp::NotRegex => Pattern::compile(value)?,
        };
        Ok(Self { name: name.to_string(), op, value: value.to_string(), pattern })
    }

    pub(crate) fn equal(name: &str, value: &str) -> Self {
        let pattern = Pattern::OneOf(vec![value.to_string()]);
        Self { name: name.to_string(), op: MatchOp::Equal, value: value.to_string(), pattern }
    }

    /// Any of these values.
    pub(crate) fn one_of(name: &str, values: Vec<String>) -> Self {
        let value = values.iter().map(|v| regex::escape(v)).collect::<Vec<_>>().join("|");
        Self { name: name.to_string(), op: MatchOp::Regex, value, pattern: Pattern::OneOf(values) }
    }

    pub(crate) fn from_regex(name: &str, op: MatchOp, value: &str, regex: &Regex) -> Self {
        let pattern = Pattern::compile(value).unwrap_or_else(|_| Pattern::Regex(regex.clone()));
        Self { name: name.to_string(), op, value: value.to_string(), pattern }
    }

    pub fn matches(&self, value: &str) -> bool {
        let hit = match &self.pattern {
            Pattern::OneOf(values) => values.iter().any(|v| v == value),
            Pattern::Regex(regex) => regex.is_match(value),
        };
        hit == self.is_positive()
    }

    pub fn is_positive(&self) -> bool {
        matches!(self.op, MatchOp::Equal | MatchOp::Regex)
    }

    /// The values that can match, if the matcher names them all: lets an index look them up.
    pub fn exact_values(&self) -> Option<&[String]> {
        match &self.pattern {
            Pattern::OneOf(values) if self.is_positive() => Some(values),
            _ => None,
        }
    }
}

impl Pattern {
    fn compile(text: &str) -> Result<Self> {
        if !text.contains(|c: char| r"\.+*?()[]{}^$".contains(c)) {
            return Ok(Self::OneOf(text.split('|').map(str::to_string).collect()));
        }
        compile_anchored(text).map(Self::Regex)
    }
}

/// Regular expressions of the language cover the whole value, and `.` matches line breaks.
pub(crate) fn compile_anchored(text: &str) -> Result<Regex> {
    Regex::new(&format!("^(?s:{text})$"))
        .map_err(|e| Error::Evaluation(format!("invalid regular expression {text:?}: {e}")))
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
