//! What a caller of `/containerLogs` asks for, and which records answer it.

use jiff::{SignedDuration, Timestamp};

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Query {
    pub follow: bool,
    pub previous: bool,
    pub timestamps: bool,
    pub since: Option<Timestamp>,
    pub tail_lines: Option<usize>,
    pub limit_bytes: Option<usize>,
}

#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("invalid log query: {parameter}={value:?} is not {expected}")]
pub struct BadQuery {
    parameter: String,
    value: String,
    expected: &'static str,
}

pub struct Record<'a> {
    at: &'a [u8],
    /// The line goes on in the next record.
    partial: bool,
    text: &'a [u8],
}

// === impl Query ===

impl Query {
    /// # Errors
    /// Names the parameter whose value makes no sense; unknown parameters are left alone.
    pub fn parse(query: &str, now: Timestamp) -> Result<Self, BadQuery> {
        let mut parsed = Self::default();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let value = percent_decode(value);
            let bad = |expected| BadQuery { parameter: name.to_owned(), value: value.clone(), expected };
            let flag = || match value.as_str() {
                "true" | "1" | "" => Ok(true),
                "false" | "0" => Ok(false),
                _ => Err(bad("true or false")),
            };
            match name {
                "follow" => parsed.follow = flag()?,
                "previous" => parsed.previous = flag()?,
                "timestamps" => parsed.timestamps = flag()?,
                "tailLines" => {
                    parsed.tail_lines = Some(value.parse().map_err(|_| bad("a number of lines"))?);
                }
                "limitBytes" => {
                    let limit = value.parse().ok().filter(|limit| *limit > 0);
                    parsed.limit_bytes = Some(limit.ok_or_else(|| bad("a positive number of bytes"))?);
                }
                "sinceSeconds" => {
                    let seconds = value.parse::<i64>().ok().filter(|s| *s > 0);
                    let seconds = seconds.ok_or_else(|| bad("a positive number of seconds"))?;
                    parsed.since =
                        Some(now.checked_sub(SignedDuration::from_secs(seconds)).unwrap_or(Timestamp::MIN));
                }
                "sinceTime" => parsed.since = Some(value.parse().map_err(|_| bad("an RFC 3339 time"))?),
                _ => {}
            }
        }
        Ok(parsed)
    }

    /// The answer from records on disk.
    pub fn select(&self, content: &[u8]) -> Vec<u8> {
        let records: Vec<Record<'_>> = records(content)
            .filter(|record| self.since.is_none_or(|since| record.time() >= Some(since)))
            .collect();
        let skipped = self.tail_lines.map_or(0, |wanted| {
            // A line begins where the record before it was whole.
            let begins: Vec<usize> =
                (0..records.len()).filter(|i| *i == 0 || !records[i - 1].partial).collect();
            let first = begins.len().saturating_sub(wanted);
            begins.get(first).copied().unwrap_or(records.len())
        });
        let mut out = Vec::new();
        let mut at_line_start = true;
        for record in &records[skipped..] {
            if self.timestamps && at_line_start {
                out.extend_from_slice(record.at);
                out.push(b' ');
            }
            out.extend_from_slice(record.text);
            if !record.partial {
                out.push(b'\n');
            }
            at_line_start = !record.partial;
        }
        out
    }
}

// === impl Record ===

impl Record<'_> {
    fn time(&self) -> Option<Timestamp> {
        std::str::from_utf8(self.at).ok()?.parse().ok()
    }
}

/// Records in order; what is not one (a torn write) is passed over.
fn records(content: &[u8]) -> impl Iterator<Item = Record<'_>> {
    content.split(|byte| *byte == b'\n').filter_map(|line| {
        let space = line.iter().position(|byte| *byte == b' ')?;
        let (at, rest) = line.split_at(space);
        match rest {
            [b' ', tag @ (b'F' | b'P'), b' ', text @ ..] => Some(Record { at, partial: *tag == b'P', text }),
            _ => None,
        }
    })
}

fn percent_decode(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let escaped = (*first == b'%')
            .then(|| after.get(..2))
            .flatten()
            .and_then(|hex| u8::from_str_radix(std::str::from_utf8(hex).ok()?, 16).ok());
        match escaped {
            Some(byte) => {
                bytes.push(byte);
                rest = &after[2..];
            }
            None => {
                bytes.push(if *first == b'+' { b' ' } else { *first });
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
