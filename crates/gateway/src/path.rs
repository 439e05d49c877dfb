//! Paths as pods would understand them. Nothing is rewritten on its way; what two readers could understand differently
//! is refused, or judged in its plain form.

use std::borrow::Cow;

/// Whether a segment leads upward, plainly or in disguise. Such a path could end in another place than the rules of
/// visibility judged.
pub(crate) fn leads_upward(path: &str) -> bool {
    // The quick way for nearly all.
    if !path.bytes().any(|byte| matches!(byte, b'.' | b'%' | b'\\')) {
        return false;
    }
    let plain = decode(path.as_bytes());
    plain.split(|byte| matches!(byte, b'/' | b'\\')).any(|segment| {
        // `..;x` is `..` to servers that know path parameters.
        let name = segment.split(|byte| *byte == b';').next().unwrap_or_default();
        name == b".." || name == b"."
    }) || plain.contains(&0)
}

/// The form in which prefixes are compared: decoded, with single slashes.
pub(crate) fn plain(path: &str) -> Cow<'_, str> {
    if !path.contains('%') && !path.contains("//") && !path.contains('\\') {
        return Cow::Borrowed(path);
    }
    let decoded = decode(path.as_bytes());
    let mut plain = Vec::with_capacity(decoded.len());
    for byte in decoded.iter().map(|byte| if *byte == b'\\' { b'/' } else { *byte }) {
        if byte != b'/' || plain.last() != Some(&b'/') {
            plain.push(byte);
        }
    }
    Cow::Owned(String::from_utf8_lossy(&plain).into_owned())
}

fn decode(path: &[u8]) -> Cow<'_, [u8]> {
    if !path.contains(&b'%') {
        return Cow::Borrowed(path);
    }
    let mut decoded = Vec::with_capacity(path.len());
    let mut rest = path;
    while let Some((first, after)) = rest.split_first() {
        let hex = |at: usize| after.get(at).and_then(|digit| (*digit as char).to_digit(16));
        match (first, hex(0), hex(1)) {
            (b'%', Some(high), Some(low)) => {
                decoded.push((high * 16 + low) as u8);
                rest = &after[2..];
            }
            _ => {
                decoded.push(*first);
                rest = after;
            }
        }
    }
    Cow::Owned(decoded)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_leads_upward_is_noticed() {
        for path in [
            "/..",
            "/../",
            "/a/../b",
            "/a/..",
            "/a/./b",
            "/.",
            "/%2e%2e/b",
            "/%2E./b",
            "/a/.%2e",
            "/a%2f..%2fb",
            "/a%2F%2e%2e",
            "/a\\..\\b",
            "/a%5c..%5cb",
            "/..;x/b",
            "/a/%2e%2e;y=1/b",
            "/a%00b",
        ] {
            assert!(leads_upward(path), "{path}");
        }
        for path in [
            "/",
            "",
            "/a",
            "/a/b.c",
            "/a..b",
            "/..a",
            "/...",
            "/.well-known/x",
            "/a%20b",
            "/%zz",
            "/%",
            "/a%2",
            "/%252e%252e/",
        ] {
            assert!(!leads_upward(path), "{path}");
        }
    }

    #[test]
    fn prefixes_are_compared_in_plain_form() {
        for (path, expected) in [
            ("/admin", "/admin"),
            ("//admin", "/admin"),
            ("/%61dmin/x", "/admin/x"),
            ("/%2fadmin", "/admin"),
            ("\\admin", "/admin"),
            ("/%5Cadmin", "/admin"),
            ("/a%20b", "/a b"),
            ("/%", "/%"),
        ] {
            assert_eq!(plain(path), expected, "{path}");
        }
    }
}
