//! Names of ours as parts of subjects, and back.
//!
//! A dot separates the parts of a subject, and a few more characters mean something to NATS; so everything but letters,
//! digits, `-` and `_` is written as `=` and two hexadecimal digits, and the empty name as `=`.

/// One part.
pub fn encode(name: &str) -> String {
    if name.is_empty() {
        return "=".to_owned();
    }
    let mut part = String::with_capacity(name.len());
    for byte in name.bytes() {
        if byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_' {
            part.push(char::from(byte));
        } else {
            part.push_str(&format!("={byte:02X}"));
        }
    }
    part
}

/// None if `encode` made no such part.
pub fn decode(part: &str) -> Option<String> {
    if part == "=" {
        return Some(String::new());
    }
    let mut name = Vec::with_capacity(part.len());
    let mut rest = part.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        if *first != b'=' {
            name.push(*first);
            rest = after;
            continue;
        }
        let digits = std::str::from_utf8(after.get(..2)?).ok()?;
        name.push(u8::from_str_radix(digits, 16).ok()?);
        rest = &after[2..];
    }
    String::from_utf8(name).ok()
}

/// A key: its slashes separate parts, so that what is under a slash can be asked for.
pub fn encode_key(key: &str) -> String {
    key.split('/').map(encode).collect::<Vec<_>>().join(".")
}

pub fn decode_key(subject: &str) -> Option<String> {
    Some(subject.split('.').map(decode).collect::<Option<Vec<_>>>()?.join("/"))
}

/// What to ask for to see at least every key that starts with `prefix`.
pub fn filter(prefix: &str) -> String {
    match prefix.rsplit_once('/') {
        Some((folder, _)) => format!("{}.>", encode_key(folder)),
        None => ">".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_survive_the_way() {
        for name in ["", "fibonacci", "a.b", "a b", "*", ">", "é/ü", "=", "=41", "a/b//c/", "\0"] {
            let part = encode(name);
            assert!(!part.contains(['.', '*', '>', ' ', '/']), "{part}");
            assert_eq!(decode(&part).as_deref(), Some(name));
            assert_eq!(decode_key(&encode_key(name)).as_deref(), Some(name));
        }
        assert_eq!(decode("=4"), None);
        assert_eq!(decode("=zz"), None);
        assert_eq!(decode("=FF"), None);
    }

    #[test]
    fn filters_see_what_begins_so() {
        assert_eq!(filter(""), ">");
        assert_eq!(filter("wa"), ">");
        assert_eq!(filter("wake/"), "wake.>");
        assert_eq!(filter("a b/c/d"), "a=20b.c.>");
    }
}
