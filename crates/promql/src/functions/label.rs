//! Functions that rename series and leave their values alone.

use crate::error::{Error, Result};
use crate::eval::block::Block;
use crate::eval::text_of;
use crate::labels::METRIC_NAME;
use crate::limits::Budget;
use crate::pattern::{Refusal, Template};
use crate::plan::{Node, escapes};

/// `label_replace(v, dst, replacement, src, regex)`
pub(super) fn replace(budget: &Budget<'_>, mut block: Block, args: &[Node]) -> Result<Block> {
    let text = |at: usize| text_of(args.get(at));
    let (dst, replacement, src, pattern) = (text(1)?, text(2)?, text(3)?, text(4)?);
    let regex = budget.compile(pattern).map_err(|why| {
        let why = match why {
            Refusal::Syntax(_) => String::new(),
            too_large => format!(": {too_large}"),
        };
        Error::Evaluation(format!("invalid regular expression in label_replace(): {pattern}{why}"))
    })?;
    check_name("destination", "label_replace", dst)?;
    let template = Template::new(replacement, &regex);
    let mut caught = regex.create_captures();
    for row in &mut block.rows {
        let value = row.labels.get(src);
        budget.work(4 + value.len() / 16)?;
        regex.captures(value, &mut caught);
        if !caught.is_match() {
            continue;
        }
        let value = template.fill(value, &caught, |length| budget.label_value(length))?;
        row.labels = budget.labels(row.labels.with(dst, &value))?;
        // A name that was set on purpose does not fall any more.
        row.drop_name &= dst != METRIC_NAME;
    }
    block.merged(budget)
}

/// `label_join(v, dst, separator, src…)`
pub(super) fn join(budget: &Budget<'_>, mut block: Block, args: &[Node]) -> Result<Block> {
    let (dst, separator) = (text_of(args.get(1))?, text_of(args.get(2))?);
    let sources: Vec<&str> = args.iter().skip(3).map(|a| text_of(Some(a))).collect::<Result<_>>()?;
    for source in &sources {
        check_name("source", "label_join", source)?;
    }
    check_name("destination", "label_join", dst)?;
    for row in &mut block.rows {
        budget.work(1 + sources.len())?;
        let values: Vec<&str> = sources.iter().map(|s| row.labels.get(s)).collect();
        let separators = separator.len() * values.len().saturating_sub(1);
        budget.label_value(values.iter().map(|v| v.len()).sum::<usize>() + separators)?;
        row.labels = budget.labels(row.labels.with(dst, &values.join(separator)))?;
        row.drop_name &= dst != METRIC_NAME;
    }
    block.merged(budget)
}

/// Any text is a label's name, except none and what is not UTF-8.
fn check_name(role: &str, function: &str, name: &str) -> Result<()> {
    if name.is_empty() || !escapes::is_text(name) {
        let name = escapes::show(name);
        return Err(Error::Evaluation(format!("invalid {role} label name in {function}(): {name}")));
    }
    Ok(())
}
