//! Regular expressions: read as Go's RE2 reads them, compiled within bounds, and kept for the next query.
//!
//! A pattern comes from a stranger. `\pL{1000}` is nine characters and a program of a hundred megabytes, so a program
//! may not become larger than [`PROGRAM`], all programs of a query together not larger than its [`Allowance`].

mod go;
mod template;

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use regex_automata::meta;
use regex_automata::util::syntax;

pub(crate) use template::Template;

/// Bytes of one compiled pattern. `.*(a|b|…)` over a hundred names takes some ten thousand.
const PROGRAM: usize = 256 << 10;
/// Bytes of all compiled patterns of one query.
const PROGRAMS: usize = 2 << 20;
/// Bytes of the patterns that are kept after their query.
const KEPT: usize = 8 << 20;
/// What a search may remember while it runs, for each thread that searches.
const SEARCH: usize = 256 << 10;
const NESTING: u32 = 100;

/// A compiled pattern, which covers the whole text.
pub(crate) type Pattern = Arc<meta::Regex>;

/// How many bytes of programs a query may still compile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Allowance(usize);

impl Default for Allowance {
    fn default() -> Self {
        Self(PROGRAMS)
    }
}

/// Why a pattern is not compiled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Refusal {
    Syntax(String),
    /// Beyond so many bytes, alone or with the others of its query.
    TooLarge {
        limit: usize,
    },
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Syntax(why) => f.write_str(why),
            Self::TooLarge { limit } => write!(
                f,
                "it takes more than {limit} bytes once compiled: use fewer or smaller repetitions and classes"
            ),
        }
    }
}

/// Compiles a pattern that must cover the whole text and whose `.` also matches line breaks.
pub(crate) fn compile(text: &str, allowance: &mut Allowance) -> Result<Pattern, Refusal> {
    let pattern = match kept(text) {
        Some(pattern) => pattern,
        None => keep(text, build(text)?),
    };
    match allowance.0.checked_sub(cost(&pattern)) {
        Some(left) => allowance.0 = left,
        None => return Err(Refusal::TooLarge { limit: PROGRAMS }),
    }
    Ok(pattern)
}

fn build(text: &str) -> Result<Pattern, Refusal> {
    let translated = go::translate(text).map_err(Refusal::Syntax)?;
    let config = meta::Config::new()
        .nfa_size_limit(Some(PROGRAM))
        .onepass_size_limit(Some(PROGRAM))
        .hybrid_cache_capacity(SEARCH)
        .dfa(false);
    let regex = meta::Regex::builder()
        .configure(config)
        .syntax(syntax::Config::new().nest_limit(NESTING))
        .build(&format!("^(?s:{translated})$"))
        .map_err(|error| match (error.size_limit(), error.syntax_error()) {
            (Some(limit), _) => Refusal::TooLarge { limit },
            // The last line says what is wrong; those before show where, in the pattern as it was translated.
            (_, Some(syntax)) => {
                let message = syntax.to_string();
                let last = message.lines().last().unwrap_or_default();
                Refusal::Syntax(last.trim_start_matches("error: ").to_string())
            }
            _ => Refusal::Syntax(error.to_string()),
        })?;
    Ok(Arc::new(regex))
}

fn cost(pattern: &Pattern) -> usize {
    pattern.memory_usage() + std::mem::size_of::<meta::Regex>()
}

/// Patterns of earlier queries. A dashboard asks the same ones again every few seconds.
#[derive(Default)]
struct Cache {
    patterns: HashMap<Box<str>, Pattern>,
    bytes: usize,
}

static CACHE: LazyLock<Mutex<Cache>> = LazyLock::new(Mutex::default);

fn kept(text: &str) -> Option<Pattern> {
    CACHE.lock().unwrap_or_else(PoisonError::into_inner).patterns.get(text).cloned()
}

fn keep(text: &str, pattern: Pattern) -> Pattern {
    let mut cache = CACHE.lock().unwrap_or_else(PoisonError::into_inner);
    let bytes = cost(&pattern) + text.len();
    if cache.bytes + bytes > KEPT {
        *cache = Cache::default();
    }
    if cache.patterns.insert(text.into(), pattern.clone()).is_none() {
        cache.bytes += bytes;
    }
    pattern
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_programs_are_refused_and_small_ones_add_up() {
        let one = |text: &str| compile(text, &mut Allowance::default()).map(|_| ());
        let too_large = |result| matches!(result, Err(Refusal::TooLarge { .. }));
        assert!(too_large(one(r"\pL{1000}")));
        assert!(too_large(one(r"(?i)(\p{Greek}{500}){2}")));
        assert_eq!(one(r"\w{200}"), Ok(()), "words are ASCII in Go");
        assert!(one(&"(".repeat(5_000)).is_err());
        let mut allowance = Allowance::default();
        let all: Result<Vec<_>, _> =
            (0..1000).map(|n| compile(&format!(r"x{n}\w{{900}}"), &mut allowance)).collect();
        assert!(too_large(all.map(|_| ())), "a thousand programs of some ten thousand bytes each");
    }

    #[test]
    fn what_is_kept_is_bounded() {
        for n in 0..2_000 {
            compile(&format!("kept{n}.{{40}}[a-z]+"), &mut Allowance::default()).unwrap();
            let cache = CACHE.lock().unwrap();
            let bytes: usize = cache.patterns.iter().map(|(text, p)| text.len() + cost(p)).sum();
            assert!(bytes <= KEPT && cache.bytes == bytes, "{bytes} of {}", cache.bytes);
        }
    }
}
