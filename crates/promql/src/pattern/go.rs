//! From Go's regular expressions to those of the `regex` crates, where the two differ: `\d`, `\w`, `\s` and `\b` are
//! ASCII, `{` that begins no repetition is itself, `[`, `&&` and `--` in a class are themselves, `\Q…\E` quotes, and
//! numbers after a backslash are octal. What Go refuses is refused.

/// As many repetitions as Go counts.
const MOST_REPETITIONS: u32 = 1000;

pub(super) fn translate(text: &str) -> Result<String, String> {
    let mut out = String::with_capacity(text.len() + 16);
    let mut rest = text;
    // A repetition of a repetition is an error in Go.
    let mut repeated = false;
    while let Some(c) = rest.chars().next() {
        let after = &rest[c.len_utf8()..];
        let was_repeated = std::mem::take(&mut repeated);
        rest = match c {
            '\\' => outside_class(rest, &mut out)?,
            '[' => class(rest, &mut out)?,
            '*' | '+' | '?' => {
                repeated = true;
                let (lazy, after) = lazy(after);
                stacked(was_repeated, c, lazy)?;
                out.push(c);
                out.push_str(lazy);
                after
            }
            '{' => match repetition(rest)? {
                Some(length) => {
                    repeated = true;
                    let (lazy, after) = lazy(&rest[length..]);
                    stacked(was_repeated, c, lazy)?;
                    out.push_str(&rest[..length]);
                    out.push_str(lazy);
                    after
                }
                None => {
                    out.push_str("\\{");
                    after
                }
            },
            '(' if after.starts_with('?') => {
                check_group(after)?;
                out.push('(');
                after
            }
            c => {
                out.push(c);
                after
            }
        };
    }
    Ok(out)
}

fn lazy(rest: &str) -> (&'static str, &str) {
    rest.strip_prefix('?').map_or(("", rest), |after| ("?", after))
}

fn stacked(was_repeated: bool, op: char, lazy: &str) -> Result<(), String> {
    match was_repeated {
        true => Err(format!("invalid nested repetition operator: {op}{lazy} after another one")),
        false => Ok(()),
    }
}

/// The length of `{2}`, `{2,}` or `{2,5}` at the start of the text; none if it is no repetition.
fn repetition(text: &str) -> Result<Option<usize>, String> {
    let Some(end) = text.find('}') else { return Ok(None) };
    let inside = &text[1..end];
    let (min, max) = inside.split_once(',').map_or((inside, None), |(min, max)| (min, Some(max)));
    let is_number =
        |n: &str| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()) && (n == "0" || !n.starts_with('0'));
    if !is_number(min) || !max.is_none_or(|max| max.is_empty() || is_number(max)) {
        return Ok(None);
    }
    let count = |n: &str| n.parse::<u32>().ok().filter(|n| *n <= MOST_REPETITIONS);
    let bounds = (count(min), max.filter(|max| !max.is_empty()).map(count));
    match bounds {
        (Some(_), None) => Ok(Some(end + 1)),
        (Some(min), Some(Some(max))) if min <= max => Ok(Some(end + 1)),
        _ => Err(format!("invalid repeat count: {{{inside}}}; at most {MOST_REPETITIONS} are counted")),
    }
}

/// Go knows the flags i, m, s, U and named groups.
fn check_group(after: &str) -> Result<(), String> {
    let named = after.starts_with("?P<") || after.starts_with("?<");
    let flags: String = after[1..].chars().take_while(|c| !matches!(c, ':' | ')')).collect();
    if named || flags.chars().all(|c| "imsU-".contains(c)) {
        return Ok(());
    }
    Err(format!("invalid or unsupported Perl syntax: (?{}", flags.chars().take(8).collect::<String>()))
}

/// An escape that is no single character, inside or outside of a class: ranges without brackets and whether negated.
fn perl_class(letter: char) -> Option<(&'static str, bool)> {
    Some(match letter {
        'd' => ("0-9", false),
        'D' => ("0-9", true),
        's' => (r"\t\n\x0c\r ", false),
        'S' => (r"\t\n\x0c\r ", true),
        'w' => ("0-9A-Za-z_", false),
        'W' => ("0-9A-Za-z_", true),
        _ => return None,
    })
}

fn push_perl(out: &mut String, (ranges, negated): (&str, bool)) {
    *out += if negated { "[^" } else { "[" };
    *out += ranges;
    out.push(']');
}

/// What follows the escape at the start of the text.
fn outside_class<'t>(text: &'t str, out: &mut String) -> Result<&'t str, String> {
    let Some(letter) = text[1..].chars().next() else {
        return Err("trailing backslash at end of expression".into());
    };
    let after = &text[1 + letter.len_utf8()..];
    if let Some(class) = perl_class(letter) {
        push_perl(out, class);
        return Ok(after);
    }
    match letter {
        'b' => *out += r"(?-u:\b)",
        'B' => *out += r"(?-u:\B)",
        'A' => *out += r"\A",
        'z' => *out += r"\z",
        'Q' => {
            let (quoted, after) = after.split_once(r"\E").unwrap_or((after, ""));
            quoted.chars().for_each(|c| push_literal(out, c));
            return Ok(after);
        }
        'p' | 'P' => return unicode_class(text, out),
        _ => {
            let (c, rest) = single(text)?;
            push_literal(out, c);
            return Ok(rest);
        }
    }
    Ok(after)
}

/// `\pL`, `\p{Greek}`, `\p{^Greek}`.
fn unicode_class<'t>(text: &'t str, out: &mut String) -> Result<&'t str, String> {
    let negated = text.starts_with(r"\P");
    let rest = &text[2..];
    let (name, after) = match rest.strip_prefix('{') {
        Some(inside) => inside.split_once('}').ok_or("missing closing } of a character class")?,
        None => {
            let end = rest.chars().next().map_or(0, char::len_utf8);
            rest.split_at(end)
        }
    };
    let (name, inverted) = name.strip_prefix('^').map_or((name, false), |name| (name, true));
    if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
        return Err(format!("invalid character class range: \\p{{{name}}}"));
    }
    *out += if negated != inverted { r"\P{" } else { r"\p{" };
    *out += name;
    out.push('}');
    Ok(after)
}

/// One character, escaped or not, and what follows it.
fn single(text: &str) -> Result<(char, &str), String> {
    let invalid = || format!("invalid escape sequence: {}", text.chars().take(4).collect::<String>());
    let Some(escaped) = text.strip_prefix('\\') else {
        let c = text.chars().next().ok_or("missing closing ]")?;
        return Ok((c, &text[c.len_utf8()..]));
    };
    let letter = escaped.chars().next().ok_or("trailing backslash at end of expression")?;
    let after = &escaped[letter.len_utf8()..];
    let c = match letter {
        'a' => '\x07',
        'f' => '\x0c',
        't' => '\t',
        'n' => '\n',
        'r' => '\r',
        'v' => '\x0b',
        'x' => return hexadecimal(after).ok_or_else(invalid),
        // A single digit would be a reference back to a group, which neither language has.
        '1'..='7' if !after.starts_with(|c: char| ('0'..='7').contains(&c)) => return Err(invalid()),
        '0'..='7' => {
            let n = 1 + after.bytes().take(2).take_while(|b| (b'0'..=b'7').contains(b)).count();
            let code = u32::from_str_radix(&escaped[..n], 8).ok().and_then(char::from_u32);
            return code.map(|c| (c, &escaped[n..])).ok_or_else(invalid);
        }
        c if c.is_ascii() && !c.is_ascii_alphanumeric() => c,
        _ => return Err(invalid()),
    };
    Ok((c, after))
}

/// `7F` or `{10FFFF}`.
fn hexadecimal(text: &str) -> Option<(char, &str)> {
    let (digits, after) = match text.strip_prefix('{') {
        Some(inside) => inside.split_once('}')?,
        None => text.split_at_checked(2)?,
    };
    let is_hex = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_hexdigit());
    let c = u32::from_str_radix(digits, 16).ok().filter(|_| is_hex).and_then(char::from_u32)?;
    Some((c, after))
}

fn push_literal(out: &mut String, c: char) {
    if c.is_ascii_punctuation() && !"<>".contains(c) {
        out.push('\\');
    }
    out.push(c);
}

/// `[…]` at the start of the text.
fn class<'t>(text: &'t str, out: &mut String) -> Result<&'t str, String> {
    let missing = || "missing closing ]".to_string();
    let mut rest = &text[1..];
    out.push('[');
    if let Some(after) = rest.strip_prefix('^') {
        out.push('^');
        rest = after;
    }
    let mut is_first = true;
    loop {
        if rest.is_empty() {
            return Err(missing());
        }
        if !is_first && let Some(after) = rest.strip_prefix(']') {
            out.push(']');
            return Ok(after);
        }
        is_first = false;
        if rest.starts_with("[:")
            && let Some(end) = rest.find(":]")
        {
            *out += &rest[..end + 2];
            rest = &rest[end + 2..];
            continue;
        }
        let escaped = rest.strip_prefix('\\').and_then(|r| r.chars().next());
        if let Some(perl) = escaped.and_then(perl_class) {
            push_perl(out, perl);
            rest = &rest[2..];
            continue;
        }
        if matches!(escaped, Some('p' | 'P')) {
            rest = unicode_class(rest, out)?;
            continue;
        }
        let (low, after) = single(rest)?;
        rest = after;
        push_literal(out, low);
        if let Some(range) = rest.strip_prefix('-').filter(|range| !range.starts_with(']')) {
            let (high, after) = single(range).map_err(|_| missing())?;
            if high < low {
                return Err(format!("invalid character class range: {low}-{high}"));
            }
            out.push('-');
            push_literal(out, high);
            rest = after;
        }
    }
}

#[cfg(test)]
mod tests {
    use regex_automata::meta::Regex;

    use super::*;

    /// Each pattern with texts that Go's `regexp` matches as a whole, and texts that it does not.
    #[test]
    fn patterns_mean_what_they_mean_in_go() {
        let cases: [(&str, &[&str], &[&str]); 24] = [
            (r"\d+", &["12"], &["١٢", "a"]),
            (r"\w", &["a", "_"], &["é"]),
            (r"\W\S\D", &["éüß"], &["aüß"]),
            (r"a.b", &["a\nb", "aéb"], &["ab"]),
            (r"{a}", &["{a}"], &["a"]),
            (r"a{b}", &["a{b}"], &["a"]),
            (r"a{,2}", &["a{,2}"], &["aa"]),
            (r"a{2}", &["aa"], &["a{2}"]),
            (r"a{1,}?", &["aaa"], &[""]),
            (r"a{02}", &["a{02}"], &["aa"]),
            (r"[[]", &["["], &["]"]),
            (r"[]a]", &["]", "a"], &["["]),
            (r"[^]a]", &["b"], &["]"]),
            (r"[a&&b]", &["&", "a", "b"], &["c"]),
            (r"[+--]", &["+", ",", "-"], &["."]),
            (r"[\d\-x]", &["-", "4", "x"], &["y"]),
            (r"[\D]", &["x", "é"], &["4"]),
            (r"[[:alpha:]_]+", &["a_"], &["4"]),
            (r"\Qa.b\E+", &["a.b", "a.bb"], &["axb"]),
            (r"\101\x42\x{43}", &["ABC"], &["abc"]),
            (r"\p{^Greek}\pL", &["aα"], &["αa"]),
            (r"(?i)abc|D", &["ABC", "d"], &["x"]),
            (r"(?P<x>a)(?:b)", &["ab"], &["a"]),
            (r"\<a\>", &["<a>"], &["a"]),
        ];
        for (pattern, matches, others) in cases {
            let rust = translate(pattern).unwrap();
            let regex =
                Regex::new(&format!("^(?s:{rust})$")).unwrap_or_else(|e| panic!("{pattern}: {rust}: {e}"));
            matches.iter().for_each(|t| assert!(regex.is_match(*t), "{pattern} ({rust}) matches {t:?}"));
            others
                .iter()
                .for_each(|t| assert!(!regex.is_match(*t), "{pattern} ({rust}) does not match {t:?}"));
        }
    }

    #[test]
    fn what_go_refuses_is_refused() {
        for pattern in [
            "a**",
            "a+?*",
            "a{2}{3}",
            "a{1001}",
            "a{3,2}",
            r"\",
            r"\8",
            r"\1",
            r"\u0041",
            "(?x)a",
            "(?=a)",
            "[a",
            "[z-a]",
            "[a--b]",
            r"\xZZ",
            r"\p{Greek",
            r"\h",
            "[a-",
        ] {
            assert!(translate(pattern).is_err(), "{pattern}: {:?}", translate(pattern));
        }
    }
}
