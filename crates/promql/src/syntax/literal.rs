//! Strings, numbers and durations.

use super::token::Token;
use crate::plan::escapes;

/// The string literal at the start of the text, and its length there.
pub(super) fn text(source: &str) -> Result<(String, usize), String> {
    let quote = source.chars().next().unwrap_or('"');
    if quote == '`' {
        let end = source[1..].find('`').ok_or("unterminated raw string, expected '`'")?;
        return Ok((source[1..1 + end].to_string(), end + 2));
    }
    let mut bytes = Vec::new();
    let mut rest = &source[1..];
    loop {
        let c = rest.chars().next().filter(|c| *c != '\n');
        let c = c.ok_or_else(|| format!("unterminated quoted string, expected {quote:?}"))?;
        rest = &rest[c.len_utf8()..];
        match c {
            '\\' => rest = escape(rest, quote, &mut bytes)?,
            c if c == quote => return Ok((escapes::from_bytes(&bytes), source.len() - rest.len())),
            c => bytes.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
}

/// What follows the backslash; returns what follows the escape.
fn escape<'t>(rest: &'t str, quote: char, out: &mut Vec<u8>) -> Result<&'t str, String> {
    let c = rest.chars().next().ok_or("escape sequence not terminated")?;
    let after = &rest[c.len_utf8()..];
    let simple = match c {
        'a' => 7,
        'b' => 8,
        'f' => 12,
        'n' => b'\n',
        'r' => b'\r',
        't' => b'\t',
        'v' => 11,
        '\\' => b'\\',
        c if c == quote => c as u8,
        '0'..='7' => return numeric(rest, 3, 8, out),
        'x' => return numeric(after, 2, 16, out),
        'u' => return numeric(after, 4, 16, out),
        'U' => return numeric(after, 8, 16, out),
        c => return Err(format!("unknown escape sequence \\{c}")),
    };
    out.push(simple);
    Ok(after)
}

fn numeric<'t>(rest: &'t str, n: usize, base: u32, out: &mut Vec<u8>) -> Result<&'t str, String> {
    let digits = rest.get(..n).filter(|digits| digits.chars().all(|c| c.is_digit(base)));
    let digits = digits.ok_or_else(|| {
        let bad = rest.chars().take(n).find(|c| !c.is_digit(base));
        bad.map_or("escape sequence not terminated".to_string(), |c| {
            format!("illegal character {c:?} in escape sequence, expected {n} digits of base {base}")
        })
    })?;
    let code = u32::from_str_radix(digits, base).unwrap_or(u32::MAX);
    // Two hexadecimal or three octal digits are a byte, more are a character.
    if n <= 3 {
        out.push(u8::try_from(code).map_err(|_| "escape sequence is an invalid Unicode code point")?);
    } else {
        let c = char::from_u32(code).ok_or("escape sequence is an invalid Unicode code point")?;
        out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
    }
    Ok(&rest[n..])
}

/// `1`, `1_000`, `.5`, `1e3`, `0x1F`, `017`, `1h30m`.
pub(super) fn number_or_duration(source: &str) -> Result<(Token, usize), String> {
    // A sign belongs to it only behind an exponent.
    let is_hex = source.starts_with("0x") || source.starts_with("0X");
    let mut end = 0;
    let mut before = ' ';
    for c in source.chars() {
        let signs_exponent = matches!(c, '+' | '-') && matches!(before, 'e' | 'E') && !is_hex;
        if !(c.is_ascii_alphanumeric() || c == '_' || c == '.' || signs_exponent) {
            break;
        }
        end += c.len_utf8();
        before = c;
    }
    let word = &source[..end];
    let bad = || format!("bad number or duration syntax: {word:?}");
    if word.ends_with(|c: char| c.is_ascii_alphabetic()) && !is_hex {
        return match duration(word) {
            Some(Ok(millis)) => Ok((Token::Duration(millis), end)),
            Some(Err(())) => Err(format!("duration out of range: {word:?}")),
            None => Err(format!("{}, expected for example 5m, 1h30m or 100ms", bad())),
        };
    }
    number(word, is_hex).map(|n| (Token::Number(n), end)).ok_or_else(bad)
}

fn number(word: &str, is_hex: bool) -> Option<f64> {
    // An underscore stands between two digits, or behind the prefix.
    let is_digit =
        |b: Option<&u8>| b.is_some_and(|b| b.is_ascii_hexdigit() || (is_hex && matches!(b, b'x' | b'X')));
    let bytes = word.as_bytes();
    for at in (0..bytes.len()).filter(|at| bytes[*at] == b'_') {
        if at == 0 || !is_digit(bytes.get(at - 1)) || !is_digit(bytes.get(at + 1)) {
            return None;
        }
    }
    let plain = word.replace('_', "");
    if is_hex {
        return i64::from_str_radix(&plain[2..], 16).ok().map(|n| n as f64);
    }
    // As in Go: what begins with a zero and is a whole number is octal, if it can be.
    let is_octal =
        plain.len() > 1 && plain.starts_with('0') && plain.bytes().all(|b| (b'0'..=b'7').contains(&b));
    if is_octal && let Ok(n) = i64::from_str_radix(&plain, 8) {
        return Some(n as f64);
    }
    if !plain.bytes().all(|b| b.is_ascii_digit() || b".eE+-".contains(&b)) {
        return None;
    }
    plain.parse().ok()
}

/// Units in milliseconds, in the order in which they must come.
const UNITS: [(&str, i64); 7] = [
    ("y", 365 * 86_400_000),
    ("w", 7 * 86_400_000),
    ("d", 86_400_000),
    ("h", 3_600_000),
    ("m", 60_000),
    ("s", 1_000),
    ("ms", 1),
];
/// What fits 64 bits of nanoseconds: 292 years.
const LONGEST: i64 = i64::MAX / 1_000_000;

/// `1h30m` in milliseconds; an inner error if it is too long, none if it is no duration.
pub(super) fn duration(word: &str) -> Option<Result<i64, ()>> {
    let mut rest = word;
    let mut units = UNITS.iter();
    let mut total: Result<i64, ()> = Ok(0);
    while !rest.is_empty() {
        let n_digits = rest.find(|c: char| !c.is_ascii_digit()).filter(|n| *n > 0)?;
        let end = rest[n_digits..].find(|c: char| c.is_ascii_digit()).map_or(rest.len(), |at| n_digits + at);
        let unit = &rest[n_digits..end];
        let (_, millis) = units.find(|(name, _)| *name == unit)?;
        let part = rest[..n_digits].parse::<i64>().ok().and_then(|n| n.checked_mul(*millis));
        let sum = total.ok().zip(part).and_then(|(total, part)| total.checked_add(part));
        total = sum.filter(|sum| *sum <= LONGEST).ok_or(());
        rest = &rest[end..];
    }
    (!word.is_empty()).then_some(total)
}

/// As Prometheus writes it: years and weeks only if nothing is left over.
pub(crate) fn show_duration(millis: i64) -> String {
    if millis == 0 {
        return "0s".into();
    }
    let mut out = String::new();
    let mut left = millis.unsigned_abs();
    if millis < 0 {
        out.push('-');
    }
    for (unit, length) in UNITS {
        let length = length.unsigned_abs();
        let must_be_exact = matches!(unit, "y" | "w");
        if left >= length && (!must_be_exact || left.is_multiple_of(length)) {
            out += &format!("{}{unit}", left / length);
            left %= length;
        }
    }
    out
}

/// In double quotes, as Go writes it.
pub(crate) fn quote(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            '\x07' => out += "\\a",
            '\x08' => out += "\\b",
            '\x0c' => out += "\\f",
            '\n' => out += "\\n",
            '\r' => out += "\\r",
            '\t' => out += "\\t",
            '\x0b' => out += "\\v",
            c => match escapes::lone_byte(c) {
                Some(byte) => out += &format!("\\x{byte:02x}"),
                None if c.is_control() && u32::from(c) < 0x80 => out += &format!("\\x{:02x}", u32::from(c)),
                None if c.is_control() => out += &format!("\\u{:04x}", u32::from(c)),
                None => out.push(c),
            },
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings() {
        fn read(source: &str) -> Result<(String, &str), String> {
            text(source).map(|(text, length)| (text, &source[length..]))
        }
        assert_eq!(read(r#""a\"b'\n" x"#), Ok(("a\"b'\n".into(), " x")));
        assert_eq!(read(r#"'\'\x41\101é\U0001F600'"#), Ok(("'AA\u{e9}\u{1F600}".into(), "")));
        assert_eq!(read("`127\\..*\n`)"), Ok(("127\\..*\n".into(), ")")));
        assert_eq!(read(r#""\xc3\xa9""#), Ok(("é".into(), "")));
        for bad in
            ["\"a", "`a", "'a\n'", r#""\q""#, r#""\x4""#, r#""\'""#, r#""\ud800""#, r#""\400""#, r#""\"#]
        {
            assert!(read(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn numbers_and_durations() {
        let read = |source: &str| number_or_duration(source).map(|(token, _)| token);
        for (source, n) in [
            ("1_000", 1000.0),
            ("0x1F", 31.0),
            ("0X_f", 15.0),
            ("017", 15.0),
            ("019", 19.0),
            (".5", 0.5),
            ("1e-3", 1e-3),
            ("1_0.5", 10.5),
            ("1.", 1.0),
            ("00", 0.0),
            ("1e1000", f64::INFINITY),
        ] {
            assert_eq!(read(source), Ok(Token::Number(n)), "{source}");
        }
        for (source, ms) in [("1h30m", 5_400_000), ("0s", 0), ("10ms", 10), ("1y2w", 379 * 86_400_000)] {
            assert_eq!(read(source), Ok(Token::Duration(ms)), "{source}");
            assert_eq!(duration(&show_duration(ms)), Some(Ok(ms)), "{source}");
        }
        for bad in
            ["1__0", "1_", "0x", "1.2.3", "1m1h", "1.5h", "5x", "300y", "0b1", "1e", "9999999999999999999s"]
        {
            assert!(read(bad).is_err(), "{bad}");
        }
    }
}
