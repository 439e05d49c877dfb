//! Paths as pods would understand them. Nothing is rewritten on its way; what two readers could understand differently
//! is refused, or judged by the stricter reading.

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

/// Rounds of decoding after which a path must have come to rest.
const ROUNDS: usize = 4;

/// How servers may read a path: decoded once or as long as there is anything to decode, without the parameters of its
/// segments (`;x`, taken off before or after decoding), with single slashes. Prefixes are compared with each. None if
/// nobody can tell where it may lead.
pub(crate) fn readings(path: &str) -> Option<Vec<String>> {
    if !path.contains(['%', ';', '\\']) && !path.contains("//") {
        return Some(vec![path.to_owned()]);
    }
    let once = decode(path.as_bytes());
    let mut last = once.clone();
    for round in 0.. {
        let next = decode(&last).into_owned();
        if next == *last {
            break;
        }
        if round == ROUNDS {
            return None;
        }
        last = Cow::Owned(next);
    }
    let plain = [
        without_parameters(&once),
        decode(&without_parameters(path.as_bytes())).into_owned(),
        without_parameters(&last),
    ];
    let mut readings =
        plain.map(|plain| String::from_utf8_lossy(&single_slashes(&plain)).into_owned()).to_vec();
    readings.dedup();
    if readings.iter().any(|reading| leads_upward(reading)) { None } else { Some(readings) }
}

fn single_slashes(path: &[u8]) -> Vec<u8> {
    let mut simple = Vec::with_capacity(path.len());
    for byte in path {
        let byte = if *byte == b'\\' { b'/' } else { *byte };
        if byte != b'/' || simple.last() != Some(&b'/') {
            simple.push(byte);
        }
    }
    simple
}

fn without_parameters(path: &[u8]) -> Vec<u8> {
    let mut is_parameter = false;
    let kept = path.iter().copied().filter(|byte| {
        is_parameter = match byte {
            b'/' | b'\\' => false,
            b';' => true,
            _ => is_parameter,
        };
        !is_parameter
    });
    kept.collect()
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
    fn paths_are_read_as_servers_may_read_them() {
        for (path, expected) in [
            ("/admin", Some(&["/admin"][..])),
            ("//admin", Some(&["/admin"])),
            ("/%61dmin/x", Some(&["/admin/x"])),
            ("/%2fadmin", Some(&["/admin"])),
            ("\\admin", Some(&["/admin"])),
            ("/%5Cadmin", Some(&["/admin"])),
            ("/a%20b", Some(&["/a b"])),
            ("/%", Some(&["/%"])),
            ("/admin;x=1/y", Some(&["/admin/y"])),
            ("/;x/admin", Some(&["/admin"])),
            ("/adm;in", Some(&["/adm"])),
            // whether `;` is seen before or after decoding makes a difference
            ("/;%2fadmin", Some(&["/admin", "/", "/admin"])),
            ("/%3bx/admin", Some(&["/admin", "/;x/admin", "/admin"])),
            ("/%2561dmin", Some(&["/%61dmin", "/admin"])),
            ("/%25252561dmin", Some(&["/%252561dmin", "/admin"])),
            ("/%252525252561dmin", None),
            ("/x/%252e%252e/admin", None),
        ] {
            let expected = expected.map(|all| all.iter().map(|one| (*one).to_owned()).collect::<Vec<_>>());
            assert_eq!(readings(path), expected, "{path}");
        }
    }
}
