//! Bytes in strings. In the language `"\xc3\xa9"` is the two bytes of `é`, while the parser takes each escape for a
//! character of its own. So escapes of such bytes are resolved before the text is parsed. Bytes that are not UTF-8 have
//! no place in a Rust string: each is kept as a private character that no label holds, so that they never match, and can
//! be told when they would become a label's name.

use std::borrow::Cow;

/// Stands for the byte 0; the others follow.
const BYTE_BASE: u32 = 0x10_ff00;

/// The query with the escapes of bytes above 127 resolved.
pub(super) fn resolve(query: &str) -> Cow<'_, str> {
    if !query.contains('\\') {
        return Cow::Borrowed(query);
    }
    let mut out = String::with_capacity(query.len());
    let mut pending: Vec<u8> = Vec::new();
    let mut quote = None;
    let mut rest = query;
    while let Some(c) = rest.chars().next() {
        if quote.is_some_and(|q| q != '`') && c == '\\' {
            if let Some((byte, length)) = byte_escape(rest) {
                pending.push(byte);
                rest = &rest[length..];
                continue;
            }
            flush(&mut pending, &mut out);
            // An escaped quote does not end the string.
            let length = 1 + rest[1..].chars().next().map_or(0, char::len_utf8);
            out.push_str(&rest[..length]);
            rest = &rest[length..];
            continue;
        }
        flush(&mut pending, &mut out);
        match quote {
            Some(q) if q == c => quote = None,
            None if "\"'`".contains(c) => quote = Some(c),
            _ => {}
        }
        out.push(c);
        rest = &rest[c.len_utf8()..];
    }
    flush(&mut pending, &mut out);
    Cow::Owned(out)
}

/// `\xe9` or `\351` at the start of the text: its byte, if above 127, and its length.
fn byte_escape(text: &str) -> Option<(u8, usize)> {
    let digits = text.get(1..4)?;
    let byte = match digits.strip_prefix('x') {
        Some(hex) => u8::from_str_radix(hex, 16),
        None => u8::from_str_radix(digits, 8),
    };
    byte.ok().filter(|b| *b > 127).map(|b| (b, 4))
}

fn flush(bytes: &mut Vec<u8>, out: &mut String) {
    for chunk in bytes.utf8_chunks() {
        out.push_str(chunk.valid());
        out.extend(chunk.invalid().iter().filter_map(|b| char::from_u32(BYTE_BASE + u32::from(*b))));
    }
    bytes.clear();
}

fn lone_byte(c: char) -> Option<u8> {
    u8::try_from(u32::from(c).checked_sub(BYTE_BASE)?).ok()
}

/// Whether the string is what it seems, without bytes that are not UTF-8.
pub(crate) fn is_text(text: &str) -> bool {
    !text.chars().any(|c| lone_byte(c).is_some())
}

/// Quoted, with such bytes as escapes again.
pub(crate) fn show(text: &str) -> String {
    let shown = text.chars().map(|c| match lone_byte(c) {
        Some(byte) => format!("\\x{byte:02x}"),
        None => c.escape_debug().to_string(),
    });
    format!("\"{}\"", shown.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_become_text_or_are_told() {
        assert_eq!(resolve(r#"a{b="\xc3\xa9"}"#), "a{b=\"é\"}");
        assert_eq!(resolve(r#"a{b="\303\251\n\"\x41"}"#), r#"a{b="é\n\"\x41"}"#);
        assert_eq!(resolve(r"a{b=`\xc3`}"), r"a{b=`\xc3`}");
        let broken = resolve(r#""a\xc5z""#);
        let inner = broken.trim_matches('"');
        assert!(!is_text(inner) && is_text("aéz"));
        assert_eq!(show(inner), r#""a\xc5z""#);
    }
}
