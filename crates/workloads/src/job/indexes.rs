//! Sets of indexes as a Job's status writes them: `0-2,5`.

use std::collections::BTreeSet;

/// What cannot be read is no index.
pub(super) fn parse(text: &str) -> BTreeSet<i32> {
    let range = |part: &str| {
        let (low, high) = part.split_once('-').unwrap_or((part, part));
        Some(low.parse::<i32>().ok()?..=high.parse::<i32>().ok()?)
    };
    text.split(',').filter_map(range).flatten().collect()
}

pub(super) fn print(indexes: &BTreeSet<i32>) -> String {
    let mut ranges: Vec<(i32, i32)> = Vec::new();
    for index in indexes {
        match ranges.last_mut() {
            Some((_, high)) if *high + 1 == *index => *high = *index,
            _ => ranges.push((*index, *index)),
        }
    }
    // three or more become a range, as the original writes them
    let text = |(low, high): &(i32, i32)| match high - low {
        0 => low.to_string(),
        1 => format!("{low},{high}"),
        _ => format!("{low}-{high}"),
    };
    ranges.iter().map(text).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_and_back() {
        for text in ["", "0", "0,1", "0-2", "0-2,5,7-9", "3,4,6"] {
            assert_eq!(print(&parse(text)), text);
        }
        assert_eq!(parse("0-3,9"), BTreeSet::from([0, 1, 2, 3, 9]));
        assert_eq!(parse("x,2-y,4"), BTreeSet::from([4]));
    }
}
