//! The parser, with its weak spots covered: it recurses over the tree it has built, so that a long enough text would
//! overflow the stack, and it panics on durations that do not fit.

use std::panic::{AssertUnwindSafe, catch_unwind};

use promql_parser::parser::Expr;

use super::escapes;
use crate::error::{Error, Result};

const MAX_LENGTH: usize = 64 * 1024;
/// Operators and brackets: no tree is deeper than it has of these. A stack frame of the parser takes some hundred bytes,
/// so that a thousand fit a thread's 2 MiB many times over.
const MAX_OPERATORS: usize = 1000;

pub(super) fn parse(query: &str) -> Result<Expr> {
    within("characters", query.len(), MAX_LENGTH)?;
    within("operators and brackets", count_operators(query), MAX_OPERATORS)?;
    check_durations(query)?;
    let query = escapes::resolve(query);
    catch_unwind(AssertUnwindSafe(|| promql_parser::parser::parse(&query)))
        .map_err(|_| Error::Parse("a number or a duration in it is out of range".into()))?
        .map_err(Error::Parse)
}

/// The parser panics on a number of seconds that no duration can hold. Caught here, it leaves no trace in the log.
fn check_durations(query: &str) -> Result<()> {
    const MAX_SECONDS: f64 = 1e13;
    let lower = query.to_ascii_lowercase();
    let after_offset = lower.split("offset").skip(1).map(|rest| {
        let rest = rest.trim_start().trim_start_matches(['-', '+']).trim_start();
        rest.split(|c: char| !c.is_ascii_alphanumeric() && !".+-".contains(c)).next().unwrap_or("")
    });
    for text in brackets(query).into_iter().flat_map(|b| b.split(':')).chain(after_offset) {
        if text.trim().parse::<f64>().is_ok_and(|seconds| !(0.0..=MAX_SECONDS).contains(&seconds)) {
            return Err(Error::Parse(format!("{} is no duration", text.trim())));
        }
    }
    Ok(())
}

/// What stands between square brackets outside of quotes.
pub(crate) fn brackets(query: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut quote: Option<char> = None;
    let mut open = None;
    for (at, c) in query.char_indices() {
        match (quote, c) {
            (Some(q), c) if c == q => quote = None,
            (Some(_), _) => {}
            (None, '"' | '\'' | '`') => quote = Some(c),
            (None, '[') => open = Some(at + 1),
            (None, ']') => found.extend(open.take().map(|from| &query[from..at])),
            _ => {}
        }
    }
    found
}

fn within(what: &'static str, got: usize, limit: usize) -> Result<()> {
    if got > limit { Err(Error::TooComplex { what, got, limit }) } else { Ok(()) }
}

fn count_operators(query: &str) -> usize {
    let mut count = 0;
    let mut quote = None;
    let mut word = String::new();
    let mut chars = query.chars();
    while let Some(c) = chars.next() {
        match quote {
            Some('`') if c == '\\' => {}
            Some(_) if c == '\\' => {
                chars.next();
            }
            Some(q) if c == q => quote = None,
            Some(_) => {}
            None => {
                if c.is_alphanumeric() || c == '_' {
                    word.push(c);
                    continue;
                }
                count += usize::from(is_operator(&word));
                word.clear();
                match c {
                    '"' | '\'' | '`' => quote = Some(c),
                    '(' | '[' | '{' | '+' | '-' | '*' | '/' | '%' | '^' | '<' | '>' | '=' | '!' | '@' => {
                        count += 1
                    }
                    _ => {}
                }
            }
        }
    }
    count
}

fn is_operator(word: &str) -> bool {
    ["and", "or", "unless", "atan2", "offset"].iter().any(|op| word.eq_ignore_ascii_case(op))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deep_and_long_queries_are_refused_before_they_are_parsed() {
        let too_complex = |query: String| matches!(parse(&query), Err(Error::TooComplex { .. }));
        assert!(too_complex("(".repeat(5000)));
        assert!(too_complex(format!("{}1", "-".repeat(5000))));
        assert!(too_complex(vec!["a"; 2000].join(" and ")));
        assert!(too_complex("x".repeat(MAX_LENGTH + 1)));
        assert!(parse(&format!("a{{x=\"{}\"}}", "((".repeat(3000))).is_ok(), "quoted text does not count");
    }

    #[test]
    fn what_the_parser_would_panic_on_is_an_error() {
        for query in
            ["a[1e100]", "a[-5]", "a offset 1e300", "a OFFSET -1e300", "a[1:1e99]", "a[NaN]", "a[inf]"]
        {
            assert!(matches!(check_durations(query), Err(Error::Parse(_))), "{query}");
        }
        for query in ["a[99999999999y]", "a @ 1e300", "a offset 99999999999999999999w", "a[1y:99999999999ms]"]
        {
            assert!(crate::parse(query).is_err(), "{query}");
        }
        for query in
            ["a[300]", "a[5m:30]", "a offset 1.5", "a offset -5m", "rate(offset_total[5m] offset 1w)"]
        {
            assert!(parse(query).is_ok(), "{query}");
        }
    }
}
