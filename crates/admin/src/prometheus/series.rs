//! Which series there are.

use std::collections::BTreeSet;

use metrics::Millis;
use promql::{Budget, Labels, Matcher, TimeRange};

use super::answer::{Answer, ApiError, Result, said};
use super::write;
use crate::form::Form;
use crate::operator::Shared;

const NO_MATCHER: &str = "match[] must contain at least one non-empty matcher";
/// Selectors of one request.
const MOST_SELECTORS: usize = 1_000;

pub(super) async fn series(shared: &Shared, form: &Form) -> Result<Answer> {
    if form.all("match[]").next().is_none() {
        return Err(ApiError::bad_data("no match[] parameter provided"));
    }
    let as_parameter = |problem: String| ApiError::parameter("match[]", problem);
    find(shared, form, as_parameter, |out, found, limit, budget| {
        write::list(out, &found, limit, budget, write::labels)
    })
    .await
}

pub(super) async fn label_names(shared: &Shared, form: &Form) -> Result<Answer> {
    find(shared, form, ApiError::bad_data, |out, found, limit, budget| {
        let mut names: BTreeSet<&str> = BTreeSet::new();
        for labels in &found {
            budget.work(4)?;
            names.extend(labels.iter().map(|(name, _)| name));
        }
        write::list(out, names, limit, budget, write::text)
    })
    .await
}

/// `name` as it stands in the path.
pub(super) async fn label_values(shared: &Shared, name: &str, form: &Form) -> Result<Answer> {
    let name = unescaped(&decoded(name));
    if name.is_empty() || name.contains('\u{fffd}') {
        return Err(ApiError::bad_data(format!("invalid label name: {name:?}")));
    }
    find(shared, form, ApiError::bad_data, move |out, found, limit, budget| {
        let mut values: BTreeSet<&str> = BTreeSet::new();
        for labels in &found {
            budget.work(4)?;
            values.insert(labels.get(&name));
        }
        values.remove("");
        write::list(out, values, limit, budget, write::text)
    })
    .await
}

/// Finds series on a thread for queries, and writes there what `write` makes of them. No selectors at all are for
/// everything.
async fn find(
    shared: &Shared,
    form: &Form,
    bad_selector: impl Fn(String) -> ApiError,
    write: impl FnOnce(&mut String, Vec<Labels>, Option<usize>, &Budget<'_>) -> promql::Result<bool>
    + Send
    + 'static,
) -> Result<Answer> {
    let (limit, range) = (limit(form)?, range(form)?);
    let texts: Vec<String> = form.all("match[]").map(str::to_string).collect();
    if texts.len() > MOST_SELECTORS {
        return Err(bad_selector(format!("{} selectors, at most {MOST_SELECTORS} are allowed", texts.len())));
    }
    let found = shared.runner.run(None, move |turn| {
        let mut parsed = Vec::new();
        for text in &texts {
            turn.budget.check_time()?;
            match selector(text) {
                Ok(matchers) => parsed.push(matchers),
                Err(problem) => return Ok(Err(problem)),
            }
        }
        if parsed.is_empty() {
            parsed.push(Vec::new());
        }
        let found = turn.view.series_labels(&parsed, range, turn.budget)?;
        let mut answer = Answer::begun();
        let is_truncated = write(&mut answer.body, found, limit, turn.budget)?;
        Ok(Ok(answer.truncated(is_truncated)))
    });
    found.await?.map_err(bad_selector)
}

fn limit(form: &Form) -> Result<Option<usize>> {
    form.limit().map_err(|e| ApiError::parameter("limit", e))
}

fn range(form: &Form) -> Result<TimeRange> {
    let time = |name: &str, default: Millis| -> Result<Millis> {
        let time = form.time(name).map_err(|e| ApiError::parameter(name, e))?;
        Ok(time.unwrap_or(default))
    };
    Ok(TimeRange { min: time("start", Millis::MIN)?, max: time("end", Millis::MAX)? })
}

fn selector(text: &str) -> std::result::Result<Vec<Matcher>, String> {
    match promql::parse_selector(text) {
        Ok(matchers) if matchers.iter().any(|m| !m.matches("")) => Ok(matchers),
        Ok(_) => Err(NO_MATCHER.into()),
        // The parser refuses it in words that are about queries.
        Err(error) if error.to_string().ends_with("must contain at least one non-empty matcher") => {
            Err(NO_MATCHER.into())
        }
        Err(error) => Err(said(&error)),
    }
}

/// A path is encoded like a form, but for the plus.
fn decoded(part: &str) -> String {
    let as_form = format!("x={}", part.replace('+', "%2B").replace('&', "%26"));
    form_urlencoded::parse(as_form.as_bytes()).next().map(|(_, value)| value.into_owned()).unwrap_or_default()
}

/// `U__a_2e_b` is how a client writes `a.b` where only plain names are allowed.
fn unescaped(name: &str) -> String {
    let Some(mut rest) = name.strip_prefix("U__") else { return name.to_string() };
    let mut out = String::new();
    while let Some(c) = rest.chars().next() {
        rest = &rest[c.len_utf8()..];
        if c != '_' {
            out.push(c);
        } else if let Some(after) = rest.strip_prefix('_') {
            out.push('_');
            rest = after;
        } else {
            let code = rest.split_once('_').and_then(|(hex, after)| {
                let c = u32::from_str_radix(hex, 16).ok().and_then(char::from_u32)?;
                Some((c, after))
            });
            // What is not escaped after all stands for itself.
            let Some((c, after)) = code else { return name.to_string() };
            out.push(c);
            rest = after;
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_in_paths_are_decoded() {
        for (written, name) in [
            ("job", "job"),
            ("a%2Eb", "a.b"),
            ("a+b", "a+b"),
            ("U__a_2e_b", "a.b"),
            ("U__a__b", "a_b"),
            ("U__a_zz_", "U__a_zz_"),
            ("__name__", "__name__"),
        ] {
            assert_eq!(unescaped(&decoded(written)), name, "{written}");
        }
    }
}
