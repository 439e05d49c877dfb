//! Recognises, in queries that do not parse, the syntax that Prometheus hides behind feature flags.

use std::sync::LazyLock;

use regex::Regex;

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

/// What stands between square brackets outside of quotes.
fn brackets(query: &str) -> Vec<&str> {
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
