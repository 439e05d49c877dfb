//! What Go's JSON decoder says of text that is no JSON. Clients show these words to people.

use serde_json::Value;

/// The complaint about `text`, which is known to be malformed.
pub fn explain(text: &[u8]) -> String {
    let mut scanner = Scanner { text, at: 0 };
    match scanner.value(0).and_then(|()| scanner.end()) {
        Ok(()) => "invalid JSON".to_owned(),
        Err(why) => why,
    }
}

/// As in `cannot unmarshal array into Go value`.
pub fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// A value as Go prints a map: `map[a:1 b:[x y]]`.
pub fn map_text(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::String(text) => text.clone(),
        Value::Array(list) => {
            format!("[{}]", list.iter().map(map_text).collect::<Vec<_>>().join(" "))
        }
        Value::Object(map) => {
            let mut pairs: Vec<String> =
                map.iter().map(|(key, value)| format!("{key}:{}", map_text(value))).collect();
            pairs.sort();
            format!("map[{}]", pairs.join(" "))
        }
        other => other.to_string(),
    }
}

struct Scanner<'a> {
    text: &'a [u8],
    at: usize,
}

const END: &str = "unexpected end of JSON input";
/// Go's own limit.
const MAX_DEPTH: usize = 10_000;

impl Scanner<'_> {
    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\r' | b'\n')) {
            self.at += 1;
        }
    }

    fn wrong<T>(&self, context: &str) -> Result<T, String> {
        match self.peek() {
            None => Err(END.to_owned()),
            Some(byte) => Err(format!("invalid character {} {context}", quoted(byte))),
        }
    }

    fn end(&mut self) -> Result<(), String> {
        self.space();
        if self.peek().is_none() { Ok(()) } else { self.wrong("after top-level value") }
    }

    fn value(&mut self, depth: usize) -> Result<(), String> {
        if depth > MAX_DEPTH {
            return Err("exceeded max depth".to_owned());
        }
        self.space();
        match self.peek() {
            Some(b'{') => self.object(depth),
            Some(b'[') => self.array(depth),
            Some(b'"') => self.string(),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(b't') => self.literal("true"),
            Some(b'f') => self.literal("false"),
            Some(b'n') => self.literal("null"),
            _ => self.wrong("looking for beginning of value"),
        }
    }

    fn object(&mut self, depth: usize) -> Result<(), String> {
        self.at += 1;
        self.space();
        if self.peek() == Some(b'}') {
            self.at += 1;
            return Ok(());
        }
        loop {
            self.space();
            if self.peek() != Some(b'"') {
                return self.wrong("looking for beginning of object key string");
            }
            self.string()?;
            self.space();
            if self.peek() != Some(b':') {
                return self.wrong("after object key");
            }
            self.at += 1;
            self.value(depth + 1)?;
            self.space();
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b'}') => {
                    self.at += 1;
                    return Ok(());
                }
                _ => return self.wrong("after object key:value pair"),
            }
        }
    }

    fn array(&mut self, depth: usize) -> Result<(), String> {
        self.at += 1;
        self.space();
        if self.peek() == Some(b']') {
            self.at += 1;
            return Ok(());
        }
        loop {
            self.value(depth + 1)?;
            self.space();
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b']') => {
                    self.at += 1;
                    return Ok(());
                }
                _ => return self.wrong("after array element"),
            }
        }
    }

    fn string(&mut self) -> Result<(), String> {
        self.at += 1;
        loop {
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(());
                }
                Some(b'\\') => {
                    self.at += 1;
                    match self.peek() {
                        Some(b'b' | b'f' | b'n' | b'r' | b't' | b'\\' | b'/' | b'"') => self.at += 1,
                        Some(b'u') => {
                            self.at += 1;
                            for _ in 0..4 {
                                if !self.peek().is_some_and(|byte| byte.is_ascii_hexdigit()) {
                                    return self.wrong("in \\u hexadecimal character escape");
                                }
                                self.at += 1;
                            }
                        }
                        _ => return self.wrong("in string escape code"),
                    }
                }
                Some(0..0x20) | None => return self.wrong("in string literal"),
                Some(_) => self.at += 1,
            }
        }
    }

    fn number(&mut self) -> Result<(), String> {
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        match self.peek() {
            Some(b'0') => self.at += 1,
            Some(b'1'..=b'9') => self.digits(),
            _ => return self.wrong("in numeric literal"),
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            if !self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
                return self.wrong("after decimal point in numeric literal");
            }
            self.digits();
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            if !self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
                return self.wrong("in exponent of numeric literal");
            }
            self.digits();
        }
        Ok(())
    }

    fn digits(&mut self) {
        while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
    }

    fn literal(&mut self, word: &str) -> Result<(), String> {
        for expected in word.chars() {
            if self.peek().map(char::from) != Some(expected) {
                return self.wrong(&format!("in literal {word} (expecting '{expected}')"));
            }
            self.at += 1;
        }
        Ok(())
    }
}

/// A byte as Go shows it.
fn quoted(byte: u8) -> String {
    match byte {
        b'\'' => r"'\''".to_owned(),
        b'"' => "'\"'".to_owned(),
        b'\n' => r"'\n'".to_owned(),
        b'\r' => r"'\r'".to_owned(),
        b'\t' => r"'\t'".to_owned(),
        b'\\' => r"'\\'".to_owned(),
        0x20..0x7f => format!("'{}'", char::from(byte)),
        // Go reads the byte as a code point, and escapes those it cannot print.
        0xa1..=0xac | 0xae..=0xff => format!("'{}'", char::from(byte)),
        0..0x80 => format!("'\\x{byte:02x}'"),
        _ => format!("'\\u{byte:04x}'"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_go() {
        let table: &[(&[u8], &str)] = &[
            (b"", "unexpected end of JSON input"),
            (b"{\"metadata\": {\"name\":", "unexpected end of JSON input"),
            (b"not json", "invalid character 'o' in literal null (expecting 'u')"),
            (b"{a: 1}", "invalid character 'a' looking for beginning of object key string"),
            (b"[1 2]", "invalid character '2' after array element"),
            (b"{\"a\" 1}", "invalid character '1' after object key"),
            (b"{\"a\": 1]", "invalid character ']' after object key:value pair"),
            (b"1.x", "invalid character 'x' after decimal point in numeric literal"),
            (b"\"\\q\"", "invalid character 'q' in string escape code"),
            (b"{} x", "invalid character 'x' after top-level value"),
            (b"\x81", "invalid character '\\u0081' looking for beginning of value"),
        ];
        for (text, expected) in table {
            assert_eq!(explain(text), *expected);
        }
    }
}
