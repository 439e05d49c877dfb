//! Functions that rename series and leave their values alone.

use crate::error::{Error, Result};
use crate::eval::block::Block;
use crate::eval::text_of;
use crate::labels::METRIC_NAME;
use crate::plan::{Node, escapes};
use crate::source::compile_anchored;

/// `label_replace(v, dst, replacement, src, regex)`
pub(super) fn replace(mut block: Block, args: &[Node]) -> Result<Block> {
    let text = |at: usize| text_of(args.get(at));
    let (dst, replacement, src, pattern) = (text(1)?, text(2)?, text(3)?, text(4)?);
    let regex = compile_anchored(pattern).map_err(|_| {
        Error::Evaluation(format!("invalid regular expression in label_replace(): {pattern}"))
    })?;
    check_name("destination", "label_replace", dst)?;
    for row in &mut block.rows {
        let Some(captures) = regex.captures(row.labels.get(src)) else { continue };
        let mut value = String::new();
        captures.expand(replacement, &mut value);
        row.labels = row.labels.with(dst, &value);
        // A name that was set on purpose does not fall any more.
        row.drop_name &= dst != METRIC_NAME;
    }
    block.merged()
}

/// `label_join(v, dst, separator, src…)`
pub(super) fn join(mut block: Block, args: &[Node]) -> Result<Block> {
    let (dst, separator) = (text_of(args.get(1))?, text_of(args.get(2))?);
    let sources: Vec<&str> = args.iter().skip(3).map(|a| text_of(Some(a))).collect::<Result<_>>()?;
    for source in &sources {
        check_name("source", "label_join", source)?;
    }
    check_name("destination", "label_join", dst)?;
    for row in &mut block.rows {
        let values: Vec<&str> = sources.iter().map(|s| row.labels.get(s)).collect();
        row.labels = row.labels.with(dst, &values.join(separator));
        row.drop_name &= dst != METRIC_NAME;
    }
    block.merged()
}

/// Any text is a label's name, except none and what is not UTF-8.
fn check_name(role: &str, function: &str, name: &str) -> Result<()> {
    if name.is_empty() || !escapes::is_text(name) {
        let name = escapes::show(name);
        return Err(Error::Evaluation(format!("invalid {role} label name in {function}(): {name}")));
    }
    Ok(())
}
