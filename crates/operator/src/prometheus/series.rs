//! Which series there are.

use std::collections::BTreeSet;

use metrics::Millis;
use promql::{Labels, Matcher, TimeRange};
use serde_json::{Value as Json, json};

use super::answer::{Answer, ApiError, Result, said};
use crate::form::Form;
use crate::operator::Shared;

const NO_MATCHER: &str = "match[] must contain at least one non-empty matcher";

pub(super) async fn series(shared: &Shared, form: &Form) -> Result<Answer> {
    if form.all("match[]").next().is_none() {
        return Err(ApiError::bad_data("no match[] parameter provided"));
    }
    let (limit, range) = (limit(form)?, range(form)?);
    let selectors = selectors(form).map_err(|problem| ApiError::parameter("match[]", problem))?;
    let found = find(shared, selectors, range).await?;
    let pairs = |labels: &Labels| {
        Json::Object(labels.iter().map(|(name, value)| (name.to_string(), json!(value))).collect())
    };
    Ok(cut(found.iter().map(pairs).collect(), limit))
}

pub(super) async fn label_names(shared: &Shared, form: &Form) -> Result<Answer> {
    let (limit, range) = (limit(form)?, range(form)?);
    let found = find(shared, selectors(form).map_err(ApiError::bad_data)?, range).await?;
    let names: BTreeSet<&str> = found.iter().flat_map(Labels::iter).map(|(name, _)| name).collect();
    Ok(cut(names.into_iter().map(|name| json!(name)).collect(), limit))
}

/// `name` as it stands in the path.
pub(super) async fn label_values(shared: &Shared, name: &str, form: &Form) -> Result<Answer> {
    let name = unescaped(&decoded(name));
    if name.is_empty() || name.contains('\u{fffd}') {
        return Err(ApiError::bad_data(format!("invalid label name: {name:?}")));
    }
    let (limit, range) = (limit(form)?, range(form)?);
    let found = find(shared, selectors(form).map_err(ApiError::bad_data)?, range).await?;
    let values: BTreeSet<&str> =
        found.iter().map(|labels| labels.get(&name)).filter(|v| !v.is_empty()).collect();
    Ok(cut(values.into_iter().map(|value| json!(value)).collect(), limit))
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

fn selectors(form: &Form) -> std::result::Result<Vec<Vec<Matcher>>, String> {
    let selector = |text: &str| match promql::parse_selector(text) {
        Ok(matchers) => Ok(matchers),
        // The parser refuses it in words that are about queries.
        Err(error) if error.to_string().ends_with("must contain at least one non-empty matcher") => {
            Err(NO_MATCHER.to_string())
        }
        Err(error) => Err(said(&error)),
    };
    let all: Vec<Vec<Matcher>> = form.all("match[]").map(selector).collect::<std::result::Result<_, _>>()?;
    match all.iter().all(|matchers| matchers.iter().any(|m| !m.matches(""))) {
        true => Ok(all),
        false => Err(NO_MATCHER.into()),
    }
}

/// No selectors at all are for everything.
async fn find(shared: &Shared, mut selectors: Vec<Vec<Matcher>>, range: TimeRange) -> Result<Vec<Labels>> {
    if selectors.is_empty() {
        selectors.push(Vec::new());
    }
    Ok(shared.runner.run(None, move |turn| turn.store.series_labels(&selectors, range)).await?)
}

fn cut(mut all: Vec<Json>, limit: Option<usize>) -> Answer {
    let is_truncated = limit.is_some_and(|limit| all.len() > limit);
    all.truncate(limit.unwrap_or(usize::MAX));
    Answer::new(Json::Array(all)).truncated(is_truncated)
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
