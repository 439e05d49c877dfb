//! The grammar of names, labels, keys and ports. Each check answers with what is wrong, in the API's words; no answer
//! means the text is fine. The checks are written by hand because they run on every write.

/// How a kind restricts `metadata.name`; `prefix` is for `generateName`, which may end in `-`.
pub type NameRule = fn(name: &str, prefix: bool) -> Vec<String>;

const LABEL: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?";
const SUBDOMAIN: &str = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*";
const LABEL_1035: &str = "[a-z]([-a-z0-9]*[a-z0-9])?";
const QUALIFIED: &str = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]";

pub fn dns1123_label(text: &str) -> Vec<String> {
    let mut faults = too_long(text, 63);
    if !is_label(text) {
        if is_subdomain(text) {
            faults.push("must not contain dots".into());
        } else {
            faults.push(pattern_fault(
                "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character",
                LABEL,
                &["my-name", "123-abc"],
            ));
        }
    }
    faults
}

pub fn dns1123_subdomain(text: &str) -> Vec<String> {
    let mut faults = too_long(text, 253);
    if !is_subdomain(text) {
        faults.push(pattern_fault(
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character",
            SUBDOMAIN,
            &["example.com"],
        ));
    }
    faults
}

/// `*.example.org`
pub fn wildcard_subdomain(text: &str) -> Vec<String> {
    let mut faults = too_long(text, 253);
    if !text.strip_prefix("*.").is_some_and(is_subdomain) {
        faults.push(pattern_fault(
            "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must consist of lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character",
            &format!("\\*\\.{SUBDOMAIN}"),
            &["*.example.com"],
        ));
    }
    faults
}

pub fn dns1035_label(text: &str) -> Vec<String> {
    let mut faults = too_long(text, 63);
    if !(is_label(text) && text.as_bytes().first().is_some_and(u8::is_ascii_lowercase)) {
        faults.push(pattern_fault(
            "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character",
            LABEL_1035,
            &["my-name", "abc-123"],
        ));
    }
    faults
}

/// A label or annotation key, a finalizer, a resource name: `[prefix/]name`.
pub fn qualified_name(text: &str) -> Vec<String> {
    let what = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character";
    let examples = &["MyName", "my.name", "123-abc"];
    let mut faults = Vec::new();
    let mut parts = text.split('/');
    let name = match (parts.next(), parts.next(), parts.next()) {
        (Some(name), None, _) => name,
        (Some(prefix), Some(name), None) => {
            if prefix.is_empty() {
                faults.push("prefix part must be non-empty".into());
            } else {
                faults.extend(dns1123_subdomain(prefix).into_iter().map(|f| format!("prefix part {f}")));
            }
            name
        }
        _ => {
            return vec![format!(
                "a valid label key {} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')",
                pattern_fault(what, QUALIFIED, examples)
            )];
        }
    };
    if name.is_empty() {
        faults.push("name part must be non-empty".into());
    } else {
        faults.extend(too_many_bytes(name, 63).into_iter().map(|f| format!("name part {f}")));
    }
    if !is_qualified(name) {
        faults.push(format!("name part {}", pattern_fault(what, QUALIFIED, examples)));
    }
    faults
}

pub fn label_value(text: &str) -> Vec<String> {
    let mut faults = too_many_bytes(text, 63);
    if !text.is_empty() && !is_qualified(text) {
        faults.push(pattern_fault(
            "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character",
            "(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?",
            &["MyValue", "my_value", "12345"],
        ));
    }
    faults
}

/// A key of a ConfigMap or Secret, which becomes a file name.
pub fn config_key(text: &str) -> Vec<String> {
    let mut faults = too_long(text, 253);
    if text.is_empty() || !text.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._".contains(&b)) {
        faults.push(pattern_fault(
            "a valid config key must consist of alphanumeric characters, '-', '_' or '.'",
            "[-._a-zA-Z0-9]+",
            &["key.name", "KEY_NAME", "key-name"],
        ));
    }
    match text {
        "." => faults.push("must not be '.'".into()),
        ".." => faults.push("must not be '..'".into()),
        text if text.starts_with("..") => faults.push("must not start with '..'".into()),
        _ => {}
    }
    faults
}

/// The name of an environment variable: any printable ASCII but `=`.
pub fn env_name(text: &str) -> Vec<String> {
    if text.is_empty() {
        return vec!["environment variable name must be non-empty".into()];
    }
    if text.chars().any(|c| !(' '..='~').contains(&c) || c == '=') {
        return vec![
            "a valid environment variable name must consist only of printable ASCII characters other than '='"
                .into(),
        ];
    }
    Vec::new()
}

/// A service's port name (IANA_SVC_NAME).
pub fn port_name(text: &str) -> Vec<String> {
    let mut faults = too_long(text, 15);
    if text.is_empty() || !text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-') {
        faults.push("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)".into());
    }
    if !text.bytes().any(|b| b.is_ascii_lowercase()) {
        faults.push("must contain at least one letter (a-z)".into());
    }
    if text.contains("--") {
        faults.push("must not contain consecutive hyphens".into());
    }
    if !text.is_empty() && (text.starts_with('-') || text.ends_with('-')) {
        faults.push("must not begin or end with a hyphen".into());
    }
    faults
}

pub fn port_number(port: i64) -> Vec<String> {
    in_range(port, 1, 65535)
}

pub fn in_range(value: i64, low: i64, high: i64) -> Vec<String> {
    if (low..=high).contains(&value) {
        Vec::new()
    } else {
        vec![format!("must be between {low} and {high}, inclusive")]
    }
}

pub fn http_header_name(text: &str) -> Vec<String> {
    if !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-') {
        return Vec::new();
    }
    vec![pattern_fault(
        "a valid HTTP header must consist of alphanumeric characters or '-'",
        "[-A-Za-z0-9]+",
        &["X-Header-Name"],
    )]
}

pub fn percent(text: &str) -> Vec<String> {
    let digits = text.strip_suffix('%').unwrap_or_default();
    if !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()) {
        return Vec::new();
    }
    vec![pattern_fault(
        "a valid percent string must be a numeric string followed by an ending '%'",
        "[0-9]+%",
        &["1%", "93%"],
    )]
}

/// A name that can stand in a URL path: what RBAC objects and most unnamed rules ask for.
pub fn path_segment(text: &str, prefix: bool) -> Vec<String> {
    let mut faults = Vec::new();
    if !prefix {
        match text {
            "." => return vec!["may not be '.'".into()],
            ".." => return vec!["may not be '..'".into()],
            _ => {}
        }
    }
    for illegal in ["/", "%"] {
        if text.contains(illegal) {
            faults.push(format!("may not contain '{illegal}'"));
        }
    }
    faults
}

// Rules for `metadata.name`.

pub fn name_is_subdomain(name: &str, prefix: bool) -> Vec<String> {
    dns1123_subdomain(&unprefixed(name, prefix))
}

pub fn name_is_label(name: &str, prefix: bool) -> Vec<String> {
    dns1123_label(&unprefixed(name, prefix))
}

/// `generateName: "web-"` stands for names that start so; the dash must not count against it.
fn unprefixed(name: &str, prefix: bool) -> String {
    match name.strip_suffix('-') {
        Some(stem) if prefix && !stem.is_empty() => format!("{stem}a"),
        _ => name.to_owned(),
    }
}

fn too_long(text: &str, max: usize) -> Vec<String> {
    if text.len() > max { vec![format!("must be no more than {max} characters")] } else { Vec::new() }
}

/// Both count bytes; only the word differs from one grammar to the next.
fn too_many_bytes(text: &str, max: usize) -> Vec<String> {
    if text.len() > max { vec![format!("must be no more than {max} bytes")] } else { Vec::new() }
}

pub(crate) fn is_label(text: &str) -> bool {
    let bytes = text.as_bytes();
    let edge = |b: &u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    bytes.first().is_some_and(edge)
        && bytes.last().is_some_and(edge)
        && bytes.iter().all(|b| edge(b) || *b == b'-')
}

pub(crate) fn is_subdomain(text: &str) -> bool {
    text.split('.').all(is_label)
}

fn is_qualified(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.first().is_some_and(u8::is_ascii_alphanumeric)
        && bytes.last().is_some_and(u8::is_ascii_alphanumeric)
        && bytes.iter().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(b))
}

fn pattern_fault(what: &str, pattern: &str, examples: &[&str]) -> String {
    let examples: Vec<String> = examples.iter().map(|e| format!("'{e}', ")).collect();
    format!("{what} (e.g. {}regex used for validation is '{pattern}')", examples.join(" or "))
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    #[test]
    fn faults_are_worded_like_the_api() {
        type Check = fn(&str) -> Vec<String>;
        let cases: &[(&str, Check, &str)] = &[
            ("label", dns1123_label, "My"),
            ("label", dns1123_label, "a.b"),
            ("label", dns1123_label, "web-0"),
            ("subdomain", dns1123_subdomain, "a..b"),
            ("1035", dns1035_label, "0a"),
            ("qualified", qualified_name, "a/b/c"),
            ("qualified", qualified_name, "Bad.Prefix/x"),
            ("qualified", qualified_name, "/"),
            ("qualified", qualified_name, "kubernetes.io/name"),
            ("label value", label_value, "-x"),
            ("config key", config_key, ".."),
            ("env", env_name, "a=b"),
            ("port", port_name, "UP--"),
            ("percent", percent, "%"),
        ];
        let mut shown = String::new();
        for (what, check, text) in cases {
            shown.push_str(&format!("{what} {text:?}\n"));
            for fault in check(text) {
                shown.push_str(&format!("  {fault}\n"));
            }
        }
        expect![[r#"
            label "My"
              a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')
            label "a.b"
              must not contain dots
            label "web-0"
            subdomain "a..b"
              a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')
            1035 "0a"
              a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')
            qualified "a/b/c"
              a valid label key must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]') with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')
            qualified "Bad.Prefix/x"
              prefix part a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')
            qualified "/"
              prefix part must be non-empty
              name part must be non-empty
              name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')
            qualified "kubernetes.io/name"
            label value "-x"
              a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')
            config key ".."
              must not be '..'
            env "a=b"
              a valid environment variable name must consist only of printable ASCII characters other than '='
            port "UP--"
              must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)
              must contain at least one letter (a-z)
              must not contain consecutive hyphens
              must not begin or end with a hyphen
            percent "%"
              a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')
        "#]].assert_eq(&shown);
    }

    #[test]
    fn a_generated_name_may_end_in_a_dash() {
        assert!(name_is_label("web-", true).is_empty());
        assert!(!name_is_label("web-", false).is_empty());
    }
}
