//! The grammar of one line: `name{label="value", …} value [timestamp] [# exemplar]`.
//!
//! A name outside the classic alphabet is quoted and stands inside the braces: `{"a.b", label="value"} 1`.

use std::borrow::Cow;

use memchr::{memchr, memchr2};

use super::{Format, Problem};
use crate::Millis;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Label<'a> {
    pub name: Cow<'a, str>,
    pub value: Cow<'a, str>,
}

/// One line, read.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample<'a, 'p> {
    /// The series as it was written, which is the same in every scrape.
    pub raw: &'a str,
    pub name: Cow<'a, str>,
    /// Without the metric's name, in the order in which they were written.
    pub labels: &'p [Label<'a>],
    pub value: f64,
    pub timestamp: Option<Millis>,
}

/// Reads the series at the start of a line into `labels`; returns its name and its text.
pub(super) fn series<'a>(
    text: &'a str,
    max_labels: usize,
    labels: &mut Vec<Label<'a>>,
) -> Result<(Cow<'a, str>, &'a str), Problem> {
    labels.clear();
    let mut cursor = Cursor { text, at: 0 };
    let plain = cursor.word(true);
    let mut name = (!plain.is_empty()).then_some(Cow::Borrowed(plain));
    let bare_end = cursor.at;
    cursor.skip_blanks();
    if cursor.peek() != Some(b'{') {
        return match name {
            Some(name) => Ok((name, &text[..bare_end])),
            None => Err(cursor.expected("a metric name")),
        };
    }
    cursor.at += 1;
    loop {
        cursor.skip_blanks();
        let (key, is_quoted) = match cursor.peek() {
            Some(b'}') => break,
            Some(b'"') => (cursor.quoted()?, true),
            _ => (Cow::Borrowed(cursor.word(false)), false),
        };
        cursor.skip_blanks();
        match cursor.peek() {
            Some(b'=') if key.is_empty() => return Err(cursor.expected("a label name")),
            Some(b'=') => {
                cursor.at += 1;
                cursor.skip_blanks();
                if cursor.peek() != Some(b'"') {
                    return Err(cursor.expected("a label value in double quotes"));
                }
                let value = cursor.quoted()?;
                if key == "__name__" || labels.iter().any(|l| l.name == key) {
                    return Err(Problem::DuplicateLabel(key.into_owned()));
                }
                if labels.len() == max_labels {
                    return Err(Problem::TooManyLabels { limit: max_labels });
                }
                labels.push(Label { name: key, value });
            }
            // A quoted text without a value is the metric's name; it stands first.
            Some(b',' | b'}') if is_quoted && name.is_none() && labels.is_empty() && !key.is_empty() => {
                name = Some(key);
            }
            _ if key.is_empty() => return Err(cursor.expected("a label name")),
            _ => return Err(cursor.expected("`=`")),
        }
        cursor.skip_blanks();
        match cursor.peek() {
            Some(b',') => cursor.at += 1,
            Some(b'}') => {}
            _ => return Err(cursor.expected("`,` or `}`")),
        }
    }
    cursor.at += 1;
    match name {
        Some(name) => Ok((name, &text[..cursor.at])),
        None => Err(cursor.expected("a metric name before the braces or quoted inside them")),
    }
}

/// Reads what follows the series. Exemplars are passed over in both formats: some exporters write them in the wrong one.
pub(super) fn value(rest: &str, format: Format) -> Result<(f64, Option<Millis>), Problem> {
    let (token, rest) = next_token(rest);
    let value = float(token).ok_or_else(|| Problem::Value(shortened(token)))?;
    if rest.is_empty() {
        return Ok((value, None));
    }
    let (token, rest) = next_token(rest);
    if token.is_empty() || token.starts_with('#') {
        return Ok((value, None));
    }
    let time = match format {
        Format::Prometheus => token.parse().ok(),
        Format::OpenMetrics => seconds(token),
    };
    let Some(time) = time else { return Err(Problem::Timestamp(shortened(token))) };
    let (token, _) = next_token(rest);
    if token.is_empty() || token.starts_with('#') {
        return Ok((value, Some(time)));
    }
    Err(Problem::Timestamp(shortened(token)))
}

fn next_token(text: &str) -> (&str, &str) {
    let text = text.trim_start_matches([' ', '\t']);
    match memchr2(b' ', b'\t', text.as_bytes()) {
        Some(end) => text.split_at(end),
        None => (text, ""),
    }
}

/// Decimal floats, `NaN` and `Inf` in any case: what Rust reads is what Go's parser reads without hexadecimal floats,
/// which Prometheus refuses too.
fn float(token: &str) -> Option<f64> {
    let bytes = token.as_bytes();
    // Up to 15 digits are exact in a float; counters and gauges mostly look like this.
    if bytes.len() <= 15 && !bytes.is_empty() && bytes.iter().all(u8::is_ascii_digit) {
        let digits = bytes.iter().fold(0_u64, |n, b| n * 10 + u64::from(b - b'0'));
        return Some(digits as f64);
    }
    token.parse().ok()
}

/// Seconds with a fraction to milliseconds, within the range in which floats are exact.
fn seconds(token: &str) -> Option<Millis> {
    let millis = (float(token)? * 1000.0).round();
    (millis.abs() < (1_u64 << 53) as f64).then_some(millis as Millis)
}

/// Enough of a wrong token to recognise it.
fn shortened(token: &str) -> String {
    match token.char_indices().nth(40) {
        Some((end, _)) => format!("{}…", &token[..end]),
        None => token.to_string(),
    }
}

struct Cursor<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Cursor<'a> {
    #[inline]
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    #[inline]
    fn skip_blanks(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t')) {
            self.at += 1;
        }
    }

    /// A name of the classic alphabet, possibly empty; only metric names may hold colons.
    #[inline]
    fn word(&mut self, colons: bool) -> &'a str {
        let start = self.at;
        while let Some(b) = self.peek() {
            let fits = match b {
                b'a'..=b'z' | b'A'..=b'Z' | b'_' => true,
                b'0'..=b'9' => self.at > start,
                b':' => colons,
                _ => false,
            };
            if !fits {
                break;
            }
            self.at += 1;
        }
        &self.text[start..self.at]
    }

    /// A text in double quotes, from its opening quote.
    #[inline]
    fn quoted(&mut self) -> Result<Cow<'a, str>, Problem> {
        let start = self.at + 1;
        let bytes = self.text.as_bytes();
        let mut end = start;
        let mut escaped = false;
        loop {
            match memchr2(b'"', b'\\', &bytes[end..]) {
                Some(n) if bytes[end + n] == b'"' => {
                    end += n;
                    break;
                }
                // Behind a backslash the search may go on inside a longer character: none of its bytes is a quote.
                Some(n) if end + n + 2 <= bytes.len() => {
                    end += n + 2;
                    escaped = true;
                }
                _ => {
                    self.at = bytes.len();
                    return Err(self.expected("a closing double quote"));
                }
            }
        }
        self.at = end + 1;
        let inner = &self.text[start..end];
        Ok(if escaped { Cow::Owned(unescape(inner)) } else { Cow::Borrowed(inner) })
    }

    fn expected(&self, expected: &'static str) -> Problem {
        let found = match self.text.get(self.at..).unwrap_or_default().chars().next() {
            Some(c) => format!("{c:?}"),
            None => "the end of the line".into(),
        };
        Problem::Syntax { expected, column: self.at + 1, found }
    }
}

/// `\\`, `\"` and `\n`; a backslash before anything else stands for itself, as in Prometheus.
fn unescape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = memchr(b'\\', rest.as_bytes()) {
        out.push_str(&rest[..at]);
        let (replacement, taken) = match rest.as_bytes().get(at + 1) {
            Some(b'n') => ('\n', 2),
            Some(b'"') => ('"', 2),
            Some(b'\\') => ('\\', 2),
            _ => ('\\', 1),
        };
        out.push(replacement);
        rest = &rest[at + taken..];
    }
    out.push_str(rest);
    out
}
