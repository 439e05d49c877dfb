//! The string formats that are checked. Names are compared without dashes, as the API does.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use base64::Engine;

use super::compiled;
use crate::names;

type Check = fn(&str) -> bool;

const FORMATS: &[(&str, Check)] = &[
    ("bsonobjectid", |s| s.len() == 24 && s.bytes().all(|b| b.is_ascii_hexdigit())),
    ("byte", |s| base64::engine::general_purpose::STANDARD.decode(s).is_ok()),
    ("cidr", cidr),
    ("creditcard", |s| {
        let digits: String = s.chars().filter(char::is_ascii_digit).collect();
        matches(
            &digits,
            r"^(?:4[0-9]{12}(?:[0-9]{3})?|5[1-5][0-9]{14}|6(?:011|5[0-9][0-9])[0-9]{12}|3[47][0-9]{13}|3(?:0[0-5]|[68][0-9])[0-9]{11}|(?:2131|1800|35\d{3})\d{11})$",
        ) && luhn(&digits)
    }),
    ("date", |s| s.len() == 10 && s.parse::<jiff::civil::Date>().is_ok()),
    ("datetime", date_time),
    ("duration", duration),
    ("email", |s| matches(s, r"^[^@\s<>]+@[^@\s<>]+$")),
    ("hexcolor", |s| matches(s, "^#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})$")),
    ("hostname", hostname),
    ("ipv4", |s| s.parse::<Ipv4Addr>().is_ok()),
    ("ipv6", |s| s.contains(':') && s.parse::<Ipv6Addr>().is_ok()),
    ("isbn", |s| isbn10(s) || isbn13(s)),
    ("isbn10", isbn10),
    ("isbn13", isbn13),
    ("k8slongname", |s| s.len() <= 253 && names::is_subdomain(s)),
    ("k8sshortname", |s| s.len() <= 63 && names::is_label(s)),
    ("mac", |s| {
        matches(
            s,
            "^(([0-9a-fA-F]{2}:){5}([0-9a-fA-F]{2}:){0,2}|([0-9a-fA-F]{2}-){5}([0-9a-fA-F]{2}-){0,2})[0-9a-fA-F]{2}$|^([0-9a-fA-F]{4}\\.){2,3}[0-9a-fA-F]{4}$",
        )
    }),
    ("password", |_| true),
    ("rgbcolor", rgb),
    ("ssn", |s| matches(s, r"^\d{3}[- ]?\d{2}[- ]?\d{4}$")),
    ("uri", uri),
    ("uuid", |s| matches(s, "(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}$")),
    ("uuid3", |s| matches(s, "(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?3[0-9a-f]{3}-?[0-9a-f]{4}-?[0-9a-f]{12}$")),
    ("uuid4", |s| {
        matches(s, "(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?4[0-9a-f]{3}-?[89ab][0-9a-f]{3}-?[0-9a-f]{12}$")
    }),
    ("uuid5", |s| {
        matches(s, "(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?5[0-9a-f]{3}-?[89ab][0-9a-f]{3}-?[0-9a-f]{12}$")
    }),
];

pub(crate) fn is_known(format: &str) -> bool {
    find(format).is_some()
}

/// Whether `text` has the format; an unknown format has no objections.
pub(crate) fn matches_format(format: &str, text: &str) -> bool {
    find(format).is_none_or(|check| check(text))
}

fn find(format: &str) -> Option<Check> {
    let name = format.replace('-', "");
    FORMATS.iter().find(|(known, _)| *known == name).map(|(_, check)| *check)
}

fn matches(text: &str, pattern: &str) -> bool {
    compiled(pattern).is_some_and(|regex| regex.is_match(text))
}

fn cidr(text: &str) -> bool {
    let Some((address, bits)) = text.split_once('/') else { return false };
    let (Ok(address), Ok(bits)) = (address.parse::<IpAddr>(), bits.parse::<u8>()) else { return false };
    bits <= if address.is_ipv4() { 32 } else { 128 }
}

fn date_time(text: &str) -> bool {
    // RFC 3339 with any fraction; the local form without an offset is accepted too
    matches(text, r"^\d{4}-\d{2}-\d{2}[Tt]\d{2}:\d{2}:\d{2}([.,]\d{1,9})?([Zz]|[+-]\d{2}:\d{2})?$")
        && text.get(..19).is_some_and(|local| local.parse::<jiff::civil::DateTime>().is_ok())
}

/// Go's durations (`1h30m`), or a number and the name of a unit (`22 ns`, `3 days`).
fn duration(text: &str) -> bool {
    matches(
        text,
        r"^[+-]?(0|(\d+(\.\d*)?|\.\d+)(ns|us|µs|μs|ms|s|m|h)((\d+(\.\d*)?|\.\d+)(ns|us|µs|μs|ms|s|m|h))*)$",
    ) || matches(
        text,
        r"(?i)^\s*(\d+\s*(ns|nanos?|nanoseconds?|us|µs|micros?|microseconds?|ms|millis?|milliseconds?|s|secs?|seconds?|m|mins?|minutes?|h|hours?|hrs?|d|days?|w|weeks?)\s*)+$",
    )
}

fn hostname(text: &str) -> bool {
    !text.is_empty()
        && text.len() <= 255
        && text.split('.').all(|part| {
            part.chars().count() <= 63
                && part.chars().all(|c| c.is_alphanumeric() || c == '-')
                && !part.starts_with('-')
                && !part.ends_with('-')
                && !part.is_empty()
        })
}

fn uri(text: &str) -> bool {
    if text.is_empty() || text.bytes().any(|b| b <= b' ' || b == 0x7f) {
        return false;
    }
    if text.starts_with('/') {
        return true;
    }
    matches(text, "^[A-Za-z][A-Za-z0-9+.-]*:")
        && text.split_once(':').is_some_and(|(_, rest)| !rest.is_empty())
}

fn rgb(text: &str) -> bool {
    matches(
        text,
        r"^rgb\(\s*(0|[1-9]\d?|1\d\d?|2[0-4]\d|25[0-5])\s*,\s*(0|[1-9]\d?|1\d\d?|2[0-4]\d|25[0-5])\s*,\s*(0|[1-9]\d?|1\d\d?|2[0-4]\d|25[0-5])\s*\)$",
    )
}

fn luhn(digits: &str) -> bool {
    let sum: u32 = digits
        .bytes()
        .rev()
        .enumerate()
        .map(|(i, b)| {
            let digit = u32::from(b - b'0');
            match i % 2 {
                0 => digit,
                _ if digit > 4 => digit * 2 - 9,
                _ => digit * 2,
            }
        })
        .sum();
    sum.is_multiple_of(10)
}

fn isbn10(text: &str) -> bool {
    let compact: Vec<u8> = text.bytes().filter(|b| !b" -".contains(b)).collect();
    compact.len() == 10
        && compact[..9].iter().all(u8::is_ascii_digit)
        && matches!(compact[9], b'0'..=b'9' | b'X')
        && compact
            .iter()
            .enumerate()
            .map(|(i, b)| (i as u32 + 1) * if *b == b'X' { 10 } else { u32::from(b - b'0') })
            .sum::<u32>()
            % 11
            == 0
}

fn isbn13(text: &str) -> bool {
    let compact: Vec<u8> = text.bytes().filter(|b| !b" -".contains(b)).collect();
    compact.len() == 13
        && compact.iter().all(u8::is_ascii_digit)
        && compact
            .iter()
            .enumerate()
            .map(|(i, b)| u32::from(b - b'0') * if i % 2 == 0 { 1 } else { 3 })
            .sum::<u32>()
            % 10
            == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn good_and_bad_texts() {
        let cases: &[(&str, &[&str], &[&str])] = &[
            ("uri", &["http://a/b", "/x", "mailto:a@b"], &["", "a b", "plain"]),
            (
                "date-time",
                &["2024-01-02T03:04:05Z", "2024-01-02T03:04:05.123+02:00"],
                &["2024-13-02T03:04:05Z", "now"],
            ),
            ("date", &["2024-02-29"], &["2023-02-29", "2024-2-9"]),
            ("duration", &["1h30m", "0", "1.5s", "22 ns", "3 days"], &["", "1", "1x", "h"]),
            ("ipv4", &["10.0.0.1"], &["10.0.0", "::1"]),
            ("ipv6", &["::1"], &["10.0.0.1"]),
            ("cidr", &["10.0.0.0/8", "::/0"], &["10.0.0.0/33", "10.0.0.0"]),
            ("uuid", &["123e4567-e89b-12d3-a456-426614174000"], &["123e4567"]),
            ("byte", &["aGk="], &["a*"]),
            ("email", &["a@b.c"], &["a.b.c"]),
            ("hostname", &["example.com", "a"], &["-a", ""]),
            ("mac", &["01:23:45:67:89:ab"], &["01:23"]),
            ("isbn13", &["978-0321751041"], &["978-0321751042"]),
            ("isbn10", &["0321751043"], &["0321751044"]),
            ("creditcard", &["4111 1111 1111 1111"], &["4111 1111 1111 1112"]),
            ("hexcolor", &["#FFFFFF", "abc"], &["#FF"]),
            ("rgbcolor", &["rgb(255,255,255)"], &["rgb(256,0,0)"]),
            ("k8s-short-name", &["web-0"], &["a.b", "A"]),
            ("k8s-long-name", &["a.b"], &["a..b"]),
            ("no-such-format", &["anything"], &[]),
        ];
        for (format, good, bad) in cases {
            for text in *good {
                assert!(matches_format(format, text), "{text:?} is a {format}");
            }
            for text in *bad {
                assert!(!matches_format(format, text), "{text:?} is no {format}");
            }
        }
    }
}
