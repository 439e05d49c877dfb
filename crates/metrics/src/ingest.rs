//! From the body of a scrape to what the store takes: wanted series only, with the target's labels on them.
//!
//! A body is read completely before anything is stored, so that a body which turns out to be broken leaves no half
//! scrape behind. Lines of metrics that nobody asked for are recognised by their name and not read further.

use std::borrow::Cow;
use std::sync::Arc;

use promql::{Labels, METRIC_NAME};

use crate::registry::Wanted;
use crate::store::{Batch, SeriesRef};
use crate::text::{self, Error, Format, Label, Line, Parser, Problem, SeriesCache};

/// What one target may bring in one scrape.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    pub text: text::Limits,
    /// Wanted series.
    pub series: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { text: text::Limits::default(), series: 10_000 }
    }
}

/// Reads a body. Series that `cache` knows cost a comparison and a number.
pub fn read(
    body: &[u8],
    format: Format,
    wanted: &Wanted,
    target: &Labels,
    cache: &mut SeriesCache<SeriesRef>,
    limits: Limits,
) -> Result<Batch, Error> {
    let mut batch = Batch::with_capacity(cache.len());
    let mut parser = Parser::new(body, format, limits.text)?;
    let mut last_name = ("", false);
    cache.begin(wanted.version);
    while let Some(line) = parser.next_line()? {
        if let Some((series, len)) = cache.expected(line.text)
            && let Some(value) = parser.value_after(line, len)
        {
            batch.push_known(series, value?);
        } else {
            let name = plain_name(line.text);
            if name != last_name.0 {
                last_name = (name, wanted.contains(name));
            }
            // A quoted name is known only once its line was read.
            if last_name.1 || name.is_empty() {
                read_line(&mut parser, line, wanted, target, cache, &mut batch)?;
            }
        }
        if batch.len() > limits.series {
            return Err(Error {
                line: line.number,
                problem: Problem::TooManySeries { limit: limits.series },
            });
        }
    }
    Ok(batch)
}

fn read_line<'a>(
    parser: &mut Parser<'a>,
    line: Line<'a>,
    wanted: &Wanted,
    target: &Labels,
    cache: &mut SeriesCache<SeriesRef>,
    batch: &mut Batch,
) -> Result<(), Error> {
    let sample = parser.sample(line)?;
    if let Some(series) = cache.find(sample.raw) {
        batch.push_known(series, sample.value);
    } else if wanted.contains(&sample.name) {
        let labels = series_labels(&sample.name, sample.labels, target);
        batch.push_fresh(labels, sample.value, Some((sample.raw.into(), cache.position())));
    }
    Ok(())
}

/// Up to the first character that cannot belong to a name.
fn plain_name(line: &str) -> &str {
    let end = memchr::memchr3(b'{', b' ', b'\t', line.as_bytes()).unwrap_or(line.len());
    &line[..end]
}

/// The target's labels win; what the target itself said under such a name is kept as `exported_…`, as in Prometheus.
pub fn series_labels(name: &str, labels: &[Label<'_>], target: &Labels) -> Labels {
    let is_taken = |name: &str| {
        !target.get(name).is_empty() || labels.iter().any(|l| l.name == name && !l.value.is_empty())
    };
    let own = labels.iter().filter(|l| !l.value.is_empty()).map(|l| {
        let mut name: Cow<'_, str> = Cow::Borrowed(&l.name);
        if !target.get(&name).is_empty() {
            while is_taken(&name) {
                name.to_mut().insert_str(0, "exported_");
            }
        }
        (Arc::from(&*name), Arc::from(&*l.value))
    });
    let target = target.iter().chain([(METRIC_NAME, name)]).map(|(n, v)| (Arc::from(n), Arc::from(v)));
    Labels::from_pairs::<Arc<str>, Arc<str>>(own.chain(target))
}

#[cfg(test)]
mod tests;
