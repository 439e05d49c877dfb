//! Bytes in strings. In the language `"\xc3\xa9"` is the two bytes of `é`. Bytes that are not UTF-8 have no place in a
//! Rust string: each is kept as a private character that no label holds, so that they never match, and can be told when
//! they would become a label's name.

/// Stands for the byte 0; the others follow.
const BYTE_BASE: u32 = 0x10_ff00;

pub(crate) fn from_bytes(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        out.push_str(chunk.valid());
        out.extend(chunk.invalid().iter().filter_map(|b| char::from_u32(BYTE_BASE + u32::from(*b))));
    }
    out
}

pub(crate) fn lone_byte(c: char) -> Option<u8> {
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
        assert_eq!(from_bytes(b"\xc3\xa9"), "é");
        let broken = from_bytes(b"a\xc5z");
        assert!(!is_text(&broken) && is_text("aéz"));
        assert_eq!(show(&broken), r#""a\xc5z""#);
    }
}
