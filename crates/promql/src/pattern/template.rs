//! The replacement of `label_replace`: text with `$1`, `${1}`, `$name` for what groups of a pattern caught.

use regex_automata::util::captures::Captures;

use super::Pattern;
use crate::error::Result;

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Template<'t>(Vec<Part<'t>>);

#[derive(Debug, PartialEq, Eq)]
enum Part<'t> {
    Text(&'t str),
    Group(usize),
}

impl<'t> Template<'t> {
    /// Names that the pattern does not have stand for nothing. A `$` without a name is itself, as in Go.
    pub(crate) fn new(text: &'t str, pattern: &Pattern) -> Self {
        let mut parts = Vec::new();
        let mut rest = text;
        while let Some(at) = rest.find('$') {
            parts.push(Part::Text(&rest[..at]));
            let after = &rest[at + 1..];
            rest = if let Some(after) = after.strip_prefix('$') {
                parts.push(Part::Text("$"));
                after
            } else if let Some((name, after)) = reference(after) {
                parts.extend(group(name, pattern).map(Part::Group));
                after
            } else {
                parts.push(Part::Text("$"));
                after
            };
        }
        parts.push(Part::Text(rest));
        parts.retain(|part| *part != Part::Text(""));
        Self(parts)
    }

    /// Fills in what was caught in `value`. `allow` is asked how long the result may be before it is made.
    pub(crate) fn fill(
        &self,
        value: &str,
        caught: &Captures,
        allow: impl FnOnce(usize) -> Result<()>,
    ) -> Result<String> {
        let shown = |part: &Part<'t>| -> &str {
            match *part {
                Part::Text(text) => text,
                Part::Group(at) => {
                    caught.get_group(at).and_then(|span| value.get(span.range())).unwrap_or_default()
                }
            }
        };
        let length = self.0.iter().fold(0_usize, |sum, part| sum.saturating_add(shown(part).len()));
        allow(length)?;
        let mut out = String::with_capacity(length);
        self.0.iter().for_each(|part| out.push_str(shown(part)));
        Ok(out)
    }
}

/// `name` or `{name}` at the start of the text, and what follows.
fn reference(text: &str) -> Option<(&str, &str)> {
    let (braced, inside) = text.strip_prefix('{').map_or((false, text), |inside| (true, inside));
    let end = inside.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(inside.len());
    let (name, after) = inside.split_at(end);
    let after = if braced { after.strip_prefix('}')? } else { after };
    (!name.is_empty()).then_some((name, after))
}

fn group(name: &str, pattern: &Pattern) -> Option<usize> {
    let groups = pattern.group_info();
    match name.bytes().all(|b| b.is_ascii_digit()) {
        true => name.parse().ok().filter(|at| *at < groups.all_group_len()),
        false => groups.to_index(regex_automata::PatternID::ZERO, name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pattern::{Allowance, compile};

    #[test]
    fn groups_are_filled_in() {
        let pattern = compile("(a+)(?P<rest>.*)", &mut Allowance::default()).unwrap();
        let mut caught = pattern.create_captures();
        pattern.captures("aabc", &mut caught);
        for (template, filled) in [
            ("$1", "aa"),
            ("${1}x", "aax"),
            ("$1x", ""),
            ("$rest-$0", "bc-aabc"),
            ("$$1 $ $-", "$1 $ $-"),
            ("${1 $9", "${1 "),
            ("", ""),
        ] {
            assert_eq!(
                Template::new(template, &pattern).fill("aabc", &caught, |_| Ok(())).unwrap(),
                filled,
                "{template}"
            );
        }
    }
}
