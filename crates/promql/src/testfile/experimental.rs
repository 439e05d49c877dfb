//! Recognises, in queries that do not parse, the syntax that Prometheus hides behind feature flags.

use std::sync::LazyLock;

use regex::Regex;

use crate::plan::brackets;

/// The name of the experiment that the query uses, if there is one.
pub(super) fn syntax(query: &str) -> Option<&'static str> {
    static DURATION: LazyLock<Option<Regex>> =
        LazyLock::new(|| Regex::new(r"^[+-]?\s*(\d+(y|w|d|h|ms|m|s))+$|^[+-]?\s*[\d.]+$|^$").ok());
    static OFFSET: LazyLock<Option<Regex>> =
        LazyLock::new(|| Regex::new(r"(?i)\boffset\s*[-+]?\s*(\S+)(\s*[-+*/%^]\s*\S)?").ok());
    let plain = |text: &str| DURATION.as_ref().is_some_and(|d| d.is_match(text.trim()));
    let has_word = |word: &str| query.split(|c: char| !c.is_alphanumeric() && c != '_').any(|w| w == word);
    if has_word("anchored") || has_word("smoothed") {
        return Some("anchored and smoothed ranges");
    }
    if query.contains("</") || query.contains(">/") {
        return Some("trimming of native histograms");
    }
    if !brackets(query).iter().flat_map(|b| b.split(':')).all(plain) {
        return Some("arithmetic in durations");
    }
    let offset = OFFSET.as_ref().and_then(|o| o.captures(query));
    if offset.is_some_and(|o| o.get(2).is_some() || !plain(o[1].trim_end_matches([')', ']', ',']))) {
        return Some("arithmetic in durations");
    }
    if query.contains("info(") {
        return Some("info() with a selector that may match the empty string");
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn experiments_are_recognised() {
        for query in
            ["a[1m+5s]", "a[step()]", "a[(2m)*15:1m]", "a offset (1m)", "a offset 5s*2", "a offset -step()"]
        {
            assert_eq!(syntax(query), Some("arithmetic in durations"), "{query}");
        }
        for query in
            ["a[5m]", "a[5m:]", "a[1h30m:1m] offset -5m", "sum(a offset 5m) by (x)", "a[5m] offset 1.5"]
        {
            assert_eq!(syntax(query), None, "{query}");
        }
        assert_eq!(syntax("rate(a[5m] anchored)"), Some("anchored and smoothed ranges"));
    }
}
