//! Words of an expression.

use std::sync::Arc;

use kube_cel::cel::Value as Cel;

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Token {
    Literal(Cel),
    Name(String),
    /// A field name in backquotes: `` labels.`app.kubernetes.io/name` ``.
    Quoted(String),
    /// Operators and punctuation.
    Sign(&'static str),
}

/// Longest first, so that `<=` is not read as `<`.
const SIGNS: [&str; 27] = [
    "||", "&&", "==", "!=", "<=", ">=", "<", ">", "+", "-", "*", "/", "%", "!", "?", ":", ".", ",", "(", ")",
    "[", "]", "{", "}", "=", "&", "|",
];

/// All words with where they begin; the error says where it is.
pub(super) fn lex(source: &str) -> Result<Vec<(Token, usize)>, (String, usize)> {
    let mut tokens = Vec::new();
    let mut at = 0;
    while let Some(c) = source[at..].chars().next() {
        let rest = &source[at..];
        if c.is_whitespace() {
            at += c.len_utf8();
            continue;
        }
        if rest.starts_with("//") {
            at += rest.find('\n').unwrap_or(rest.len());
            continue;
        }
        let (token, length) = if let Some((prefix, quote)) = string_start(rest) {
            string(rest, prefix, quote).map_err(|why| (why, at))?
        } else if c.is_ascii_alphabetic() || c == '_' {
            let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
            (word(&rest[..end]), end)
        } else if c.is_ascii_digit() || (c == '.' && rest[1..].starts_with(|c: char| c.is_ascii_digit())) {
            number(rest).map_err(|why| (why, at))?
        } else if c == '`' {
            let end = rest[1..].find('`').ok_or_else(|| ("a backquote is not closed".to_owned(), at))?;
            (Token::Quoted(rest[1..=end].to_owned()), end + 2)
        } else if let Some(sign) = SIGNS.iter().find(|sign| rest.starts_with(**sign)) {
            (Token::Sign(sign), sign.len())
        } else {
            return Err((format!("unexpected character '{c}'"), at));
        };
        tokens.push((token, at));
        at += length;
    }
    Ok(tokens)
}

fn word(text: &str) -> Token {
    match text {
        "true" => Token::Literal(Cel::Bool(true)),
        "false" => Token::Literal(Cel::Bool(false)),
        "null" => Token::Literal(Cel::Null),
        name => Token::Name(name.to_owned()),
    }
}

/// The letters before a string (`r`, `b`, `rb` …) and its quotes.
fn string_start(rest: &str) -> Option<(&str, &str)> {
    // two letters at most: looking further would read the rest of the text for each word
    let prefix_len = rest.bytes().take(3).position(|byte| matches!(byte, b'"' | b'\''))?;
    let prefix = &rest[..prefix_len];
    if !matches!(prefix.to_ascii_lowercase().as_str(), "" | "r" | "b" | "rb" | "br") {
        return None;
    }
    let quoted = &rest[prefix_len..];
    let quote = ["\"\"\"", "'''", "\"", "'"].into_iter().find(|quote| quoted.starts_with(quote))?;
    Some((prefix, quote))
}

fn string(rest: &str, prefix: &str, quote: &str) -> Result<(Token, usize), String> {
    let raw = prefix.contains(['r', 'R']);
    let bytes = prefix.contains(['b', 'B']);
    let start = prefix.len() + quote.len();
    let body = &rest[start..];
    let mut text: Vec<u8> = Vec::new();
    let mut at = 0;
    loop {
        if body[at..].starts_with(quote) {
            break;
        }
        let Some(c) = body[at..].chars().next() else { return Err("a string is not closed".into()) };
        if c == '\n' && quote.len() == 1 {
            return Err("a string is not closed on its line".into());
        }
        if c == '\\' && !raw {
            at += escape(&body[at + 1..], bytes, &mut text)? + 1;
        } else {
            text.extend(c.encode_utf8(&mut [0; 4]).as_bytes());
            at += c.len_utf8();
        }
    }
    let value = if bytes {
        Cel::Bytes(Arc::new(text))
    } else {
        Cel::String(Arc::new(String::from_utf8(text).map_err(|_| "a string is not valid UTF-8")?))
    };
    Ok((Token::Literal(value), start + at + quote.len()))
}

/// What a backslash and the text behind it stand for; answers with the length of that text.
fn escape(rest: &str, bytes: bool, text: &mut Vec<u8>) -> Result<usize, String> {
    let bad = || "a string has an escape that means nothing".to_owned();
    let c = rest.chars().next().ok_or_else(bad)?;
    let plain = match c {
        'a' => Some(7),
        'b' => Some(8),
        'f' => Some(12),
        'n' => Some(b'\n'),
        'r' => Some(b'\r'),
        't' => Some(b'\t'),
        'v' => Some(11),
        '\\' | '?' | '"' | '\'' | '`' => Some(c as u8),
        _ => None,
    };
    if let Some(byte) = plain {
        text.push(byte);
        return Ok(1);
    }
    let (digits, radix, skip) = match c {
        'x' | 'X' => (2, 16, 1),
        'u' if !bytes => (4, 16, 1),
        'U' if !bytes => (8, 16, 1),
        '0'..='3' => (3, 8, 0),
        _ => return Err(bad()),
    };
    let number = rest.get(skip..skip + digits).ok_or_else(bad)?;
    let code = u32::from_str_radix(number, radix).map_err(|_| bad())?;
    if bytes {
        text.push(u8::try_from(code).map_err(|_| bad())?);
    } else {
        let c = char::from_u32(code).ok_or_else(bad)?;
        text.extend(c.encode_utf8(&mut [0; 4]).as_bytes());
    }
    Ok(skip + digits)
}

fn number(rest: &str) -> Result<(Token, usize), String> {
    let hex = rest.strip_prefix("0x").or_else(|| rest.strip_prefix("0X"));
    if let Some(digits) = hex {
        let end = digits.find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(digits.len());
        return integer(&digits[..end], 16, &digits[end..], end + 2);
    }
    let digits = |from: usize| {
        rest[from..].find(|c: char| !c.is_ascii_digit()).map_or(rest.len(), |length| from + length)
    };
    let whole = digits(0);
    let mut end = whole;
    if rest[end..].starts_with('.') && rest[end + 1..].starts_with(|c: char| c.is_ascii_digit()) {
        end = digits(end + 1);
    }
    if rest[end..].starts_with(['e', 'E']) {
        let sign = usize::from(rest[end + 1..].starts_with(['+', '-']));
        let exponent = digits(end + 1 + sign);
        if exponent > end + 1 + sign {
            end = exponent;
        }
    }
    if end == whole {
        return integer(&rest[..whole], 10, &rest[whole..], whole);
    }
    let value = rest[..end].parse::<f64>().map_err(|_| "a number cannot be read".to_owned())?;
    Ok((Token::Literal(Cel::Float(value)), end))
}

fn integer(digits: &str, radix: u32, tail: &str, length: usize) -> Result<(Token, usize), String> {
    let too_large = |_| format!("{digits} is not a number of 64 bits");
    let magnitude = u64::from_str_radix(digits, radix).map_err(too_large)?;
    if tail.starts_with(['u', 'U']) {
        return Ok((Token::Literal(Cel::UInt(magnitude)), length + 1));
    }
    match i64::try_from(magnitude) {
        Ok(value) => Ok((Token::Literal(Cel::Int(value)), length)),
        // -9223372036854775808 has no positive counterpart: the parser puts the sign on
        Err(_) if magnitude == i64::MIN.unsigned_abs() => Ok((Token::Literal(Cel::UInt(magnitude)), length)),
        Err(_) => Err(format!("{digits} is not a number of 64 bits")),
    }
}
