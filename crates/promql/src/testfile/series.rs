//! Series in the short notation of test files: `name{label="value"} 1 2+3x4 _ stale`.

use crate::labels::{Labels, METRIC_NAME};
use crate::source::STALE;

/// One position in a sequence.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Item {
    Value(f64),
    /// `_`
    Nothing,
    /// `{{…}}`, whose content this engine has no use for.
    NativeHistogram,
}

type Parsed<T> = Result<T, String>;

pub(super) fn parse(line: &str) -> Parsed<(Labels, Vec<Item>)> {
    let mut text = Text { rest: line.trim() };
    let labels = text.labels()?;
    let mut items = Vec::new();
    while !text.skip_space().is_empty() {
        text.items(&mut items)?;
    }
    Ok((labels, items))
}

/// A number as Go reads it: decimal, hexadecimal, `Inf`, `NaN`.
pub(super) fn number(text: &str) -> Option<f64> {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let value = match digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
        Some(hex) => u64::from_str_radix(hex, 16).ok()? as f64,
        None if digits.starts_with(|c: char| c.is_ascii_digit() || c == '.' || c.is_ascii_alphabetic()) => {
            digits.replace('_', "").parse().ok()?
        }
        None => return None,
    };
    Some(if negative { -value } else { value })
}

struct Text<'a> {
    rest: &'a str,
}

impl<'a> Text<'a> {
    fn skip_space(&mut self) -> &'a str {
        self.rest = self.rest.trim_start();
        self.rest
    }

    fn eat(&mut self, token: &str) -> bool {
        let rest = self.rest.strip_prefix(token);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    fn take_while(&mut self, accept: impl Fn(char) -> bool) -> &'a str {
        let end = self.rest.find(|c| !accept(c)).unwrap_or(self.rest.len());
        let (taken, rest) = self.rest.split_at(end);
        self.rest = rest;
        taken
    }

    fn labels(&mut self) -> Parsed<Labels> {
        let name = self.take_while(|c| c.is_ascii_alphanumeric() || c == '_' || c == ':');
        let mut pairs: Vec<(String, String)> = Vec::new();
        if !name.is_empty() {
            pairs.push((METRIC_NAME.into(), name.into()));
        }
        if self.rest.starts_with('{') && !self.rest.starts_with("{{") {
            self.eat("{");
            loop {
                self.skip_space();
                if self.eat("}") {
                    break;
                }
                let quoted = self.rest.starts_with(['"', '\'', '`']);
                let label = match quoted {
                    true => self.quoted()?,
                    false => self.take_while(|c| c.is_ascii_alphanumeric() || c == '_').to_string(),
                };
                self.skip_space();
                if self.eat("=") {
                    self.skip_space();
                    pairs.push((label, self.quoted()?));
                } else if quoted {
                    pairs.push((METRIC_NAME.into(), label));
                } else {
                    return Err(format!("expected `=` at {:?}", self.rest));
                }
                self.skip_space();
                self.eat(",");
            }
        }
        Ok(Labels::from_pairs(pairs))
    }

    fn quoted(&mut self) -> Parsed<String> {
        let (value, length) = unquote(self.rest)?;
        self.rest = &self.rest[length..];
        Ok(value)
    }

    /// One element of the sequence, which may stand for several positions.
    fn items(&mut self, items: &mut Vec<Item>) -> Parsed<()> {
        if self.eat("_") {
            let n = if self.eat("x") { self.count()? } else { 1 };
            items.extend(std::iter::repeat_n(Item::Nothing, n));
            return Ok(());
        }
        if self.rest.starts_with("{{") {
            self.histogram()?;
            if self.eat("+") || self.eat("-") {
                self.histogram()?;
            }
            let n = if self.eat("x") { self.count()? + 1 } else { 1 };
            items.extend(std::iter::repeat_n(Item::NativeHistogram, n));
            return Ok(());
        }
        if self.eat("stale") {
            let n = if self.eat("x") { self.count()? + 1 } else { 1 };
            items.extend(std::iter::repeat_n(Item::Value(STALE), n));
            return Ok(());
        }
        let mut value = self.value()?;
        let step = match self.rest.chars().next() {
            Some('+') => self.value()?,
            Some('-') => self.value()?,
            _ => 0.0,
        };
        let n = if self.eat("x") { self.count()? + 1 } else { 1 };
        for _ in 0..n {
            items.push(Item::Value(value));
            // Added up step by step, as Prometheus does, so that the rounding is the same.
            value += step;
        }
        Ok(())
    }

    fn value(&mut self) -> Parsed<f64> {
        let from = self.rest;
        self.rest = from.strip_prefix(['+', '-']).unwrap_or(from);
        // No hexadecimal numbers here: `0x5` is six times zero.
        if self.rest.starts_with(|c: char| c.is_ascii_alphabetic()) {
            self.take_while(|c| c.is_ascii_alphabetic() && c != 'x');
        } else {
            self.take_while(|c| c.is_ascii_digit() || c == '.');
            let exponent = self.rest.strip_prefix(['e', 'E']);
            if let Some(after) = exponent {
                self.rest = after.strip_prefix(['+', '-']).unwrap_or(after);
                self.take_while(|c| c.is_ascii_digit());
            }
        }
        let text = &from[..from.len() - self.rest.len()];
        number(text).ok_or_else(|| format!("expected a number at {from:?}"))
    }

    fn count(&mut self) -> Parsed<usize> {
        const MAX: usize = 1_000_000;
        let digits = self.take_while(|c| c.is_ascii_digit());
        digits
            .parse()
            .ok()
            .filter(|&n| n <= MAX)
            .ok_or_else(|| format!("expected a repetition of at most {MAX}, got {digits:?}"))
    }

    fn histogram(&mut self) -> Parsed<()> {
        let end = self.rest.find("}}").ok_or("a `{{` without its `}}`")?;
        self.rest = &self.rest[end + 2..];
        Ok(())
    }
}

/// A quoted string at the start of `text`, and how many bytes it takes there.
pub(super) fn unquote(text: &str) -> Parsed<(String, usize)> {
    let quote = text
        .chars()
        .next()
        .filter(|c| "\"'`".contains(*c))
        .ok_or_else(|| format!("expected a quoted string at {text:?}"))?;
    let mut value = String::new();
    let mut chars = text.char_indices().skip(1);
    while let Some((at, c)) = chars.next() {
        match c {
            c if c == quote => return Ok((value, at + 1)),
            '\\' if quote != '`' => {
                let (_, escaped) = chars.next().ok_or("an escape at the end")?;
                let mut code = |digits: usize, radix: u32, first: &str| -> Parsed<char> {
                    let more: String = chars.by_ref().take(digits).map(|(_, c)| c).collect();
                    let number = u32::from_str_radix(&format!("{first}{more}"), radix).ok();
                    number.and_then(char::from_u32).ok_or_else(|| format!("invalid escape in {text:?}"))
                };
                value.push(match escaped {
                    'n' => '\n',
                    't' => '\t',
                    'r' => '\r',
                    'a' => '\u{7}',
                    'b' => '\u{8}',
                    'f' => '\u{c}',
                    'v' => '\u{b}',
                    'x' => code(2, 16, "")?,
                    'u' => code(4, 16, "")?,
                    'U' => code(8, 16, "")?,
                    d @ '0'..='7' => code(2, 8, &d.to_string())?,
                    other => other,
                });
            }
            c => value.push(c),
        }
    }
    Err(format!("a quoted string does not end: {text:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;

    #[test]
    fn the_short_notation_is_spelled_out() {
        let show = |line: &str| match parse(line) {
            Err(error) => format!("{line}\n  error: {error}\n"),
            Ok((labels, items)) => {
                let item = |i: &Item| match i {
                    Item::Value(v) if crate::is_stale(*v) => "stale".into(),
                    Item::Value(v) => v.to_string(),
                    Item::Nothing => "_".into(),
                    Item::NativeHistogram => "{{}}".into(),
                };
                format!("{labels} {}\n", items.iter().map(item).collect::<Vec<_>>().join(" "))
            }
        };
        let lines = [
            r#"a{b="c", d='e'} 1 2+3x2 5-1x2 7x2"#,
            r#"{"my.metric", "l.1"="x\n"} _ _x2 stale -1.5e3 Inf -Inf NaN 0x1"#,
            "h {{schema:1 sum:3}} {{count:1}}x1 {{sum:1}}+{{sum:2}}x2",
            "empty",
            "a 1x",
            "a{b} 1",
            "a 1y",
        ];
        expect![[r#"
            {__name__="a", b="c", d="e"} 1 2 5 8 5 4 3 7 7 7
            {__name__="my.metric", l.1="x\n"} _ _ _ stale -1500 inf -inf NaN 0 0
            {__name__="h"} {{}} {{}} {{}} {{}} {{}} {{}}
            {__name__="empty"} 
            a 1x
              error: expected a repetition of at most 1000000, got ""
            a{b} 1
              error: expected `=` at "} 1"
            a 1y
              error: expected a number at "y"
        "#]]
        .assert_eq(&lines.map(show).concat());
    }
}
