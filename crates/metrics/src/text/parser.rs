//! From a body to its lines, and from a line to a sample.

use memchr::memchr;

use super::line::{self, Label, Sample};
use super::{Error, Format, Limits, Problem};

/// Walks a body. It lends each sample, so that the labels of all lines share one buffer.
#[derive(Debug)]
pub struct Parser<'a> {
    rest: &'a str,
    format: Format,
    limits: Limits,
    line: usize,
    at_eof: bool,
    labels: Vec<Label<'a>>,
}

/// A line that holds a sample: not empty, no comment, without blanks around it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Line<'a> {
    pub text: &'a str,
    /// Counted from one.
    pub number: usize,
}

impl<'a> Parser<'a> {
    pub fn new(body: &'a [u8], format: Format, limits: Limits) -> Result<Self, Error> {
        let rest = std::str::from_utf8(body).map_err(|e| {
            let valid = &body[..e.valid_up_to()];
            Error { line: 1 + memchr::memchr_iter(b'\n', valid).count(), problem: Problem::InvalidUtf8 }
        })?;
        Ok(Self { rest, format, limits, line: 0, at_eof: false, labels: Vec::new() })
    }

    /// The next line that holds a sample, still unread.
    pub fn next_line(&mut self) -> Result<Option<Line<'a>>, Error> {
        while !self.rest.is_empty() {
            let line = self.take_line();
            self.line += 1;
            if line.len() > self.limits.line {
                let (got, limit) = (line.len(), self.limits.line);
                return Err(self.error(Problem::LineTooLong { got, limit }));
            }
            // Most lines start with a name: they need no trimming to know that they are wanted.
            let text = line.trim_matches([' ', '\t', '\r']);
            if self.at_eof {
                return Err(self.error(Problem::AfterEof));
            }
            match text.as_bytes().first() {
                None => {}
                Some(b'#') => self.at_eof = self.format == Format::OpenMetrics && text == "# EOF",
                Some(_) => return Ok(Some(Line { text, number: self.line })),
            }
        }
        if self.format == Format::OpenMetrics && !self.at_eof {
            return Err(self.error(Problem::MissingEof));
        }
        Ok(None)
    }

    fn take_line(&mut self) -> &'a str {
        let rest = self.rest;
        match memchr(b'\n', rest.as_bytes()) {
            Some(end) => {
                self.rest = &rest[end + 1..];
                &rest[..end]
            }
            None => {
                self.rest = "";
                rest
            }
        }
    }

    /// Reads a whole line.
    pub fn sample(&mut self, line: Line<'a>) -> Result<Sample<'a, '_>, Error> {
        let fail = |problem| Error { line: line.number, problem };
        let (name, raw) = line::series(line.text, self.limits.labels, &mut self.labels).map_err(fail)?;
        let (value, timestamp) = line::value(&line.text[raw.len()..], self.format).map_err(fail)?;
        Ok(Sample { raw, name, labels: &self.labels, value, timestamp })
    }

    /// Reads only what stands behind the `series` bytes of a line, for a series that is known already. None if the
    /// line goes on with labels.
    pub fn value_after(&self, line: Line<'a>, series: usize) -> Option<Result<f64, Error>> {
        let rest = &line.text[series..];
        if rest.trim_start_matches([' ', '\t']).starts_with('{') {
            return None;
        }
        let value = line::value(rest, self.format);
        Some(value.map(|(v, _)| v).map_err(|problem| Error { line: line.number, problem }))
    }

    /// `next_line` and `sample` in one.
    pub fn next_sample(&mut self) -> Result<Option<Sample<'a, '_>>, Error> {
        match self.next_line()? {
            Some(line) => self.sample(line).map(Some),
            None => Ok(None),
        }
    }

    fn error(&self, problem: Problem) -> Error {
        Error { line: self.line.max(1), problem }
    }
}
